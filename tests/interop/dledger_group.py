"""Brokers of one name that are the members of a DLedger group, of one product or of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import free_port, wait_until

from . import wire
from .products import Broker, Cluster, NameServer, Product

BROKER, GROUP = "broker-a", "raft-a"
FILE_SIZE = 4 << 20
GET_ALL_TOPIC_CONFIG = 21
PATIENCE = 90.0
"""A leader that is gone is missed after three heartbeats of two seconds; then come ballots."""


class Group:
    """A name server, and members n0, n1, … in the order of `products`; none of them runs at first."""

    def __init__(self, names: Product, products: Sequence[Product], home: Path, settings: dict[str, Any] | None = None) -> None:
        self.cluster = Cluster(NameServer(names, home / "namesrv").start())
        peers = ";".join(f"n{number}-127.0.0.1:{free_port()}" for number in range(len(products)))
        for number, product in enumerate(products):
            own = {
                "enableDLegerCommitLog": True,
                "dLegerGroup": GROUP,
                "dLegerPeers": peers,
                "dLegerSelfId": f"n{number}",
                "mappedFileSizeCommitLog": FILE_SIZE,
                "maxMessageSize": 1 << 20,
                "slaveReadEnable": True,
                "registerNameServerPeriod": 10_000,  # a slave of RocketMQ hears of its master by nothing else
                **(settings or {}),
            }
            broker = Broker(product, home / f"n{number}", self.cluster.address, own, BROKER, number + 1)
            del broker.settings["brokerId"], broker.settings["brokerRole"]
            self.cluster.brokers.append(broker)

    @property
    def members(self) -> list[Broker]:
        return self.cluster.brokers

    def start(self, *members: Broker) -> None:
        for member in members or self.members:
            member.launch()
        for member in members or self.members:
            member.await_listening()

    def registered(self) -> dict[str, str]:
        """Address by broker id, of members that run."""
        known = self.cluster.namesrv.broker_addresses().get(BROKER, {})
        alive = {member.address for member in self.members if member.is_running}
        return {broker_id: address for broker_id, address in known.items() if address in alive}

    def master(self) -> Broker | None:
        """The member that the name server shows to clients as the master."""
        address = self.registered().get("0")
        return next((member for member in self.members if member.address == address), None)

    def await_master(self, other_than: Broker | None = None) -> Broker:
        wait_until(lambda: (found := self.master()) is not None and found is not other_than, PATIENCE, "a leader")
        found = self.master()
        assert found is not None
        return found

    def await_roles(self) -> Broker:
        """Waits until the name server knows every running member by the id that its role gives it; returns the leader."""

        def expected() -> dict[str, str]:
            leader = self.master()
            return {"0" if member is leader else str(member.broker_id): member.address for member in self.members if member.is_running}

        wait_until(lambda: self.master() is not None and self.registered() == expected(), PATIENCE, "a leader as 0, n0 as 1, n1 as 2 …")
        return self.await_master()


def log_files(member: Broker) -> list[Path]:
    number = member.broker_id - 1
    return sorted((member.store / f"dledger-n{number}" / "data").iterdir())


def log_bytes(member: Broker, end: int) -> bytes:
    """Entries, heads and all, from offset 0 up to `end`."""
    data = b"".join(file.read_bytes() for file in log_files(member))
    assert len(data) >= end
    return data[:end]


def knows(member: Broker, topic: str) -> bool:
    """Whether the member has the topic: it copies topics from the leader (RocketMQ's slave every ten seconds), and refuses pulls before."""
    return topic in wire.call(member.address, GET_ALL_TOPIC_CONFIG).json()["topicConfigTable"]


@contextmanager
def dledger_group(names: Product, products: Sequence[Product], home: Path, settings: dict[str, Any] | None = None) -> Iterator[Group]:
    group = Group(names, products, home, settings)
    try:
        yield group
    finally:
        group.cluster.stop()
