"""The named tuples that the wrappers return. Defined here once, for the compiled modules and their stubs."""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """One record of the commit log, decoded. Hosts are "ip:port"."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    flag: int
    sys_flag: int
    body_crc: int
    born_timestamp_ms: int
    born_host: str
    store_timestamp_ms: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    properties: dict[str, str]
    body: bytes


class KeyQuery(NamedTuple):
    """Commit log offsets, newest first; messages with another key of the same hash may be among them. The other fields are about the
    newest entry of the index."""

    offsets: list[int]
    last_update_time_ms: int
    last_update_offset: int


class UndecidedHalf(NamedTuple):
    """A prepared message that has been neither committed nor rolled back (rp_undecided_half). immune_s: when its producer is to be asked
    first, None if the message does not say. immune_s and check_times are -1 if what it says is not a number."""

    queue_offset: int
    log_offset: int
    born_ms: int
    immune_s: int | None
    check_times: int


class HalfCopy(NamedTuple):
    """A prepared message that was stored once more (rp_half_copy). first_offset: its queue offset before it was copied for the first
    time, -1 if it does not say; question: the record that its producer is asked about, if any."""

    queue_offset: int
    log_offset: int
    first_offset: int
    question: bytes


class PopOrder(NamedTuple):
    """The messages of one queue that an order consumer in POP mode has (rp_pop_order_row). messages: (offset, when it becomes visible
    again, 0 if that was not changed, how often it was consumed before); acked: one bit for each."""

    group: str
    topic: str
    queue_id: int
    pop_time_ms: int
    invisible_ms: int
    last_consume_ms: int
    acked: int
    attempt_id: str | None
    messages: tuple[tuple[int, int, int], ...]


class ForeignMessage(NamedTuple):
    """A message of another broker that a checkpoint here refers to (rp_foreign_wanted)."""

    id: int
    broker_name: str
    topic: str
    queue_id: int
    offset: int


class AppendResult(NamedTuple):
    """Where a message was stored."""

    commit_log_offset: int
    size: int
    queue_offset: int
    store_timestamp_ms: int


class Damage(NamedTuple):
    """One damaged place. offset: in bytes, physical for the commit log, within the file for others, -1 for the whole file."""

    kind: str
    file: str
    offset: int
    size: int
    cause: str


class FloorRate(NamedTuple):
    """The rate of a bare loop (rp_floor_rate)."""

    rounds: int
    bytes: int
    elapsed_ns: int
    p50_ns: int
    p99_ns: int
    p999_ns: int


class SyncTimes(NamedTuple):
    """How long a write of 4 KB with its sync takes, by each way; -1 if that way is not available."""

    syscall_ns: int
    io_uring_ns: int
    taken: str  # SYSCALL or IO_URING: what flushBackend=AUTO means here
    refusal: str  # why there is no io_uring, and what to do about it


class AclEntry(NamedTuple):
    """A PolicyEntry (rp_acl_entry). Numbers are the constants of rocketpy._core.auth; name is set for LITERAL and PREFIXED; an entry
    without sources applies everywhere."""

    is_default: bool
    resource_type: int
    pattern: int
    name: str
    actions: int
    sources: tuple[str, ...]
    is_deny: bool
