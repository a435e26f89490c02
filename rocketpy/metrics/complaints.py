"""Which of many failures are logged: the first, then one every PAUSE_S, until it works again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PAUSE_S: Final = 600.0


class Complaints:
    """Decides when repeated failures of one thing are logged. clock_s: monotonic seconds."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._count = 0
        self._silent_until_s = 0.0

    def failed(self) -> int:
        """Counts a failure. Returns how often the thing has failed since it last worked, if that is to be logged now; else 0."""
        now_s = self._clock_s()
        self._count += 1
        if self._count > 1 and now_s < self._silent_until_s:
            return 0
        self._silent_until_s = now_s + PAUSE_S
        return self._count

    def worked(self) -> int:
        """The thing works again. Returns how many times it had failed."""
        count, self._count = self._count, 0
        return count
