"""The service around a member whose entries flow natively: what it does where the log is held up by the disk."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import Busy
from rocketpy.dledger import term_file
from rocketpy.dledger.bodies import HeartBeatRequest, HeartBeatResponse, VoteRequest, VoteResponse
from rocketpy.dledger.codes import DLedgerResponseCode, VoteResult
from rocketpy.dledger.log_node import STUCK_MS, LogNode
from rocketpy.dledger.member import Role
from rocketpy.dledger.settings import GroupSettings
from tests.processes import PATIENCE_S, wait_until

PEERS = {name: f"127.0.0.1:{number}" for number, name in enumerate(("n0", "n1", "n2"), 1)}
ADDRESSED = {"group": "g", "remote_id": "n0"}


class Native:
    """An empty log, which an append may hold."""

    def __init__(self) -> None:
        self.term, self.leads, self.held_ms = 0, False, 0

    def state(self) -> dict[str, Any]:
        ends = {"begin_index": -1, "end_index": -1, "end_term": -1, "committed_index": -1}
        return {**ends, "term": self.term, "heard_ms": 0, "is_writable": True, "held_ms": self.held_ms}

    def follow(self, term: int, leader_id: str | None) -> None:
        if self.held_ms and self.leads:
            raise Busy("the log is held by an append that the disk holds up")
        self.term, self.leads = term, False

    def lead(self, term: int) -> None:
        self.term, self.leads = term, True


class Member:
    def __init__(self, home: Path) -> None:
        self.now = 1_000_000
        self.native = Native()
        settings = GroupSettings("g", "n0", PEERS, home)
        self.node = LogNode(settings, self.native, None, clock=lambda: self.now, chance=random.Random(1))  # type: ignore[arg-type]
        self.roles: list[Role] = []
        self.node.on_role_change.append(lambda role, term: self.roles.append(role))
        self.node._checkpoint_at = 1 << 40  # an event loop of its own would write it
        self.node._begin()

    def vote_asked(self, term: int) -> VoteResult | None:
        answer = self.node._decide(VoteRequest(local_id="n1", leader_id="n1", term=term, **ADDRESSED))
        return answer.vote_result if isinstance(answer, VoteResponse) else None

    def turn(self) -> None:
        """With the others' answers: votes and heartbeats as this member wishes."""
        self.node._turn()
        member = self.node._member
        for sent in member.take_outbox(self.now) if member is not None else []:
            term = sent.request.term
            if isinstance(sent.request, HeartBeatRequest):
                self.node._told(member, sent, HeartBeatResponse(code=DLedgerResponseCode.SUCCESS, term=term))  # type: ignore[arg-type]
            else:
                self.node._told(member, sent, VoteResponse(term=term, vote_result=VoteResult.ACCEPT))  # type: ignore[arg-type]

    def elected(self) -> None:
        self.node._identity.addressed("n1")
        for _ in range(1000):
            self.now += 10
            self.turn()
            if self.node.role is Role.LEADER:
                return
        raise AssertionError("no election was held")


def write_quickly(path: Path, text: str) -> None:
    """Waiting for no disk."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The term file never takes the half second after which a member stands back, unless a test says so."""
    monkeypatch.setattr(term_file, "write_file", write_quickly)


def test_a_term_that_the_log_cannot_fence_off_is_not_voted_in(tmp_path: Path) -> None:
    member = Member(tmp_path)
    member.elected()
    member.native.held_ms = 1
    assert member.vote_asked(member.node.term + 1) is None, "the others are told DISK_ERROR"
    assert member.node.role is Role.CANDIDATE and isinstance(member.node.fault, Busy)
    member.now += STUCK_MS
    member.turn()
    assert member.node.fault is not None, "the disk still stands still"
    member.native.held_ms = 0
    member.now += STUCK_MS
    member.turn()
    assert member.node.fault is None and not member.native.leads
    assert member.vote_asked(member.node.term + 1) is VoteResult.ACCEPT


def test_a_vote_that_the_disk_holds_up_is_not_given_and_not_given_to_another_when_it_comes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, is_back = Member(tmp_path), threading.Event()

    def write_late(path: Path, text: str) -> None:
        assert "voteLeader=n1" not in text or is_back.wait(PATIENCE_S)
        write_quickly(path, text)

    monkeypatch.setattr(term_file, "write_file", write_late)
    assert member.vote_asked(1) is None, "the others are told DISK_ERROR"
    assert isinstance(member.node.fault, Busy)
    member.now += STUCK_MS
    member.turn()
    assert isinstance(member.node.fault, Busy), "nothing is begun while it is under way"
    is_back.set()

    def takes_part() -> bool:
        member.now += STUCK_MS
        member.turn()
        return member.node.fault is None

    wait_until(takes_part, what="the vote is on the disk")
    answer = member.node._decide(VoteRequest(local_id="n2", leader_id="n2", term=1, **ADDRESSED))
    assert isinstance(answer, VoteResponse) and answer.vote_result is VoteResult.REJECT_ALREADY_VOTED


def test_a_lead_that_the_disk_holds_up_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member, is_back = Member(tmp_path), threading.Event()
    lead = member.native.lead
    monkeypatch.setattr(member.native, "lead", lambda term: is_back.wait(PATIENCE_S) and lead(term))
    with pytest.raises(AssertionError, match="no election"):
        member.elected()
    assert isinstance(member.node.fault, Busy) and Role.LEADER not in member.roles
    is_back.set()
    wait_until(lambda: member.native.leads, what="the lead's entry is there")
    monkeypatch.setattr(member.native, "lead", lead)
    member.now += STUCK_MS
    member.turn()
    assert member.node.fault is None and not member.native.leads
    member.elected()


@pytest.mark.parametrize("held_ms", [100, 10_000])
def test_a_leader_leads_on_while_an_append_is_slow_and_not_when_it_is_stuck(tmp_path: Path, held_ms: int) -> None:
    member = Member(tmp_path)
    member.elected()
    member.native.held_ms = held_ms
    member.turn()
    is_stuck = held_ms > member.node.settings.silence_max_ms
    assert (member.node.role is Role.LEADER) is not is_stuck
    assert (member.roles[-1] is Role.CANDIDATE) is is_stuck, "the broker is not a master any more"
