"""A slave in front of its master: what it copies, what it answers, and how the master sends consumers to it and back."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

import rocketpy.broker.housekeeping
from rocketpy.broker.periodic import every
from rocketpy.broker.service import BrokerService
from rocketpy.broker.slave_synchronize import CopiedState
from rocketpy.broker.timers import WHEEL_TOPIC
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .pair import pair
from .running import Peer, broker_config, eventually, run, running
from .test_metrics import PROM, scrape, value

CONSUMER_OFFSET = {"consumerGroup": "g", "topic": "t", "queueId": 0}
TOPIC = {
    "topic": "t", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip


def test_everything_that_exists_is_copied_as_soon_as_the_master_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with running(tmp_path / "master", haListenPort="0") as at:
            master = at.peer()
            assert (await master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
            assert (await master.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", "retryMaxTimes": 3})).code == 0
            mode = {"topic": "t", "consumerGroup": "g", "mode": "PULL", "popShareQueueNum": 4}
            assert (await master.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode)).code == 0
            assert (await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 7})).code == 0
            settings = {"brokerRole": "SLAVE", "brokerId": "1", "namesrvAddr": f"127.0.0.1:{at.namesrv.port}"}
            slave = BrokerService(broker_config(tmp_path / "slave", **settings))
            await slave.start()
            at.peers.append(peer := Peer(slave.address))
            try:
                parts = slave.parts
                assert parts is not None
                await eventually(lambda: "t" in parts.topics and "g" in parts.groups, "the copy")
                await eventually(lambda: parts.request_modes.to_json() == at.broker.parts.request_modes.to_json())  # type: ignore[union-attr]
                assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "7"}
                assert (await peer.value(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"}))["retryMaxTimes"] == 3
            finally:
                await slave.stop()

    run(test)


@pytest.mark.parametrize("force", ["true", "false"])
def test_a_slave_that_registered_before_its_master_asks_for_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: str) -> None:
    """With haMasterAddress it has a connection before any name server knows the master; with forceRegister=false it is known well already,
    and the master comes with the answer to a registration only."""
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with running(tmp_path / "master", haListenPort="0") as at:
            master, parts = at.peer(), at.broker.parts
            assert parts is not None and (await master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
            name_server = f"127.0.0.1:{at.namesrv.port}"
            known = {"brokerName": "broker-a", "brokerAddr": parts.address, "clusterName": "DefaultCluster", "brokerId": 0}
            assert (await master.ask(RequestCode.UNREGISTER_BROKER, known, address=name_server)).code == 0
            settings = {"brokerRole": "SLAVE", "brokerId": "1", "namesrvAddr": name_server, "haMasterAddress": f"127.0.0.1:{parts.ha.port}"}
            slave = BrokerService(broker_config(tmp_path / "slave", forceRegister=force, **settings))
            await slave.start()
            try:
                assert slave.parts is not None and slave._synchronize is not None and slave._housekeeping is not None
                ha, topics = slave.parts.ha, slave.parts.topics
                await eventually(lambda: ha.connection() is not None and not ha.is_stranger, "the transfer")
                assert slave._synchronize.master_address is None
                await parts.registration.register_all()
                await slave._housekeeping.synchronize_with_master()
                assert "t" in topics
            finally:
                await slave.stop()

    run(test)


def test_a_slave_copies_as_soon_as_it_has_found_its_masters_log_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with pair(tmp_path) as both:
            assert (await both.master.send("t")).code == 0
            await both.in_sync()
            slave = both.slave_service
            assert slave.parts is not None and slave._synchronize is not None
            ha, topics, synchronize = slave.parts.ha, slave.parts.topics, slave._synchronize
            address = ha.counters()["haMasterAddress"]
            both.lead_slave_to("127.0.0.1:1")
            await eventually(lambda: ha.is_stranger, "a master that is away")
            synchronize.is_due.set()
            await eventually(lambda: synchronize._is_waiting, "a round that copies nothing")
            assert (await both.master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC | {"topic": "new"})).code == 0
            assert "new" not in topics
            both.lead_slave_to(address)
            await eventually(lambda: "new" in topics, "the copy")

    run(test)


def test_a_slave_takes_no_topic_for_unused_that_it_has_not_heard_of_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.copy_tables()
            slave = both.slave_service
            assert slave.parts is not None and slave._synchronize is not None
            topics, store = slave.parts.topics, slave.parts.store
            slave.parts.ha.unwatch()  # its first message would bring the topic
            assert (await both.master.send("new")).code == 0
            await both.in_sync()
            assert "new" not in topics and ("new", 0) in store.queues()
            assert (await both.slave.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
            assert "new" in topics and ("new", 0) in store.queues()
            assert (await both.master.send("newer")).code == 0
            await both.in_sync()
            slave._synchronize.master_address = "127.0.0.1:1"
            refused = await both.slave.ask(RequestCode.CLEAN_UNUSED_TOPIC)
            assert refused.code == ResponseCode.SYSTEM_ERROR and "127.0.0.1:1" in str(refused.remark)
            assert ("newer", 0) in store.queues()

    run(test)


def test_rounds_of_copying_follow_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is older than one already taken would look like offsets that the master has set back."""
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.copy_tables()
            synchronize = both.slave_service._synchronize
            assert synchronize is not None
            under_way, most, real = 0, 0, synchronize._copy

            async def counted(*row: Any) -> bool:
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                try:
                    return await real(*row)
                finally:
                    under_way -= 1

            monkeypatch.setattr(synchronize, "_copy", counted)
            await asyncio.gather(synchronize.run_once(), synchronize.catch_up())
            assert most == 1

    run(test)


