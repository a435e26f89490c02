"""Which brokers a name server knows, and which of them a command means. RocketMQ: ClusterInfo, CommandUtil (5.5.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..remoting.bodies import read_mapping
from ..remoting.route import MASTER_ID, BrokerData
from .errors import AdminError

NO_MASTER = "NO_MASTER"
"""What stands for a master's address where slaves have none (CommandUtil)."""


def address_of(addresses: Mapping[int, str]) -> str:
    """The broker to ask: the master, or else the slave with the lowest id (BrokerData.selectBrokerAddr takes any)."""
    return addresses[min(addresses)] if addresses else ""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The brokers by name, and the names in each cluster, both in order."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> ClusterInfo:
        """Raises BodyError."""
        brokers, clusters = read_mapping(members, "brokerAddrTable"), read_mapping(members, "clusterAddrTable")
        return cls(
            {name: BrokerData.from_json(read_mapping(brokers, name)) for name in sorted(brokers)},
            {name: tuple(sorted(str(each) for each in clusters[name] or ())) for name in sorted(clusters)},
        )

    def names(self, cluster: str) -> tuple[str, ...]:
        """The broker names of a cluster. Raises AdminError if there is no such cluster."""
        if cluster not in self.clusters:
            known = ", ".join(self.clusters) or "none"
            raise AdminError(f"no cluster {cluster!r} is registered", remedy=f"the name servers know: {known}")
        return self.clusters[cluster]

    def groups(self, cluster: str) -> list[BrokerData]:
        """For each broker name, its master and slaves. Raises AdminError."""
        return [self.brokers[name] for name in self.names(cluster) if name in self.brokers]

    def masters(self, cluster: str) -> list[str]:
        """Raises AdminError."""
        return [broker.broker_addrs[MASTER_ID] for broker in self.groups(cluster) if MASTER_ID in broker.broker_addrs]

    def addresses(self, cluster: str) -> list[str]:
        """The addresses of masters and slaves. Raises AdminError."""
        return [address for broker in self.groups(cluster) for _, address in sorted(broker.broker_addrs.items())]

    def masters_and_slaves(self, cluster: str) -> list[tuple[str, list[str]]]:
        """The slaves by their master's address, or under NO_MASTER if there is none. Raises AdminError."""
        return [
            (
                broker.broker_addrs.get(MASTER_ID, NO_MASTER),
                [address for broker_id, address in sorted(broker.broker_addrs.items()) if broker_id != MASTER_ID],
            )
            for broker in self.groups(cluster)
        ]

    def broker(self, name: str) -> BrokerData:
        """Raises AdminError."""
        if name not in self.brokers:
            known = ", ".join(self.brokers) or "none"
            raise AdminError(f"no broker {name!r} is registered", remedy=f"the name servers know: {known}")
        return self.brokers[name]

    def name_of(self, address: str) -> str:
        """The name of the broker at an address. Raises AdminError."""
        for name, broker in self.brokers.items():
            if address in broker.broker_addrs.values():
                return name
        raise AdminError(f"no broker is registered under {address}", remedy="clusterList shows the addresses there are")
