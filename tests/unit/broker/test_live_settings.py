"""Keys called live take effect at once, and a key that something uses is never called unused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from rocketpy.broker.native_options import append_timing
from rocketpy.broker.service import BrokerService
from rocketpy.config import Config, load_config
from rocketpy.config.document import is_read
from rocketpy.ha.service import HaService
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S
from tests.unit.broker.running import Peer, broker_config, eventually, run, running

SET_BY_THE_TEST = {"listenPort", "haListenPort", "bindAddress", "namesrvAddr", "haMasterAddress"}
READ_WHEN_GIVEN = {"namesrvAddr", "logLevel"}
"""Live keys whose new value comes with the change itself."""


def used_keys(config: Config) -> list[str]:
    """The keys that some source names."""
    return [name for name, key in config.table.items() if not key.idle and is_read(key)]


BEHIND_A_CONTROLLER = {
    "allAckInSyncStateSet",
    "asyncLearner",
    "brokerElectionPriority",
    "checkSyncStateSetPeriod",
    "controllerAddr",
    "controllerHeartBeatTimeoutMills",
    "controllerLeaseMillis",
    "fetchControllerAddrByDnsLookup",
    "haMaxTimeSlaveNotCatchup",
    "storePathBrokerIdentity",
    "storePathEpochFile",
    "syncBrokerMetadataPeriod",
    "syncControllerMetadataPeriod",
    "syncFromLastFile",
}
"""Without enableControllerMode an operator who sets them is told that they change nothing."""
IN_A_DLEDGER_GROUP = {"enableBatchPush"}
"""And without enableDLegerCommitLog."""


def as_given(config: Config) -> dict[str, str]:
    """Every key that some source names, with the value it has anyway."""
    shown = config.shown()
    return {name: shown[name] for name in used_keys(config) if shown.get(name) and name not in SET_BY_THE_TEST}


async def change(peer: Peer, line: str) -> None:
    answer = await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, line.encode() + b"\n")
    assert answer.code == 0, answer.remark


def test_no_key_that_the_broker_uses_is_reported_as_unused(tmp_path: Path) -> None:
    async def test() -> None:
        process = {"logFileSize", "logFileCount", "logLevel", "logPath", "logFormat"}  # read before there is a service
        left_out = process | BEHIND_A_CONTROLLER | IN_A_DLEDGER_GROUP
        given = {name: value for name, value in as_given(broker_config(tmp_path)).items() if name not in left_out}
        async with running(tmp_path, **given) as at:
            assert at.broker.config.unread() == []

    run(test)


def test_no_key_that_the_name_server_uses_is_reported_as_unused(tmp_path: Path) -> None:
    async def test() -> None:
        own = {"scanNotActiveBrokerInterval": "5000", "unRegisterBrokerQueueCapacity": "3000", "orderMessageEnable": "true"}
        files = {"kvConfigPath": str(tmp_path / "kv.json"), "configStorePath": str(tmp_path / "namesrv.properties")}
        config = load_config("namesrv", None, {"listenPort": "0", "bindAddress": "127.0.0.1", **files, **own})
        namesrv = NameServer(config)
        await namesrv.start()
        assert config.unread() == []
        await namesrv.stop()

    run(test)


def test_every_live_key_is_read_again_when_one_of_them_changes(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            config = at.broker.config
            config._read.clear()
            await change(at.peer(), "shortPollingTimeMills=77")
            stale = [name for name in used_keys(config) if config.table[name].live and name not in config._read | READ_WHEN_GIVEN]
            assert stale == []

    run(test)


def test_what_changes_while_the_store_is_opened_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP in the middle of a recovery: what had been told to the store already stayed as it was, and nobody said so."""

    def opened(*arguments: Any, real: Any = HaService, **options: Any) -> HaService:
        configs[0].update({"maxMessageSize": "1000"})
        return real(*arguments, **options)  # type: ignore[no-any-return]

    configs: list[Config] = []
    monkeypatch.setattr("rocketpy.broker.elected.HaService", opened)

    async def test() -> None:
        configs.append(broker_config(tmp_path))
        broker = BrokerService(configs[0])
        await broker.start()
        peer = Peer(broker.address)
        try:
            assert (await peer.send("t", b"x" * 1000)).code == 0
            assert (await peer.send("t", b"x" * 1001)).code == ResponseCode.MESSAGE_ILLEGAL
        finally:
            await peer.client.stop()
            await broker.stop()

    run(test)


