"""Two brokers behind a controller of the test's own, in this process: what runs, what is served and what is known changes with the role."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpy.broker.parts import now_ms
from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError
from tests.processes import PATIENCE_S

from .replicas import GROUP, TOPIC, Both, both_started, in_thread
from .running import Peer, be_before, broker_config, eventually, run, run_in_time

TOPIC_FIELDS = {
    "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
    "order": False,
}  # fmt: skip


def test_roles_change_back_and_forth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with both_started(tmp_path, monkeypatch) as both:
            one, two = both.replicas
            assert (one.broker_id, two.broker_id) == (1, 2)
            bodies = []
            for turn, (master, slave) in enumerate([(one, two), (two, one), (one, two)]):
                if turn:
                    await both.elect(master)
                for number in range(3):
                    bodies.append(f"{turn} {number}".encode())
                    assert (await master.peer.send(TOPIC, bodies[-1])).code == 0, "both hold it"
                assert (await slave.peer.send(TOPIC)).code != 0
                assert (master.facts["brokerRole"], slave.facts["brokerRole"]) == ("SYNC_MASTER", "SLAVE")
                assert master.facts["brokerActive"] == "true" and slave.facts["brokerActive"] == "false"
                await eventually(
                    lambda master=master, slave=slave: _ids(both) == {0: master.service.address, slave.broker_id: slave.service.address},
                    "the name server's table",
                )
                await both.in_sync()
                for each in (master, slave):
                    await eventually(lambda each=each: each.has(len(bodies)), "topic and queue")
                    answer = await each.peer.pull(GROUP, TOPIC)
                    assert all(body in answer.body for body in bodies), turn
            epochs = (await two.peer.value(RequestCode.GET_BROKER_EPOCH_CACHE))["epochList"]
            assert [entry["epoch"] for entry in epochs] == [1, 2, 3]

    run(test)


def _ids(both: Both) -> dict[int, str]:
    """Whom the name server knows by which id."""
    data = both.namesrv.routes.cluster_info()["brokerAddrTable"].get("broker-a", {})
    return {int(broker_id): address for broker_id, address in data.get("brokerAddrs", {}).items()}


def test_delayed_messages_go_on_at_the_new_master_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not due before the election: positions are copied now and then, and what was delivered since comes once more."""

    async def test(home: Path, factor: int) -> None:
        monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 0.1)
        async with both_started(home, monkeypatch, messageDelayLevel=f"{factor}s") as both:
            one, two = both.replicas
            assert (await one.peer.send(TOPIC, b"plain")).code == 0
            due_ms = now_ms() + 1000 * factor
            assert (await one.peer.send(TOPIC, b"late", properties="DELAY\x011\x02")).code == 0
            await both.elect(two)
            be_before(due_ms)
            await eventually(lambda: two.count() == 2, "the delivery")
            first, second = one.service.parts, two.service.parts
            assert first is not None and second is not None
            await eventually(lambda: first.delay_offsets.offsets() == second.delay_offsets.offsets() == {1: 1}, "the copied position")
            await both.elect(one)
            await eventually(lambda: one.count() == 2, "the queue of the first one")
            await both.in_sync()
            assert one.count() == 2

    run_in_time(test, tmp_path)


