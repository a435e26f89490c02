"""Stub of rocketpy._core.timed_messages: messages with a delivery time (csrc/broker/timed_messages.h)."""

from typing import Unpack

from .options import TimerOptions as TimerOptions
from .popped_messages import PoppedMessages

class TimedMessages(PoppedMessages):
    """The part of Broker for timed messages; a base class only."""

    def start_timers(self, root_path: str, **options: Unpack[TimerOptions]) -> None:
        """Starts to enter messages with a delivery time and, if `delivers` is 1, to deliver those that are due. Raises InvalidArgument,
        StoreIOError, DiskFull, Busy, NoMemory. Does nothing if it runs; after a stop, only `delivers` has an effect."""
    def stop_timers(self) -> None:
        """Returns when nothing is entered or delivered any more and everything is on disk; raises what could not be written, but has
        stopped even then. Idempotent."""
    def timer_stats(self) -> dict[str, int]:
        """The fields of rp_timer_stats (csrc/broker/timed_messages.h)."""
    def timer_checkpoint(self) -> bytes | None:
        """On a master: the body of GET_TIMER_CHECK_POINT. None before the first start."""
    def follow_timer_checkpoint(self, body: bytes) -> None:
        """On a slave: advances to the master's position. Raises ProtocolError; Closed: timers were never started, or deliver here."""
    def timers_aside(self) -> tuple[int, list[int]]:
        """On an acting slave: slots before the returned time (ms) are done, except for the messages at these offsets of the timer queue."""
    def set_timers_passed_on(self, until_ms: int, queue_offset: int, but: list[int]) -> None:
        """To be called before start_timers: an acting slave has delivered what was due before until_ms and lies below queue_offset in
        the timer queue, except for `but`."""
    def timer_counts(self) -> list[tuple[str, int, int]]:
        """(topic, messages that wait, time of the last change in ms) of existing topics that have had any since the start."""
    @property
    def timer_count_version(self) -> int:
        """Increases with each change of the counts."""
    def timers_between(self, begin_s: int, end_s: int) -> int:
        """Returns how many messages are due from begin_s to end_s seconds from now."""
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
        """Stores that a timed message is not to be delivered, and returns the end of the record in the commit log, which may reach the
        disk later. Waits as an append does. Raises InvalidArgument: the time is over, or too far away; Unsupported: timers are off;
        Busy: too many messages are due then; otherwise why it cannot be stored."""
    def put_delay_aside(self, level: int, reached: int, offsets: list[int]) -> None:
        """As put_delay_offset, with messages set aside: all below `reached` are done, except for these. Raises InvalidArgument: there is
        no such level, or an offset is not below `reached`; Busy after RP_DELAY_ASIDE_MAX, NoMemory: the level continues at the first of
        them."""
    def delay_aside(self, level: int) -> tuple[int, list[int]] | None:
        """To be read after delay_offsets. None: nothing is set aside."""
