"""What runs for masters only and what for slaves only, in the order in which it stops and starts when a controller, or the DLedger group
that the log is of, changes the role.
RocketMQ: ReplicasManager.changeToMaster, changeToSlave, BrokerController.changeSpecialServiceStatus (5.3.3 broker/).

    to master   copying ends ─ the log is led ─ tables are ours ─ offsets of the others ─ sends are taken
                ─ delivery, timers, revive ─ registered
    to slave    sends are refused ─ checks, delivery, revive, timers end ─ the log is followed
                ─ timers follow ─ tables are copied ─ registered

A master's own appends (delivery, timers, revive, checks) begin after it leads the log, and end before it gives the log up. A step that
finds its work done does nothing, so a switch that failed, or that the next one overtook, is begun again from the start.

Threads  one event loop; what blocks, in its executor.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from .consumer_offsets import SavedOffsets
from .delay_offsets import SavedDelayOffsets
from .group_members import group_members
from .live_settings import apply_changes
from .loaded_tables import hold_offsets_back
from .native_options import timer_options
from .parts import Parts
from .replica_state import Role
from .returning_master import return_as_master
from .role_switch import RoleStep, RoleSteps
from .settings import MASTER_ID, SLAVE, SYNC_MASTER
from .slave_synchronize import SlaveSynchronize, is_logged
from .transaction_checks import TransactionChecks
from .unlisted_topics import list_unlisted

log = logging.getLogger(__name__)

REGISTER_WAIT_S: Final = 3.0
"""A name server that is slow does not hold the role up."""


class RoleLog(Protocol):
    """The log's part in a change of roles."""

    @property
    def broker_id(self) -> int:
        """The id of this broker while it is a slave."""

    def tables_epoch(self, role: Role) -> int:
        """The epoch by which a name server sees that this master's table of topics is newer than the previous master's."""

    async def lead(self, role: Role) -> None:
        """When this returns, the log takes appends, and everything that it held is in the queues."""

    def check_leads(self, role: Role) -> None:
        """Raises RocketpyError if the lead has been lost by now."""

    async def step_down(self) -> None:
        """The log takes no appends any more. Idempotent."""


