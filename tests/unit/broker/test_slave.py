"""A slave in front of its master: what it copies, what it answers, and how the master sends consumers to it and back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .running import Peer, Running, broker_config, eventually, run, running

CONSUMER_OFFSET = {"consumerGroup": "g", "topic": "t", "queueId": 0}


@dataclass
class Pair:
    """A master and its slave, their clients, and the slave's directory."""

    at: Running
    slave_service: BrokerService
    master: Peer
    slave: Peer
    slave_home: Path

    async def copy_tables(self) -> None:
        """What the slave does every few seconds."""
        synchronize = self.slave_service._synchronize
        assert synchronize is not None
        await synchronize.run_once()

    async def in_sync(self) -> None:
        """Until the slave acknowledges the master's whole log."""
        for _ in range(2000):
            status = await self.master.value(RequestCode.GET_BROKER_HA_STATUS)
            rows = status["haConnectionInfo"]
            if rows and rows[0]["slaveAckOffset"] == status["masterCommitLogMaxOffset"]:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"the slave does not follow: {status}")


@asynccontextmanager
async def pair(home: Path, master: dict[str, str] | None = None, slave: dict[str, str] | None = None) -> AsyncIterator[Pair]:
    async with running(home / "master", haListenPort="0", brokerRole="SYNC_MASTER", slaveReadEnable="true", **(master or {})) as at:
        ha_port = at.broker.parts.ha.port if at.broker.parts else 0
        settings = {
            "brokerRole": "SLAVE", "brokerId": "1", "namesrvAddr": f"127.0.0.1:{at.namesrv.port}", "slaveReadEnable": "true",
            "haMasterAddress": f"127.0.0.1:{ha_port}",
        }  # fmt: skip
        service = BrokerService(broker_config(home / "slave", **settings, **(slave or {})))
        await service.start()
        at.peers.append(Peer(service.address))
        try:
            made = Pair(at, service, at.peer(), at.peers[0], home / "slave" / "store")
            await made.in_sync()
            yield made
        finally:
            await service.stop()


def test_everything_that_exists_is_copied_as_soon_as_the_master_is_known(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "master", haListenPort="0") as at:
            master = at.peer()
            topic = {"topic": "t", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
            assert (await master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic | {"order": False, "defaultTopic": "TBW102"})).code == 0
            assert (await master.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", "retryMaxTimes": 3})).code == 0
            mode = {"topic": "t", "consumerGroup": "g", "mode": "PULL", "popShareQueueNum": 4}
            assert (await master.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode)).code == 0
            assert (await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 7})).code == 0
            settings = {"brokerRole": "SLAVE", "brokerId": "1", "namesrvAddr": f"127.0.0.1:{at.namesrv.port}"}
            slave = BrokerService(broker_config(tmp_path / "slave", **settings))
            await slave.start()
            at.peers.append(peer := Peer(slave.address))
            try:
                loop = asyncio.get_running_loop()
                started = loop.time()
                parts = slave.parts
                assert parts is not None
                await eventually(lambda: "t" in parts.topics and "g" in parts.groups, "the copy")
                assert loop.time() - started < 2, "it waited for its period"
                await eventually(lambda: parts.request_modes.to_json() == at.broker.parts.request_modes.to_json())  # type: ignore[union-attr]
                assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "7"}
                assert (await peer.value(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"}))["retryMaxTimes"] == 3
            finally:
                await slave.stop()

    run(test)


def test_offsets_committed_at_a_slave_stay_when_the_master_knows_older_ones(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")  # makes the group
            await both.copy_tables()
            assert (await both.slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 9})).code == 0
            assert (await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 5})).code == 0
            await both.copy_tables()
            assert (await both.slave.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "9"}
            await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 12})
            await both.copy_tables()
            assert (await both.slave.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "12"}

    run(test)


