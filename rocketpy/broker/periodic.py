"""Work that a running broker repeats, each kind in a task of its own. A failure is logged with the name of the work, which is tried again
next time.

Threads  one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import Final

log = logging.getLogger(__name__)

CLOCK_LOOK_S: Final = 600.0
"""The longest sleep towards a moment of the day: the clock may be set, and the machine may be suspended, while we sleep."""


async def every(
    what: str, period_s: float, work: Callable[[], Awaitable[object]], *, at_once: asyncio.Event | None = None, rest_s: float = 0.0
) -> None:
    """Does the work every period_s seconds, and whenever at_once is set, with at least rest_s between two rounds."""
    sooner = at_once or asyncio.Event()
    while True:
        with contextlib.suppress(TimeoutError):
            # Not wait_for: it loses a cancellation that comes with the event (3.11), and this task would not end.
            async with asyncio.timeout(period_s):
                await sooner.wait()
        sooner.clear()
        await _do(what, work)
        if rest_s > 0:
            await asyncio.sleep(rest_s)


async def at_midnight(what: str, work: Callable[[], Awaitable[object]]) -> None:
    """Does the work whenever a day begins, in local time. Once a day, even if the clock is set back a little and midnight comes again."""
    day = _today()
    while True:
        await asyncio.sleep(min(_seconds_to_midnight(), CLOCK_LOOK_S))
        today = _today()
        if today > day:
            await _do(what, work)
        if today > day or day - today > timedelta(days=1):  # it had been set to a day that is far off
            day = today


async def _do(what: str, work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except Exception:  # outer edge of the task: the next round must come
        log.exception("%s failed", what)


def plain(work: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Wraps work that waits for nothing, for `every` and `at_midnight`."""

    async def run() -> None:
        work()

    return run


def _today() -> date:
    return datetime.fromtimestamp(time.time()).date()


def _seconds_to_midnight() -> float:
    now = datetime.fromtimestamp(time.time()).astimezone()
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return max(1.0, (midnight - now).total_seconds())
