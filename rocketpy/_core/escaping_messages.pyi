"""Stub of rocketpy._core.escaping_messages: what an acting slave hands over (csrc/broker/escaping_messages.h)."""

from .timed_messages import TimedMessages

class EscapingMessages(TimedMessages):
    """What Broker has of it; nothing by itself."""

    def open_escape(self) -> None:
        """Delivery, timers and revive hand what they deliver to take_escaping instead of the own log: a slave's, before they start."""
    def refuse_escape(self) -> None:
        """What waits to be taken or settled is refused, and what comes: before they stop. Nothing while it is not open."""
    def shut_escape(self) -> None:
        """They deliver into the own log; only while they are stopped."""
    @property
    def escape_fd(self) -> int:
        """An eventfd, readable since something came to be taken, until it is read; this object's until it is closed."""
    def take_escaping(self) -> tuple[int, bytes] | None:
        """(id, record of the topic and queue it goes to) of the next one; None: there is none. Raises NoMemory."""
    def settle_escaping(self, id: int, status: int) -> None:
        """What became of it: 0, TooLarge.status: it is passed over, or another error's: it is tried again."""