def test_consumer_offsets_never_go_back_with_the_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old master is there still and has heard of more than was copied."""

    async def test() -> None:
        monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 3600.0)
        async with both_started(tmp_path, monkeypatch) as both:
            one, two = both.replicas
            for _ in range(5):
                assert (await one.peer.send(TOPIC)).code == 0
            await one.peer.heartbeat("client", GROUP, TOPIC)
            fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
            assert (await one.peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**fields, "commitOffset": "4"})).code == 0
            await both.elect(two)
            assert (await two.peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)).fields["offset"] == "4"

    run(test)


def test_a_master_that_was_ahead_of_its_successor_opens_anew_without_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with both_started(tmp_path, monkeypatch, allAckInSyncStateSet="false") as both:
            one, two = both.replicas
            assert (await one.peer.send(TOPIC, b"both")).code == 0
            await eventually(lambda: two.has(1), "the copy")
            assert two.service.parts is not None
            monkeypatch.setattr(two.service.parts.ha, "follow", lambda address: None)
            await in_thread(two.service.parts.ha._slave.let_go)
            for number in range(3):
                assert (await one.peer.send(TOPIC, f"alone {number}".encode())).code == 0
            assert one.count() == 4
            port, before = one.service.port, one.service.parts
            await both.elect(two)
            assert (await two.peer.send(TOPIC, b"after")).code == 0
            await eventually(lambda: one.service.parts not in (None, before), "a store that was opened again")
            await eventually(lambda: one.has(2), "the successor's messages")
            answer = await one.peer.pull(GROUP, TOPIC)
            assert b"both" in answer.body and b"after" in answer.body and b"alone" not in answer.body
            assert one.service.port == port
            await both.in_sync()

    run(test)


def test_a_topic_is_acknowledged_when_the_slave_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 3600.0)
        async with both_started(tmp_path, monkeypatch) as both:
            one, two = both.replicas
            assert two.service.parts is not None
            made = {**TOPIC_FIELDS, "topic": "made"}
            assert (await one.peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, made)).code == 0
            assert "made" in two.service.parts.topics
            assert (await one.peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "grouped"})).code == 0
            assert "grouped" in two.service.parts.groups

            async def refuses(*, with_users: bool) -> None:
                raise CommandError(ResponseCode.SYSTEM_ERROR, "not now")

            monkeypatch.setattr(two.service._synchronize, "catch_up", refuses)
            answer = await one.peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**made, "topic": "alone"})
            assert answer.code == ResponseCode.SYSTEM_ERROR and "no replica in sync has it" in str(answer.remark)
            one.service.config.update({"metadataAckMillis": "0"})
            assert (await one.peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**made, "topic": "other"})).code == 0

    run(test)


def test_a_master_that_hears_nobody_refuses_sends_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        quick = {"controllerLeaseMillis": "1500", "checkSyncStateSetPeriod": "100"}
        async with both_started(tmp_path, monkeypatch, allAckInSyncStateSet="false", **quick) as both:
            one, two = both.replicas
            assert (await one.peer.send(TOPIC)).code == 0
            both.controller.is_away = True
            await two.service.stop()
            await eventually(lambda: one.facts["leaseLeftMillis"] == "0", "the end of the lease")
            answer = await one.peer.send(TOPIC)
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE and "controller" in str(answer.remark), answer.remark
            both.controller.is_away = False
            one.hint()
            await eventually(lambda: both.controller.known.ids == {1}, "the smaller set")
            await eventually(lambda: int(one.facts["leaseLeftMillis"]) > 0, "the lease")
            async with asyncio.timeout(PATIENCE_S):  # the log hears of it with the next renewal
                while (answer := await one.peer.send(TOPIC)).code != 0:
                    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, answer.remark

    run(test)


def test_a_stranger_elects_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with both_started(tmp_path, monkeypatch) as both:
            one = both.replicas[0]
            notice = {"masterAddress": "127.0.0.1:1", "masterEpoch": "999", "syncStateSetEpoch": "999", "masterBrokerId": "7"}
            assert (await one.peer.ask(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, notice, {"syncStateSet": [7]})).code == 0
            ha = {"masterHaAddress": "127.0.0.1:1", "masterAddress": "127.0.0.1:1"}
            assert (await both.replicas[1].peer.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, ha)).code == 0
            assert (await one.peer.send(TOPIC)).code == 0
            await both.in_sync()

    run(test)


def test_without_a_controller_there_is_neither_an_epoch_nor_a_notice(tmp_path: Path) -> None:
    async def test() -> None:
        service = BrokerService(broker_config(tmp_path))
        await service.start()
        peer = Peer(service.address)
        try:
            assert (await peer.ask(RequestCode.GET_BROKER_EPOCH_CACHE)).code == ResponseCode.SYSTEM_ERROR
            assert (await peer.ask(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)).code == 0
        finally:
            await peer.client.stop()
            await service.stop()

    run(test)
