"""Moves the lead of a group from one member to another on purpose: because an operator asked the leader to, or because the preferred leader
(preferredLeaderId) is there. DLedger: DLedgerServer.handleLeadershipTransfer, checkPreferredLeader,
DLedgerLeaderElector.handleTakeLeadership (0.3.2).

    leader   asked ─ nearly all at the other? ─ appends pause ─ LEADERSHIP_TRANSFER ─► an answer, or none ─ leads still? appends go on
    other    asked by its leader ─ has all up to the index named, and the topics? ─ stands in the next term at once ─► elected, or not

Appends pause for PAUSE_S at most. When the preferred leader does not take an offer, the next follows after RETRY_MS, then after twice as
long each time, up to RETRY_MAX_MS. DLedger offers every second, and pauses appends every time.

Threads  one event loop. Bounds: one transfer at a time, either way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from .._core.dledger_log import DLedgerLog
from .._core.errors import ProtocolError, RocketpyError
from .._core.remoting import Request as Command
from ..remoting.command import Response
from .bodies import LeadershipTransferRequest, Message
from .codes import DLedgerResponseCode as Code
from .exchange import Exchange, response_of
from .member import Role
from .settings import GroupSettings

log = logging.getLogger(__name__)

BEHIND_MAX: Final = 1000
"""Entries that the other may lack: DLedger's maxLeadershipTransferWaitIndex."""
PAUSE_S: Final = 3.0
CATCH_UP_S: Final = 1.0
ELECTION_S: Final = 1.5
LOOK_S: Final = 0.01
OFFER_MS: Final = 1000
RETRY_MS: Final = 10_000
RETRY_MAX_MS: Final = 300_000


class Standing(Protocol):
    """The member whose lead it is."""

    settings: GroupSettings
    native: DLedgerLog

    @property
    def role(self) -> Role: ...
    @property
    def term(self) -> int: ...
    @property
    def leader_id(self) -> str | None: ...
    @property
    def exchange(self) -> Exchange | None: ...

    @property
    def may_take_over(self) -> Callable[[], bool]: ...

    def is_whole(self) -> bool:
        """It leads, and all that its log held when it began to is committed."""

    def stand_at_once(self) -> None:
        """In the next term, which has begun when this returns, unless this member may not stand."""


