"""The sample deployments start as one command and messages go through them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import NotFound
from rocketpy.broker.service import BrokerService
from rocketpy.cli.cluster import SAMPLES, cluster_configs, deployment_files
from rocketpy.cli.up import SLAVES_LOOK_S, Embedded
from rocketpy.config import Config, load_config
from rocketpy.dledger.settings import parse_peers
from rocketpy.logs import NativeLog
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from tests.processes import PATIENCE_S, write_properties


def test_masters_come_before_their_slaves(tmp_path: Path) -> None:
    configs = cluster_configs("2m-2s-sync", "127.0.0.1", tmp_path)
    assert [config.integer("brokerId") for config in configs] == [0, 0, 1, 1]
    assert len({config.text("storePathRootDir") for config in configs}) == 4


def test_a_trial_of_a_deployment_touches_none_of_its_directories_and_addresses(tmp_path: Path) -> None:
    deployment, trial = tmp_path / "deployment", tmp_path / "trial"
    deployment.mkdir()
    taken = {
        "namesrvAddr": "198.51.100.9:9876",
        "advertise": "198.51.100.7:10911",
        "advertiseHa": "198.51.100.7",
        "haMasterAddress": "198.51.100.8:10912",
        "metricsPromExporterHost": "198.51.100.7",
    }
    keys = {"storePathRootDir": tmp_path / "live", "storePathCommitLog": tmp_path / "live" / "commitlog", "brokerIP1": "198.51.100.7"}
    write_properties(deployment / "broker-a.properties", keys | taken)
    (config,) = cluster_configs(str(deployment), "127.0.0.1", trial)
    values = {name: config.text(name) for name in (*keys, *taken)}
    assert not [name for name, value in values.items() if str(tmp_path / "live") in value or "198.51.100" in value]
    assert values["storePathRootDir"] == str(trial / "broker-a")


def test_a_trial_does_not_go_over_to_the_name_servers_of_its_deployment(tmp_path: Path) -> None:
    """SIGHUP, which a terminal sends when it is closed, reads the file again."""
    deployment = tmp_path / "deployment"
    deployment.mkdir()
    write_properties(deployment / "broker-a.properties", {"brokerName": "broker-a", "namesrvAddr": "198.51.100.9:9876"})
    (config,) = cluster_configs(str(deployment), "127.0.0.1", tmp_path / "trial")
    config.override("namesrvAddr", "127.0.0.1:9876")  # as the trial does when its own name server listens
    write_properties(tmp_path / "trial" / "conf" / "broker-a.properties", {"brokerName": "broker-a", "namesrvAddr": "198.51.100.8:9876"})
    assert str(config.reload()) == "" and config.text("namesrvAddr") == "127.0.0.1:9876"


def test_a_changed_configuration_is_kept_in_the_trial_and_never_in_the_deployment(tmp_path: Path) -> None:
    deployment, trial = tmp_path / "deployment", tmp_path / "trial"
    deployment.mkdir()
    original = deployment / "broker-a.properties"
    write_properties(original, {"brokerName": "broker-a", "fileReservedTime": 48})
    before = original.read_bytes()

    def reserved_hours() -> int:
        (config,) = cluster_configs(str(deployment), "127.0.0.1", trial)
        assert config.file is not None and config.file.is_relative_to(trial)
        return config.integer("fileReservedTime")

    assert reserved_hours() == 48
    write_properties(trial / "conf" / "broker-a.properties", {"brokerName": "broker-a", "fileReservedTime": 12})
    assert reserved_hours() == 12 and original.read_bytes() == before
    write_properties(original, {"brokerName": "broker-a", "fileReservedTime": 96})
    os.utime(original, (2e9, 2e9))
    assert reserved_hours() == 96


def test_updating_a_broker_of_a_sample_deployment_changes_no_sample(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(SAMPLES.rglob("*")) if path.is_file()}

    async def update() -> str:
        (config, *_) = cluster_configs("2m-noslave", "127.0.0.1", tmp_path)
        config.override("namesrvAddr", "")
        broker = BrokerService(config)
        await broker.start()
        try:
            async with RemotingClient() as client:
                response = await client.invoke(broker.address, RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=7")
            assert response.code == 0, response.remark
            assert config.file is not None
            return config.file.read_text()
        finally:
            await broker.stop()

    assert "fileReservedTime=7" in asyncio.run(update()).replace(" ", "")
    assert {path: path.read_bytes() for path in sorted(SAMPLES.rglob("*")) if path.is_file()} == before


def test_every_broker_of_a_trial_serves_its_metrics(tmp_path: Path) -> None:
    """On machines of their own they all have the same port."""
    deployment = tmp_path / "deployment"
    deployment.mkdir()
    for name in ("broker-a", "broker-b"):
        keys = {"brokerName": name, "metricsExporterType": "PROM", "metricsPromExporterPort": 5557, "mappedFileSizeCommitLog": 1 << 20}
        write_properties(deployment / f"{name}.properties", keys)

    async def start_both() -> None:
        native_log = NativeLog()
        namesrv = load_config("namesrv", None, {"bindAddress": "127.0.0.1", "listenPort": "0", "kvConfigPath": str(tmp_path / "kv.json")})
        cluster = Embedded(namesrv, cluster_configs(str(deployment), "127.0.0.1", tmp_path / "trial"), native_log)
        try:
            await cluster.start()
            assert [broker.name for broker in cluster.brokers] == ["broker-a", "broker-b"]
        finally:
            await cluster.stop()
            native_log.close()

    asyncio.run(start_both())


def test_the_members_of_a_group_find_one_another_at_ports_of_the_trial(tmp_path: Path) -> None:
    configs = cluster_configs("dledger", "127.0.0.1", tmp_path)
    peers = {config.text("dLegerPeers") for config in configs}
    assert [config.text("dLegerSelfId") for config in configs] == ["n0", "n1", "n2"] and len(peers) == 1
    members = parse_peers(peers.pop())
    deployed = [parse_peers(load_config("broker", path, {}).text("dLegerPeers")) for path in deployment_files("dledger")]
    assert members.keys() == deployed[0].keys() and not set(members.values()) & set(deployed[0].values())
    assert len(set(members.values())) == 3, "each its own"
    assert {config.text("storePathCommitLog") for config in configs} == {""}


def test_a_group_of_brokers_takes_messages_and_gives_them_back() -> None:
    command = [sys.executable, "-m", "rocketpy", "up", "--cluster", "dledger", "--check", "500", "--namesrv-port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "every message came back as it was sent" in done.stdout and "2 of its 3 members must hold it" in done.stdout


def test_an_unknown_deployment_names_those_there_are() -> None:
    with pytest.raises(NotFound, match="2m-2s-async, 2m-2s-sync, 2m-noslave, dledger"):
        deployment_files("3m-9s")


class Master:
    """A broker that has so many slaves in sync."""

    def __init__(self, config: Config, slaves_in_sync: int) -> None:
        self.config, self.name, self.slaves_in_sync = config, config.text("brokerName"), slaves_in_sync


@pytest.mark.parametrize("first", [0, 1])
def test_the_slaves_follow_when_every_master_has_its_own(tmp_path: Path, first: int) -> None:
    async def test() -> None:
        configs = cluster_configs("2m-2s-sync", "127.0.0.1", tmp_path)
        native_log = NativeLog()
        cluster: Any = Embedded(load_config("namesrv", None, {"kvConfigPath": str(tmp_path / "kv.json")}), configs, native_log)
        cluster.brokers = [Master(config, 0) for config in configs]
        waiting = asyncio.create_task(cluster.slaves_follow())
        await asyncio.sleep(0)
        cluster.brokers[first].slaves_in_sync = 2  # not the other's
        for _ in range(3):
            await asyncio.wait({waiting}, timeout=SLAVES_LOOK_S)
            assert not waiting.done()
        cluster.brokers[1 - first].slaves_in_sync = 1
        await asyncio.wait_for(waiting, PATIENCE_S)
        native_log.close()

    asyncio.run(test())


def test_a_synchronous_cluster_takes_messages_and_gives_them_back(tmp_path: Path) -> None:
    deployment = tmp_path / "deployment"
    deployment.mkdir()
    for sample in deployment_files("2m-2s-sync"):
        patient = f"\nslaveTimeout = {int(PATIENCE_S * 1000)}\n" if sample.stem in ("broker-a", "broker-b") else ""
        (deployment / sample.name).write_text(sample.read_text() + patient)
    command = [sys.executable, "-m", "rocketpy", "up", "--cluster", str(deployment), "--check", "2000", "--namesrv-port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "every message came back as it was sent" in done.stdout
    assert "nothing in this release uses them" not in done.stderr, "a sample sets what does something"
    assert "closed the connection" not in done.stderr, "that its slaves end is no news to whoever ends them"
