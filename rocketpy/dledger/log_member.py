"""A member's decisions where entries flow natively: this module decides who leads, native code decides what is in the log. The service
around it is log_node.py. DLedger: DLedgerLeaderElector, MemberState (0.3.2).

    requests of others ─ handle() ─► answer          after every call: send what take_outbox() gives
    answers to ours ─── answered()                   ┌─ enter_term, follow, lead ─► native log
    time ────────────── tick() ──────── Elector ─────┤
    native events ───── pushed(), outlived()         └─ on_role_change ─► the broker's role

Before a member says anything in a later term, it fences the native log: from then on no entry of an older leader is written. So the end of
the log that decides a vote is also the end with which the term begins. If the end moved between the decision and the fence, the vote is not
sent.

Threads  one at a time. Errors: what the log or the promises raise goes through; then nothing more may be asked of this object.
"""

from __future__ import annotations

import random
from typing import Protocol

from .bodies import Answer, HeartBeatRequest, HeartBeatResponse, PushRequest, PushResponse, VoteRequest, VoteResponse
from .codes import DLedgerResponseCode, VoteResult
from .elector import Elector
from .member import LogEnd, Member, Promises, Role
from .replica import Sent, address_fault, answer_of
from .settings import GroupSettings


class LedgerLog(LogEnd, Protocol):
    """A native log, as elections need it. Each order is in force when the call returns."""

    @property
    def heard_ms(self) -> int:
        """When entries of the followed leader arrived last, on the member's clock; 0: never."""

    @property
    def is_writable(self) -> bool:
        """Whether it accepts entries: not after its disk has failed."""

    def enter_term(self, term: int) -> None:
        """Nobody leads: from now on no entry of an older term is written, and no append is accepted. If called again for the same term, its
        leader is gone."""

    def follow(self, term: int, leader_id: str) -> None:
        """Accepts entries of this leader, and of nobody else."""

    def lead(self, term: int) -> None:
        """Accepts appends, and pushes them to the others."""


class _FencedPromises:
    """Promises that are first written to disk, then put into force in the log."""

    def __init__(self, promises: Promises, log: LedgerLog) -> None:
        self._promises = promises
        self._log = log

    @property
    def term(self) -> int:
        return self._promises.term

    @property
    def vote(self) -> str | None:
        return self._promises.vote

    def write(self, term: int, vote: str | None) -> None:
        is_later = term > self._promises.term
        self._promises.write(term, vote)
        if is_later:
            self._log.enter_term(term)


class LogMember:
    def __init__(self, settings: GroupSettings, log: LedgerLog, promises: Promises, chance: random.Random, now: int) -> None:
        self._log = log
        self.member: Member[LedgerLog] = Member(settings, log, _FencedPromises(promises, log))
        self._elector = Elector(self.member, chance, now)
        self.member.on_role_change.append(self._role_changed)
        log.enter_term(promises.term)

    def tick(self, now: int, *, may_lead: bool = True) -> None:
        """To be called every few tens of milliseconds, and after answers have arrived. may_lead: whether the others reach this member under
        its id."""
        self._elector.heard(min(self._log.heard_ms, now))
        if may_lead and self._log.is_writable:
            self._elector.tick(now)
        else:
            self._elector.rest(now)

    def take_outbox(self, now: int) -> list[Sent]:
        outbox, self.member.outbox = self.member.outbox, []
        return [Sent(peer, request, now) for peer, request in outbox]

    def handle(self, request: VoteRequest | HeartBeatRequest | PushRequest, now: int) -> Answer:
        """A push comes here only when the native log does not follow who sent it; it is not taken, but says who leads."""
        member = self.member
        code = address_fault(member.settings, request)
        if isinstance(request, VoteRequest):
            if code != DLedgerResponseCode.SUCCESS:
                return VoteResponse(code=code, term=member.term, vote_result=VoteResult.UNKNOWN)
            return self._handle_vote(request, now)
        if isinstance(request, HeartBeatRequest):
            if code != DLedgerResponseCode.SUCCESS:
                return HeartBeatResponse(code=code, term=member.term)
            return self._elector.handle_heart_beat(request, now)
        if code == DLedgerResponseCode.SUCCESS:
            code = self.pushed(request.leader_id, request.term, now)
        return PushResponse(group=request.group, code=code, term=member.term, end_index=self._log.end_index)

    def pushed(self, leader_id: str | None, term: int, now: int) -> DLedgerResponseCode:
        """Entries arrived from a member that the native log does not follow; it will send them again."""
        code = self._elector.is_ours(leader_id, term, now)
        return DLedgerResponseCode.TERM_NOT_READY if code == DLedgerResponseCode.SUCCESS else code

    def outlived(self, term: int, now: int) -> None:
        """A follower answered entries from a later term."""
        self._elector.outlived(term, now)

    def answered(self, sent: Sent, answer: Answer | None, now: int) -> None:
        """Takes the answer to a request of the outbox; None if there was none in time."""
        request = sent.request
        if isinstance(request, VoteRequest):
            self._elector.vote_answered(sent.peer, request, answer_of(VoteResponse, answer), now)
        elif isinstance(request, HeartBeatRequest):
            self._elector.heart_beat_answered(sent.peer, request, answer_of(HeartBeatResponse, answer), sent.at, now)

    def stand_at_once(self, now: int) -> None:
        """As Elector's."""
        self._elector.stand_at_once(now)

    def led_at(self) -> int | None:
        """As Elector's."""
        return self._elector.led_at()

    def lease_left_ms(self, now: int) -> int | None:
        """For how long this member may regard itself as the leader without hearing from the others again: 0 if it does not lead, None if
        there are no others."""
        member = self.member
        if not member.is_leader:
            return 0
        led_at = self._elector.led_at()
        return None if led_at is None else max(0, led_at + member.settings.silence_max_ms - now)

    def _handle_vote(self, request: VoteRequest, now: int) -> VoteResponse:
        response = self._elector.handle_vote(request, now)
        ours, theirs = (self._log.end_term, self._log.end_index), (request.ledger_end_term, request.ledger_end_index)
        if response.vote_result is VoteResult.ACCEPT and theirs < ours:
            response.vote_result = VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        return response

    def _role_changed(self, role: Role, term: int) -> None:
        if role is Role.LEADER:
            self._log.lead(term)
        elif role is Role.FOLLOWER and self.member.leader_id is not None:
            self._log.follow(term, self.member.leader_id)
        else:
            self._log.enter_term(term)