def test_a_slave_refuses_sends_and_serves_the_messages_it_was_sent(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            assert (await both.master.send("t", b"one")).code == 0
            await both.copy_tables()
            refused = await both.slave.send("t", b"two")
            assert refused.code == ResponseCode.SYSTEM_BUSY and (refused.remark or "").startswith("[REJECTREQUEST]")
            assert b"one" in (await both.slave.pull("g", "t")).body

    run(test)


def test_a_busy_master_sends_consumers_to_the_slave_and_takes_them_back(tmp_path: Path) -> None:
    """Busy is: further behind than accessMessageInMemoryMaxRatio of memory holds. 0 % makes every message old."""

    async def test() -> None:
        async with pair(tmp_path, master={"accessMessageInMemoryMaxRatio": "0"}) as both:
            for number in range(3):
                await both.master.send("t", b"%d" % number)
            behind = await both.master.pull("g", "t", 0, 0, maxMsgNums=1)
            assert behind.code == 0 and behind.fields["suggestWhichBrokerId"] == "1", "whichBrokerWhenConsumeSlowly"
            close = await both.master.pull("g", "t", 0, 3)
            assert close.code == ResponseCode.PULL_NOT_FOUND and close.fields["suggestWhichBrokerId"] == "0"
            await both.copy_tables()
            back = await both.slave.pull("g", "t", 0, 0, maxMsgNums=1)
            assert back.code == 0 and back.fields["suggestWhichBrokerId"] == "0", "what the slave has in memory the master has too"

    run(test)


def test_with_too_few_replicas_in_sync_nothing_is_stored(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, master={"minInSyncReplicas": "2"}) as both:
            assert (await both.master.send("t", b"one")).code == 0
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"minInSyncReplicas=3\n")).code == 0
            refused = await both.master.send("t", b"two")
            assert refused.code == ResponseCode.SYSTEM_ERROR and refused.remark == "in-sync replicas not enough"
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"minInSyncReplicas=1\n")).code == 0
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"inSyncReplicas=3\n")).code == 0
            alone = await both.master.send("t", b"three")
            assert alone.code == ResponseCode.SLAVE_NOT_AVAILABLE and "inSyncReplicas" in (alone.remark or "")
            assert alone.fields["queueOffset"] == "1", "the refused one was not stored, this one was"

    run(test)


def test_lag_and_rate_of_replication_are_in_the_runtime_info_of_both(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t", b"x" * 1000)
            await both.in_sync()
            ours = (await both.master.value(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            theirs = (await both.slave.value(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert ours["haSlaves"] == "1" and ours["haSlaveLagBytes"] == "0" and int(ours["haBytesSent"]) > 1000
            assert int(ours["haAcks"]) >= 1 and "haTransferredByteInSecond" in ours
            assert theirs["haSlaveState"] == "TRANSFER" and theirs["haSlaveBehindBytes"] == "0" and "haTransferredByteInSecond" in theirs
            status = await both.slave.value(RequestCode.GET_BROKER_HA_STATUS)
            assert not status["master"] and status["haClientRuntimeInfo"]["maxOffset"] == status["masterCommitLogMaxOffset"]
            assert status["haClientRuntimeInfo"]["masterAddr"].startswith("127.0.0.1:")

    run(test)


def test_a_slaves_checkpoint_follows_what_it_was_sent(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, slave={"flushIntervalCommitLog": "20", "flushCommitLogThoroughInterval": "50"}) as both:
            await both.master.send("t")
            await both.in_sync()

            def physical_ms() -> int:
                return int.from_bytes((both.slave_home / "checkpoint").read_bytes()[:8], "big")

            await both.master.send("t")
            await eventually(lambda: physical_ms() > 1_600_000_000_000, "the slave's checkpoint")

    run(test)


def test_timers_of_which_there_are_none_are_refused_by_their_name(tmp_path: Path) -> None:
    """What a slave of RocketMQ with a timer wheel asks its master for: it logs the refusal and goes on."""

    async def test() -> None:
        async with running(tmp_path) as at:
            for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS):
                answer = await at.peer().ask(code)
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and "timers" in (answer.remark or "")
            delays = await at.peer().ask(RequestCode.GET_ALL_DELAY_OFFSET)
            assert delays.code == 0 and json.loads(delays.body or b"{}").get("offsetTable", {}) == {}

    run(test)
