"""Whether this controller leads its group and knows all that was committed, and since when.
RocketMQ: DLedgerController.RoleChangeHandler (5.3.3 controller/impl/).

    role changed ─┬─ leads ─ settle ─ since_ms, begun()
                  └─ else ── since_ms = None, ended() if it had begun or was about to

A new leader's tables may lack what the leader before it wrote. Until an entry of its own is committed it does not look for brokers that
are down, and deposes no master. Requests wait for such an entry by themselves (event_scheduler.py). A settling that fails is tried again
until another controller leads.

Threads  one event loop. Bounds: one settling at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from .consensus import Consensus
from .event_scheduler import EventScheduler

log = logging.getLogger(__name__)

AGAIN_AFTER_S = 0.5


class Leadership:
    """Follows whether this controller leads. `clock`: monotonic milliseconds. `begun` and `ended` are called on the event loop."""

    def __init__(
        self,
        consensus: Consensus,
        scheduler: EventScheduler,
        clock: Callable[[], int],
        begun: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self.since_ms: int | None = None
        """When this controller began to lead with tables that are whole; None while it does not."""
        self._consensus = consensus
        self._scheduler = scheduler
        self._clock = clock
        self._begun = begun
        self._ended = ended
        self._settling: asyncio.Task[None] | None = None
        self._has_begun = asyncio.Event()

    def role_changed(self) -> None:
        """To be called after every change, on the event loop."""
        if self._settling is not None:
            self.stop()
            self._ended()
        if self._consensus.is_leader:
            self._settling = asyncio.get_running_loop().create_task(self._settle(), name="settle the tables")

    async def wait_begun(self, within_s: float) -> bool:
        """Waits until this controller leads. False if it does not in time."""
        try:
            async with asyncio.timeout(within_s):
                await self._has_begun.wait()
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        """Idempotent."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        self.since_ms = None
        self._has_begun.clear()

    async def _settle(self) -> None:
        while not await self._scheduler.settle():
            log.warning("The controller leads group %s, but its log took no entry yet", self._consensus.group)
            await asyncio.sleep(AGAIN_AFTER_S)
        self.since_ms = self._clock()
        self._has_begun.set()
        log.info("The controller leads group %s in term %d", self._consensus.group, self._consensus.term)
        self._begun()
