"""A slave that stands in for its master (enableSlaveActingMaster, enableRemoteEscape): what runs meanwhile, and what it may not do.
RocketMQ: BrokerController.changeSpecialServiceStatus, startServiceWithoutCondition (5.3.3 broker/).

    begins  nothing is copied ─ the bridge is open ─ what it knows of itself ─ delivery, timers, revive ─ prepared messages
    ends    the bridge refuses ─ prepared messages, delivery, timers, revive end ─ the bridge is shut ─ timers follow ─ copying

Nothing is appended to the slave's log, since it must stay a beginning of its master's. The positions that a master keeps, too, show how far
messages were passed on, and the master asks for them when it returns (returning_master.py). A step that finds its work done does nothing,
so a step that failed is simply run again a second later.

Threads  one event loop; what blocks, in its executor.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable
from typing import Final

from .._core.errors import RocketpyError
from .acting_file import ActingFile
from .escape_bridge import EscapeBridge
from .escaped_halves import EscapedHalves
from .group_members import group_answers
from .native_options import timer_options
from .parts import Parts
from .periodic import every
from .slave_synchronize import SlaveSynchronize
from .timers_passed_on import TimersPassedOn

log = logging.getLogger(__name__)

HALVES_S: Final = 2.0


class ActingMaster:
    """Of one slave. `look` again and again; `stop` ends what runs."""

    def __init__(self, parts: Parts, synchronize: SlaveSynchronize) -> None:
        self._parts = parts
        self._synchronize = synchronize
        self._bridge = EscapeBridge(parts)
        self._halves = EscapedHalves(parts, self._bridge)
        self._file = ActingFile(parts)
        self._has_file_been_read = False  # and the timers go by it: it may be written
        self._save_s = parts.config.integer("flushDelayOffsetInterval") / 1000
        self._tasks: list[asyncio.Task[None]] = []
        self._is_to_follow = False

    async def look(self) -> None:
        """Begins or ends, by what the name servers say."""
        parts = self._parts
        identity = parts.registration.identity
        answers = await group_answers(parts.client, parts.registration.name_servers, identity)
        is_connected = parts.ha.connection() is not None
        is_due = parts.acting.heard(answers, (identity.broker_id, identity.address), is_connected=is_connected)
        if is_due and not parts.acting.is_acting:
            await self._begin()
        elif parts.acting.is_acting and not is_due:
            await self._end()
        elif self._is_to_follow:
            await self._follow()

    async def stop(self) -> None:
        """Idempotent."""
        if self._parts.acting.is_acting:
            await self._end(follows=False)

    async def _begin(self) -> None:
        parts, native = self._parts, self._parts.native
        log.warning("this slave stands in for its master: what is due goes to other masters of the cluster")
        parts.acting.begin(parts.store.stats()["commit_log_max_offset"])
        self._is_to_follow = self._has_file_been_read = False
        self._synchronize.is_standing_in = True
        try:
            await self._synchronize.settled()
            native.open_escape()
            self._bridge.start()
            known = await asyncio.get_running_loop().run_in_executor(None, self._file.read)
            parts.acting.timers = known.timers
            self._halves.begin(known.halves)
            native.start_delivery()
            await self._run_timers(known.timers)
            self._has_file_been_read = True
            native.start_revive()
            passing = every("prepared messages of the master", HALVES_S, self._halves.run_round)
            saving = every("persist what is set aside", self._save_s, self._file.save)
            self._tasks = [asyncio.create_task(passing), asyncio.create_task(saving)]
        except RocketpyError as error:
            log.error("the slave cannot stand in for its master: %s; it is tried again", error)
            await self._end()

    async def _end(self, *, follows: bool = True) -> None:
        """follows: timers go on as the master's."""
        parts, native = self._parts, self._parts.native
        native.refuse_escape()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._blocking(native.stop_delivery)
        await self._blocking(native.stop_revive)
        with contextlib.suppress(RocketpyError):  # it has ended; what did not reach the disk is delivered twice at worst
            await self._blocking(native.stop_timers)
        await self._bridge.stop()
        native.shut_escape()
        if self._has_file_been_read:
            await self._file.save()
        await parts.saved.delay_offsets.save_or_log()
        await parts.saved.offsets.save_or_log()
        parts.acting.is_acting = False
        self._synchronize.is_standing_in = False
        log.warning("this slave does not stand in for its master any more: it has passed on %d messages", self._bridge.passed_on)
        self._is_to_follow = follows
        if follows:
            await self._follow()

    async def _follow(self) -> None:
        """Where timers cannot start, say on a full disk, they do with a later look."""
        await self._run_timers(None)
        self._is_to_follow = False
        self._synchronize.is_due.set()

    async def _run_timers(self, passed_on: TimersPassedOn | None) -> None:
        """None: they deliver nothing."""
        config, native = self._parts.config, self._parts.native
        if not config.boolean("timerWheelEnable"):
            return
        await self._blocking(native.stop_timers)
        known = passed_on or TimersPassedOn()
        native.set_timers_passed_on(known.read_ms, known.queue_offset, list(known.offsets))
        options = timer_options(config, delivers=passed_on is not None)
        await self._blocking(functools.partial(native.start_timers, config.text("storePathRootDir"), **options))

    async def _blocking(self, work: Callable[[], object]) -> None:
        """To its end also when it is cancelled: another thread would meet it."""
        running = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise
