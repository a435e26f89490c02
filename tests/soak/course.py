"""How long a soak lasts and what it is doing: a clock and a seed in, turns out.

The short form counts turns, so that two runs of one seed do the same; the long one ends by the clock. Pauses only space the turns out:
what has to have happened is waited for.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of everything. seconds: 0 is the short form."""

    seconds: float
    log_file_bytes: int
    retention_bytes: int
    large_bytes_every: int
    """One of so many messages has up to 1 MB."""
    load_count: int
    load_rate: float
    """Of the native load generator: messages of a run, and a second."""


SPREAD_S = 3.0
"""Over how long the short form spreads the turns of each of its parts."""
RESTARTS = 2
"""Of the short form: the slave, then the master."""
SHORT = Extent(0.0, 2 << 20, 8 << 20, 16, 1500, 400.0)


def long_extent(minutes: float) -> Extent:
    return Extent(minutes * 60, 4 << 20, 64 << 20, 500, 9000, 150.0)


class Course:
    """One run."""

    def __init__(self, clock: Callable[[], float], seed: int, extent: Extent) -> None:
        self.clock = clock
        self.extent = extent
        self.began_s = clock()
        self.done: Counter[str] = Counter()
        """What was done how often, by name."""
        self.restarts_under_way = 0
        self.restarts = 0
        """Begun so far: whoever asks while it changes may be disappointed."""
        self.restarting = asyncio.Lock()
        """Held by whoever restarts a server, or needs one that runs."""
        self.quiet = asyncio.Event()
        """No restart is under way, and the slave has caught up."""
        self.quiet.set()
        self._seed = seed
        self._awaited: list[tuple[str, int, asyncio.Event]] = []

    @property
    def is_long(self) -> bool:
        return self.extent.seconds > 0

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self.began_s

    def dice(self, name: str) -> random.Random:
        """The same for the same seed, whatever the others throw."""
        return random.Random(f"{self._seed}/{name}")

    async def turns(self, name: str, pace_s: float, count: int, until: float = 1.0) -> AsyncIterator[int]:
        """The long form: pace_s apart, as long as it lasts, or for the share `until` of it. The short form: `count` of them."""
        most = count if not self.is_long else int(self.extent.seconds / pace_s) + 1
        pause_s = pace_s if self.is_long else SPREAD_S / count
        for number in range(most):
            if self.is_long and self.elapsed_s >= self.extent.seconds * until:
                return
            yield number
            self.count(name)
            await asyncio.sleep(pause_s)

    def count(self, name: str) -> None:
        self.done[name] += 1
        for awaited, least, event in self._awaited:
            if awaited == name and self.done[name] >= least:
                event.set()

    async def until_done(self, name: str, least: int) -> None:
        """Until that was done so often."""
        if self.done[name] < least:
            event = asyncio.Event()
            self._awaited.append((name, least, event))
            await event.wait()

    def may_fail(self, restarts_before: int) -> bool:
        """Whether a request that was sent when so many restarts had begun may have met one."""
        return self.restarts_under_way > 0 or self.restarts != restarts_before
