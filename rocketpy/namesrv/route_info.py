"""The tables of the name server. Decisions only: requests and the time come in, answers and notices go out.
RocketMQ: RouteInfoManager (5.3.3 namesrv/routeinfo/).

    register ──► live (cluster, address) ──► broker name: id → address ──► topics: broker name → queues ──► routes, kept as bytes
    heartbeat ─► live.heard_ms
    unregister, connection closed, silence ─► gone from all of them, and what only they held

Transitions of a broker (cluster, address):
    absent   → present   register
    present  → present   register, heartbeat, data version query: heard now
    present  → absent    unregister; its connection closed; silent longer than its own time-out (120 s unless it said otherwise)
    id n     → id m      register with another id: the old id is taken away first (a slave that became master)
    name a   → name b    register with another name: it leaves the old one first
    id held by another address: the newcomer takes it, unless the holder's state version is greater; then the newcomer is ignored

A departure names the registration that it ends. When the broker has registered again before the departure is processed, the departure is
dropped; RocketMQ removes the fresh registration (apache/rocketmq#11043).

Everything is indexed by broker name, so a departure costs what that broker held, not what the cluster holds.
Threads  one event loop.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..remoting.bodies import PERM_READ, PERM_WRITE, DataVersion, RegisterBrokerBody, TopicConfig
from ..remoting.json_codec import write_fastjson
from ..remoting.route import MASTER_ID, BrokerData, QueueData, TopicRoute
from .events import Departure, MinBrokerIdNotice, Registered, Registration, RouteSettings

log = logging.getLogger(__name__)

HEARTBEAT_TIMEOUT_MS = 120_000
SYNC_MEMBER_GROUP_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
LOGGED_TOPICS_MAX = 16
SHAPES_MAX = 64
_FLAG_UNIT, _FLAG_UNIT_SUB = 1, 2


_Queues = tuple[str, int, int, int, int]
"""The fields of a QueueData. Python's garbage collector passes over tuples and tables of nothing but texts and numbers; going through
2,500,000 objects takes it half a second."""


def _queues(data: QueueData) -> _Queues:
    return data.broker_name, data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag


@dataclass(frozen=True, slots=True)
class _TopicChange:
    """The topics of a registration that are new or may have changed: all that it lists (`has_all`), or only those that are not known
    here."""

    has_all: bool
    read_only: bool
    topics: list[TopicConfig]


@dataclass(slots=True)
class _Live:
    """A broker that is alive: it has registered, and its last heartbeat or registration was at heard_ms."""

    broker_name: str
    broker_id: int
    heard_ms: int
    timeout_ms: int
    data_version: DataVersion
    connection_id: int
    ha_address: str
    registration: int


@dataclass(slots=True)
class _Group:
    """All brokers of one name."""

    cluster: str
    name: str
    addresses: dict[int, str] = field(default_factory=dict)
    zone_name: str | None = None
    acting_master: bool = False
    topics: dict[str, None] = field(default_factory=dict)  # a set that the garbage collector passes over
    shapes: dict[_Queues, _Queues] = field(default_factory=dict)
    """What its topics share: of thousands, nearly all have the same queues."""

    def shared(self, queues: _Queues) -> _Queues:
        if len(self.shapes) >= SHAPES_MAX:
            self.shapes.clear()
        return self.shapes.setdefault(queues, queues)

    def data(self) -> BrokerData:
        return BrokerData(self.cluster, self.name, dict(self.addresses), self.zone_name, self.acting_master)

    @property
    def min_id(self) -> int:
        return min(self.addresses)


class RouteInfo:
    """The tables. `clock` gives milliseconds since any fixed moment; `order_conf` gives a topic's order configuration, None if it has
    none."""

    def __init__(
        self, settings: RouteSettings, clock: Callable[[], int], order_conf: Callable[[str], str | None] = lambda topic: None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._order_conf = order_conf
        self._topics: dict[str, dict[str, _Queues]] = {}
        self._groups: dict[str, _Group] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[tuple[str, str], _Live] = {}
        self._by_connection: dict[int, dict[tuple[str, str], None]] = {}
        """Those that registered over each connection: else every client's that closes has all brokers looked at."""
        self._filter_servers: dict[tuple[str, str], tuple[str, ...]] = {}
        self._queue_mappings: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._encoded: dict[tuple[str, bool], bytes] = {}
        self._encoded_clusters: bytes | None = None
        self._registrations = 0

    def set_settings(self, settings: RouteSettings) -> None:
        self._settings = settings
        self._encoded.clear()

    # ---- brokers come ----

    def register_broker(self, registration: Registration) -> Registered:
        """Adds a broker, or renews one that is known."""
        group = self._groups.get(registration.broker_name) or _Group(registration.cluster, registration.broker_name)
        addresses = {
            broker_id: address
            for broker_id, address in group.addresses.items()
            if address != registration.address or broker_id == registration.broker_id
        }
        if self._is_outdated(registration, addresses):
            self._take_out_earlier(registration)
            return Registered(accepted=True)
        if registration.broker_id not in addresses and len(registration.body.topics) == 1:
            log.warning("%s registers a single topic but is not registered itself: refused", registration.address)
            return Registered(accepted=False)
        is_new = registration.broker_id not in addresses
        addresses[registration.broker_id] = registration.address
        change = self._topic_change(group, registration, is_new, min(addresses))
        previous_min = min(group.addresses, default=0)
        self._take_out_earlier(registration, unless_name=group.name)
        self._put_group(group, registration, addresses)
        if change is not None:
            self._put_topics(group, registration.body, change)
        self._put_live(registration)
        self._put_filter_servers(registration)
        master_address, ha_address = self._master_of(group, registration)
        notices: tuple[MinBrokerIdNotice, ...] = ()
        if registration.broker_id < previous_min and self._settings.notify_min_broker_id:
            notices = (self._notice(group, None, registration.ha_address),)
        return Registered(True, master_address, ha_address, notices, topics_count=change is not None)

    def _is_outdated(self, registration: Registration, addresses: Mapping[int, str]) -> bool:
        """Whether another address has registered this broker id with a greater state version."""
        holder = addresses.get(registration.broker_id)
        if holder is None or holder == registration.address:
            return False
        live = self._live.get((registration.cluster, holder))
        if live is None or live.data_version.state_version <= registration.body.data_version.state_version:
            return False
        log.warning(
            "%s registers as %s id %d, which %s holds with state version %d > %d: ignored",
            registration.address,
            registration.broker_name,
            registration.broker_id,
            holder,
            live.data_version.state_version,
            registration.body.data_version.state_version,
        )
        return True

    def _take_out_earlier(self, registration: Registration, unless_name: str = "") -> None:
        """Forgets what this address registered earlier, unless it was under the broker name `unless_name`."""
        key = (registration.cluster, registration.address)
        live = self._live.get(key)
        if live is not None and live.broker_name != unless_name:
            self._take_out(self._departure(key, live))

    def _put_group(self, group: _Group, registration: Registration, addresses: dict[int, str]) -> None:
        acting = registration.enable_acting_master is True
        names = self._clusters.setdefault(registration.cluster, set())
        if (group.addresses, group.acting_master, group.zone_name) != (addresses, acting, registration.zone_name):
            self._forget_encoded(group.topics)
            self._encoded_clusters = None
        group.addresses = addresses
        group.acting_master = acting
        group.zone_name = registration.zone_name
        self._groups[group.name] = group
        if group.name not in names:  # also of a name that is in another cluster
            names.add(group.name)
            self._encoded_clusters = None

    def _topic_change(self, group: _Group, registration: Registration, is_new: bool, min_id: int) -> _TopicChange | None:
        """What a registration changes about the topics of its broker name; None from a slave that does not act for its master.

        The master's topics count. Without a master those of the slave with the smallest id count, if that slave knows of acting masters.
        The topics are read here, so that an unreadable one (BodyError) is found before anything has changed.
        """
        is_master = registration.broker_id == MASTER_ID
        is_prime_slave = not is_master and registration.enable_acting_master is not None and registration.broker_id == min_id
        if not is_master and not is_prime_slave:
            return None
        body = registration.body
        live = self._live.get((registration.cluster, registration.address))
        has_all = is_new or live is None or live.data_version != body.data_version
        names = body.topics.keys() if has_all else body.topics.keys() - group.topics
        read_only = is_prime_slave and registration.enable_acting_master is True
        return _TopicChange(has_all, read_only, [body.topics[name] for name in names])

    def _put_topics(self, group: _Group, body: RegisterBrokerBody, change: _TopicChange) -> None:
        if self._settings.delete_unlisted_topics and not body.queue_mappings:
            for topic in group.topics.keys() - body.topics.keys():
                self._drop_queues(topic, group)
        new = [topic.topic_name for topic in change.topics if self._put_queues(group, topic, change.read_only)]
        if len(new) > LOGGED_TOPICS_MAX:
            log.info("new topic registered, %d topics of %s: %s …", len(new), group.name, ", ".join(new[:LOGGED_TOPICS_MAX]))
        else:
            for name in new:
                log.info("new topic registered, %s %s", name, QueueData(*self._topics[name][group.name]))
        if change.has_all:
            for topic, mapping in body.queue_mappings.items():
                if topic not in self._topics:
                    continue  # nothing would ever take it out
                self._queue_mappings.setdefault(topic, {})[str(mapping.get("bname") or group.name)] = mapping
                self._forget_encoded((topic,))

    def _put_queues(self, group: _Group, topic: TopicConfig, read_only: bool) -> bool:
        """Sets a topic's queues on one broker name. Returns whether no broker had the topic before."""
        perm = topic.perm & ~PERM_WRITE if read_only else topic.perm
        queues = (group.name, topic.read_queue_nums, topic.write_queue_nums, perm, topic.topic_sys_flag)
        name = sys.intern(topic.topic_name)  # 500 brokers that have it say it 500 times
        by_broker = self._topics.get(name)
        is_new = by_broker is None
        if by_broker is None:
            by_broker = self._topics[name] = {}
        elif by_broker.get(group.name) == queues:
            return False
        by_broker[group.name] = group.shared(queues)
        group.topics[name] = None
        self._forget_encoded((name,))
        return is_new

    def _put_live(self, registration: Registration) -> None:
        key = (registration.cluster, registration.address)
        if key not in self._live:
            log.info("new broker registered, %s %s HAService: %s", *key, registration.ha_address)
        self._leave_connection(key)
        self._by_connection.setdefault(registration.connection_id, {})[key] = None
        self._registrations += 1
        timeout_ms = registration.heartbeat_timeout_ms
        self._live[key] = _Live(
            registration.broker_name,
            registration.broker_id,
            self._clock(),
            HEARTBEAT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
            registration.body.data_version,
            registration.connection_id,
            registration.ha_address,
            self._registrations,
        )

    def _leave_connection(self, key: tuple[str, str]) -> None:
        live = self._live.get(key)
        if live is not None:
            keys = self._by_connection[live.connection_id]
            keys.pop(key, None)
            if not keys:
                del self._by_connection[live.connection_id]

    def _put_filter_servers(self, registration: Registration) -> None:
        key = (registration.cluster, registration.address)
        servers = registration.body.filter_servers
        if self._filter_servers.get(key, ()) != servers:
            self._filter_servers[key] = servers
            self._forget_encoded(self._groups[registration.broker_name].topics)
        if not servers:
            self._filter_servers.pop(key, None)

    def _master_of(self, group: _Group, registration: Registration) -> tuple[str | None, str | None]:
        """(address, HA address) of a slave's master."""
        master = group.addresses.get(MASTER_ID)
        if registration.broker_id == MASTER_ID or master is None:
            return None, None
        live = self._live.get((registration.cluster, master))
        return (master, live.ha_address) if live is not None else (None, None)

    def hear(self, cluster: str, address: str) -> None:
        """A heartbeat arrived: the broker is alive."""
        live = self._live.get((cluster, address))
        if live is not None:
            live.heard_ms = self._clock()

    def data_version(self, cluster: str, address: str) -> DataVersion | None:
        """The version of the topics that this broker registered last; None if the broker is not registered."""
        live = self._live.get((cluster, address))
        return live.data_version if live is not None else None

    def registration(self, cluster: str, address: str) -> int | None:
        """The number of this broker's current registration; None if it is not registered."""
        live = self._live.get((cluster, address))
        return live.registration if live is not None else None

    # ---- brokers go ----

    def topic_count(self, broker_name: str) -> int:
        """What it costs when the last broker of this name goes."""
        group = self._groups.get(broker_name)
        return len(group.topics) if group is not None else 0

    def departures_of_connection(self, connection_id: int) -> list[Departure]:
        """The brokers whose registrations came over a connection that has closed."""
        return [self._departure(key, self._live[key]) for key in self._by_connection.get(connection_id, ())]

    def departures_by_silence(self) -> list[tuple[Departure, int]]:
        """The brokers that were silent for longer than their time-out, each with the connection to close."""
        now = self._clock()
        expired = [(key, live) for key, live in self._live.items() if live.heard_ms + live.timeout_ms < now]
        for key, live in expired:
            log.warning("The broker channel expired, %s %s %dms", *key, live.timeout_ms)
        return [(self._departure(key, live), live.connection_id) for key, live in expired]

    def _departure(self, key: tuple[str, str], live: _Live) -> Departure:
        return Departure(*key, live.broker_name, live.broker_id, live.registration)

    def unregister_brokers(self, departures: Iterable[Departure]) -> list[MinBrokerIdNotice]:
        """Removes several brokers at once. The notices describe the state after the last of them."""
        offline: dict[str, str] = {}
        for departure in departures:
            if self._is_superseded(departure):
                log.info("%s %s has gone or registered again meanwhile", departure.cluster, departure.address)
            elif name := self._take_out(departure):
                offline[name] = departure.address
        notices: list[MinBrokerIdNotice] = []
        for name, address in offline.items():
            group = self._groups.get(name)
            if group is not None and group.acting_master and self._settings.notify_min_broker_id:
                notices.append(self._notice(group, address, None))
        return notices

    def _is_superseded(self, departure: Departure) -> bool:
        if departure.registration is None:
            return False
        live = self._live.get((departure.cluster, departure.address))
        return live is None or live.registration != departure.registration

    def _take_out(self, departure: Departure) -> str | None:
        """Removes one broker. Returns its name if that name's smallest id has changed and other brokers are left to be told."""
        key = (departure.cluster, departure.address)
        self._leave_connection(key)
        live = self._live.pop(key, None)
        self._filter_servers.pop(key, None)
        log.info("unregisterBroker %s, remove from brokerLiveTable %s %s", "OK" if live else "Failed", *key)
        group = self._groups.get(live.broker_name if live is not None else departure.broker_name)
        if group is None:
            return None
        was_min = bool(group.addresses) and group.addresses[group.min_id] == departure.address
        left = {broker_id: address for broker_id, address in group.addresses.items() if address != departure.address}
        if left == group.addresses:
            return None
        group.addresses = left
        self._forget_encoded(group.topics)
        self._encoded_clusters = None
        if not left:
            self._drop_group(group)
            return None
        if group.acting_master and MASTER_ID not in left:
            for topic in group.topics:
                self._set_perm(topic, group, lambda perm: perm & ~PERM_WRITE)
        return group.name if was_min else None

    def _drop_group(self, group: _Group) -> None:
        for topic in list(group.topics):
            self._drop_queues(topic, group)
        del self._groups[group.name]
        for cluster in [cluster for cluster, names in self._clusters.items() if group.name in names]:
            self._clusters[cluster].discard(group.name)
            if not self._clusters[cluster]:
                del self._clusters[cluster]
        log.info("unregisterBroker, the last broker of %s is gone", group.name)

    def _drop_queues(self, topic: str, group: _Group) -> None:
        by_broker = self._topics.get(topic, {})
        by_broker.pop(group.name, None)
        group.topics.pop(topic, None)
        if not by_broker:
            self._topics.pop(topic, None)
            self._queue_mappings.pop(topic, None)
        self._forget_encoded((topic,))

    def _notice(self, group: _Group, offline_address: str | None, ha_address: str | None) -> MinBrokerIdNotice:
        least = group.min_id
        everyone = offline_address is not None or len(group.addresses) == 1
        targets = tuple(address for broker_id, address in group.addresses.items() if everyone or broker_id != least)
        return MinBrokerIdNotice(targets, group.name, least, group.addresses[least], offline_address, ha_address)

    # ---- topics and permissions ----

    def register_topic(self, topic: str, queues: Iterable[QueueData], *, only: str | None = None) -> None:
        """Adds a topic for an administrator, to all brokers that it names or only to one. Ignored if it names a broker that is not
        registered."""
        listed = list(queues)
        unknown = [entry.broker_name for entry in listed if entry.broker_name not in self._groups]
        if unknown or not listed:
            log.warning("register topic %s refused: brokers %s are not registered", topic, unknown)
            return
        chosen = [entry for entry in listed if only in (None, entry.broker_name)]
        if not chosen:
            return
        by_broker = self._topics.setdefault(topic, {})
        for entry in chosen:
            group = self._groups[entry.broker_name]
            by_broker[group.name] = group.shared(_queues(entry))
            group.topics[topic] = None
        self._forget_encoded((topic,))

    def delete_topic(self, topic: str, cluster: str | None = None, *, only: str | None = None) -> None:
        """Forgets a topic, everywhere or in one cluster, or only of one broker, until a broker registers it again."""
        names = {name for name in self._topics.get(topic, ()) if only in (None, name)}
        if cluster:
            names &= self._clusters.get(cluster, set())
        for name in names:
            self._drop_queues(topic, self._groups[name])

    def wipe_write_perm(self, broker_name: str) -> int:
        """Makes all topics of a broker read-only, until it registers a change. Returns how many there are."""
        return self._set_perms(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> int:
        """Makes all topics of a broker readable and writable. Returns how many there are."""
        return self._set_perms(broker_name, lambda perm: PERM_READ | PERM_WRITE)

    def _set_perms(self, broker_name: str, change: Callable[[int], int]) -> int:
        group = self._groups.get(broker_name)
        if group is None:
            return 0
        for topic in group.topics:
            self._set_perm(topic, group, change)
        return len(group.topics)

    def _set_perm(self, topic: str, group: _Group, change: Callable[[int], int]) -> None:
        by_broker = self._topics[topic]
        queues = QueueData(*by_broker[group.name])
        by_broker[group.name] = group.shared(_queues(replace(queues, perm=change(queues.perm))))
        self._forget_encoded((topic,))

    # ---- routes ----

    def pick_route(self, topic: str) -> TopicRoute | None:
        """The route of a topic; None if no registered broker has it."""
        by_broker = self._topics.get(topic)
        if not by_broker:
            return None
        groups = [self._groups[name] for name in by_broker if name in self._groups]
        if not groups:
            return None
        filter_servers = {
            address: self._filter_servers[group.cluster, address]
            for group in groups
            for address in group.addresses.values()
            if (group.cluster, address) in self._filter_servers
        }
        return TopicRoute(
            tuple(QueueData(*queues) for queues in by_broker.values()),
            tuple(self._acting(topic, group, QueueData(*by_broker[group.name])) for group in groups),
            filter_servers,
            self._order_conf(topic),
            self._queue_mappings.get(topic),
        )

    def encoded_route(self, topic: str, *, standard: bool) -> bytes | None:
        """The route as GET_ROUTEINFO_BY_TOPIC answers it. The bytes are cached until something in the route changes."""
        key = (topic, standard)
        encoded = self._encoded.get(key)
        if encoded is None:
            route = self.pick_route(topic)
            if route is None:
                return None
            encoded = self._encoded[key] = route.encode(standard=standard)
        return encoded

    def forget_encoded_routes(self) -> None:
        """Drops the cached routes, for changes outside these tables, such as order configurations."""
        self._encoded.clear()

    def _forget_encoded(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._encoded.pop((topic, True), None)
            self._encoded.pop((topic, False), None)

    def _acting(self, topic: str, group: _Group, queues: QueueData) -> BrokerData:
        """The group's addresses. If it has no master, the slave with the smallest id stands in for it, provided that this name server and
        the group's brokers support that, and that the queues cannot be written."""
        data = group.data()
        if (
            not self._settings.support_acting_master
            or topic.startswith(SYNC_MEMBER_GROUP_PREFIX)
            or not group.acting_master
            or not group.addresses
            or MASTER_ID in group.addresses
            or queues.perm & PERM_WRITE
        ):
            return data
        least = group.min_id
        addresses = {broker_id: address for broker_id, address in group.addresses.items() if broker_id != least}
        addresses[MASTER_ID] = group.addresses[least]
        return replace(data, broker_addrs=addresses)

    # ---- lists ----

    def broker_member_group(self, broker_name: str) -> dict[int, str]:
        """The addresses of a name by broker id."""
        group = self._groups.get(broker_name)
        return dict(group.addresses) if group is not None else {}

    def cluster_info(self) -> dict[str, Any]:
        """RocketMQ: ClusterInfo."""
        return {
            "brokerAddrTable": {name: group.data().to_json() for name, group in self._groups.items()},
            "clusterAddrTable": {cluster: sorted(names) for cluster, names in self._clusters.items()},
        }

    def encoded_cluster_info(self) -> bytes:
        """The answer to GET_BROKER_CLUSTER_INFO, cached as the routes are."""
        if self._encoded_clusters is None:
            self._encoded_clusters = write_fastjson(self.cluster_info())
        return self._encoded_clusters

    def all_topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        topics: set[str] = set()
        for name in self._clusters.get(cluster, ()):
            topics.update(self._groups[name].topics)
        return sorted(topics)

    def system_topics(self) -> tuple[list[str], str | None]:
        """The names of clusters and brokers, which are topics too, and the address of one of the brokers."""
        names = [name for cluster, brokers in self._clusters.items() for name in (cluster, *sorted(brokers))]
        address = next((address for group in self._groups.values() for address in group.addresses.values()), None)
        return list(dict.fromkeys(names)), address

    def unit_topics(self) -> list[str]:
        return self._topics_by_flag(lambda flag: bool(flag & _FLAG_UNIT))

    def unit_sub_topics(self) -> list[str]:
        return self._topics_by_flag(lambda flag: bool(flag & _FLAG_UNIT_SUB))

    def unit_sub_ununit_topics(self) -> list[str]:
        return self._topics_by_flag(lambda flag: bool(flag & _FLAG_UNIT_SUB) and not flag & _FLAG_UNIT)

    def _topics_by_flag(self, admits: Callable[[int], bool]) -> list[str]:
        return [topic for topic, by_broker in self._topics.items() if admits(QueueData(*next(iter(by_broker.values()))).topic_sys_flag)]

    def counts(self) -> dict[str, int]:
        """Sizes of the tables, for metrics and logs."""
        return {
            "topics": len(self._topics),
            "broker_names": len(self._groups),
            "brokers_live": len(self._live),
            "clusters": len(self._clusters),
            "routes_encoded": len(self._encoded),
        }
