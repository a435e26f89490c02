"""Decisions of a member whose entries flow natively: what its log is told, in which order, and groups of them under seeds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketpy.dledger.bodies import HeartBeatRequest, HeartBeatResponse, PushRequest, VoteRequest, VoteResponse
from rocketpy.dledger.codes import DLedgerResponseCode, PushType, VoteResult
from rocketpy.dledger.log_member import LogMember
from rocketpy.dledger.member import Role
from rocketpy.dledger.settings import GroupSettings

from .native_model import LogReplica, NativeModel, StallingSimulation
from .simulation import MemoryLog, MemoryPromises, Simulation

SEEDS = 3
PEERS = {name: f"127.0.0.1:{number}" for number, name in enumerate(("n0", "n1", "n2"), 1)}
SETTINGS = GroupSettings("g", "n0", PEERS, Path("/nowhere"), heartbeat_interval_ms=100, vote_interval_min_ms=40, vote_interval_max_ms=160)
SILENCE = SETTINGS.silence_max_ms


class Promises(MemoryPromises):
    """Notes when they are kept, among what the log is told."""

    def __init__(self, told: list[tuple[str, int]]) -> None:
        super().__init__()
        self._told = told

    def write(self, term: int, vote: str | None) -> None:
        super().write(term, vote)
        self._told.append((f"on disk: {vote}", term))


class Alone:
    """One member of three; what it sends nobody gets."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.native = NativeModel(SETTINGS, self.log)
        self.decisions = LogMember(SETTINGS, self.native, Promises(self.native.told), random.Random(1), 0)
        self.native.told.clear()

    def vote_asked(self, term: int, end: tuple[int, int] = (-1, -1), by: str = "n1", now: int = 1) -> VoteResult:
        request = VoteRequest(
            group="g", remote_id="n0", local_id=by, leader_id=by, term=term, ledger_end_term=end[0], ledger_end_index=end[1]
        )
        answer = self.decisions.handle(request, now)
        assert isinstance(answer, VoteResponse)
        return answer.vote_result

    def heart_beat(self, term: int, by: str = "n1", now: int = 1) -> int:
        answer = self.decisions.handle(HeartBeatRequest(group="g", remote_id="n0", local_id=by, leader_id=by, term=term), now)
        return answer.code

    def elected(self, now: int = 1000) -> int:
        """Wins the first ballot it holds; its term."""
        self.decisions.tick(now)
        for sent in self.decisions.take_outbox(now):
            self.decisions.answered(sent, VoteResponse(term=sent.request.term, vote_result=VoteResult.ACCEPT), now)
        assert self.decisions.member.is_leader
        return self.decisions.member.term


@pytest.mark.parametrize("size", [3, 5])
def test_what_is_committed_stays_and_one_leads_a_term(size: int) -> None:
    for seed in range(SEEDS):
        Simulation(size, seed, make_replica=LogReplica).run()


def test_the_same_while_disks_stand_still_and_leads_are_handed_over() -> None:
    for seed in range(SEEDS):
        StallingSimulation(3, seed).run()


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("with_stalls", [False, True])
def test_the_same_for_many_seeds(size: int, with_stalls: bool) -> None:
    for seed in range(SEEDS, 600):
        try:
            (StallingSimulation(size, seed) if with_stalls else Simulation(size, seed, make_replica=LogReplica)).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_term_is_on_disk_before_the_log_enters_it_and_in_force_before_a_vote_is_said() -> None:
    member = Alone()
    assert member.vote_asked(3) is VoteResult.ACCEPT
    assert member.native.told == [("on disk: None", 3), ("enter", 3), ("on disk: n1", 3)]


def test_a_vote_by_an_end_that_moved_on_before_the_fence_stood_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Alone()

    def late_entry(term: int) -> None:
        member.log.append(2, b"of the leader of term 2, on its way when the vote was asked for")

    with monkeypatch.context() as patch:
        patch.setattr(member.native, "enter_term", late_entry)
        assert member.vote_asked(3) is not VoteResult.ACCEPT, "asked again"
    assert member.vote_asked(4, (2, 0), by="n2") is VoteResult.ACCEPT


def test_a_leader_is_followed_in_the_log_until_nothing_is_heard_of_it() -> None:
    member = Alone()
    assert member.heart_beat(2) == DLedgerResponseCode.SUCCESS
    assert member.native.told[-1] == ("n1", 2)
    member.native.heard_ms = SILENCE + 50
    member.decisions.tick(SILENCE + 60)
    assert member.decisions.member.role is Role.FOLLOWER, "entries are as good as heartbeats"
    member.decisions.tick(2 * SILENCE + 60)
    assert member.decisions.member.role is Role.CANDIDATE
    assert member.native.told[-1] == ("enter", 2)


