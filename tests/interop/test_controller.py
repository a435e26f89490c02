"""Brokers of RocketMQ under a controller: ids, elections, a killed master, a killed controller, and what mqadmin says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import Jvm
from .mqadmin import MqAdmin, checked
from .products import Broker, Controller, NameServer, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

GET_SYNC_STATE_DATA, GET_REPLICA_INFO, GET_NEXT_BROKER_ID, ELECT_MASTER = 1006, 1004, 1012, 1002
NAME = "broker-a"
PATIENT_S = 150.0  # a broker of Java starts behind it


@dataclass
class Controlled:
    """A name server, a controller and two brokers of one name."""

    namesrv: NameServer
    controller: Controller
    brokers: list[Broker]

    def replicas(self) -> dict[str, Any]:
        """RocketMQ: ReplicasInfo; empty when nobody knows the set."""
        reply = wire.call(self.controller.address, GET_SYNC_STATE_DATA, body=f'["{NAME}"]'.encode())
        return (reply.json()["replicasInfoTable"].get(NAME) or {}) if reply.code == 0 else {}

    def master(self) -> str | None:
        return self.replicas().get("masterAddress")

    def in_sync(self) -> set[str]:
        return {each["brokerAddress"] for each in self.replicas().get("inSyncReplicas", ())}

    def master_epoch(self) -> int:
        return int(self.replicas()["masterEpoch"])

    def await_master(self, broker: Broker) -> None:
        wait_until(lambda: self.master() == broker.address, PATIENT_S, f"{broker.address} elected", every=0.1, not_yet=OSError)

    def await_in_sync(self, *brokers: Broker) -> None:
        wanted = {each.address for each in brokers}
        wait_until(lambda: self.in_sync() == wanted, PATIENT_S, f"{wanted} in sync", every=0.1, not_yet=OSError)


def broker(peer: Product, home: Path, namesrv: NameServer, controller: Controller) -> Broker:
    settings = {
        "enableControllerMode": True,
        "controllerAddr": controller.address,
        "brokerId": -1,
        "allAckInSyncStateSet": True,
        "syncBrokerMetadataPeriod": 500,
        "checkSyncStateSetPeriod": 500,
        "controllerHeartBeatTimeoutMills": 10_000,
        "brokerHeartbeatInterval": 500,
    }
    return Broker(peer, home, namesrv.address, settings, NAME)


@pytest.fixture
def controlled(product: Product, peer: Product, tmp_path: Path) -> Iterator[Controlled]:
    controller = Controller(product, tmp_path / "controller", {"scanInactiveMasterInterval": 500, "scanNotActiveBrokerInterval": 500})
    namesrv = NameServer(product, tmp_path / "namesrv").start()
    controller.start()
    brokers = [broker(peer, tmp_path / name, namesrv, controller) for name in ("one", "two")]
    try:
        yield Controlled(namesrv, controller, brokers)
    finally:
        for each in brokers:
            each.kill()
        controller.kill()
        namesrv.kill()


def send(address: str, body: bytes) -> int:
    """The response code of a send."""
    fields = {
        "producerGroup": "p", "topic": "TBW102", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": "0", "sysFlag": "0",
        "bornTimestamp": "0", "flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return wire.call(address, 10, fields, body).code


def test_a_killed_master_is_followed_by_its_slave_and_comes_back_as_one(controlled: Controlled) -> None:
    one, two = controlled.brokers
    one.launch()
    controlled.await_master(one)
    two.launch()
    controlled.await_in_sync(one, two)
    assert sorted(each["brokerId"] for each in controlled.replicas()["inSyncReplicas"]) == [1, 2]
    wait_until(lambda: send(one.address, b"first") == 0, PATIENT_S, "a send acknowledged", every=0.2)
    epoch = controlled.master_epoch()
    one.kill()
    controlled.await_master(two)
    assert controlled.master_epoch() > epoch
    assert controlled.in_sync() == {two.address}
    wait_until(lambda: send(two.address, b"second") == 0, PATIENT_S, "the new master takes sends", every=0.2)
    one.launch()
    controlled.await_in_sync(one, two)
    assert controlled.master() == two.address


def test_a_controller_that_was_killed_remembers_and_its_brokers_stay_what_they_were(controlled: Controlled) -> None:
    one, two = controlled.brokers
    one.launch()
    controlled.await_master(one)
    two.launch()
    controlled.await_in_sync(one, two)
    before = controlled.replicas()
    controlled.controller.kill()
    controlled.controller.start()
    wait_until(lambda: bool(controlled.replicas()), PATIENT_S, "the set is known again", not_yet=OSError)
    wait_until(lambda: all(each["alive"] for each in controlled.replicas()["inSyncReplicas"]), PATIENT_S, "heartbeats are heard")
    assert controlled.replicas() == before
    one.kill()
    controlled.await_master(two)


def test_mqadmin_looks_at_a_controller_and_changes_it(controlled: Controlled, jvm: Callable[..., Jvm]) -> None:
    one, two = controlled.brokers
    one.launch()
    controlled.await_master(one)
    two.launch()
    controlled.await_in_sync(one, two)
    admin, address = MqAdmin(jvm(), controlled.namesrv.address), controlled.controller.address

    metadata = ""

    def is_shown() -> bool:
        nonlocal metadata
        metadata = admin.text("getControllerMetaData", "-a", address)
        return "#ControllerGroup" in metadata

    wait_until(is_shown, PATIENT_S, "an answer in mqadmin's three seconds, which the first client of a JVM takes on a busy machine")
    assert re.search(r"#ControllerGroup\s+group1", metadata), metadata
    assert re.search(rf"#ControllerLeaderId\s+n0\s+#ControllerLeaderAddress\s+{re.escape(address)}", metadata), metadata
    assert re.search(rf"#Peer:\s+n0:{re.escape(address)}", metadata), metadata

    shown = admin.run("getSyncStateSet", "-a", address, "-b", NAME)
    assert re.search(rf"#brokerName\s+{NAME}", shown), shown
    assert shown.count("InSyncReplica:") == 2, shown

    assert "enableElectUncleanMaster" in admin.run("getControllerConfig", "-a", address)
    checked(admin.text("updateControllerConfig", "-a", address, "-k", "enableElectUncleanMaster", "-v", "true"))
    assert re.search(r"enableElectUncleanMaster\s*=\s*true", admin.run("getControllerConfig", "-a", address))

    elected = admin.run("electMaster", "-a", address, "-b", "2", "-n", controlled.namesrv.address, "-bn", NAME, "-c", "DefaultCluster")
    assert two.address in elected, elected
    controlled.await_master(two)
    controlled.await_in_sync(one, two)

    refused = admin.text("cleanBrokerMetadata", "-a", address, "-b", "1", "-bn", NAME, "-c", "DefaultCluster")
    assert "is still alive, clean up failure" in refused, refused
    one.kill()
    controlled.await_in_sync(two)
    wait_until(lambda: not any(each["alive"] for each in controlled.replicas()["notInSyncReplicas"]), PATIENT_S, "broker 1 is down")
    admin.run("cleanBrokerMetadata", "-a", address, "-b", "1", "-bn", NAME, "-c", "DefaultCluster")
    assert not controlled.replicas()["notInSyncReplicas"]