def test_the_version_of_offsets_is_copied_when_no_offset_has_moved(tmp_path: Path) -> None:
    """Consumers commit the same offset again and again, and versions go on. A master of RocketMQ that comes back takes a slave's offsets
    only where their version is not older than its own."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            assert both.at.broker.parts is not None
            await both.copy_tables()
            both.at.broker.parts.offsets.assign_version(both.at.broker.parts.offsets.version.next())
            await both.copy_tables()
            versions = [(await peer.value(RequestCode.GET_ALL_CONSUMER_OFFSET))["dataVersion"] for peer in (both.master, both.slave)]
            assert versions[0] == versions[1] and versions[0]["counter"] == 1

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


def test_an_offset_that_is_set_back_at_a_living_master_is_set_back_at_its_slave(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")  # makes the group
            for offset, known in ((9, "9"), (2, "2")):
                assert (await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": offset})).code == 0
                await both.copy_tables()
                assert (await both.slave.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": known}

    run(test)


def test_offsets_of_a_group_that_is_deleted_at_a_living_master_go_at_its_slave(tmp_path: Path) -> None:
    """The master would take them back from there after its next start."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")  # makes the group
            assert (await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 1})).code == 0
            await both.copy_tables()
            offsets = both.slave_service.parts.offsets  # type: ignore[union-attr]
            assert offsets.of("g", "t") == {0: 1}
            gone = {"groupName": "g", "cleanOffset": True}
            assert (await both.master.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, gone)).code == 0
            await both.copy_tables()
            assert offsets.of("g", "t") == {}

    run(test)


