"""A clock that counts only the time in which this process ran. It measures how long others have been silent.

A process that was stopped, or whose machine was paused, hears nobody meanwhile. When it goes on, the check that is due runs before the
process has read what arrived, and would find everybody silent for too long. So such a gap counts as GAP_MS only; it still counts, so that
the clock goes on even on a machine so slow that one gap follows the other. RocketMQ uses the wall clock: after a pause, or when that clock
is set forward, its name server and controller forget every broker.

    keep  a look every LOOK_S ─► a look that comes more than GAP_MS behind the one before ─► the time between counts as GAP_MS

Threads  one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time

log = logging.getLogger(__name__)

LOOK_S = 0.5
GAP_MS = 2_000


def monotonic_ms() -> int:
    """Milliseconds since any moment, for how long something lasts: the wall clock may be set meanwhile."""
    return time.monotonic_ns() // 1_000_000


class AwakeClock:
    """Milliseconds since any moment. Gaps are cut while keep() runs."""

    def __init__(self) -> None:
        self._looked_ms: int | None = None
        self._left_out_ms = 0

    def __call__(self) -> int:
        now_ms = monotonic_ms()
        if self._looked_ms is not None:
            gap_ms = now_ms - self._looked_ms
            if gap_ms > GAP_MS:
                self._left_out_ms += gap_ms - GAP_MS
                log.warning("this process stood still for %d ms, in which it heard nobody: %d of them count as silence", gap_ms, GAP_MS)
            self._looked_ms = now_ms
        return now_ms - self._left_out_ms

    async def keep(self) -> None:
        """Looks at the clock until cancelled, so that a gap between two looks is one."""
        self._looked_ms = monotonic_ms()
        while True:
            await asyncio.sleep(LOOK_S)
            self()
