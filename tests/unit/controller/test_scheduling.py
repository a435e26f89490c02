"""One decision after the other, elections that are due, and brokers that are told: with a log and a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from rocketpy._core.errors import StoreIOError, TimedOut
from rocketpy.controller import event_scheduler, role_notices
from rocketpy.controller.broker_lives import BrokerIdentity, BrokerLives
from rocketpy.controller.decisions import Decision, RoleNotice
from rocketpy.controller.event_scheduler import EventScheduler
from rocketpy.controller.events import AlterSyncStateSetEvent, ApplyBrokerIdEvent, ElectMasterEvent
from rocketpy.controller.inactive_masters import HEARD_WITHIN_MS, sets_without_master
from rocketpy.controller.replicas_info import ReplicasInfo
from rocketpy.controller.role_notices import RETRY_MS, TRIES_MAX, RoleNotices
from rocketpy.remoting.codes import ResponseCode
from rocketpy.remoting.headers import BrokerHeartbeatRequestHeader


class StandIn:
    """A log that does what the test says."""

    group, leader_id, leader_address = "g", "n0", "h:1"
    peers: Mapping[str, str] = {"n0": "h:1"}

    def __init__(self) -> None:
        self.is_leader = True
        self.term = 1
        self.entries: list[bytes] = []
        self.fault: Exception | None = None
        self.confirmed = 0
        self.doubt: Exception | None = None

    async def append(self, body: bytes) -> None:
        self.entries.append(body)
        await asyncio.sleep(0)
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault

    async def confirm(self) -> None:
        self.confirmed += 1
        if self.doubt is not None:
            raise self.doubt


def event(epoch: int = 0) -> Decision:
    return Decision(event=AlterSyncStateSetEvent("a", frozenset({epoch})))


def test_tables_are_settled_once_a_term_and_again_after_an_outcome_that_is_not_known() -> None:
    async def scenario() -> None:
        log = StandIn()
        scheduler = EventScheduler(log)
        assert not scheduler.is_settled
        assert (await scheduler.run(Decision)).code == ResponseCode.SUCCESS
        assert scheduler.is_settled
        await scheduler.run(event)
        assert [bool(each) for each in log.entries] == [False, True]
        log.fault = StoreIOError("the disk")
        failed = await scheduler.run(event)
        assert failed.code == ResponseCode.SYSTEM_ERROR
        assert failed.remark is not None and "the disk" in failed.remark
        assert not scheduler.is_settled
        await scheduler.run(event)
        assert [bool(each) for each in log.entries[2:]] == [True, False, True]
        log.term = 2
        assert not scheduler.is_settled
        assert await scheduler.settle()
        assert log.entries[-1] == b""

    asyncio.run(scenario())


def test_an_answer_without_an_event_needs_a_majority_that_says_who_leads() -> None:
    async def scenario() -> None:
        log = StandIn()
        scheduler = EventScheduler(log)
        assert await scheduler.settle()
        await scheduler.run(event)
        await scheduler.run(Decision, read_is_logged=True)
        assert log.confirmed == 0, "what the log took needs no more"
        assert (await scheduler.run(Decision)).code == ResponseCode.SUCCESS
        assert log.confirmed == 1
        log.doubt = TimedOut("nobody answers")
        doubtful = await scheduler.run(Decision)
        assert doubtful.code == ResponseCode.SYSTEM_ERROR
        assert doubtful.remark is not None and "nobody answers" in doubtful.remark
        log.is_leader = False
        assert (await scheduler.run(Decision)).code == ResponseCode.CONTROLLER_NOT_LEADER

    asyncio.run(scenario())


def test_decisions_are_made_one_after_the_other() -> None:
    async def scenario() -> None:
        log = StandIn()
        scheduler = EventScheduler(log)
        seen: list[int] = []

        def decide() -> Decision:
            seen.append(len(log.entries))
            return event(len(seen))

        await asyncio.gather(*(scheduler.run(decide) for _ in range(4)))
        assert seen == [1, 2, 3, 4]

    asyncio.run(scenario())


def test_who_does_not_lead_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        log = StandIn()
        scheduler = EventScheduler(log)
        log.is_leader = False
        assert (await scheduler.run(event)).code == ResponseCode.CONTROLLER_NOT_LEADER
        assert log.entries == []
        log.is_leader = True
        monkeypatch.setattr(event_scheduler, "WAITING_MAX", 1)
        waiting = asyncio.ensure_future(scheduler.run(event))
        await asyncio.sleep(0)
        assert (await scheduler.run(event)).code == ResponseCode.SYSTEM_BUSY
        await waiting

    asyncio.run(scenario())


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def hear(lives: BrokerLives, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        lives.hear(BrokerHeartbeatRequestHeader(cluster_name="c", broker_name="a", broker_addr="h", broker_id=broker_id), broker_id)


def led_set(in_sync: int = 1) -> ReplicasInfo:
    tables = ReplicasInfo()
    for broker_id in (1, 2):
        tables.apply(ApplyBrokerIdEvent("c", "a", f"h:{broker_id}", broker_id, ""))
    tables.apply(ElectMasterEvent("a", 1))
    tables.apply(AlterSyncStateSetEvent("a", frozenset(range(1, in_sync + 1))))
    return tables


def test_a_master_that_was_heard_and_is_down_is_followed_at_once_and_one_not_heard_yet_later() -> None:
    lives = BrokerLives(Clock())
    tables = led_set()
    assert not sets_without_master(tables, lives, HEARD_WITHIN_MS), "nobody lives"
    hear(lives, 2)
    assert not sets_without_master(tables, lives, HEARD_WITHIN_MS - 1)
    assert len(sets_without_master(tables, lives, HEARD_WITHIN_MS)) == 1
    hear(lives, 1)
    assert not sets_without_master(tables, lives, HEARD_WITHIN_MS)
    lives.connection_closed(1)
    assert len(sets_without_master(tables, lives, 0)) == 1


def test_a_set_without_master_gets_one_when_somebody_in_sync_is_back() -> None:
    lives = BrokerLives(Clock())
    tables = led_set()
    tables.apply(ElectMasterEvent("a"))
    hear(lives, 2)
    assert not sets_without_master(tables, lives, HEARD_WITHIN_MS)
    hear(lives, 1)
    assert len(sets_without_master(tables, lives, 0)) == 1


def notice(epoch: int) -> RoleNotice:
    return RoleNotice("c", "a", {1: "h:1", 2: "h:2", 3: "h:3"}, 1, "h:1", epoch, epoch, frozenset({1}))


def test_brokers_are_told_until_they_answer_die_or_something_newer_is_to_be_told() -> None:
    clock = Clock()
    lives = BrokerLives(clock)
    hear(lives, 1, 2)
    notices = RoleNotices(lives, clock)
    assert notices.wait_ms() is None
    notices.post(notice(1))
    one, two = notices.take_due(9)
    assert (one.address, two.address) == ("h:1", "h:2"), "3 is down"
    assert notices.take_due(9) == []
    notices.told(one)
    assert notices.failed(two)
    assert notices.take_due(9) == []
    assert notices.wait_ms() == RETRY_MS
    clock.now_ms += RETRY_MS
    assert notices.take_due(9) == [two]
    notices.post(notice(2))
    notices.post(notice(1))
    assert notices.failed(two), "a newer one has taken its place"
    newer = sorted(notices.take_due(9), key=lambda each: each.address)
    assert [(each.broker, each.notice.master_epoch) for each in newer] == [(BrokerIdentity("c", "a", each), 2) for each in (1, 2)]
    lives.connection_closed(1)
    assert not notices.failed(newer[0])
    for _ in range(TRIES_MAX - 1):
        assert notices.failed(newer[1])
        hear(lives, 2)
        clock.now_ms += RETRY_MS
        assert notices.take_due(9) == [newer[1]]
    assert not notices.failed(newer[1])
    assert notices.wait_ms() is None


def test_who_leads_no_more_tells_nobody() -> None:
    clock = Clock()
    lives = BrokerLives(clock)
    hear(lives, 1, 2)
    notices = RoleNotices(lives, clock)
    notices.post(notice(1))
    (one,) = notices.take_due(1)
    notices.clear()
    assert notices.failed(one), "given up without a word"
    assert (notices.take_due(9), notices.wait_ms()) == ([], None)


def test_no_more_are_told_at_once_than_asked_for() -> None:
    lives = BrokerLives(Clock())
    hear(lives, 1, 2, 3)
    notices = role_notices.RoleNotices(lives, Clock())
    notices.post(notice(1))
    assert [len(notices.take_due(2)), len(notices.take_due(2))] == [2, 1]
