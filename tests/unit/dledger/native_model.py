"""A model in Python of the native log (csrc/ha/dledger_log.h), for LogMember in a simulated group. It moves entries by itself, for the term
and leader that LogMember told it. A push that it cannot judge becomes a claim, which LogMember decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

from rocketpy._core.errors import Busy
from rocketpy.dledger.bodies import Answer, HeartBeatRequest, HeartBeatResponse, PushRequest, Request, VoteRequest, VoteResponse
from rocketpy.dledger.codes import DLedgerResponseCode
from rocketpy.dledger.elector import Elector
from rocketpy.dledger.log_member import LogMember
from rocketpy.dledger.member import Log, Member, Promises, Role
from rocketpy.dledger.push_handler import PushHandler
from rocketpy.dledger.pusher import Pusher
from rocketpy.dledger.replica import Sent
from rocketpy.dledger.settings import GroupSettings

from .simulation import MemoryLog, Simulation


class NativeTerm:
    """What stands for the promises there: the term it was told."""

    term = 0
    vote: str | None = None

    def write(self, term: int, vote: str | None) -> None:
        raise AssertionError("terms are told, not entered")


class NativeModel:
    def __init__(self, settings: GroupSettings, log: MemoryLog) -> None:
        self._log = log
        self._term = NativeTerm()
        self.member: Member[Log] = Member(settings, cast(Log, log), self._term)
        self._pusher = Pusher(self.member)
        self._handler = PushHandler(self.member, cast(Elector, self))
        self._leader: str | None = None
        self.heard_ms = 0
        self.is_writable = True
        self.is_stuck = False
        """The disk holds an append up: of a leader, that no other term begins behind."""
        self.claims: list[tuple[int, str | None]] = []
        self.told: list[tuple[str, int]] = []
        """Orders as they came."""

    @property
    def end_index(self) -> int:
        return self._log.end_index

    @property
    def end_term(self) -> int:
        return self._log.end_term

    @property
    def leads(self) -> bool:
        return self.member.is_leader

    def enter_term(self, term: int) -> None:
        self._enter("enter", term, Role.CANDIDATE, None)

    def follow(self, term: int, leader_id: str) -> None:
        self._enter(leader_id, term, Role.FOLLOWER, leader_id)

    def lead(self, term: int) -> None:
        self._enter("lead", term, Role.LEADER, self.member.settings.self_id)
        self._pusher.begin_term()

    def _enter(self, order: str, term: int, role: Role, leader_id: str | None) -> None:
        assert term >= self._term.term, "the term went back"
        if self.is_stuck and self.leads:
            raise Busy("the log is held by an append that the disk holds up")
        self.told.append((order, term))
        self._term.term = term
        self._leader = leader_id
        self.heard_ms = 0
        self.member.role = role
        self.member.outbox.clear()

    def is_ours(self, leader_id: str | None, term: int, now: int) -> DLedgerResponseCode:
        """Asked by PushHandler."""
        if term < self._term.term:
            return DLedgerResponseCode.EXPIRED_TERM
        if term > self._term.term or leader_id != self._leader or self.leads:
            self.claims.append((term, leader_id))
            return DLedgerResponseCode.TERM_NOT_READY
        self.heard_ms = now
        return DLedgerResponseCode.SUCCESS

    def push(self, request: PushRequest, now: int) -> Answer:
        return self._handler.handle(request, now)

    def tick(self, now: int) -> None:
        if self.leads:
            self._pusher.tick(now)

    def append(self, bodies: list[bytes]) -> int:
        assert self.leads
        if self.is_stuck:
            return -1
        return self._pusher.append(bodies)

    def answered(self, sent: Sent, answer: Answer | None, now: int) -> None:
        if answer is not None and answer.term > self._term.term:
            self.claims.append((answer.term, None))
        elif self.leads and isinstance(sent.request, PushRequest):
            self._pusher.answered(sent.peer, sent.request, answer, now)  # type: ignore[arg-type]


class LogReplica:
    """LogMember and the log beside it, as the simulation asks a Replica."""

    def __init__(self, settings: GroupSettings, log: MemoryLog, promises: Promises, chance: random.Random, now: int) -> None:
        self.native = NativeModel(settings, log)
        self.decisions = LogMember(settings, self.native, promises, chance, now)

    @property
    def member(self) -> Member[Log]:
        """Role, term and what is committed as the log has them: that is what clients are answered by."""
        return self.native.member

    def tick(self, now: int) -> None:
        self.decisions.tick(now)
        self.native.tick(now)
        self._settle(now)

    def take_outbox(self, now: int) -> list[Sent]:
        pushed = [Sent(peer, request, now) for peer, request in self.native.member.outbox]
        self.native.member.outbox.clear()
        return [*self.decisions.take_outbox(now), *pushed]

    def append(self, bodies: list[bytes]) -> int:
        return self.native.append(bodies)

    def led_at(self) -> int | None:
        return self.decisions.led_at()

    def handle(self, request: Request, now: int) -> Answer:
        if isinstance(request, (VoteRequest, HeartBeatRequest)):
            return self.decisions.handle(request, now)
        answer = self.native.push(request, now)
        self._settle(now)
        return answer

    def answered(self, sent: Sent, answer: Answer | None, now: int) -> None:
        if isinstance(sent.request, PushRequest):
            self.native.answered(sent, answer, now)
        else:
            self.decisions.answered(sent, answer, now)
        self._settle(now)

    def _settle(self, now: int) -> None:
        claims, self.native.claims = self.native.claims, []
        for term, leader_id in claims:
            if leader_id is None:
                self.decisions.outlived(term, now)
            else:
                self.decisions.pushed(leader_id, term, now)


class StallingReplica(LogReplica):
    """As LogNode has it: a term that the log cannot fence off takes the member out until it can."""

    def __init__(self, settings: GroupSettings, log: MemoryLog, promises: Promises, chance: random.Random, now: int) -> None:
        super().__init__(settings, log, promises, chance, now)
        self._again = lambda now: LogMember(settings, self.native, promises, chance, now)
        self._is_out = False

    def stand_at_once(self, now: int) -> None:
        """The leader of its term hands its lead over."""
        if self.native.member.role is Role.FOLLOWER:
            self._while_in(lambda: self.decisions.stand_at_once(now))

    def tick(self, now: int) -> None:
        if self._is_out and not self.native.is_stuck:
            self.decisions, self._is_out = self._again(now), False
        self._while_in(lambda: self.decisions.tick(now))
        self.native.tick(now)
        self._settle(now)

    def handle(self, request: Request, now: int) -> Answer:
        if isinstance(request, PushRequest):
            return super().handle(request, now)
        refused = VoteResponse if isinstance(request, VoteRequest) else HeartBeatResponse
        answer: Answer | None = self._while_in(lambda: self.decisions.handle(request, now))
        return answer or refused(code=DLedgerResponseCode.DISK_ERROR)

    def answered(self, sent: Sent, answer: Answer | None, now: int) -> None:
        self._while_in(lambda: super(StallingReplica, self).answered(sent, answer, now))

    def _settle(self, now: int) -> None:
        self._while_in(lambda: super(StallingReplica, self)._settle(now))

    def _while_in(self, work: Callable[[], Any]) -> Any:
        if self._is_out:
            return None
        try:
            return work()
        except Busy:
            self._is_out = True
            return None


class StallingSimulation(Simulation):
    """Disks stand still for a while, and leads are handed over, besides all else."""

    def __init__(self, size: int, seed: int) -> None:
        super().__init__(size, seed, make_replica=StallingReplica)
        self._after(300, self._stall)

    def _stall(self) -> None:
        replica = self.members[self.chance.choice(list(self.members))].replica
        if not self._is_faulty:
            return
        if replica is not None and self.chance.random() < 0.5:
            replica.native.is_stuck = True
            self._after(self.chance.randrange(20, 900), lambda: setattr(replica.native, "is_stuck", False))
        for name, member in self.members.items():
            if member.replica is not None and self.chance.random() < 0.1:
                member.replica.stand_at_once(member.clock(self.now))
                self._after_step(name)
        self._after(self.chance.randrange(50, 400), self._stall)
