"""From one role to another while the broker runs: one switch at a time, each step of it in order, the newest role wins.
RocketMQ: ReplicasManager.changeToMaster, changeToSlave (5.3.3 broker/controller/): under a lock; one that failed stays half done.

    want(role) ─► the newest waits ─► its steps, one after the other ─┬─ all done ─► current
                                                                      └─ one failed ─► closed (nothing is served), and again after 1 … 10 s

When a controller flaps, a switch to a role that was replaced meanwhile is never begun. A step that is under way is not interrupted,
whatever comes. The next switch starts from whatever state it left, so each step has to do nothing when its work is already done.

Threads  one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .replica_state import Role

log = logging.getLogger(__name__)

RETRY_MAX_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RoleStep:
    """What one part of the broker does when the role changes. name: for the log."""

    name: str
    run: Callable[[Role], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class RoleSteps:
    """The steps, in their order. close: stops everything that serves clients when a change of roles could not be finished; raises
    nothing."""

    to_master: Sequence[RoleStep]
    to_slave: Sequence[RoleStep]
    close: Callable[[], Awaitable[object]]


class RoleSwitch:
    """`want` a role, any number of times; `run` is the task that carries the changes out."""

    def __init__(self, steps: RoleSteps, pause_s: float = 1.0, on_whole: Callable[[], object] | None = None) -> None:
        """pause_s: the pause after the first of several failed attempts. on_whole: called whenever a role is complete."""
        self._steps = steps
        self._pause_s = pause_s
        self._on_whole = on_whole
        self._wanted: Role | None = None
        self._came = asyncio.Event()
        self._is_stopping = False
        self.current: Role | None = None
        """The role that is whole; None while there is none, and during a switch."""
        self._taken = asyncio.Event()  # the first role was whole
        self.failure = ""
        """Why the last try failed; empty when it did not."""
        self.switches = 0

    def want(self, role: Role) -> None:
        self._wanted = role
        self._came.set()

    def stop(self) -> None:
        """Begins no further change; `run` returns after the one that is under way."""
        self._is_stopping = True
        self._came.set()

    async def has_role(self, wait_s: float) -> bool:
        """Waits for the first role, but no longer than that. Returns whether there is one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._taken.wait()
        return self.current is not None

    async def run(self) -> None:
        attempt = 0
        while not self._is_stopping:
            role, self._wanted = self._wanted, None
            self._came.clear()
            if role is None:
                await self._came.wait()
                attempt = 0
            elif await self._switch(role):
                attempt = 0
            else:
                self._wanted = self._wanted or role
                pause_s = min(RETRY_MAX_S, self._pause_s * (1 << min(attempt, 8)))
                attempt += 1
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._came.wait()

    async def _switch(self, role: Role) -> bool:
        kind = "master" if role.is_master else "slave"
        log.info("Begin to change to %s, epoch %d, master %d at %s", kind, role.epoch, role.master_id, role.master_address)
        self.current = None
        step = RoleStep("", _nothing)
        try:
            for step in self._steps.to_master if role.is_master else self._steps.to_slave:
                await step.run(role)
        except Exception as error:  # whatever it is, the role is not whole and nobody may be served by half of it
            self.failure = f"{step.name}: {error}"
            log.error("could not change to %s of epoch %d, %s; nobody is served, and it is tried again", kind, role.epoch, self.failure)
            await self._steps.close()
            return False
        self.failure, self.current = "", role
        self.switches += 1
        self._taken.set()
        if self._on_whole is not None:
            self._on_whole()
        log.info("Change to %s of epoch %d is done", kind, role.epoch)
        return True


async def _nothing(role: Role) -> None:
    return None
