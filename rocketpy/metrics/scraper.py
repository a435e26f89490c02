"""Reads a server's metrics for another thread than the one that runs it.

    any thread ─ collect ─► event loop: read ─► the same thread: rest of the scrape

What changes on the event loop is read there, which a caller waits for READ_WITHIN_S at most; all else on the caller's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from prometheus_client.core import Metric

from .families import Scrape

READ_WITHIN_S: Final = 5.0


class Scraper:
    """Has metrics read on the event loop. To be made on the loop that `read` is called on."""

    def __init__(self, read: Callable[[], Scrape]) -> None:
        self._read = read
        self.loop = asyncio.get_running_loop()

    def collect(self) -> list[Metric]:
        """Called on any other thread. Raises TimeoutError if the event loop does not get to it: only this scrape fails."""
        reading = asyncio.run_coroutine_threadsafe(self._read_on_loop(), self.loop)
        try:
            scrape = reading.result(READ_WITHIN_S)
        except TimeoutError:
            reading.cancel()
            raise
        return [*scrape.metrics, *scrape.rest()]

    async def _read_on_loop(self) -> Scrape:
        return self._read()
