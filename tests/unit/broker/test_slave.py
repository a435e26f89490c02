"""A slave in front of its master: what it answers, what both tell of the replication, and how the master sends consumers to it and back."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import pytest

from rocketpy.broker.names import TIMER_TOPIC
from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .pair import pair
from .running import Peer, broker_config, eventually, run, running
from .test_metrics import PROM, scrape, value


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


def test_in_a_group_with_an_acting_master_a_send_that_needs_more_slaves_than_there_are_is_refused_or_needs_fewer(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, master={"enableSlaveActingMaster": "true", "inSyncReplicas": "2"}) as both:

            async def set_up(lines: bytes) -> None:
                assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, lines)).code == 0

            assert (await both.master.send("t", b"one")).code == 0
            await set_up(b"inSyncReplicas=3\n")
            refused = await both.master.send("t", b"two")
            assert refused.code == ResponseCode.SYSTEM_ERROR and refused.remark == "in-sync replicas not enough"
            await set_up(b"enableAutoInSyncReplicas=true\n")
            assert (await both.master.send("t", b"two")).code == 0, "held by the one slave there is"
            await both.slave_service.stop()
            await eventually(lambda: both.at.broker.slaves_in_sync == 0, "the slave is gone")
            alone = await both.master.send("t", b"three")
            assert alone.code == 0 and alone.fields["queueOffset"] == "2", "the refused one was not stored"
            await set_up(b"minInSyncReplicas=2\n")
            assert (await both.master.send("t", b"four")).code == ResponseCode.SYSTEM_ERROR

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
            read_until_ms, log, queue, masters, *_ = struct.unpack(">7q", checkpoint.body)
            assert checkpoint.code == 0 and 0 <= read_until_ms <= time.time() * 1000
            assert (log, queue, masters) == (0, 0, 0)
            metrics = await at.peer().value(RequestCode.GET_TIMER_METRICS)
            assert metrics["timingCount"] == {} and metrics["dataVersion"]["counter"] == 0
            delays = await at.peer().ask(RequestCode.GET_ALL_DELAY_OFFSET)
            assert delays.code == 0 and json.loads(delays.body or b"{}").get("offsetTable", {}) == {}

    run(test)


def test_what_a_slave_says_of_timers_is_older_than_what_its_master_knows(tmp_path: Path) -> None:
    """A master of RocketMQ that comes back asks for it, and serves nobody while it is refused."""

    async def test() -> None:
        async with pair(tmp_path) as both:
            assert both.at.broker.parts is not None
            both.at.broker.parts.store.append(TIMER_TOPIC, 0, b"due some day")
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