def test_every_live_key_takes_its_largest_and_its_least_number(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            config, peer = at.broker.config, at.peer()
            for name in used_keys(config):
                key, before = config.table[name], config.shown().get(name)
                if key.live and key.kind in ("int", "long"):
                    for number in (key.most, key.least, before):
                        await change(peer, f"{name}={number}")
            assert (await peer.send("t")).code == 0
            assert (await peer.pull("g", "t")).code == 0

    run(test)


def test_a_server_starts_with_the_longest_times_that_its_keys_take(tmp_path: Path) -> None:
    long_ms, long_s = str(2**63 - 1), str(2**31 - 1)
    times = {"shortPollingTimeMills": long_ms, "waitTimeMillsInSendQueue": long_ms, "osPageCacheBusyTimeOutMills": long_ms}

    async def test() -> None:
        async with running(tmp_path, serverChannelMaxIdleTimeSeconds=long_s, **times) as at:
            assert (await at.peer().send("t")).code == 0
        files = {"kvConfigPath": str(tmp_path / "kv.json"), "serverChannelMaxIdleTimeSeconds": long_s}
        namesrv = NameServer(load_config("namesrv", None, {"listenPort": "0", "bindAddress": "127.0.0.1", **files}))
        await namesrv.start()
        await namesrv.stop()

    run(test)


def test_topics_and_groups_are_created_by_use_or_not_as_the_setting_of_the_moment_says(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await peer.send("before")).code == 0
            await change(peer, "autoCreateTopicEnable=false")
            assert (await peer.send("after")).code == ResponseCode.TOPIC_NOT_EXIST
            await change(peer, "autoCreateTopicEnable=true")
            assert (await peer.send("after")).code == 0
            await change(peer, "autoCreateSubscriptionGroup=false")
            assert (await peer.pull("g", "after")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            await change(peer, "autoCreateSubscriptionGroup=true")
            assert (await peer.pull("g", "after")).code == 0

    run(test)


def test_a_broker_started_without_automatic_creation_gets_its_default_topic_when_it_is_switched_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, autoCreateTopicEnable="false") as at:
            peer = at.peer()
            assert (await peer.send("t")).code == ResponseCode.TOPIC_NOT_EXIST
            await change(peer, "autoCreateTopicEnable=true")
            await eventually(lambda: "TBW102" in at.namesrv.routes.all_topics(), "the name server's knowledge of TBW102")
            assert (await peer.send("t")).code == 0

    run(test)


def test_the_largest_message_may_change(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, maxMessageSize="1000") as at:
            peer = at.peer()
            body = b"x" * 2000
            assert (await peer.send("t", body)).code == ResponseCode.MESSAGE_ILLEGAL
            await change(peer, "maxMessageSize=2000")
            assert (await peer.send("t", body)).code == 0
            await change(peer, "maxMessageSize=1999")
            answer = await peer.send("t", body)
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "1999B" in answer.remark

    run(test)


def test_how_long_sends_wait_for_one_another_may_change_while_they_are_answered_busy(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            config, peer = at.broker.config, at.peer()
            await change(peer, "waitTimeMillsInSendQueue=5000\nosPageCacheBusyTimeOutMills=7000")
            assert append_timing(config) == {"busy_timeout_ms": 7000, "wait_timeout_ms": 5000}
            await change(peer, "brokerFastFailureEnable=false")
            assert append_timing(config) == {"busy_timeout_ms": 7000, "wait_timeout_ms": 7000}
            assert (await peer.send("t")).code == 0

    run(test)


def test_a_master_stops_waiting_for_slaves_that_are_gone_and_begins_to_when_its_role_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, brokerRole="SYNC_MASTER") as at:
            peer = at.peer()
            assert (await peer.send("t")).code == ResponseCode.SLAVE_NOT_AVAILABLE
            await change(peer, "brokerRole=ASYNC_MASTER")
            assert (await peer.send("t")).code == 0
            await change(peer, "brokerRole=SYNC_MASTER")
            assert (await peer.send("t")).code == ResponseCode.SLAVE_NOT_AVAILABLE

    run(test)


def test_the_log_is_flushed_by_the_interval_of_the_moment(tmp_path: Path) -> None:
    """What is not synced yet is in brokerStatus."""

    async def test() -> None:
        never = dict.fromkeys(("flushIntervalCommitLog", "flushCommitLogThoroughInterval", "flushIntervalConsumeQueue"), "3600000")
        async with running(tmp_path, **never) as at:
            peer = at.peer()

            async def left_to_flush() -> str:
                answer = await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {}, b"")
                return str(json.loads(answer.body)["table"]["remainHowManyDataToFlush"])

            assert (await peer.send("t")).code == 0
            assert await left_to_flush() != "0 B"
            await change(peer, "flushIntervalCommitLog=1\nflushCommitLogLeastPages=0")
            deadline = time.monotonic() + PATIENCE_S
            while await left_to_flush() != "0 B":
                assert time.monotonic() < deadline, "the log was never flushed"

    run(test)


def test_pulls_follow_the_polling_and_transfer_settings_of_the_moment(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            for _ in range(40):
                assert (await peer.send("t")).code == 0
            assert (await peer.pull("g", "t", maxMsgNums=100)).fields["nextBeginOffset"] == "32"
            await change(peer, "maxTransferCountOnMessageInMemory=40")
            assert (await peer.pull("g", "t", maxMsgNums=100)).fields["nextBeginOffset"] == "40"
            await change(peer, "longPollingEnable=false")
            await change(peer, "shortPollingTimeMills=1")
            answer = await peer.pull("g", "t", offset=40, sysFlag=6, suspendTimeoutMillis=3_600_000)
            assert answer.code == ResponseCode.PULL_NOT_FOUND

    run(test)
