"""Who leads: votes, heartbeats, and how a leader knows that it still leads. DLedger: DLedgerLeaderElector (0.3.2), as in Raft.

    CANDIDATE ─ majority of a ballot ─► LEADER ─ no majority heard of for silence_max, or a later term ─► CANDIDATE
        │ ▲ silence of the leader, a later term
        ▼ │
    FOLLOWER ◄─ heartbeat or entry of this term's leader

It differs from DLedger in three ways:
  * A member that hears of a later term enters it at once, and may then give the vote that it was asked for in that term.
  * The first ballot after a start begins a new term, and so does the first ballot of a leader that stepped down. So no term has two logs.
  * A leader counts an answer from the moment it asked, not from the moment the answer came. So it stops leading before the first of its
    followers may vote for another member.

Time  milliseconds of the caller's clock, which must never go back.
"""

from __future__ import annotations

import random
from typing import Any

from .bodies import HeartBeatRequest, HeartBeatResponse, VoteRequest, VoteResponse
from .codes import DLedgerResponseCode, VoteResult
from .member import Member, Role
from .term_file import TERM_MAX

BALLOT_MS = 2000
NOT_READY_MS = 50
SMALLER_LOG = (VoteResult.REJECT_EXPIRED_LEDGER_TERM, VoteResult.REJECT_SMALL_LEDGER_END_INDEX)
TERM_STEP_MAX = 1 << 32
"""A term that is further ahead is not followed: no member is so far ahead, and one message could use up all terms there are."""


