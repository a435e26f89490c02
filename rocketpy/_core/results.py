"""The named tuples that the wrappers return. Defined once, for the compiled modules and for their stubs."""

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
    """Commit log offsets, newest first; other keys of the same hash can be among them. The rest is about the newest entry of all."""

    offsets: list[int]
    last_update_time_ms: int
    last_update_offset: int


class UndecidedHalf(NamedTuple):
    """A prepared message that nobody has committed or rolled back (rp_undecided_half). immune_s None: it does not say when its producer
    is to be asked first; -1, and check_times -1: what it says is not a number."""

    queue_offset: int
    log_offset: int
    born_ms: int
    immune_s: int | None
    check_times: int


class HalfCopy(NamedTuple):
    """A prepared message that was stored once more (rp_half_copy). first_offset: the queue offset it had before it was copied the first
    time, -1 where it does not say one; question: the record its producer is asked about, or nothing."""

    queue_offset: int
    log_offset: int
    first_offset: int
    question: bytes


class PopOrder(NamedTuple):
    """What an order consumer in POP mode has of one queue (rp_pop_order_row). messages: (offset, visible again at, 0 where that was not
    changed, how often it was consumed before); acked: a bit of each."""

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
    """A message of another broker that a checkpoint here stands for (rp_foreign_wanted)."""

    id: int
    broker_name: str
    topic: str
    queue_id: int
    offset: int


class AppendResult(NamedTuple):
    """Where a message was put."""

    commit_log_offset: int
    size: int
    queue_offset: int
    store_timestamp_ms: int


class Damage(NamedTuple):
    """One damaged place. offset: bytes, physical for the commit log, inside the file for others, -1 for the whole file."""

    kind: str
    file: str
    offset: int
    size: int
    cause: str


class FloorRate(NamedTuple):
    """What a bare loop achieved (rp_floor_rate)."""

    rounds: int
    bytes: int
    elapsed_ns: int
    p50_ns: int
    p99_ns: int
    p999_ns: int


class SyncTimes(NamedTuple):
    """What a write of 4 KB and its sync take; -1 where it cannot be had."""

    syscall_ns: int
    io_uring_ns: int
    taken: str  # SYSCALL or IO_URING: what flushBackend=AUTO means here
    refusal: str  # why there is no io_uring, and what to do about it


class AclEntry(NamedTuple):
    """A PolicyEntry (rp_acl_entry): the numbers are the constants of rocketpy._core.auth; name is of LITERAL and PREFIXED; without sources
    it is for everywhere."""

    is_default: bool
    resource_type: int
    pattern: int
    name: str
    actions: int
    sources: tuple[str, ...]
    is_deny: bool