def test_a_slave_answers_the_deletion_of_a_topic_and_leaves_it_to_its_master(tmp_path: Path) -> None:
    """`mqadmin deleteSubGroup -c` sends that of the group's retry topic to every broker of the cluster, in any order, until one refuses."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("Doomed")  # makes it
            await both.copy_tables()
            assert both.slave_service.parts is not None
            topics = both.slave_service.parts.topics
            assert (await both.slave.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Doomed"})).code == 0 and "Doomed" in topics
            assert (await both.slave.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TBW102"})).code == ResponseCode.INVALID_PARAMETER
            assert (await both.master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Doomed"})).code == 0
            await both.copy_tables()
            assert "Doomed" not in topics

    run(test)


def test_a_master_that_was_away_sets_no_offset_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.master.pull("g", "t")
            await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 9})
            await both.copy_tables()
            ha = both.slave_service.parts.ha  # type: ignore[union-attr]
            address, first = ha.counters()["haMasterAddress"], ha.connection()
            for other in ("127.0.0.1:1", address):  # as when the master starts anew
                both.lead_slave_to(other)
                await eventually(lambda other=other: (ha.connection() is not None) == (other == address), "the slave's connection")
                await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"commitOffset": 2})
            assert first is not None and ha.connection() == first + 1
            await both.copy_tables()
            assert (await both.slave.ask(RequestCode.QUERY_CONSUMER_OFFSET, CONSUMER_OFFSET)).fields == {"offset": "9"}

    run(test)


def test_offsets_of_a_topic_that_was_deleted_while_the_slave_was_away_go_at_it(tmp_path: Path) -> None:
    """Made anew, the topic would have its first messages passed over by who asks the slave, and by the master after its next start."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            for topic in ("t", "other"):
                await both.master.send(topic)
                await both.master.pull("g", topic)
                await both.master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CONSUMER_OFFSET | {"topic": topic, "commitOffset": 1})
            await both.copy_tables()
            parts = both.slave_service.parts
            assert parts is not None and parts.offsets.of("g", "t") == {0: 1}
            address = parts.ha.counters()["haMasterAddress"]
            both.lead_slave_to("127.0.0.1:1")
            await eventually(lambda: parts.ha.connection() is None, "the end of the connection")
            assert (await both.master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})).code == 0
            both.lead_slave_to(address)
            await eventually(lambda: parts.ha.connection() is not None, "the next connection")
            await both.copy_tables()
            assert "t" not in parts.topics and parts.offsets.of("g", "t") == {}
            assert parts.offsets.of("g", "other") == {0: 1}

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
            assert (await both.master.send("t", b"not waiting", "WAIT\x01false\x02")).code == 0, "who does not wait for slaves needs none"
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"minInSyncReplicas=1\n")).code == 0
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"inSyncReplicas=3\n")).code == 0
            alone = await both.master.send("t", b"three")
            assert alone.code == ResponseCode.SLAVE_NOT_AVAILABLE and "inSyncReplicas" in (alone.remark or "")
            assert alone.fields["queueOffset"] == "2", "the refused one was not stored, this one was"

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


