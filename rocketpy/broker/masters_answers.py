"""When a slave may believe its master's answers.

MastersAnswers  whether an answer continues the last one. If it does, the master was there all the time, and changed what differs between
                the two. Anything unseen in between, such as a lost table or disk, breaks the chain.
LoggedAnswers   of the answers about what the log holds, the last one that our own log already reaches.

Threads  none: decisions only.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

LOG_END: Final = "logEnd"
"""What this broker adds to its answers about what was copied or delivered inside the log: where that ended at the time."""


class LoggedAnswer(Protocol):
    @property
    def log_end(self) -> int:
        """Where the master's log ended at the time of the answer; 0 if that is not known, as in a file or from RocketMQ's master."""


A = TypeVar("A", bound=LoggedAnswer)


class LoggedAnswers(Generic[A]):
    """`take` each answer as it comes. One waits at a time, so that there is progress behind a master that is always ahead; not past the
    master, or the connection to its log: what one of a DLedger group had last, the next may have taken back."""

    def __init__(self) -> None:
        self._waiting: A | None = None
        self._connection: int | None = None

    def take(self, answer: A, log_end: int, connection: int | None = None) -> A | None:
        """The newest known to speak only of what lies below log_end, our log's; None: none, or none that is newer than the last.
        connection: the log's, as of MastersAnswers."""
        if connection != self._connection:
            self._waiting, self._connection = None, connection
        waiting = answer if self._waiting is None or answer.log_end <= log_end else self._waiting
        if waiting.log_end > log_end:
            self._waiting = waiting
            return None
        self._waiting = None if waiting is answer else answer
        return waiting


class MastersAnswers:
    """Tells which answers follow one another without a change of master. `asked` before each request, `follows_on` with its answer."""

    def __init__(self) -> None:
        self._asked: tuple[str, int | None] = ("", None)
        self._last: tuple[str, int] | None = None

    def asked(self, master: str, connection: int | None) -> None:
        """master: whom for the table; connection: to whom for the log, which haMasterAddress may leave where it is when the name servers
        name another master."""
        self._asked = (master, connection)

    def follows_on(self, connection: int | None) -> bool:
        """True if this answer and the one before came from the same master, over the same connection to its log. connection: the present
        one."""
        master, asked_by = self._asked
        source = (master, connection) if connection is not None and connection == asked_by else None
        before, self._last = self._last, source
        return source is not None and source == before
