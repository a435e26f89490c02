"""Stub of rocketpy._core.broker: the broker's native data plane (csrc/broker/broker.h)."""

from array import array
from collections.abc import Iterable
from typing import Unpack

from typing_extensions import disjoint_base

from .base import LogTap
from .broker_counters import BrokerCounters
from .options import BrokerOptions as BrokerOptions
from .options import BrokerSettings as BrokerSettings
from .results import HalfCopy, UndecidedHalf
from .store import MessageStore

def check_sql(expression: str) -> str:
    """Checks a SQL92 expression. Returns the text that follows it and is not looked at, "" as a rule. Raises NoMemory, or InvalidArgument
    with the place in the expression and what is wrong there."""

@disjoint_base
class Broker(BrokerCounters):
    """Owns one rp_broker over an open store. Pass it to Server(handler=…), which attaches it; close() stops those servers first."""

    def __init__(self, store: MessageStore, *, log: LogTap | None = None, **options: Unpack[BrokerOptions]) -> None: ...
    def close(self) -> None: ...
    def set_settings(self, **settings: Unpack[BrokerSettings]) -> None:
        """Changes these settings; the others keep their values."""
    def renew_lease(self, until_ms: int) -> None:
        """Sends are refused (SERVICE_NOT_AVAILABLE) from until_ms of the monotonic clock on. 0: at once; negative, the initial state:
        never."""
    def dismiss_pulls(self) -> None:
        """To be called before a stop: waiting pulls, and those that arrive from now on, are answered SYSTEM_BUSY."""
    def settings(self) -> BrokerSettings:
        """The settings that are in force."""
    def put_topic(
        self,
        topic: str,
        read_queues: int,
        write_queues: int,
        permission: int,
        *,
        sys_flag: int = 0,
        native_send: bool = True,
        native_pull: bool = True,
        order: bool = False,
        multi_tag: bool = False,
        checked_send: bool = False,
        static: bool = False,
        lite: bool = False,
        batch: bool = False,
        compacted: bool = False,
        priority: bool = False,
        retry_send: bool = False,
        checked_back: bool = False,
    ) -> None:
        """compacted: its messages need keys, and its queues are compacted if the store does that. Raises InvalidArgument, NoMemory; for a
        compacted topic StoreIOError, StoreCorrupt, Busy, too. Blocks on the disk for such a one."""
    def put_queue_mapping(self, topic: str, global_id: int, queue_id: int, logic_offset: int, start_offset: int, earliest: bool) -> None:
        """Sets the queue that is here for a global queue of a static topic; queue_id -1: it is not led here. Raises InvalidArgument,
        NoMemory."""
    def mark_mapped_sends(self) -> None:
        """To be called after changes of queue mappings: marks the sends that may have seen the earlier ones."""
    def mapped_sends_are_over(self) -> bool:
        """Whether the sends that were marked last have been stored or refused."""
    def delete_topic(self, topic: str) -> None: ...
    def put_producer(self, client_id: str, listener: int, connection_id: int) -> None:
        """Sets where replies to this client are pushed: a connection of the listener-th attached Server, from 0. Raises InvalidArgument
        (client ids have 1 to 1,024 bytes), Busy past 1,048,576, NoMemory."""
    def delete_producer(self, client_id: str) -> None: ...
    def start_delivery(self) -> None:
        """Starts to deliver delayed messages, each when it is due, from the offsets of their levels on. Raises Busy, NoMemory."""
    def stop_delivery(self) -> None:
        """Returns when nothing is being delivered any more. Idempotent."""
    def put_delay_offset(self, level: int, offset: int) -> None:
        """Sets where the delivery of a level (from 1) begins, before it is started. Raises InvalidArgument if there is no such level, or
        the offset is negative."""
    def delay_offsets(self) -> list[tuple[int, int]]:
        """(offset, end of the queue) by level, beginning with level 1. Offset -1: nothing of the level was ever delivered. What lies below
        an offset has been appended to its target's queue, but may not be on disk yet."""
    def send_back(
        self,
        log_offset: int,
        group: str,
        retry_topic: str,
        retry_queue_id: int,
        dead_letter_topic: str,
        dead_letter_queue_id: int,
        *,
        delay_level: int,
        reconsume_times_max: int,
        unique_key: str = "",
    ) -> bool:
        """Stores the message at log_offset again, for a later try or among the dead letters: True for those; counts it as one that the
        group sent back, where it and the message's topic are here. delay_level 0 grows with each try, below 0 means dead letters; for
        them unique_key names one message of a batch. Blocks on the disk. Raises NotFound: there is no message; AlreadyExists: it is for
        the dead letters, whose topic has to be made first; else why it cannot be stored."""
    def end_transaction(
        self, producer_group: str, queue_offset: int, log_offset: int, decision: int, is_from_check: bool
    ) -> tuple[int, str | None]:
        """Commits (decision 8) or rolls back (12) the prepared message at log_offset. Returns code and remark of the response. Blocks on
        the disk."""
    def undecided_halves(self, half_position: int, op_position: int, count_max: int) -> tuple[list[UndecidedHalf], int]:
        """Prepared messages from half_position on that no operation from op_position on has ended, count_max at most, and the offset below
        which there are no others. Blocks on the disk. Raises StoreIOError, NoMemory."""
    def half_counts(self, half_position: int, op_position: int) -> list[tuple[str, int]]:
        """(topic, how many undecided messages were sent to it), for topics that exist. Blocks on the disk. Raises as undecided_halves."""
    def needed_operation(self, op_position: int, half_position: int, copied: array[int]) -> int:
        """The first operation from op_position on that is about a prepared message not below half_position, or about one of `copied` ("q"):
        those whose immune copies are not below it. Raises as undecided_halves."""
    def put_half_again(self, log_offset: int, fate: int, check_times: int = 0) -> HalfCopy:
        """Stores a prepared message once more (fate: rp_half_fate of csrc/broker/transactions.h). Blocks on the disk. Raises NotFound:
        there is no such message; AlreadyExists: TRANS_CHECK_MAX_TIME_TOPIC has to be made first; else why it cannot be stored."""
    def put_group(
        self,
        group: str,
        *,
        consume_enable: bool = True,
        consume_broadcast_enable: bool = True,
        broker_id: int = 0,
        which_broker_when_slow: int = 1,
        sys_flag: int = 0,
        priority_percent: int = 100,
        retry_queues: int = 1,
        retry_times_max: int = 16,
    ) -> None:
        """retry_queues 0: the group's retries are passed up to Python."""
    def set_locked(self, group: str, is_locked: bool) -> None:
        """Says whether a client may have a queue of the group locked. If so, sends to its retry topic are passed up to Python, as they are
        until this is called."""
    def delete_group(self, group: str) -> None: ...
    def set_cold_limit(self, group: str, bytes: int) -> None:
        """How many bytes the group may read from the disk within 5 s, in place of cgColdReadThreshold; negative: that applies again. Raises
        InvalidArgument if no group can have that name; NoMemory."""
    def cold_use(self, group: str) -> tuple[int, int, int] | None:
        """What the group (with an empty name: all groups together) has read from the disk in the present 5 s: (bytes, first and last time
        of reading there in ms of the wall clock). None: nothing for a minute."""
    def put_subscription(
        self, group: str, topic: str, tag_codes: Iterable[int], version: int, *, broadcast: bool = False, native: bool = True
    ) -> None: ...
    def put_sql_subscription(self, group: str, topic: str, expression: str, version: int, *, broadcast: bool = False) -> str:
        """Subscribes by a SQL92 expression (csrc/broker/sql_filter.h). Returns and raises what check_sql does."""
    def delete_subscription(self, group: str, topic: str) -> None: ...
    def put_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...
    def read_offset(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset; -1 if there is none."""
    def read_pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """The offset after the last pull; the committed offset if the group never pulled."""
    def reset_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Sends the next pull to offset, once; commits until then are ignored."""
    def delete_offsets(self, group: str | None = None, topic: str | None = None) -> None:
        """None: of all groups, of all topics. Raises InvalidArgument if both are None."""
    def offsets(self, group: str | None = None, topic: str | None = None) -> list[tuple[str, str, int, int]]:
        """(group, topic, queue id, offset) of all offsets, or of one group's or one topic's."""
    def copy_offsets(self, group: str | None = None, topic: str | None = None) -> Iterable[tuple[str, str, int, int]]:
        """The same, each row made when it is asked for, as often as one likes: 80,000 at once keep the GIL for 30 to 100 ms. Outlives the
        broker."""
    def stalled_queues(self, idle_ms: int) -> list[tuple[str, str, int, int, int]]:
        """(group, topic, queue id, messages, idle ms) of queues with messages left to pull, where it stands still for so long."""
    @property
    def offset_version(self) -> int: ...
