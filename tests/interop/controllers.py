"""A controller of RocketMQ and the brokers behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import Process, free_port, port_accepts, wait_until, write_properties

from . import wire
from .products import Broker, Cluster, NameServer, Peer, Product, Server

GET_BROKER_RUNTIME_INFO, GET_BROKER_HA_STATUS, GET_BROKER_EPOCH_CACHE, CONTROLLER_GET_REPLICA_INFO = 28, 907, 1007, 1004
SETTINGS: dict[str, Any] = {
    "enableControllerMode": True,
    "brokerId": -1,
    "brokerRole": "ASYNC_MASTER",
    "allAckInSyncStateSet": True,
    "brokerHeartbeatInterval": 500,
    "syncBrokerMetadataPeriod": 1000,
    "checkSyncStateSetPeriod": 1000,
    "controllerHeartBeatTimeoutMills": 4000,
    "haSendHeartbeatInterval": 1000,
}


class Controller(Server):
    """The peer's, a group of its own."""

    def __init__(self, peer: Peer, home: Path) -> None:
        self.peer, self.home = peer, home
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        home.mkdir(parents=True, exist_ok=True)
        settings = {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.address}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": home / "store",
            "listenPort": self.port,
            "scanNotActiveBrokerInterval": 1000,
            "mappedFileSize": 1 << 20,
        }
        self._conf = write_properties(home / "conf/controller.conf", settings)

    def start(self) -> Controller:
        (self.home / "conf").mkdir(exist_ok=True)
        command = self.peer._command(self.home, "org.apache.rocketmq.controller.ControllerStartup", "-c", str(self._conf))
        self.process = Process("controller", command, self.home / "stdout.log", self.peer.environment(self.home), self.home)
        self.process.wait_until(lambda: port_accepts(self.port), 3 * self.peer.starts_within, f"listening on {self.port}")
        return self

    def replica_info(self, broker: str = "broker-a") -> tuple[dict[str, str], set[int]]:
        """Fields about the master; the set in sync."""
        reply = wire.call(self.address, CONTROLLER_GET_REPLICA_INFO, {"brokerName": broker})
        return (reply.fields, set(reply.json()["syncStateSet"])) if reply.code == 0 and reply.body else ({}, set())


class Set:
    """Brokers of one name behind a controller."""

    def __init__(self, controller: Controller, cluster: Cluster) -> None:
        self.controller, self.cluster = controller, cluster

    @property
    def brokers(self) -> list[Broker]:
        return self.cluster.brokers

    def master(self) -> Broker | None:
        """As the name server tells clients."""
        address = self.cluster.namesrv.broker_addresses().get("broker-a", {}).get("0")
        return next((each for each in self.brokers if each.address == address and each.is_running), None)

    def await_master(self, other_than: Broker | None = None) -> Broker:
        wait_until(lambda: (found := self.master()) is not None and found is not other_than, 60, "a master")
        found = self.master()
        assert found is not None
        return found

    def await_in_sync(self, count: int) -> None:
        wait_until(lambda: len(self.controller.replica_info()[1]) == count, 90, f"{count} replicas in sync")


def runtime(broker: Broker) -> dict[str, str]:
    """What brokerStatus shows."""
    reply = wire.call(broker.address, GET_BROKER_RUNTIME_INFO)
    return dict(reply.json()["table"]) if reply.code == 0 else {}


@contextmanager
def replica_set(names: Product, peer: Peer, products: list[Product], home: Path, settings: dict[str, Any] | None = None) -> Iterator[Set]:
    """The first of the products is elected: it alone is there at first."""
    controller = Controller(peer, home / "controller").start()
    cluster = Cluster(NameServer(names, home / "namesrv").start())
    found = Set(controller, cluster)
    try:
        for index, product in enumerate(products):
            own = {**SETTINGS, "controllerAddr": controller.address, **(settings or {})}
            broker = Broker(product, home / f"broker-{index}", cluster.address, own)
            broker.settings["brokerId"] = -1
            cluster.brokers.append(broker.start())
            if index == 0:
                found.await_master()
            else:
                found.await_in_sync(index + 1)
        yield found
    finally:
        cluster.stop()
        controller.kill()
