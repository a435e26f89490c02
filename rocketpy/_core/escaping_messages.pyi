"""Stub of rocketpy._core.escaping_messages: what an acting slave hands over (csrc/broker/escaping_messages.h)."""

from .timed_messages import TimedMessages

class EscapingMessages(TimedMessages):
    """The part of Broker that hands messages over; a base class only."""

    def open_escape(self) -> None:
        """From now on delivery, timers and revive hand messages to take_escaping instead of appending them to this broker's log. For a
        slave, before the three are started."""
    def refuse_escape(self) -> None:
        """Refuses what waits to be taken or settled, and all that comes. Called before the three are stopped. Does nothing while the
        bridge is not open."""
    def shut_escape(self) -> None:
        """From now on the three append to this broker's own log again. Only while they are stopped."""
    @property
    def escape_fd(self) -> int:
        """An eventfd that becomes readable when there is something to take, and stays so until it is read. It belongs to this object."""
    def take_escaping(self) -> tuple[int, bytes] | None:
        """(id, record) of the next message, whose topic and queue are those it goes to; None when there is none. Raises NoMemory."""
    def settle_escaping(self, id: int, status: int) -> None:
        """Says what became of the message. status: 0, it was stored; TooLarge.status, it is passed over; that of another error, it is
        tried again."""
