"""A topic's route: which brokers hold how many queues of it, and where these brokers are.
RocketMQ: TopicRouteData, QueueData, BrokerData (5.3.3 remoting/protocol/route/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .bodies import BodyError, read_integer, read_mapping, read_text
from .json_codec import JsonError, read_object, write_fastjson, write_json

MASTER_ID = 0
NUMBER_DIGITS = 5
"""The most digits of a queue's number."""


@dataclass(frozen=True, slots=True)
class QueueData:
    """A topic's queues on the brokers of one name."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "brokerName": self.broker_name,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> QueueData:
        return cls(
            read_text(members, "brokerName"),
            read_integer(members, "readQueueNums"),
            read_integer(members, "writeQueueNums"),
            read_integer(members, "perm"),
            read_integer(members, "topicSysFlag"),
        )


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The addresses behind one broker name, by broker id; 0 is the master."""

    cluster: str
    broker_name: str
    broker_addrs: Mapping[int, str]
    zone_name: str | None = None
    enable_acting_master: bool = False

    def to_json(self) -> dict[str, Any]:
        members: dict[str, Any] = {
            "brokerAddrs": dict(self.broker_addrs),
            "brokerName": self.broker_name,
            "cluster": self.cluster,
            "enableActingMaster": self.enable_acting_master,
        }
        if self.zone_name is not None:
            members["zoneName"] = self.zone_name
        return members

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> BrokerData:
        addrs = read_mapping(members, "brokerAddrs")
        return cls(
            read_text(members, "cluster"),
            read_text(members, "brokerName"),
            {read_integer({"brokerId": broker_id}, "brokerId"): str(addr) for broker_id, addr in addrs.items()},
            read_text(members, "zoneName") or None,
            members.get("enableActingMaster") is True,
        )


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The answer to GET_ROUTEINFO_BY_TOPIC."""

    queue_datas: tuple[QueueData, ...]
    broker_datas: tuple[BrokerData, ...]
    filter_servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    queue_mappings: Mapping[str, Mapping[str, Any]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Members that are null in RocketMQ are left out."""
        members: dict[str, Any] = {
            "brokerDatas": [broker.to_json() for broker in self.broker_datas],
            "filterServerTable": {addr: list(servers) for addr, servers in self.filter_servers.items()},
            "queueDatas": [queues.to_json() for queues in self.queue_datas],
        }
        if self.order_topic_conf is not None:
            members["orderTopicConf"] = self.order_topic_conf
        if self.queue_mappings is not None:
            members["topicQueueMappingByBroker"] = {name: dict(mapping) for name, mapping in self.queue_mappings.items()}
        return members

    def writable_numbers(self, queues: QueueData) -> Sequence[int]:
        """The numbers of the queues that a broker accepts messages for. Of a static topic these are only the queues that it leads: it
        refuses others, and nobody reads the queues of a broker that leads none."""
        return self._led_numbers(queues.broker_name) if self.queue_mappings else range(queues.write_queue_nums)

    def readable_numbers(self, queues: QueueData) -> Sequence[int]:
        """The numbers of the queues that can be read at a broker; of a static topic, only those that it leads."""
        return self._led_numbers(queues.broker_name) if self.queue_mappings else range(queues.read_queue_nums)

    def _led_numbers(self, broker_name: str) -> Sequence[int]:
        mapping = (self.queue_mappings or {}).get(broker_name)
        led = mapping.get("currIdMap") if isinstance(mapping, Mapping) else None
        numbers = [str(number) for number in led] if isinstance(led, Mapping) else []
        return sorted(int(number) for number in numbers if number.isdecimal() and len(number) <= NUMBER_DIGITS)

    def encode(self, *, standard: bool) -> bytes:
        """Standard JSON for clients since 4.9.4, fastjson's with bare numeric keys for older ones."""
        return write_json(self.to_json()) if standard else write_fastjson(self.to_json())

    @classmethod
    def decode(cls, body: bytes) -> TopicRoute:
        """Raises BodyError."""
        try:
            members = read_object(body)
        except JsonError as error:
            raise BodyError(f"TopicRouteData: {error}") from None
        servers = read_mapping(members, "filterServerTable")
        return cls(
            tuple(QueueData.from_json(entry) for entry in _objects(members, "queueDatas")),
            tuple(BrokerData.from_json(entry) for entry in _objects(members, "brokerDatas")),
            {addr: tuple(str(server) for server in listed) for addr, listed in servers.items() if isinstance(listed, list)},
            read_text(members, "orderTopicConf") or None,
            None if members.get("topicQueueMappingByBroker") is None else read_mapping(members, "topicQueueMappingByBroker"),
        )

    def in_zone(self, zone_name: str) -> TopicRoute:
        """The route without brokers of other zones; those without a master stay. RocketMQ: ZoneRouteRPCHook."""

        def stays(broker: BrokerData) -> bool:
            return MASTER_ID not in broker.broker_addrs or (broker.zone_name or "").lower() == zone_name.lower()

        gone = [broker for broker in self.broker_datas if not stays(broker)]
        gone_names = {broker.broker_name for broker in gone}
        gone_addrs = {addr for broker in gone for addr in broker.broker_addrs.values()}
        return TopicRoute(
            tuple(queues for queues in self.queue_datas if queues.broker_name not in gone_names),
            tuple(broker for broker in self.broker_datas if stays(broker)),
            {addr: servers for addr, servers in self.filter_servers.items() if addr not in gone_addrs},
            self.order_topic_conf,
            self.queue_mappings,
        )


def _objects(members: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    value = members.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise BodyError(f"{name}: expected a list of objects")
    return value