def test_a_clock_ahead_in_the_log_keeps_no_leader_alive() -> None:
    member = Alone()
    member.heart_beat(2)
    member.native.heard_ms = 1 << 40
    member.decisions.tick(2)
    member.native.heard_ms = 0
    member.decisions.tick(SILENCE + 10)
    assert member.decisions.member.role is Role.CANDIDATE


def test_who_is_elected_leads_the_log_and_gives_it_up_without_a_majority() -> None:
    member = Alone()
    term = member.elected()
    assert member.native.leads and member.native.told[-1] == ("lead", term)
    assert member.decisions.lease_left_ms(1000) == SILENCE
    member.decisions.tick(1000 + SILENCE - 1)
    assert member.native.leads and member.decisions.lease_left_ms(1000 + SILENCE - 1) == 1
    member.decisions.tick(1000 + SILENCE)
    assert not member.native.leads and member.native.told[-1] == ("enter", term)
    assert member.decisions.lease_left_ms(1000 + SILENCE) == 0


def test_heartbeats_that_are_answered_lengthen_the_lease() -> None:
    member = Alone()
    term = member.elected()
    member.decisions.take_outbox(1000)
    member.decisions.tick(1100)
    for sent in member.decisions.take_outbox(1100):
        member.decisions.answered(sent, HeartBeatResponse(term=term), 1150)
    assert member.decisions.lease_left_ms(1150) == SILENCE - 50, "from when they were sent"


def test_a_later_term_at_a_follower_ends_the_lead() -> None:
    member = Alone()
    term = member.elected()
    member.decisions.outlived(term, 1010)
    assert member.native.leads
    member.decisions.outlived(term + 2, 1010)
    assert not member.native.leads and member.decisions.member.term == term + 2
    assert member.native.told[-1] == ("enter", term + 2)


def test_entries_of_somebody_who_is_not_followed_are_asked_for_again() -> None:
    member = Alone()
    assert member.decisions.pushed("n2", 2, 1) == DLedgerResponseCode.TERM_NOT_READY
    assert member.native.told[-1] == ("n2", 2), "and are taken then"
    assert member.decisions.pushed("n1", 2, 2) == DLedgerResponseCode.INCONSISTENT_LEADER
    assert member.decisions.pushed("n1", 1, 2) == DLedgerResponseCode.EXPIRED_TERM
    assert member.decisions.pushed("somebody", 9, 2) == DLedgerResponseCode.UNKNOWN_MEMBER
    assert member.decisions.pushed(None, 9, 2) == DLedgerResponseCode.UNKNOWN_MEMBER
    assert member.decisions.pushed("n1", (1 << 62), 2) == DLedgerResponseCode.TERM_NOT_READY
    assert member.decisions.member.term == 2


def test_other_groups_and_members_that_take_us_for_somebody_else_are_refused() -> None:
    member = Alone()
    stranger = VoteRequest(group="other", remote_id="n0", leader_id="n1", term=5)
    assert member.decisions.handle(stranger, 1).code == DLedgerResponseCode.UNKNOWN_GROUP
    lost = HeartBeatRequest(group="g", remote_id="n2", leader_id="n1", term=5)
    assert member.decisions.handle(lost, 1).code == DLedgerResponseCode.UNKNOWN_MEMBER
    assert member.native.told == []


def test_a_cut_of_before_a_restart_takes_nothing_that_was_acknowledged_in_the_same_term() -> None:
    log = MemoryLog()
    for number in range(4):
        log.append(5, b"%d" % number)
    native = NativeModel(SETTINGS, log)
    native.follow(5, "n1")
    late = PushRequest(group="g", remote_id="n0", leader_id="n1", term=5, type=PushType.TRUNCATE, entry=log.get(1))
    native.push(late, 1)
    assert log.end_index == 3
    native.follow(6, "n2")
    later = PushRequest(group="g", remote_id="n0", leader_id="n2", term=6, type=PushType.TRUNCATE, entry=log.get(1))
    native.push(later, 1)
    assert log.end_index == 1, "another leader may"


def test_a_log_that_takes_no_entries_leads_nobody_and_stands_for_no_election() -> None:
    member = Alone()
    member.elected()
    member.native.is_writable = False
    member.decisions.tick(1010)
    assert not member.native.leads
    member.decisions.take_outbox(1010)
    for now in range(1100, 9000, 100):
        member.decisions.tick(now)
        assert member.decisions.take_outbox(now) == []
    assert member.vote_asked(9, (member.log.end_term, member.log.end_index), now=9000) is VoteResult.ACCEPT, "its votes are on another file"
    assert member.heart_beat(9, now=9100) == DLedgerResponseCode.SUCCESS
    member.decisions.tick(9100 + SILENCE + 1)
    assert member.decisions.member.role is Role.CANDIDATE
    member.native.is_writable = True
    assert member.elected(99_000) > 9
