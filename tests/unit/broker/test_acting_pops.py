"""A slave whose master was stopped serves pops and acks: their records go to another master, which brings what is not acked. The master
that returns believes no offsets of what was popped there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.remoting import Command
from rocketpy._core.store import decode_message
from rocketpy.broker import escape_bridge, foreign_messages, housekeeping, names
from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .running import Peer, broker_config, eventually, run
from .test_acting_master import SETTINGS, Group, group

GROUP = "g"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "RETRY_TOPICS_S", 0.02)
    monkeypatch.setattr(housekeeping, "FOREIGN_MESSAGES_S", 0.02)
    monkeypatch.setattr(foreign_messages, "ROUTE_MS", 0)
    for name in ("REFUSED_S", "ROUTE_MS", "NO_ROUTE_MS", "FAILING_MS"):
        monkeypatch.setattr(escape_bridge, name, 0)


async def pop(peer: Peer, count: int = 32, invisible_ms: int = 60_000, **changes: Any) -> Command:
    header = {
        "consumerGroup": GROUP, "topic": "t", "queueId": -1, "maxMsgNums": count, "invisibleTime": invisible_ms, "pollTime": 0,
        "bornTime": 0, "initMode": 0, "expType": "TAG", "exp": "*", "order": False, **changes,
    }  # fmt: skip
    return await peer.ask(RequestCode.POP_MESSAGE, header)


def bodies(answer: Command) -> list[str]:
    found, rest = [], answer.body
    while rest:
        size = int.from_bytes(rest[:4], "big")
        found.append(decode_message(rest[:size]).body.decode())
        rest = rest[size:]
    return found


async def ack(peer: Peer, popped: Command, offset: int, code: int = RequestCode.ACK_MESSAGE, **changes: Any) -> Command:
    fields = popped.fields
    start = fields["startOffsetInfo"].split(" ")[2]
    handle = f"{start} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 broker-a 0 {offset}"
    return await peer.ask(code, {"consumerGroup": GROUP, "topic": "t", "queueId": 0, "offset": offset, "extraInfo": handle, **changes})


def sum_of_revive(three: Group, service: BrokerService) -> int:
    return sum(three.end(service, names.REVIVE_TOPIC_PREFIX + "DefaultCluster", queue) for queue in range(8))


async def give_messages(three: Group, count: int) -> Peer:
    """The slave has so many in one queue of t, with its group and retry topic; whoever talks to the master."""
    peer = Peer(three.master.address)
    for number in range(count):
        assert (await peer.send("t", f"m{number}".encode())).code == 0
    assert (await pop(three.other)).code in (0, ResponseCode.TOPIC_NOT_EXIST)
    of_slave = three.of(three.slave)
    await eventually(lambda: three.end(three.slave) == count and "t" in of_slave.topics)
    return peer


async def stop_master(three: Group, peer: Peer) -> Peer:
    """Who talks to the slave that stands in now."""
    await peer.client.stop()
    await three.master.stop()
    await eventually(lambda: three.of(three.slave).acting.is_acting)
    return Peer(three.slave.address)


def test_what_the_slave_gives_out_and_is_not_acked_comes_by_another_master(tmp_path: Path) -> None:
    async def test() -> None:
        async with group(tmp_path) as three:
            assert (await three.other.send("t", b"there is one")).code == 0
            peer = await give_messages(three, 6)
            assert bodies(await pop(peer, 1)) == ["m0"]
            of_slave = three.of(three.slave)
            await eventually(lambda: "%RETRY%g_t" in of_slave.topics and of_slave.offsets.query(GROUP, "t", 0) == 1)
            slave = await stop_master(three, peer)
            end = three.of(three.slave).store.stats()["commit_log_max_offset"]
            popped = await pop(slave, 4, 1000)
            assert popped.code == 0 and bodies(popped) == ["m1", "m2", "m3", "m4"], popped.remark
            assert sum_of_revive(three, three.at.broker) == 2, "of the one popped there, and of these"
            assert (await ack(slave, popped, 1)).code == 0
            changed = await ack(slave, popped, 2, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=60_000)
            assert changed.code == 0 and changed.fields["invisibleTime"] == "60000"
            batch = {
                "brokerName": "broker-a",
                "acks": [
                    {
                        "c": GROUP, "t": "t", "r": "0", "so": 1, "q": 0, "rq": int(popped.fields["reviveQid"]),
                        "pt": int(popped.fields["popTime"]), "it": 1000, "b": "BA==",
                    }
                ],
            }  # fmt: skip
            assert (await slave.ask(RequestCode.BATCH_ACK_MESSAGE, body=batch)).code == 0
            assert sum_of_revive(three, three.at.broker) == 6
            await eventually(lambda: three.end(three.at.broker, "%RETRY%g_t") == 1)
            again = await pop(three.other)
            assert bodies(again) == ["m4"]
            assert three.of(three.slave).store.stats()["commit_log_max_offset"] == end, "nothing is appended to a slave's log"
            await slave.client.stop()
            master = BrokerService(broker_config(tmp_path / "master", **three.settings))
            await master.start()
            try:
                assert "%RETRY%g_t" in three.of(master).topics and three.of(master).offsets.query(GROUP, "t", 0) == 1
                peer = Peer(master.address)
                assert bodies(await pop(peer)) == ["m1", "m2", "m3", "m4", "m5"], "once more: its log may not be what the slave's is"
                await peer.client.stop()
            finally:
                await master.stop()

    run(test)


def test_what_the_master_gave_out_may_be_acked_at_the_slave(tmp_path: Path) -> None:
    """Both have the checkpoint; the slave passes on only what is not acked, and neither brings the other one again."""

    async def test() -> None:
        async with group(tmp_path) as three:
            assert (await three.other.send("t", b"there is one")).code == 0
            peer = await give_messages(three, 2)
            popped = await pop(peer, 2, 3000)
            assert bodies(popped) == ["m0", "m1"]
            of_slave = three.of(three.slave)
            await eventually(lambda: GROUP in of_slave.groups and "%RETRY%g_t" in of_slave.topics)
            await eventually(lambda: sum_of_revive(three, three.slave) == 1)
            slave = await stop_master(three, peer)
            assert (await ack(slave, popped, 0)).code == 0
            await eventually(lambda: three.end(three.at.broker, "%RETRY%g_t") == 1)
            assert bodies(await pop(three.other)) == ["m1"]
            revive = names.REVIVE_TOPIC_PREFIX + "DefaultCluster"
            queue = int(popped.fields["reviveQid"])
            await eventually(lambda: three.of(three.slave).offsets.query(names.REVIVE_GROUP, revive, queue) == 0)
            await slave.client.stop()
            master = BrokerService(broker_config(tmp_path / "master", **three.settings))
            await master.start()
            try:
                assert three.of(master).offsets.query(names.REVIVE_GROUP, revive, queue) == 0
            finally:
                await master.stop()

    run(test)


def test_without_another_master_that_has_topic_and_group_pops_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with group(tmp_path, autoCreateTopicEnable="false", autoCreateSubscriptionGroup="false") as three:
            slave = await stop_master(three, await give_messages(three, 1))
            assert (await three.other.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body={"groupName": GROUP})).code == 0
            refused = await pop(slave)
            assert refused.code == ResponseCode.SYSTEM_ERROR and "no other master took the checkpoint" in (refused.remark or "")
            assert "no other master has topic t and group g" in caplog.text
            assert three.of(three.slave).offsets.query(GROUP, "t", 0) <= 0
            await three.make_topic()
            assert (await pop(slave, consumerGroup="strange")).code == ResponseCode.SYSTEM_ERROR, (
                "it would drop a strange group's checkpoint"
            )
            assert bodies(await pop(slave)) == ["m0"]
            ordered = await pop(slave, order=True, consumerGroup="in-order")
            assert bodies(ordered) == ["m0"] and ordered.fields["reviveQid"] == "999"
            await slave.client.stop()

    run(test)


def test_a_slave_whose_master_is_there_refuses_them_all(tmp_path: Path) -> None:
    async def test() -> None:
        async with group(tmp_path) as three:
            await give_messages(three, 1)
            slave = Peer(three.slave.address)
            acked = {"consumerGroup": GROUP, "topic": "t", "queueId": 0, "offset": 0, "extraInfo": "0 1 60000 0 0 broker-a 0 0"}
            for answer in (await pop(slave), await slave.ask(RequestCode.ACK_MESSAGE, acked)):
                assert answer.code == ResponseCode.SYSTEM_ERROR and "is a slave" in (answer.remark or ""), answer
            await slave.client.stop()

    run(test)


def test_slaves_that_nobody_may_read_give_what_they_popped_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To another master, for the revive group; and only while they stand in."""
    monkeypatch.setitem(SETTINGS, "slaveReadEnable", "false")

    async def test() -> None:
        async with group(tmp_path) as three:
            assert (await three.other.send("t", b"there is one")).code == 0
            peer = await give_messages(three, 2)
            of_slave = Peer(three.slave.address)

            async def pull(count: int) -> int:
                return (await of_slave.pull(names.REVIVE_GROUP, "t", 0, 0, maxMsgNums=count)).code

            assert await pull(1) == ResponseCode.SYSTEM_BUSY, "its master is there"
            await of_slave.client.stop()
            of_slave = await stop_master(three, peer)
            assert [await pull(count) for count in (1, 2)] == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY]
            assert (await of_slave.pull(GROUP, "t", 0, 0, maxMsgNums=1)).code == ResponseCode.SYSTEM_BUSY
            await of_slave.client.stop()

    run(test)