def test_what_a_slave_is_sent_counts_as_put_as_clusterlist_shows_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            for _ in range(3):
                assert (await both.master.send("t")).code == 0
            await both.in_sync()
            stats = both.slave_service.parts.stats  # type: ignore[union-attr]
            await eventually(lambda: stats.totals()["messages_put"] == 3)
            ours = (await both.master.value(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            theirs = (await both.slave.value(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert theirs["putMessageTimesTotal"] == ours["putMessageTimesTotal"] == ours["msgPutTotalTodayNow"] == "3"
            assert theirs["msgPutTotalTodayNow"] == "0", "no client sent it there"
            assert theirs["putMessageSizeTotal"] == theirs["commitLogMaxOffset"]
            stats.sample_rates()
            await eventually(lambda: stats.rate("messages_put", 1) is not None, "two samples")
            stats.sample_series()
            assert stats.series("BROKER_PUT_NUMS", "DefaultCluster") is None, "no client sent it here"

    run(test)


def test_why_no_slave_is_there_is_in_the_runtime_info(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            ha = both.slave_service.parts.ha  # type: ignore[union-attr]
            both.lead_slave_to("127.0.0.1:1")
            await eventually(lambda: "connect failed" in ha.counters()["haSlaveLastError"])
            await eventually(lambda: both.at.broker.runtime_table()["haSlaves"] == "0")
            masters = both.at.broker.runtime_table()
            assert "closed the connection" in masters["haLastDropped"]

    run(test)


def test_heartbeats_count_as_words_of_the_master(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, master={"haSendHeartbeatInterval": "20"}) as both:
            ha = both.slave_service.parts.ha  # type: ignore[union-attr]
            first = ha.runtime_info()["haClientRuntimeInfo"]["lastReadTimestamp"]
            await eventually(lambda: ha.runtime_info()["haClientRuntimeInfo"]["lastReadTimestamp"] > first, "a heartbeat")

    run(test)


def test_heartbeats_come_in_time_for_a_short_housekeeping_interval(tmp_path: Path) -> None:
    async def test() -> None:
        short = {"haHousekeepingInterval": "2000"}  # haSendHeartbeatInterval is 5 s; a second late is not late on a busy machine
        async with pair(tmp_path, master=short, slave=short) as both:
            ha = both.slave_service.parts.ha  # type: ignore[union-attr]
            first = ha.runtime_info()["haClientRuntimeInfo"]["lastReadTimestamp"]
            await eventually(lambda: ha.runtime_info()["haClientRuntimeInfo"]["lastReadTimestamp"] > first + 1500, "two heartbeats")
            assert ha.connection() == 1

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


def test_a_slave_of_rocketmq_is_told_that_no_timer_waits_while_none_does(tmp_path: Path) -> None:
    """Its wheel asks every three seconds, and logs an error when it is refused."""

    async def test() -> None:
        async with running(tmp_path) as at:
            checkpoint = await at.peer().ask(RequestCode.GET_TIMER_CHECK_POINT)
            read_until_ms, log, queue, masters, state, _, count = struct.unpack(">7q", checkpoint.body)
            assert checkpoint.code == 0 and abs(time.time() * 1000 - read_until_ms) < 60_000, "all that was due until now was delivered"
            assert (log, queue, masters, state, count) == (0, 0, 0, 0, 0)
            metrics = await at.peer().value(RequestCode.GET_TIMER_METRICS)
            assert metrics["timingCount"] == {} and metrics["dataVersion"]["counter"] == 0
            delays = await at.peer().ask(RequestCode.GET_ALL_DELAY_OFFSET)
            assert delays.code == 0 and json.loads(delays.body or b"{}").get("offsetTable", {}) == {}

    run(test)


def test_timers_in_a_log_that_rocketmq_wrote_are_not_denied(tmp_path: Path) -> None:
    """How far they were delivered is not known here: a made-up answer would have the slave deliver them again."""

    async def test() -> None:
        async with running(tmp_path) as at:
            assert at.broker.parts is not None
            at.broker.parts.store.append(WHEEL_TOPIC, 0, b"due some day")
            for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS):
                answer = await at.peer().ask(code)
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and "timed messages" in (answer.remark or "")

    run(test)


def test_what_a_slave_says_of_timers_is_older_than_what_its_master_knows(tmp_path: Path) -> None:
    """A master of RocketMQ that comes back asks for it, and serves nobody while it is refused."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            assert both.at.broker.parts is not None
            both.at.broker.parts.store.append(WHEEL_TOPIC, 0, b"due some day")
            await both.in_sync()
            checkpoint = await both.slave.ask(RequestCode.GET_TIMER_CHECK_POINT)
            assert checkpoint.code == 0 and checkpoint.body == bytes(56)

    run(test)


def test_the_limit_of_replication_changes_while_it_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, master={"slaveTimeout": "1"}) as both:
            slow = b"haFlowControlEnable=true\nmaxHaTransferByteInSecond=1000\n"
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, slow)).code == 0
            for _ in range(20):
                await both.master.send("t", b"x" * 10_000)
            status = await both.master.value(RequestCode.GET_BROKER_HA_STATUS)
            assert status["haConnectionInfo"][0]["diff"] > 100_000, "it was sent a fifth of a MB at 1,000 bytes a second"
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"haFlowControlEnable=false\n")).code == 0
            await both.in_sync()

    run(test)


def test_how_often_both_sides_of_the_replication_speak_changes_while_they_run(tmp_path: Path) -> None:
    async def test() -> None:
        silent = {"haSendHeartbeatInterval": "3600000", "haHousekeepingInterval": "7200000"}
        async with pair(tmp_path, master=silent, slave=silent) as both:
            slave = both.slave_service.parts
            assert slave is not None
            ha = slave.ha

            async def speaks_from_now_on(side: Peer, word: str) -> None:
                last = ha.runtime_info()["haClientRuntimeInfo"][word]
                assert (await side.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"haSendHeartbeatInterval=20\n")).code == 0
                await eventually(lambda: ha.runtime_info()["haClientRuntimeInfo"][word] > last, word)

            await speaks_from_now_on(both.slave, "lastWriteTimestamp")
            await speaks_from_now_on(both.master, "lastReadTimestamp")
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"haSendHeartbeatInterval=3600000\n")).code == 0
            assert (await both.slave.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"haHousekeepingInterval=50\n")).code == 0
            await eventually(lambda: "silent" in ha.counters()["haSlaveLastError"], "the end of a silent connection")

    run(test)


def test_how_far_a_slave_may_be_behind_changes_while_it_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, master={"haFlowControlEnable": "true", "maxHaTransferByteInSecond": "1000", "slaveTimeout": "1"}) as both:
            await both.master.send("t", b"x" * 10_000)
            waited = await both.master.send("t")
            assert waited.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"haMaxGapNotInSync=5000\n")).code == 0
            refused = await both.master.send("t")
            assert refused.code == ResponseCode.SLAVE_NOT_AVAILABLE and "haMaxGapNotInSync" in (refused.remark or "")
            assert (await both.master.value(RequestCode.GET_BROKER_HA_STATUS))["inSyncSlaveNums"] == 0

    run(test)


def test_more_replicas_than_there_can_be_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            for line in (b"inSyncReplicas=18\n", b"minInSyncReplicas=18\n", b"inSyncReplicas=0\n"):
                assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, line)).code == ResponseCode.INVALID_PARAMETER
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"slaveTimeout=2000\n")).code == 0
            assert (await both.master.send("t")).code == 0

    run(test)


def test_a_slave_that_no_name_server_knows_a_master_for_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its cluster's name is wrong: name servers tell a master to brokers of its own cluster only."""

    async def test() -> None:
        async with running(tmp_path / "master", haListenPort="0") as at:
            settings = {"brokerRole": "SLAVE", "brokerId": "1", "namesrvAddr": f"127.0.0.1:{at.namesrv.port}", "brokerClusterName": "other"}
            slave = BrokerService(broker_config(tmp_path / "slave", **settings))
            await slave.start()
            try:
                assert slave._synchronize is not None
                for _ in range(2):
                    assert await slave._synchronize.run_once() == 0
                assert sum("nobody to follow" in message for message in caplog.messages) == 1
            finally:
                await slave.stop()

    run(test)


def test_when_a_slave_last_read_and_last_reported_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            client = {"lastReadTimestamp": 1, "lastWriteTimestamp": 0}
            while client["lastWriteTimestamp"] < client["lastReadTimestamp"]:  # until it has acknowledged what it read
                client = (await both.slave.value(RequestCode.GET_BROKER_HA_STATUS))["haClientRuntimeInfo"]
                for member in ("lastReadTimestamp", "lastWriteTimestamp"):
                    assert abs(time.time() * 1000 - client[member]) < 60_000

    run(test)


def test_metrics_of_both_tell_of_the_replication(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, master=PROM, slave=PROM) as both:
            assert (await both.master.send("t")).code == 0
            await both.in_sync()
            master = await scrape(both.at.broker.metrics_port)
            assert value(master, "rocketmq_ha_slaves") == value(master, "rocketmq_ha_slaves_in_sync") == 1
            assert value(master, "rocketmq_ha_slave_lag_bytes") == 0
            slave = await scrape(both.slave_service.metrics_port)
            assert value(slave, "rocketmq_ha_read_timestamp_milliseconds") > 0
            assert "rocketmq_ha_slaves" not in {name for name, _ in slave}

    run(test)


def test_a_round_that_began_at_one_master_does_not_go_on_at_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose log has not been compared yet: it may have lost what this slave still has."""
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)

    async def test() -> None:
        async with pair(tmp_path) as both:
            assert (await both.master.send("t")).code == 0
            await both.in_sync()
            synchronize = both.slave_service._synchronize
            assert synchronize is not None
            asked: list[tuple[str, bool]] = []
            real = synchronize._copy

            async def led_away(state: CopiedState, address: str) -> bool:
                ha = both.slave_service.parts.ha  # type: ignore[union-attr]
                asked.append((address, ha.is_stranger))
                synchronize.follow("127.0.0.1:1")
                both.lead_slave_to("127.0.0.1:2")
                assert ha.is_stranger
                return await real(state, address)

            monkeypatch.setattr(synchronize, "_copy", led_away)
            await synchronize.run_once()
            assert asked == [(both.at.broker.address, False)]

    run(test)


@pytest.mark.parametrize("turns", range(4))
def test_a_stop_that_comes_with_the_news_of_a_master_ends_the_copying(turns: int) -> None:
    """At whichever turn of the loop: asyncio's wait_for forgets the one over the other."""

    async def test() -> None:
        async def nothing() -> None:
            pass

        news = asyncio.Event()
        copying = asyncio.create_task(every("copying", 60, nothing, at_once=news))
        for _ in range(5):
            await asyncio.sleep(0)
        news.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        copying.cancel()
        await asyncio.wait({copying}, timeout=5)
        assert copying.cancelled()

    run(test)
