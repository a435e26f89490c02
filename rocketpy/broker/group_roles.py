"""Roles of a broker that is a member of a DLedger group: the member that leads the log is the master.
RocketMQ: DLedgerRoleChangeHandler (5.3.3 broker/dledger/).

    LogNode ─ role, term ─► ElectedRole ─ a role ─► role_switch ─ its steps ─► role_services
                                                        └─ the first of a master: all that the log held is committed and in the queues

A slave that stands for election stays a slave; a master that does is none any more. The address of a leader comes from name servers only.
After a change of leaders the former leader's address is not taken from them for a while, since they may not know of the change yet.

Threads  one event loop. Bounds: one switch at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from .._core.errors import RocketpyError
from ..dledger.log_node import LogNode
from ..dledger.member import Role as MemberRole
from ..ha.ledger import LedgerHa, broker_id_of
from .replica_state import Role
from .role_switch import RoleSteps, RoleSwitch
from .settings import MASTER_ID
from .slave_synchronize import SlaveSynchronize

log = logging.getLogger(__name__)

STALE_MS: Final = 30_000
"""For this long after a change a name server may still name the former master: the time between two registrations."""
NOBODY: Final = -1
QUEUES_LOOK_S: Final = 0.2


class ElectedRole:
    """Decides the broker's role from the state of the group. No I/O."""

    def __init__(self, address: str) -> None:
        """address: this broker's, for clients."""
        self._address = address
        self._is_slave = False
        self._leader: str | None = None
        self._master_address = ""
        self._stale_address = ""
        self._stale_until_ms = 0

    def take(self, member: MemberRole, term: int, leader_id: str | None, now_ms: int) -> Role | None:
        """The new role; None if nothing changes for the broker."""
        if member is MemberRole.LEADER:
            self._is_slave, self._leader, self._master_address = False, leader_id, ""
            return Role(MASTER_ID, self._address, term, is_master=True)
        if member is not MemberRole.FOLLOWER or leader_id is None:
            if self._is_slave:
                return None
            self._is_slave = True
            return Role(NOBODY, "", term, is_master=False)
        if leader_id != self._leader:
            self._stale_address, self._stale_until_ms = self._master_address or self._stale_address, now_ms + STALE_MS
            self._leader, self._master_address = leader_id, ""
        self._is_slave = True
        return Role(broker_id_of(leader_id), self._master_address, term, is_master=False)

    def heard_of_master(self, address: str | None, now_ms: int) -> str:
        """Takes the master's address from a name server. Returns the address to copy from, "" if this cannot be the leader's."""
        is_stale = address == self._stale_address and now_ms < self._stale_until_ms
        if not address or address == self._address or self._leader is None or not self._is_slave or is_stale:
            return ""
        self._master_address = address
        return address


class GroupRoles:
    """The roles in a DLedger group. `start` once the listeners are open; `stop` before the log is closed."""

    def __init__(self, node: LogNode, ha: LedgerHa, synchronize: SlaveSynchronize, address: str, clock_ms: Callable[[], int]) -> None:
        self.node = node
        self._ha = ha
        self._synchronize = synchronize
        self._clock_ms = clock_ms
        self._elected = ElectedRole(address)
        self.switch: RoleSwitch | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # ---- life ----

    async def start(self, steps: RoleSteps) -> None:
        """Raises what LogNode.start raises."""
        self.switch = RoleSwitch(steps)
        self.node.on_role_change.append(self._role_changed)
        self.node.may_take_over = lambda: self._synchronize.has_copied
        tasks = {"role": self.switch.run(), "queues of new topics": self._look_for_queues()}
        self._tasks = [asyncio.create_task(task, name=name) for name, task in tasks.items()]
        await self.node.start()

    async def stop(self) -> None:
        """Waits for a change of roles that is under way. When this returns, the broker leads nothing. Idempotent."""
        if self.switch is not None:
            self.switch.stop()
        await self.node.stop()
        self._ha.end_part()
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def has_role(self, wait_s: float) -> bool:
        """As RoleSwitch.has_role."""
        assert self.switch is not None
        return await self.switch.has_role(wait_s)

    # ---- what others tell ----

    def hint(self) -> None:
        """Does nothing: the group reports changes by itself."""

    def lost(self, address: str) -> None:
        """Does nothing: no role depends on a connection to another server."""

    def heard_of_master(self, master_address: str | None, ha_address: str | None) -> None:
        """Takes the master's address, from a name server or from the master itself."""
        address = self._elected.heard_of_master(master_address, self._clock_ms())
        if address:
            self._synchronize.follow(address)

    # ---- the log's part of a switch ----

    @property
    def broker_id(self) -> int:
        return self._ha.broker_id

    def tables_epoch(self, role: Role) -> int:
        """0, as for a master of RocketMQ in such a group: a name server refuses a master whose tables are of an older epoch."""
        return 0

    async def lead(self, role: Role) -> None:
        """Leads once all that the log held is committed and in the queues. Raises RocketpyError if another member leads by then."""
        await self.node.lead_is_whole(role.epoch)
        self.check_leads(role)
        self._ha.lead()

    def check_leads(self, role: Role) -> None:
        """Raises RocketpyError if another member leads by now."""
        if self.node.role is not MemberRole.LEADER or self.node.term != role.epoch:
            raise RocketpyError(f"this member does not lead in term {role.epoch} any more")

    async def step_down(self) -> None:
        """The log itself was given up before, together with the lead of the group."""
        self._ha.step_down()

    # ---- for operators ----

    def others_in_sync(self) -> frozenset[int]:
        """On a master, the other members that may be elected. Empty on a slave."""
        return self._ha.holders()

    def counters(self) -> dict[str, str]:
        """Lines for the output of brokerStatus."""
        node, switch = self.node, self.switch
        left_ms = node.lease_left_ms()
        return {
            "dLedgerGroup": node.settings.group,
            "dLedgerSelfId": node.settings.self_id,
            "dLedgerRole": str(node.role),
            "dLedgerLeaseLeftMillis": "-1" if left_ms is None else str(left_ms),
            "dLedgerFault": str(node.fault or self._ha.gap()),
            "roleSwitches": str(switch.switches if switch is not None else 0),
            "roleFailure": switch.failure if switch is not None else "",
        }

    async def _look_for_queues(self) -> None:
        """Has the tables copied when the log brings a new queue: its topic may be newer than the last copy, and would be lost together with
        the leader."""
        known = -1
        while True:
            await asyncio.sleep(QUEUES_LOOK_S)
            count = self._ha.queue_count()
            if count != known:
                known = count
                self._ha.followed()

    def _role_changed(self, member: MemberRole, term: int) -> None:
        assert self.switch is not None
        role = self._elected.take(member, term, self.node.leader_id, self._clock_ms())
        if role is not None:
            self.switch.want(role)
        if member is MemberRole.FOLLOWER:
            self._ha.followed()
