"""A lead that is offered and not taken: appends go on, and it is not offered again at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rocketpy._core.errors import Busy
from rocketpy.dledger import lead_transfer
from rocketpy.dledger.bodies import LeadershipTransferRequest, Message
from rocketpy.dledger.codes import DLedgerResponseCode as Code
from rocketpy.dledger.lead_transfer import OFFER_MS, RETRY_MAX_MS, RETRY_MS, LeadTransfer
from rocketpy.dledger.member import Role
from rocketpy.dledger.settings import GroupSettings

PEERS = {name: f"127.0.0.1:{number}" for number, name in enumerate(("n0", "n1", "n2"), 1)}


class Native:
    def __init__(self) -> None:
        self.pauses: list[bool] = []
        self.is_stuck = False
        self.end, self.matched, self.is_connected = 5000, 4500, True

    def state(self) -> dict[str, Any]:
        return {"end_index": self.end}

    def followers(self) -> list[dict[str, Any]]:
        row = {"matched_index": self.matched, "is_connected": self.is_connected, "is_appending": True}
        return [{**row, "id": "n1"}, {**row, "id": "n2", "matched_index": self.matched - 1}]

    def pause(self, is_paused: bool) -> None:
        if self.is_stuck:
            raise Busy("stuck")
        self.pauses.append(is_paused)


class Node:
    """A leader of term 3, whose others answer as `answer` says; and their exchange with it."""

    def __init__(self, answer: int | None, preferred: frozenset[str] = frozenset()) -> None:
        self.settings = GroupSettings("g", "n0", PEERS, Path("/nowhere"), preferred_leaders=preferred)
        self.native: Any = Native()
        self.role, self.term, self.leader_id = Role.LEADER, 3, "n0"
        self.has_topics = True
        self.may_take_over = lambda: self.has_topics
        self.exchange: Any = self
        self.answer = answer
        self.asked: list[str] = []
        self.transfer = LeadTransfer(self)

    async def ask_to_lead(self, member: str, request: LeadershipTransferRequest, timeout_s: float) -> Message | None:
        assert (request.transfer_id, request.transferee_id, request.take_leadership_ledger_index) == ("n0", member, self.native.end)
        self.asked.append(member)
        return Message(code=self.answer, term=4) if self.answer is not None else None

    def is_whole(self) -> bool:
        return self.role is Role.LEADER

    def stand_at_once(self) -> None:
        self.role, self.term = Role.CANDIDATE, self.term + 1


def test_appends_go_on_when_the_lead_was_not_taken() -> None:
    async def test() -> None:
        for answer, code in ((None, Code.NETWORK_ERROR), (Code.TAKE_LEADERSHIP_FAILED, Code.TAKE_LEADERSHIP_FAILED)):
            node = Node(answer)
            assert await node.transfer.hand_over("n1", 3) == code
            assert node.native.pauses == [True, False]

    asyncio.run(test())


def test_appends_go_on_once_the_disk_lets_them() -> None:
    async def test() -> None:
        node = Node(None)
        answering = node.ask_to_lead

        async def stuck(*asked: Any) -> Message | None:
            node.native.is_stuck = True
            return await answering(*asked)

        node.ask_to_lead = stuck  # type: ignore[method-assign]
        assert await node.transfer.hand_over("n1", 3) == Code.NETWORK_ERROR
        assert node.native.pauses == [True]
        node.transfer.tick(0)
        node.native.is_stuck = False
        node.transfer.tick(20)
        node.transfer.tick(40)
        assert node.native.pauses == [True, False]

    asyncio.run(test())


def test_who_lacks_much_or_is_away_is_not_asked() -> None:
    async def test() -> None:
        node = Node(Code.SUCCESS)
        node.native.matched = 3000
        assert await node.transfer.hand_over("n1", 3) == Code.FALL_BEHIND_TOO_MUCH
        node.native.matched, node.native.is_connected = 5000, False
        assert await node.transfer.hand_over("n1", 3) == Code.FALL_BEHIND_TOO_MUCH
        assert await node.transfer.hand_over("n0", 3) == Code.UNKNOWN_MEMBER
        assert not node.asked and not node.native.pauses

    asyncio.run(test())


def test_a_lead_that_nobody_takes_is_offered_less_and_less() -> None:
    async def test() -> None:
        node, now, waited = Node(None, frozenset({"n1", "n2", "n9"})), 0, []
        for offers in range(1, 9):
            begun = now
            while len(node.asked) < offers:
                now += OFFER_MS
                node.transfer.tick(now)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            waited.append(now - begun)
        assert set(node.asked) == {"n1"}, "it lacks less"
        assert waited[1:4] == [RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS] and waited[-1] == RETRY_MAX_MS
        assert node.native.pauses == [True, False] * 8

    asyncio.run(test())


def test_a_preferred_leader_keeps_its_lead() -> None:
    node = Node(None, frozenset({"n0", "n1"}))
    node.transfer.tick(OFFER_MS)
    assert not node.asked


def test_who_takes_the_lead_over_has_all_of_it_first(monkeypatch: Any) -> None:
    monkeypatch.setattr(lead_transfer, "CATCH_UP_S", 0.03)
    monkeypatch.setattr(lead_transfer, "ELECTION_S", 0.03)

    async def test() -> None:
        node = Node(None)
        node.role, node.leader_id = Role.FOLLOWER, "n1"
        request = LeadershipTransferRequest(group="g", remote_id="n0", term=3, transfer_id="n1", transferee_id="n0")
        request.take_leadership_ledger_index = 5001
        assert await node.transfer._take_over(request) == Code.TAKE_LEADERSHIP_FAILED and node.term == 3
        request.transfer_id = "n2"
        assert await node.transfer._take_over(request) == Code.INCONSISTENT_LEADER
        request.transfer_id, request.take_leadership_ledger_index = "n1", 5000
        node.has_topics = False
        assert await node.transfer._take_over(request) == Code.TAKE_LEADERSHIP_FAILED and node.term == 3, "topics would be lost"
        node.has_topics = True
        assert await node.transfer._take_over(request) == Code.TAKE_LEADERSHIP_FAILED and node.term == 4, "nobody voted"
        assert await node.transfer._take_over(request) == Code.INCONSISTENT_TERM

    asyncio.run(test())