class RoleServices:
    """The services of one broker whose role changes. It begins as a slave without a master."""

    def __init__(self, parts: Parts, own_log: RoleLog, synchronize: SlaveSynchronize, checks: TransactionChecks) -> None:
        self._parts = parts
        self._log = own_log
        self._synchronize = synchronize
        self._checks = checks
        self._was_master = False
        self._led_epoch = -1
        self._timers_deliver = False

    def steps(self, *, begins_anew: bool = False) -> RoleSteps:
        """begins_anew: a master of a later epoch has lost the lead in between, if only for a moment, and begins as a slave does."""
        to_master = (
            *((RoleStep("the end of an earlier lead", self._end_earlier_lead),) if begins_anew else ()),
            RoleStep("the end of copying", self._stop_copying),
            RoleStep("the lead of the log", self._lead),
            RoleStep("topics and offsets of our own", self._own_tables),
            RoleStep("consumer offsets of the others", self._take_offsets),
            RoleStep("taking sends", self._take_sends),
            RoleStep("delivery", self._start_appends),
            RoleStep("registration", self._register),
        )
        to_slave = (
            RoleStep("refusing sends", self._refuse_sends),
            RoleStep("the end of delivery", self._stop_appends),
            RoleStep("the end of the lead", self._step_down),
            RoleStep("timers that follow", self._follow_timers),
            RoleStep("copying", self._copy),
            RoleStep("registration", self._register),
        )
        return RoleSteps(to_master, to_slave, self._close)

    # ---- master ----

    async def _end_earlier_lead(self, role: Role) -> None:
        if role.epoch != self._led_epoch and self._led_epoch >= 0:
            await self._refuse_sends(role)
            await self._stop_appends(role)
            self._was_master = False

    async def _stop_copying(self, role: Role) -> None:
        self._synchronize.leave()

    async def _lead(self, role: Role) -> None:
        await self._log.lead(role)
        self._led_epoch = role.epoch

    async def _own_tables(self, role: Role) -> None:
        parts = self._parts
        if not self._was_master:
            list_unlisted(parts.topics, parts.store)  # first: it goes by when the table changed last
            hold_offsets_back(parts)
        parts.topics.lead(self._log.tables_epoch(role))
        await parts.saved.topics.save()

    async def _take_offsets(self, role: Role) -> None:
        """Before a client comes: the master before may have heard of more than was copied, and be there still."""
        if self._was_master:
            return
        parts = self._parts
        members = await group_members(parts.client, parts.registration.name_servers, parts.registration.identity)
        await return_as_master(parts, {address for _, address in members})

    async def _take_sends(self, role: Role) -> None:
        self._set_role(SYNC_MASTER, MASTER_ID)

    async def _start_appends(self, role: Role) -> None:
        native = self._parts.native
        native.start_delivery()
        await self._run_timers(delivers=True)
        native.start_revive()
        self._was_master = True

    # ---- slave ----

    async def _refuse_sends(self, role: Role) -> None:
        self._set_role(SLAVE, self._log.broker_id)

    async def _stop_appends(self, role: Role) -> None:
        native = self._parts.native
        await self._checks.end_rounds()
        await self._blocking(native.stop_delivery)
        await self._blocking(native.stop_revive)
        if self._timers_deliver:
            await self._blocking(native.stop_timers)
        await self._take_positions_back()

    async def _take_positions_back(self) -> None:
        """What was delivered, revived or popped and is not committed comes again, should this broker lead before another has."""
        parts = self._parts
        if not await parts.saved.delay_offsets.save_or_log():
            parts.saved.delay_offsets.load(SavedDelayOffsets.from_json, parts.delay_offsets.take_back)
        if not await parts.saved.offsets.save_or_log():
            saved = parts.saved.offsets.read(SavedOffsets.from_json)
            if saved is not None and (moved := parts.offsets.take_back(saved, functools.partial(is_logged, parts.topics))):
                log.warning("%d offsets go back to what their file holds: what they rest on in the log is not committed", moved)

    async def _step_down(self, role: Role) -> None:
        await self._log.step_down()
        self._was_master = False

    async def _follow_timers(self, role: Role) -> None:
        await self._run_timers(delivers=False)

    async def _copy(self, role: Role) -> None:
        self._parts.topics.follow()
        if not role.master_address:  # until a name server tells it
            self._synchronize.leave()
        self._synchronize.follow(role.master_address)

    # ---- both ----

    async def _register(self, role: Role) -> None:
        """Registers under the new id; a name server that does not answer now is told in the next period. A former master would otherwise
        hold the next one's place there until that one registers again."""
        if role.is_master:
            self._log.check_leads(role)
        registration = self._parts.registration
        registration.identity = replace(registration.identity, broker_id=MASTER_ID if role.is_master else self._log.broker_id)
        registration.is_isolated = False
        registration.announce_all()
        await registration.settled(REGISTER_WAIT_S)

    async def _close(self) -> None:
        self._set_role(SLAVE, self._log.broker_id)

    def _set_role(self, role: str, broker_id: int) -> None:
        parts = self._parts
        parts.config.override("brokerRole", role)
        parts.config.override("brokerId", broker_id)
        parts.store.hold_compacted_gaps(role == SLAVE)
        apply_changes(parts, {})

    async def _run_timers(self, *, delivers: bool) -> None:
        config, native = self._parts.config, self._parts.native
        if not config.boolean("timerWheelEnable"):
            return
        if delivers != self._timers_deliver:
            await self._blocking(native.stop_timers)
        options = timer_options(config, delivers=delivers)
        await self._blocking(functools.partial(native.start_timers, config.text("storePathRootDir"), **options))
        self._timers_deliver = delivers

    async def _blocking(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(None, work)
