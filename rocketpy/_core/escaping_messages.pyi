"""Stub of rocketpy._core.escaping_messages: messages that an acting slave hands over (csrc/broker/escaping_messages.h)."""

from .timed_messages import TimedMessages

class EscapingMessages(TimedMessages):
    """The part of Broker that hands over messages; a base class only."""

    def open_escape(self) -> None:
        """From now on delivery, timers and revive hand messages to take_escaping instead of appending them to this broker's log. For a
        slave; before the three are started."""
    def refuse_escape(self) -> None:
        """Refuses all messages that wait to be taken or settled, and all later ones. To be called before the three are stopped. Does
        nothing while the bridge is not open."""
    def shut_escape(self) -> None:
        """From now on the three append to this broker's log again. Only while they are stopped."""
    @property
    def escape_fd(self) -> int:
        """An eventfd, owned by this object: readable from when there is a message to take until it is read."""
    def take_escaping(self) -> tuple[int, bytes] | None:
        """Returns (id, record) of the next message, which names its target topic and queue; None if there is none. Raises NoMemory."""
    def settle_escaping(self, id: int, status: int) -> None:
        """Reports what became of the message. status 0: it was stored; TooLarge.status: it is skipped; that of another error: it is
        tried again."""
