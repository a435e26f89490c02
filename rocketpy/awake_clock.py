"""A clock of the time in which this process ran, for whoever counts how long others were silent.

A process that was stopped, or whose machine was paused, has heard nobody meanwhile and finds all of them silent for too long when it goes
on: the look that is due comes before what has arrived is read. Of such a gap GAP_MS count: on a machine so slow that there is one after
the other the clock still goes on. RocketMQ counts by the wall clock, and also a step of that makes its name server and controller forget
every broker.

    keep  a look every LOOK_S ─► a look that comes more than GAP_MS behind the one before ─► what lies between was GAP_MS long

Threads  one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time

log = logging.getLogger(__name__)

LOOK_S = 0.5
GAP_MS = 2_000


class AwakeClock:
    """Milliseconds since any moment. Gaps are cut while keep() runs."""

    def __init__(self) -> None:
        self._looked_ms: int | None = None
        self._left_out_ms = 0

    def __call__(self) -> int:
        now_ms = time.monotonic_ns() // 1_000_000
        if self._looked_ms is not None:
            gap_ms = now_ms - self._looked_ms
            if gap_ms > GAP_MS:
                self._left_out_ms += gap_ms - GAP_MS
                log.warning("this process stood still for %d ms, in which it heard nobody: %d of them count as silence", gap_ms, GAP_MS)
            self._looked_ms = now_ms
        return now_ms - self._left_out_ms

    async def keep(self) -> None:
        """Looks at the clock until cancelled, so that a gap between two looks is one."""
        self._looked_ms = time.monotonic_ns() // 1_000_000
        while True:
            await asyncio.sleep(LOOK_S)
            self()