class Elector:
    def __init__(self, member: Member[Any], chance: random.Random, now: int) -> None:
        self._member = member
        self._chance = chance
        self._settings = member.settings
        self._ballot: dict[str, VoteResult] | None = None
        self._ballot_until = 0
        self._next_ballot = now + self._pause()
        self._needs_new_term = True
        self._heard_of_leader = now
        self._last_heartbeats = 0
        self._confirmed: dict[str, int] = {}
        """For each other member, when the last heartbeat was sent that it agreed to."""

    def tick(self, now: int) -> None:
        member = self._member
        if member.is_leader:
            self._tick_as_leader(now)
        elif member.role is Role.FOLLOWER:
            if now - self._heard_of_leader > self._settings.silence_max_ms:
                self._stand_down(now)
        elif self._ballot is not None:
            if now >= self._ballot_until:
                self._count(now, is_over=True)
        elif now >= self._next_ballot:
            self._hold_ballot(now)

    def rest(self, now: int) -> None:
        """To be called in place of tick while the log takes no entries: the member neither leads nor stands for election, but it votes."""
        member = self._member
        if member.is_leader or (member.role is Role.FOLLOWER and now - self._heard_of_leader > self._settings.silence_max_ms):
            self._stand_down(now)
        elif member.role is Role.CANDIDATE:
            self._await_ballot(now)

    def stand_at_once(self, now: int) -> None:
        """Stands for election in the next term at once, because the leader of this term hands its lead over."""
        if self._follow_term(self._member.term + 1):
            self._needs_new_term, self._next_ballot = False, now

    def is_ours(self, leader_id: str | None, term: int, now: int) -> DLedgerResponseCode:
        """Takes a message from a leader as a sign of life. SUCCESS when it leads this member's term; else why the message does not
        count."""
        member = self._member
        if leader_id not in self._settings.peers:
            return DLedgerResponseCode.UNKNOWN_MEMBER
        if leader_id == self._settings.self_id:
            return DLedgerResponseCode.UNEXPECTED_MEMBER
        if term < member.term:
            return DLedgerResponseCode.EXPIRED_TERM
        if term > member.term and not self._follow_term(term):
            return DLedgerResponseCode.TERM_NOT_READY
        if member.leader_id not in (None, leader_id):
            return DLedgerResponseCode.INCONSISTENT_LEADER
        self._ballot = None
        self._heard_of_leader = now
        member.become(Role.FOLLOWER, leader_id)
        return DLedgerResponseCode.SUCCESS

    def heard(self, at: int) -> None:
        """Notes that entries of the followed leader came at that time."""
        if self._member.role is Role.FOLLOWER:
            self._heard_of_leader = max(self._heard_of_leader, at)

    def outlived(self, term: int, now: int) -> None:
        """Stands down, because a member answered out of a later term."""
        if term > self._member.term:
            self._stand_down(now)
            self._follow_term(term)

    def handle_heart_beat(self, request: HeartBeatRequest, now: int) -> HeartBeatResponse:
        code = self.is_ours(request.leader_id, request.term, now)
        return HeartBeatResponse(code=code, term=self._member.term)

    def ask_around(self, now: int) -> None:
        """Makes a leader's next tick send heartbeats, whenever the last ones were sent."""
        self._last_heartbeats = min(self._last_heartbeats, now - self._settings.heartbeat_interval_ms)

    def led_at(self) -> int | None:
        """The latest time at which a majority agreed that this member leads: nobody of a later term led then. None when it does not lead,
        or has no other members."""
        others = sorted(self._confirmed.values(), reverse=True)
        return others[self._settings.majority - 2] if self._member.is_leader and others else None

    def handle_vote(self, request: VoteRequest, now: int) -> VoteResponse:
        result = self._judge(request, now)
        return VoteResponse(group=request.group, leader_id=request.leader_id, term=self._member.term, vote_result=result)

    def vote_answered(self, peer: str, request: VoteRequest, response: VoteResponse | None, now: int) -> None:
        """Takes the answer to a request for a vote; None if there was none in time."""
        if request.term != self._member.term or self._ballot is None:
            return
        result = response.vote_result if response is not None else VoteResult.UNKNOWN
        if response is not None and response.term > self._member.term and self._follow_term(response.term):
            self._await_ballot(now)
            return
        self._ballot[peer] = result
        self._count(now, is_over=len(self._ballot) == len(self._settings.peers))

    def heart_beat_answered(self, peer: str, request: HeartBeatRequest, response: HeartBeatResponse | None, sent: int, now: int) -> None:
        if response is None or request.term != self._member.term or not self._member.is_leader:
            return
        if response.code == DLedgerResponseCode.SUCCESS:
            self._confirmed[peer] = max(sent, self._confirmed.get(peer, sent))
        elif response.code == DLedgerResponseCode.TERM_NOT_READY:
            self._last_heartbeats = min(self._last_heartbeats, now - self._settings.heartbeat_interval_ms + NOT_READY_MS)
        elif response.term > self._member.term or response.code == DLedgerResponseCode.INCONSISTENT_LEADER:
            self._stand_down(now)
            self._follow_term(response.term)

    def _tick_as_leader(self, now: int) -> None:
        if now - self._last_heartbeats >= self._settings.heartbeat_interval_ms:
            self._last_heartbeats = now
            for peer in self._settings.others:
                self._member.send(peer, HeartBeatRequest())
        oldest = now - self._settings.silence_max_ms
        alive = 1 + sum(self._confirmed.get(peer, 0) > oldest for peer in self._settings.others)
        if alive < self._settings.majority:
            self._stand_down(now)

    def _stand_down(self, now: int) -> None:
        self._needs_new_term = True
        self._member.become(Role.CANDIDATE, None)
        self._await_ballot(now)

    def _follow_term(self, term: int) -> bool:
        member = self._member
        if not member.term < term <= min(TERM_MAX - 1, member.term + TERM_STEP_MAX):
            return False
        member.enter_term(term)
        self._ballot = None
        self._needs_new_term = True
        return True

    def _judge(self, request: VoteRequest, now: int) -> VoteResult:
        member, log = self._member, self._member.log
        if request.leader_id not in self._settings.peers:
            return VoteResult.REJECT_UNKNOWN_LEADER
        if request.leader_id == self._settings.self_id:
            return VoteResult.REJECT_UNEXPECTED_LEADER
        if request.ledger_end_term < log.end_term:
            return VoteResult.REJECT_EXPIRED_LEDGER_TERM
        if request.ledger_end_term == log.end_term and request.ledger_end_index < log.end_index:
            return VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        if request.term < member.term:
            return VoteResult.REJECT_EXPIRED_VOTE_TERM
        if request.term > member.term:
            if not self._follow_term(request.term):
                return VoteResult.REJECT_TERM_NOT_READY
            self._await_ballot(now)
        if member.vote not in (None, request.leader_id):
            return VoteResult.REJECT_ALREADY_VOTED if member.leader_id is None else VoteResult.REJECT_ALREADY_HAS_LEADER
        member.give_vote(str(request.leader_id))
        self._await_ballot(now)
        return VoteResult.ACCEPT

    def _hold_ballot(self, now: int) -> None:
        member = self._member
        if self._needs_new_term:
            member.enter_term(member.term + 1)
            self._needs_new_term = False
        if member.vote not in (None, self._settings.self_id):
            self._needs_new_term = True
            self._await_ballot(now)
            return
        member.give_vote(self._settings.self_id)
        self._ballot = {self._settings.self_id: VoteResult.ACCEPT}
        self._ballot_until = now + BALLOT_MS
        for peer in self._settings.others:
            member.send(peer, VoteRequest(ledger_end_index=member.log.end_index, ledger_end_term=member.log.end_term))
        self._count(now, is_over=len(self._settings.peers) == 1)

    def _count(self, now: int, *, is_over: bool) -> None:
        results = list((self._ballot or {}).values())
        if results.count(VoteResult.ACCEPT) >= self._settings.majority:
            self._lead(now)
        elif is_over:
            willing = results.count(VoteResult.ACCEPT) + results.count(VoteResult.REJECT_TERM_NOT_READY)
            heard = [result for result in results if result is not VoteResult.UNKNOWN]
            ahead = sum(result in SMALLER_LOG for result in heard)
            self._needs_new_term = len(heard) - ahead >= self._settings.majority  # else nobody here can win, and a new term does not help
            self._await_ballot(now, is_behind=ahead > 0)
            if willing >= self._settings.majority:  # DLedger's members enter the term when first asked, and give their vote the second time
                self._needs_new_term, self._next_ballot = False, now + NOT_READY_MS

    def _lead(self, now: int) -> None:
        self._ballot = None
        self._needs_new_term = True
        self._confirmed = dict.fromkeys(self._settings.others, now)
        self._last_heartbeats = now - self._settings.heartbeat_interval_ms
        self._member.become(Role.LEADER, self._settings.self_id)
        self._tick_as_leader(now)

    def _await_ballot(self, now: int, *, is_behind: bool = False) -> None:
        self._ballot = None
        self._next_ballot = now + self._pause() + (self._settings.vote_interval_max_ms if is_behind else 0)

    def _pause(self) -> int:
        return self._chance.randrange(self._settings.vote_interval_min_ms, self._settings.vote_interval_max_ms)
