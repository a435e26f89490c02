"""Stub of rocketpy._core.timed_messages: messages with a time of their own (csrc/broker/timed_messages.h)."""

from typing import Unpack

from .options import TimerOptions as TimerOptions
from .popped_messages import PoppedMessages

class TimedMessages(PoppedMessages):
    """The part of Broker for timed messages; a base class only."""

    def start_timers(self, root_path: str, **options: Unpack[TimerOptions]) -> None:
        """Messages with a time of their own are entered and, where `delivers` is 1, go to where they were sent when it has come. Raises
        InvalidArgument, StoreIOError, DiskFull, Busy, NoMemory. Nothing if it runs; after a stop, `delivers` alone counts."""
    def stop_timers(self) -> None:
        """Returns when nothing is entered or delivered any more and all is on disk; raises what did not get there, and has stopped all the
        same. Idempotent."""
    def timer_stats(self) -> dict[str, int]:
        """The fields of rp_timer_stats (csrc/broker/timed_messages.h)."""
    def timer_checkpoint(self) -> bytes | None:
        """Of a master: the body of GET_TIMER_CHECK_POINT. None before the first start."""
    def follow_timer_checkpoint(self, body: bytes) -> None:
        """Of a slave: goes on up to where its master is. Raises ProtocolError; Closed: it was never started, or delivers."""
    def timers_aside(self) -> tuple[int, list[int]]:
        """Of a slave that stands in: slots before (ms) are over, but for the messages at these offsets of the timer queue."""
    def set_timers_passed_on(self, until_ms: int, queue_offset: int, but: list[int]) -> None:
        """Before start_timers: what is due before, below that offset of the timer queue, a slave has delivered that stood in."""
    def timer_counts(self) -> list[tuple[str, int, int]]:
        """(topic, messages that wait, when that changed last, in ms) of the topics that are there and had any since the start."""
    @property
    def timer_count_version(self) -> int:
        """Grows with each change of the counts."""
    def timers_between(self, begin_s: int, end_s: int) -> int:
        """How many messages are due from begin_s to end_s seconds from now."""
    def put_recall(
        self,
        topic: str,
        unique_key: str,
        producer_group: str,
        deliver_ms: int,
        born_host: str | None = None,
        *,
        names_topic: bool = False,
    ) -> int:
        """Stores that a message with a timer is not to be delivered, and returns where its record ends in the commit log; on disk it may be
        later. Waits as an append does. Raises InvalidArgument: its time is over, or too far away; Unsupported: timers are off; Busy: too
        many messages are due then; else why it cannot be stored."""
    def put_delay_aside(self, level: int, reached: int, offsets: list[int]) -> None:
        """The same where messages were set aside: all below `reached` but these are over. Raises InvalidArgument: no such level, or an
        offset that is not below; Busy past RP_DELAY_ASIDE_MAX, NoMemory: the level goes on at the first of them."""
    def delay_aside(self, level: int) -> tuple[int, list[int]] | None:
        """Read behind delay_offsets. None: nothing is set aside."""
