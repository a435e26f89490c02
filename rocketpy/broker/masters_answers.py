"""Whether a master's answer follows on from its last one: what differs between the two has then changed at a master that was there all
the time. Anything in between that nobody saw, a table or a disk that was lost, breaks the row.

Threads  none: decisions only.
"""

from __future__ import annotations

from typing import Final

LOG_END: Final = "logEnd"
"""What this broker adds to its answers about what was copied or delivered inside the log: where that ended at the time."""


class MastersAnswers:
    """`asked` before each request, `follows_on` with its answer."""

    def __init__(self) -> None:
        self._asked: tuple[str, int | None] = ("", None)
        self._last: tuple[str, int] | None = None

    def asked(self, master: str, connection: int | None) -> None:
        """master: whom for the table; connection: to whom for the log, which haMasterAddress may leave where it is when the name servers
        name another master."""
        self._asked = (master, connection)

    def follows_on(self, connection: int | None) -> bool:
        """connection: the log's now. True when it is the one of the request and of the answer before, which the same master gave."""
        master, asked_by = self._asked
        source = (master, connection) if connection is not None and connection == asked_by else None
        before, self._last = self._last, source
        return source is not None and source == before
