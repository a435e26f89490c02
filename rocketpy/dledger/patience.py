"""Work that may have to wait for the disk. It runs in a thread of its own, and the event loop waits for it for half a second at most.

After that Busy is raised, and the work goes on in its thread. No other work begins before it has ended, so that a promise that reaches the
disk late never overwrites a newer one.

Threads  one owner; one daemon thread while something is under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from .._core.errors import Busy
from ..threads import leave_signals

PATIENCE_S: Final = 0.5


class Patience:
    def __init__(self) -> None:
        self._running: threading.Thread | None = None

    def run(self, work: Callable[[], None], what: str) -> None:
        """Raises what the work raises. Busy: this work is still going on, or earlier work is and this was not begun."""
        self.check()
        errors: list[BaseException] = []

        def guarded() -> None:
            leave_signals()
            try:
                work()
            except BaseException as error:  # outer edge of the thread: who waits gets it
                errors.append(error)

        self._running = threading.Thread(target=guarded, name=what[:15], daemon=True)
        self._running.start()
        self._running.join(PATIENCE_S)
        if self._running.is_alive():
            raise Busy(f"the disk holds up {what}")
        if errors:
            raise errors[0]

    def check(self) -> None:
        """Raises Busy while earlier work is still going on."""
        if self._running is not None and self._running.is_alive():
            raise Busy("the disk still holds up what was begun before")
