"""The name server's tables under random sequences of what brokers, administrators and time do, and requests under random input."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketpy.config import load_config
from rocketpy.namesrv.events import Departure, Registration, RouteSettings
from rocketpy.namesrv.kv_config import KvConfig
from rocketpy.namesrv.requests import Effects, NamesrvRequests
from rocketpy.namesrv.route_info import RouteInfo
from rocketpy.remoting.bodies import DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.command import Response
from rocketpy.remoting.headers import HeaderError
from rocketpy.remoting.json_codec import write_fastjson
from rocketpy.remoting.route import QueueData
from tests.unit.namesrv.test_requests import Asked, awaited, store_nothing

NAMES = st.sampled_from(["a", "b"])
CLUSTERS = st.sampled_from(["c", "d"])
HOSTS = st.sampled_from(["x", "y", "z"])
PLACES = st.tuples(CLUSTERS, HOSTS).map(lambda place: (place[0], "-".join(place) + ":1"))
"""(cluster, address): no process is in two clusters."""
IDS = st.integers(0, 2)
TOPICS = st.sampled_from(["t", "u", "v"])
CONNECTIONS = st.integers(1, 3)
BODIES = st.builds(
    RegisterBrokerBody,
    st.sets(TOPICS).map(lambda names: {name: TopicConfig(name, 4, 4) for name in sorted(names)}),
    st.builds(DataVersion, st.just(1), st.integers(1, 2), st.integers(0, 1)),
    st.sampled_from([(), ("f:1",)]),
)
REGISTRATIONS = st.builds(
    lambda place, *rest: Registration(*place, *rest),
    PLACES,
    NAMES,
    IDS,
    st.just("h:1"),
    BODIES,
    CONNECTIONS,
    st.sampled_from([None, 50]),
    st.sampled_from([None, False, True]),
    st.sampled_from([None, "z"]),
)
SETTINGS = st.builds(RouteSettings, st.booleans(), st.booleans(), st.booleans())


class RouteTables(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.routes = RouteInfo(RouteSettings(), lambda: self.now_ms)

    @rule(registration=REGISTRATIONS)
    def register(self, registration: Registration) -> None:
        registered = self.routes.register_broker(registration)
        known = self.routes.data_version(registration.cluster, registration.address)
        if registered.accepted and known is not None:
            assert known == registration.body.data_version

    @rule(place=PLACES, name=NAMES, broker_id=IDS)
    def unregister(self, place: tuple[str, str], name: str, broker_id: int) -> None:
        cluster, address = place
        for notice in self.routes.unregister_brokers([Departure(cluster, address, name, broker_id)]):
            assert notice.offline_address == address
            assert address not in notice.targets
        assert self.routes.data_version(cluster, address) is None

    @rule(connection_id=CONNECTIONS, registration=st.none() | REGISTRATIONS)
    def close_connection(self, connection_id: int, registration: Registration | None) -> None:
        """Maybe a broker registers anew between the closing and the cleaning up."""
        departures = self.routes.departures_of_connection(connection_id)
        anew = registration is not None and self.routes.register_broker(registration).accepted
        before = self.routes.data_version(registration.cluster, registration.address) if registration is not None else None
        self.routes.unregister_brokers(departures)
        if registration is not None and anew:
            assert self.routes.data_version(registration.cluster, registration.address) == before

    @rule(passed_ms=st.sampled_from([10, 60, 200_000]))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.routes.unregister_brokers([departure for departure, _ in self.routes.departures_by_silence()])
        assert self.routes.departures_by_silence() == []

    @rule(place=PLACES)
    def hear(self, place: tuple[str, str]) -> None:
        self.routes.hear(*place)

    @rule(topic=TOPICS, cluster=st.none() | CLUSTERS)
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.routes.delete_topic(topic, cluster)
        if cluster is None:
            assert self.routes.pick_route(topic) is None

    @rule(topic=TOPICS, name=NAMES)
    def register_topic(self, topic: str, name: str) -> None:
        self.routes.register_topic(topic, [QueueData(name, 1, 1, 6)])

    @rule(name=NAMES)
    def wipe(self, name: str) -> None:
        count = self.routes.wipe_write_perm(name)
        perms = [queues.perm for topic in self.routes.all_topics() for queues in self.queues(topic) if queues.broker_name == name]
        assert len(perms) == count
        assert not any(perm & 2 for perm in perms)

    @rule(name=NAMES)
    def give_back(self, name: str) -> None:
        self.routes.add_write_perm(name)

    @rule(chosen=SETTINGS)
    def configure(self, chosen: RouteSettings) -> None:
        self.routes.set_settings(chosen)

    def queues(self, topic: str) -> tuple[QueueData, ...]:
        route = self.routes.pick_route(topic)
        return route.queue_datas if route is not None else ()

    @invariant()
    def connections_have_their_brokers(self) -> None:
        listed: dict[int, set[tuple[str, str]]] = {}
        for key, live in self.routes._live.items():
            listed.setdefault(live.connection_id, set()).add(key)
        assert {connection: set(keys) for connection, keys in self.routes._by_connection.items()} == listed

    @invariant()
    def kept_bytes_are_those_of_now(self) -> None:
        for topic in ("t", "u", "v"):
            route = self.routes.pick_route(topic)
            for standard in (True, False):
                expected = route.encode(standard=standard) if route is not None else None
                assert self.routes.encoded_route(topic, standard=standard) == expected
        assert self.routes.encoded_cluster_info() == write_fastjson(self.routes.cluster_info())

    @invariant()
    def every_name_in_a_table_is_in_the_others(self) -> None:
        info = self.routes.cluster_info()
        brokers, clusters = info["brokerAddrTable"], info["clusterAddrTable"]
        assert all(data["brokerAddrs"] for data in brokers.values())
        assert all(names for names in clusters.values())
        assert {name for names in clusters.values() for name in names} == set(brokers)
        for topic in self.routes.all_topics():
            assert {queues.broker_name for queues in self.queues(topic)} <= set(brokers)
            assert self.queues(topic)

    @invariant()
    def every_address_in_a_name_is_heard(self) -> None:
        """Or nothing would ever take it out."""
        for data in self.routes.cluster_info()["brokerAddrTable"].values():
            for address in data["brokerAddrs"].values():
                assert any(self.routes.data_version(cluster, address) for cluster in ("c", "d"))

    @invariant()
    def an_address_has_one_id_in_a_name(self) -> None:
        for data in self.routes.cluster_info()["brokerAddrTable"].values():
            assert len(set(data["brokerAddrs"].values())) == len(data["brokerAddrs"])


TestRouteTables = RouteTables.TestCase
TestRouteTables.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

FIELD_NAMES = [
    "topic",
    "clusterName",
    "brokerName",
    "brokerAddr",
    "brokerId",
    "haServerAddr",
    "compressed",
    "bodyCrc32",
    "namespace",
    "key",
]
FIELD_NAMES += ["value", "cluster", "heartbeatTimeoutMillis", "enableActingMaster", "acceptStandardJsonOnly", "__ZONE_NAME", "__ZONE_MODE"]
FIELDS = st.dictionaries(st.sampled_from(FIELD_NAMES), st.sampled_from(["0", "1", "-1", "a", "true", "", "9" * 30]) | st.text(max_size=5))
JSON_BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["topicConfigSerializeWrapper", "topicConfigTable", "dataVersion", "queueDatas", "brokerName", "perm", "counter", "t"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(data=st.data())
def test_no_request_raises_anything_but_a_header_error(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as home:
        config = load_config("namesrv", None, {"kvConfigPath": f"{home}/kv.json"})
        routes = RouteInfo(RouteSettings(), lambda: 0)
        effects = Effects(list, lambda departure: True, store_nothing)
        requests = NamesrvRequests(config, routes, KvConfig(Path(home) / "kv.json"), effects, lambda: 0)
        for _ in range(3):
            body = data.draw(st.binary(max_size=30) | JSON_BODIES.map(lambda value: json.dumps(value).encode()))
            code = data.draw(st.sampled_from(sorted(requests.handlers)))
            asked: Any = Asked(code, data.draw(FIELDS), body, data.draw(st.sampled_from([0, 333, 479])))
            try:
                answer = requests.handlers[code](asked)
                assert isinstance(answer if isinstance(answer, Response) else asyncio.run(awaited(answer)), Response)
            except HeaderError:
                pass
