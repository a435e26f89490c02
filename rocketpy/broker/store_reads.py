"""Reads of the store that may wait for the disk: off the event loop, a few at once, first come first served.

Whatever an operator asks of old messages reads pages that are no longer in memory, a queue's two at each step of a search; on the event
loop heartbeats and new topics would wait for all of them. Only the store is read in the threads: the broker's tables belong to the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from .._core.store import MessageStore

T = TypeVar("T")

READS_MAX: Final = 2
"""At once: each keeps one of the threads that saves and retention want too."""


class StoreReads:
    """Use from one event loop."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._slots = asyncio.Semaphore(READS_MAX)

    async def run(self, read: Callable[[MessageStore], T], patience_s: float | None = None) -> T:
        """What `read` returns or raises; it is called in a thread of the loop's default executor. Raises TimeoutError when its turn has not
        come within patience_s: then it is not called."""
        async with asyncio.timeout(patience_s):
            await self._slots.acquire()
        try:
            return await asyncio.get_running_loop().run_in_executor(None, read, self._store)
        finally:
            self._slots.release()