class LeadTransfer:
    def __init__(self, node: Standing) -> None:
        self._node = node
        self._is_under_way = False
        self._paused_term: int | None = None
        self._offer_due = 0
        self._retry_ms = RETRY_MS
        self._offering: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        if self._offering is not None:
            self._offering.cancel()
            await asyncio.wait([self._offering])

    # ---- the leader ----

    def tick(self, now: int) -> None:
        """Of who leads: the lead is offered to a member that shall have it."""
        if not self._is_under_way:
            self._go_on()
        if now < self._offer_due or self._is_under_way or not self._node.is_whole():
            return
        self._offer_due = now + OFFER_MS
        if (member := self._preferred()) is not None:
            self._offering = asyncio.get_running_loop().create_task(self._offer(member, now), name="dledger lead transfer")

    def _preferred(self) -> str | None:
        """The one that lacks least, of those that shall lead and can."""
        settings = self._node.settings
        if not settings.preferred_leaders or settings.self_id in settings.preferred_leaders:
            return None
        end = int(self._node.native.state()["end_index"])
        rows = [row for row in self._node.native.followers() if row["id"] in settings.preferred_leaders and _lacks(row, end) < BEHIND_MAX]
        return min(rows, key=lambda row: _lacks(row, end))["id"] if rows else None

    async def _offer(self, member: str, now: int) -> None:
        code = await self.hand_over(member, self._node.term)
        if code == Code.SUCCESS:
            self._retry_ms = RETRY_MS
        else:
            self._offer_due = now + self._retry_ms
            self._retry_ms = min(RETRY_MAX_MS, self._retry_ms * 2)

    async def hand_over(self, member: str | None, term: int) -> int:
        """To that member, which leads when this returns SUCCESS."""
        node = self._node
        if member not in node.settings.others:
            return Code.UNKNOWN_MEMBER
        if node.term != term:
            return Code.INCONSISTENT_TERM
        if node.role is not Role.LEADER:
            return Code.NOT_LEADER
        if self._is_under_way:
            return Code.LEADER_TRANSFERRING
        row = next(row for row in node.native.followers() if row["id"] == member)
        if _lacks(row, int(node.native.state()["end_index"])) >= BEHIND_MAX:
            return Code.FALL_BEHIND_TOO_MUCH
        self._is_under_way = True
        try:
            code = await self._ask(member, term)
        except RocketpyError as error:
            log.warning("the lead of group %s was not handed over to %s: %s", node.settings.group, member, error)
            code = Code.DISK_ERROR
        finally:
            self._is_under_way = False
            self._go_on()
        outcome = "leads" if code == Code.SUCCESS else f"did not take the lead ({code})"
        log.info("group %s, term %d: %s %s", node.settings.group, node.term, member, outcome)
        return code

    async def _ask(self, member: str, term: int) -> int:
        node = self._node
        self._paused_term = term
        node.native.pause(True)
        settings, end = node.settings, int(node.native.state()["end_index"])
        request = LeadershipTransferRequest(
            group=settings.group,
            local_id=settings.self_id,
            remote_id=member,
            leader_id=settings.self_id,
            term=term,
            transfer_id=settings.self_id,
            transferee_id=member,
            take_leadership_ledger_index=end,
        )
        answer = await node.exchange.ask_to_lead(member, request, PAUSE_S) if node.exchange is not None else None
        return answer.code if answer is not None else Code.NETWORK_ERROR

    def _go_on(self) -> None:
        """Appends are taken again by who leads on; while the disk holds an append up, they wait for that in any case."""
        node = self._node
        if self._paused_term is None:
            return
        try:
            if self._is(Role.LEADER, self._paused_term):
                node.native.pause(False)
            self._paused_term = None
        except RocketpyError as error:
            log.warning("group %s: appends cannot go on yet: %s", node.settings.group, error)

    # ---- the port ----

    async def handle(self, command: Command) -> Response:
        settings = self._node.settings
        try:
            request = LeadershipTransferRequest.decode(command.body)
        except ProtocolError as error:
            log.warning("LEADERSHIP_TRANSFER from %s refused: %s", command.remote_address, error)
            return response_of(Message(code=Code.UNEXPECTED_ARGUMENT))
        if request.remote_id != settings.self_id:
            code: int = Code.UNKNOWN_MEMBER
        elif request.group != settings.group:
            code = Code.UNKNOWN_GROUP
        elif request.transfer_id == settings.self_id:
            code = await self.hand_over(request.transferee_id, request.term)
        elif request.transferee_id == settings.self_id:
            code = await self._take_over(request)
        else:
            code = Code.UNEXPECTED_ARGUMENT
        node = self._node
        return response_of(Message(group=settings.group, leader_id=node.leader_id, code=code, term=node.term))

    async def _take_over(self, request: LeadershipTransferRequest) -> int:
        node = self._node
        if node.term != request.term:
            return Code.INCONSISTENT_TERM
        if node.role is not Role.FOLLOWER or node.leader_id != request.transfer_id:
            return Code.INCONSISTENT_LEADER
        if self._is_under_way:
            return Code.LEADER_TRANSFERRING
        self._is_under_way = True
        try:
            return await self._stand(request)
        finally:
            self._is_under_way = False

    async def _stand(self, request: LeadershipTransferRequest) -> int:
        node, end = self._node, request.take_leadership_ledger_index

        def has_all() -> bool:
            return int(node.native.state()["end_index"]) >= end and node.may_take_over()

        await _until(lambda: has_all() or not self._is(Role.FOLLOWER, request.term), CATCH_UP_S)
        if not self._is(Role.FOLLOWER, request.term) or not has_all():
            return Code.TAKE_LEADERSHIP_FAILED
        log.info("group %s: %s hands its lead over to %s", node.settings.group, request.transfer_id, node.settings.self_id)
        node.stand_at_once()
        await _until(lambda: not self._is(Role.CANDIDATE, request.term + 1), ELECTION_S)
        return Code.SUCCESS if self._is(Role.LEADER, request.term + 1) else Code.TAKE_LEADERSHIP_FAILED

    def _is(self, role: Role, term: int) -> bool:
        return self._node.role is role and self._node.term == term


def _lacks(row: dict[str, Any], end: int) -> int:
    """How many entries; one that takes none lacks more than any may."""
    return end - int(row["matched_index"]) if row["is_connected"] and row["is_appending"] else BEHIND_MAX


async def _until(is_so: Callable[[], bool], wait_s: float) -> None:
    """Or until that time is over."""
    for _ in range(int(wait_s / LOOK_S)):
        if is_so():
            return
        await asyncio.sleep(LOOK_S)
