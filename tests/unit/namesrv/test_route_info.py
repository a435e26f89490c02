"""The name server's tables on a fake clock: who is there, who goes, and what a topic's route is after each step."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from rocketpy.namesrv.events import Departure, Registered, Registration, RouteSettings
from rocketpy.namesrv.route_info import SHAPES_MAX, RouteInfo
from rocketpy.remoting.bodies import BodyError, DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.json_codec import write_fastjson
from rocketpy.remoting.route import QueueData


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Tables:
    """RouteInfo with short words for what brokers do."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.order: dict[str, str] = {}
        self.routes = RouteInfo(RouteSettings(**settings), self.clock, self.order.get)
        self._connections = itertools.count(1)

    def register(self, name: str = "a", broker_id: int = 0, address: str = "", topics: Any = ("t", "u"), **more: Any) -> Registered:
        listed = topics if isinstance(topics, Mapping) else {topic: TopicConfig(topic, 4, 4) for topic in topics}
        body = RegisterBrokerBody(
            listed, more.pop("version", DataVersion(1, 1)), more.pop("filter_servers", ()), more.pop("queue_mappings", {})
        )
        cluster = more.pop("cluster", "c")
        connection_id = more.pop("connection_id", None) or next(self._connections)
        return self.routes.register_broker(
            Registration(cluster, address or f"{name}{broker_id}:1", name, broker_id, f"{name}{broker_id}:2", body, connection_id, **more)
        )

    def unregister(self, name: str = "a", broker_id: int = 0, cluster: str = "c") -> Any:
        return self.routes.unregister_brokers([Departure(cluster, f"{name}{broker_id}:1", name, broker_id)])

    def addresses(self, topic: str = "t") -> dict[str, dict[int, str]]:
        route = self.routes.pick_route(topic)
        return {} if route is None else {broker.broker_name: dict(broker.broker_addrs) for broker in route.broker_datas}

    def perms(self, topic: str = "t") -> dict[str, int]:
        route = self.routes.pick_route(topic)
        return {} if route is None else {queues.broker_name: queues.perm for queues in route.queue_datas}


# ---- coming ----


def test_a_registered_master_serves_its_topics() -> None:
    tables = Tables()
    assert tables.register().accepted
    route = tables.routes.pick_route("t")
    assert route is not None
    assert route.queue_datas == (QueueData("a", 4, 4, 6, 0),)
    assert tables.addresses() == {"a": {0: "a0:1"}}
    assert tables.routes.pick_route("unknown") is None


def test_a_slave_learns_its_master_and_adds_no_topics() -> None:
    tables = Tables()
    tables.register()
    registered = tables.register(broker_id=1, topics=("t", "u", "only-slave"))
    assert (registered.master_address, registered.ha_address) == ("a0:1", "a0:2")
    assert tables.routes.pick_route("only-slave") is None
    assert tables.addresses() == {"a": {0: "a0:1", 1: "a1:1"}}


def test_a_slave_without_master_adds_topics_only_if_it_knows_of_acting_masters() -> None:
    tables = Tables()
    tables.register("old", 1)
    assert tables.routes.pick_route("t") is None
    tables.register("new", 1, enable_acting_master=False)
    assert tables.perms() == {"new": 6}


def test_a_slave_that_became_master_loses_its_old_id() -> None:
    tables = Tables()
    tables.register(broker_id=1, enable_acting_master=False)
    tables.register(broker_id=0, address="a1:1")
    assert tables.addresses() == {"a": {0: "a1:1"}}


def test_an_id_goes_to_the_newcomer_unless_the_holder_has_a_greater_state_version() -> None:
    tables = Tables()
    tables.register(version=DataVersion(1, 1, 5))
    assert tables.register(address="other:1", version=DataVersion(2, 9, 4)).accepted
    assert tables.addresses() == {"a": {0: "a0:1"}}
    tables.register(address="other:1", version=DataVersion(1, 1, 5))
    assert tables.addresses() == {"a": {0: "other:1"}}


def test_a_single_topic_is_refused_from_a_broker_that_is_not_registered() -> None:
    tables = Tables()
    assert not tables.register(topics=("t",)).accepted
    assert tables.routes.cluster_info() == {"brokerAddrTable": {}, "clusterAddrTable": {}}
    tables.register()
    assert tables.register(topics=("new",), version=DataVersion(1, 2)).accepted
    assert tables.routes.pick_route("new") is not None


def test_a_changed_data_version_brings_new_queues_and_an_equal_one_changes_nothing() -> None:
    tables = Tables()
    tables.register()
    changed = {"t": TopicConfig("t", 8, 8), "u": TopicConfig("u")}
    tables.register(topics=changed)
    assert tables.routes.pick_route("t").queue_datas[0].read_queue_nums == 4  # type: ignore[union-attr]
    tables.register(topics=changed, version=DataVersion(1, 2))
    assert tables.routes.pick_route("t").queue_datas[0].read_queue_nums == 8  # type: ignore[union-attr]


def test_a_topic_missing_in_the_tables_is_taken_even_with_an_equal_version() -> None:
    tables = Tables()
    tables.register()
    tables.routes.delete_topic("t")
    tables.register()
    assert tables.routes.pick_route("t") is not None


def test_a_topic_that_cannot_be_read_leaves_everything_as_it_was() -> None:
    tables = Tables()
    tables.register()
    raw = b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":2},"topicConfigTable":{"t":{"readQueueNums":9},"v":{"perm":"x"}}}}'
    bad = RegisterBrokerBody.decode(raw)
    before = tables.routes.cluster_info(), tables.routes.pick_route("t"), tables.routes.counts()
    with pytest.raises(BodyError, match="perm: expected a whole number"):
        tables.register(address="other:1", topics=bad.topics, version=bad.data_version)
    assert (tables.routes.cluster_info(), tables.routes.pick_route("t"), tables.routes.counts()) == before


def test_a_repeated_registration_does_not_look_at_its_topics() -> None:
    tables = Tables()
    tables.register()
    unreadable = b'{"t":{"perm":"x"},"u":{"perm":"x"}}'
    raw = b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":' + unreadable + b"}}"
    body = RegisterBrokerBody.decode(raw)
    assert tables.register(topics=body.topics, version=body.data_version).accepted


def test_unlisted_topics_stay_unless_the_switch_says_otherwise() -> None:
    for delete, left in ((False, ["t", "u", "v"]), (True, ["u", "v"])):
        tables = Tables(delete_unlisted_topics=delete)
        tables.register()
        tables.register(topics=("u", "v"), version=DataVersion(1, 2))
        assert sorted(tables.routes.all_topics()) == left


# ---- going ----


def test_the_last_broker_of_a_name_takes_its_topics_along() -> None:
    tables = Tables()
    tables.register("a")
    tables.register("b", topics=("t", "w"))
    tables.unregister("a")
    assert sorted(tables.routes.all_topics()) == ["t", "w"]
    assert tables.addresses() == {"b": {0: "b0:1"}}
    tables.unregister("b")
    assert tables.routes.counts() == {"topics": 0, "broker_names": 0, "brokers_live": 0, "clusters": 0, "routes_encoded": 0}


def test_a_master_that_goes_leaves_its_slave_in_the_route() -> None:
    tables = Tables()
    tables.register()
    tables.register(broker_id=1)
    tables.unregister()
    assert tables.addresses() == {"a": {1: "a1:1"}}


def test_silence_takes_a_broker_out_after_its_own_time_out() -> None:
    tables = Tables()
    tables.register("a", connection_id=7)
    tables.register("b", heartbeat_timeout_ms=3000, connection_id=8)
    tables.clock.now_ms += 3001
    (departure, connection_id), *others = tables.routes.departures_by_silence()
    assert (departure.broker_name, connection_id, others) == ("b", 8, [])
    tables.routes.unregister_brokers([departure])
    tables.clock.now_ms += 120_000 - 3001
    assert tables.routes.departures_by_silence() == []
    tables.clock.now_ms += 1
    assert [departure.broker_name for departure, _ in tables.routes.departures_by_silence()] == ["a"]


def test_a_heartbeat_keeps_a_broker() -> None:
    tables = Tables()
    tables.register()
    tables.clock.now_ms += 120_000
    tables.routes.hear("c", "a0:1")
    tables.clock.now_ms += 120_000
    assert tables.routes.departures_by_silence() == []
    tables.routes.hear("c", "nobody:1")


def test_a_closed_connection_takes_out_every_broker_that_registered_on_it() -> None:
    tables = Tables()
    tables.register("a", connection_id=5)
    tables.register("b", connection_id=5)
    tables.register("d", connection_id=6)
    tables.routes.unregister_brokers(tables.routes.departures_of_connection(5))
    assert set(tables.addresses()) == {"d"}


def test_a_closed_connection_has_no_other_brokers_looked_at() -> None:
    """Each client's that closes had: of 2,000 brokers whose network breaks that was the square."""

    class Unwalked(dict[Any, Any]):
        def items(self) -> Any:
            raise AssertionError("a walk over all brokers")

    tables = Tables()
    for number in range(4):
        tables.register(f"b{number}", connection_id=number)
    tables.routes._live = Unwalked(tables.routes._live)
    assert [each.broker_name for each in tables.routes.departures_of_connection(2)] == ["b2"]
    assert tables.routes.departures_of_connection(99) == []


def test_a_broker_that_registered_anew_survives_the_news_of_its_old_connection() -> None:
    tables = Tables()
    tables.register(connection_id=5)
    departures = tables.routes.departures_of_connection(5)
    tables.register(connection_id=6)
    tables.routes.unregister_brokers(departures)
    assert tables.addresses() == {"a": {0: "a0:1"}}
    assert tables.routes.departures_of_connection(5) == []


def test_unregistering_somebody_unknown_changes_nothing() -> None:
    tables = Tables()
    tables.register()
    assert tables.unregister("nobody") == []
    assert tables.unregister("a", 3) == []
    assert tables.addresses() == {"a": {0: "a0:1"}}


def test_a_broker_that_changed_its_name_leaves_the_old_one() -> None:
    tables = Tables()
    tables.register("old", address="x:1")
    tables.register("new", address="x:1", topics=("t", "v"))
    assert tables.routes.cluster_info()["clusterAddrTable"] == {"c": ["new"]}
    assert sorted(tables.routes.all_topics()) == ["t", "v"]


def test_a_rejected_broker_leaves_the_id_it_had() -> None:
    tables = Tables()
    tables.register(address="x:1", version=DataVersion(1, 1, 5))
    tables.register(broker_id=1, address="y:1")
    tables.register(broker_id=0, address="y:1", version=DataVersion(1, 1, 4))
    assert tables.addresses() == {"a": {0: "x:1"}}


def test_a_departure_under_a_wrong_name_takes_the_broker_out_all_the_same() -> None:
    tables = Tables()
    tables.register(address="x:1")
    tables.routes.unregister_brokers([Departure("c", "x:1", "misspelt", 0)])
    assert tables.routes.counts()["broker_names"] == 0


def test_a_name_in_two_clusters_leaves_both() -> None:
    tables = Tables()
    tables.register(cluster="c")
    tables.register(broker_id=1, cluster="d")
    tables.unregister(cluster="c")
    tables.unregister(broker_id=1, cluster="d")
    assert tables.routes.cluster_info()["clusterAddrTable"] == {}


# ---- acting masters and notices ----


def test_the_least_slave_stands_in_for_a_master_that_is_down_and_is_read_only() -> None:
    tables = Tables(support_acting_master=True)
    for broker_id in (0, 1, 2):
        tables.register(broker_id=broker_id, enable_acting_master=True)
    tables.unregister()
    assert tables.perms() == {"a": 4}
    assert tables.addresses() == {"a": {0: "a1:1", 2: "a2:1"}}
    tables.register(enable_acting_master=True)
    assert tables.perms() == {"a": 6}
    assert tables.addresses() == {"a": {0: "a0:1", 1: "a1:1", 2: "a2:1"}}


@pytest.mark.parametrize(
    ("settings", "acting", "topic"),
    [
        ({}, True, "t"),
        ({"support_acting_master": True}, False, "t"),
        ({"support_acting_master": True}, True, "rmq_sys_SYNC_BROKER_MEMBER_a"),
    ],
)
def test_nobody_stands_in_when_one_side_does_not_want_it(settings: Any, acting: bool, topic: str) -> None:
    tables = Tables(**settings)
    for broker_id in (0, 1):
        tables.register(broker_id=broker_id, enable_acting_master=acting, topics=("t", "rmq_sys_SYNC_BROKER_MEMBER_a"))
    tables.unregister()
    assert tables.addresses(topic) == {"a": {1: "a1:1"}}


def test_the_others_are_told_when_the_least_id_goes_and_when_it_comes_back() -> None:
    tables = Tables(notify_min_broker_id=True)
    for broker_id in (0, 1, 2):
        assert tables.register(broker_id=broker_id, enable_acting_master=True).notices == ()
    (notice,) = tables.unregister()
    assert (notice.targets, notice.min_broker_id, notice.min_broker_address) == (("a1:1", "a2:1"), 1, "a1:1")
    assert (notice.offline_address, notice.ha_address) == ("a0:1", None)
    (notice,) = tables.register(enable_acting_master=True).notices
    assert (notice.targets, notice.min_broker_id, notice.ha_address) == (("a1:1", "a2:1"), 0, "a0:2")


def test_nobody_is_told_when_another_than_the_least_goes_or_the_switch_is_off() -> None:
    tables = Tables(notify_min_broker_id=True)
    for broker_id in (0, 1):
        tables.register(broker_id=broker_id, enable_acting_master=True)
    assert tables.unregister(broker_id=1) == []
    tables.register(broker_id=1, enable_acting_master=True)
    tables.routes.set_settings(RouteSettings())
    assert tables.unregister() == []


# ---- administration ----


def test_write_permission_is_wiped_and_given_back_for_one_broker() -> None:
    tables = Tables()
    tables.register("a")
    tables.register("b")
    assert tables.routes.wipe_write_perm("a") == 2
    assert tables.perms() == {"a": 4, "b": 6}
    tables.register("a")
    assert tables.perms() == {"a": 4, "b": 6}
    assert tables.routes.add_write_perm("a") == 2
    assert tables.perms() == {"a": 6, "b": 6}
    assert tables.routes.wipe_write_perm("nobody") == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    tables = Tables()
    tables.register("a", cluster="c")
    tables.register("b", cluster="d")
    tables.routes.delete_topic("t", "c")
    assert set(tables.addresses("t")) == {"b"}
    tables.routes.delete_topic("t", "nowhere")
    tables.routes.delete_topic("t")
    assert tables.routes.pick_route("t") is None
    assert tables.addresses("u") == {"a": {0: "a0:1"}, "b": {0: "b0:1"}}


def test_an_administrator_registers_a_topic_on_brokers_that_are_there() -> None:
    tables = Tables()
    tables.register()
    tables.routes.register_topic("new", [QueueData("a", 2, 2, 6)])
    tables.routes.register_topic("bad", [QueueData("a", 2, 2, 6), QueueData("nobody", 2, 2, 6)])
    assert tables.routes.pick_route("new") is not None
    assert tables.routes.pick_route("bad") is None
    tables.unregister()
    assert tables.routes.pick_route("new") is None


def test_topic_lists_go_by_cluster_and_unit_flags() -> None:
    tables = Tables()
    flags = {"plain": 0, "unit": 1, "sub": 2, "both": 3}
    tables.register("a", cluster="c", topics={name: TopicConfig(name, topic_sys_flag=flag) for name, flag in flags.items()})
    tables.register("b", cluster="d")
    assert tables.routes.topics_of_cluster("c") == sorted(flags)
    assert tables.routes.topics_of_cluster("nowhere") == []
    assert tables.routes.unit_topics() == ["unit", "both"]
    assert tables.routes.unit_sub_topics() == ["sub", "both"]
    assert tables.routes.unit_sub_ununit_topics() == ["sub"]
    assert tables.routes.system_topics() == (["c", "a", "d", "b"], "a0:1")


def test_data_versions_are_known_per_broker() -> None:
    tables = Tables()
    tables.register(version=DataVersion(5, 6, 7))
    assert tables.routes.data_version("c", "a0:1") == DataVersion(5, 6, 7)
    assert tables.routes.data_version("other", "a0:1") is None


def test_filter_servers_and_queue_mappings_travel_in_the_route() -> None:
    tables = Tables()
    mapping = {"topic": "t", "bname": "a", "totalQueues": 1, "currIdMap": {"0": 0}}
    tables.register(filter_servers=("f:1",), queue_mappings={"t": mapping})
    route = tables.routes.pick_route("t")
    assert route is not None
    assert (route.filter_servers, route.queue_mappings) == ({"a0:1": ("f:1",)}, {"a": mapping})
    tables.register(filter_servers=())
    assert tables.routes.pick_route("t").filter_servers == {}  # type: ignore[union-attr]


def test_a_mapping_goes_with_its_topic_and_none_is_kept_without_one() -> None:
    tables = Tables()
    mapping = {"topic": "ghost", "bname": "a", "totalQueues": 1, "currIdMap": {"0": 0}}
    tables.register(queue_mappings={"ghost": mapping, "t": mapping})
    tables.unregister()
    tables.register("b", topics=("ghost", "t"))
    for topic in ("ghost", "t"):
        route = tables.routes.pick_route(topic)
        assert route is not None and route.queue_mappings is None


# ---- encoded routes ----


def test_a_route_is_standard_json_or_fastjsons() -> None:
    tables = Tables()
    tables.register(zone_name="z")
    standard = tables.routes.encoded_route("t", standard=True)
    assert standard is not None
    broker = {"brokerAddrs": {"0": "a0:1"}, "brokerName": "a", "cluster": "c", "enableActingMaster": False, "zoneName": "z"}
    queues = {"brokerName": "a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
    assert json.loads(standard) == {"brokerDatas": [broker], "filterServerTable": {}, "queueDatas": [queues]}
    assert tables.routes.encoded_route("t", standard=False) == standard.replace(b'"0":', b"0:")


def test_an_encoded_route_is_kept_until_something_in_it_changes() -> None:
    tables = Tables()
    tables.register()

    def encoded() -> bytes | None:
        return tables.routes.encoded_route("t", standard=True)

    first = encoded()
    tables.register()
    tables.routes.hear("c", "a0:1")
    assert encoded() is first
    changes = [
        lambda: tables.register(broker_id=1),
        lambda: tables.unregister(broker_id=1),
        lambda: tables.routes.wipe_write_perm("a"),
        lambda: tables.routes.add_write_perm("a"),
        lambda: tables.register("b"),
        lambda: tables.register("b", filter_servers=("f:1",)),
        lambda: tables.register("b", zone_name="z"),
        lambda: tables.routes.delete_topic("t", "c"),
        lambda: tables.register(version=DataVersion(1, 2)),
        lambda: (tables.order.update(t="a:4"), tables.routes.forget_encoded_routes()),
    ]
    for number, change in enumerate(changes):
        before = encoded()
        change()
        assert encoded() != before, f"change {number} is not in the route"


def test_the_encoded_clusters_are_kept_until_a_broker_comes_goes_or_changes() -> None:
    tables = Tables()
    tables.register()

    def encoded() -> bytes:
        return tables.routes.encoded_cluster_info()

    first = encoded()
    tables.register()
    tables.register(version=DataVersion(1, 2), topics=("other",))
    tables.routes.hear("c", "a0:1")
    assert encoded() is first, "topics are no part of it"
    changes = [
        lambda: tables.register(broker_id=1),
        lambda: tables.register(broker_id=1, address="elsewhere:1"),
        lambda: tables.register(zone_name="z"),
        lambda: tables.register(zone_name="z", enable_acting_master=True),
        lambda: tables.unregister(),
        lambda: tables.register("b"),
        lambda: tables.register("b", cluster="d"),
        lambda: tables.register("renamed", address="b0:1"),
        lambda: tables.routes.unregister_brokers([Departure("c", "b0:1", "renamed", 0)]),
    ]
    for number, change in enumerate(changes):
        before = encoded()
        change()
        assert encoded() == write_fastjson(tables.routes.cluster_info()) != before, f"change {number} is not in it"


def test_the_order_configuration_is_in_the_route() -> None:
    tables = Tables()
    tables.order["t"] = "a:4"
    tables.register()
    assert json.loads(tables.routes.encoded_route("t", standard=True) or b"")["orderTopicConf"] == "a:4"


def test_zones_keep_their_brokers_and_those_without_master() -> None:
    tables = Tables()
    tables.register("near", zone_name="Z")
    tables.register("far", zone_name="y", filter_servers=("f:1",))
    tables.register("headless", 1, zone_name="y", enable_acting_master=False)
    route = tables.routes.pick_route("t")
    assert route is not None
    zoned = route.in_zone("z")
    assert [broker.broker_name for broker in zoned.broker_datas] == ["near", "headless"]
    assert [queues.broker_name for queues in zoned.queue_datas] == ["near", "headless"]
    assert zoned.filter_servers == {}


# ---- what thousands of topics take ----


def test_topics_of_the_same_kind_and_name_are_kept_once() -> None:
    """500 brokers with 5,000 topics each are 2,500,000 entries: texts and queues of their own took 300 bytes of each."""
    tables = Tables()
    for broker in ("a", "b"):
        listed = [TopicConfig(f"topic-{number}", 4 + number % 2, 4) for number in range(300)]
        tables.register(broker, topics={config.topic_name: config for config in listed})
    gc.collect()
    by_topic = tables.routes._topics.values()
    assert len({id(queues) for by_broker in by_topic for queues in by_broker.values()}) == 4
    groups = [tables.routes._groups[broker].topics for broker in ("a", "b")]
    assert not any(map(gc.is_tracked, [*by_topic, *groups])), "the garbage collector goes through them"
    names = [{id(topic) for topic in tables.routes._groups[broker].topics} for broker in ("a", "b")]
    assert names[0] == names[1]


def test_what_topics_share_is_bounded() -> None:
    tables = Tables()
    tables.register(topics={f"t{number}": TopicConfig(f"t{number}", 1 + number, 4) for number in range(5000)})
    assert len(tables.routes._groups["a"].shapes) <= SHAPES_MAX
    routes = [tables.routes.pick_route(f"t{number}") for number in range(5000)]
    assert [route.queue_datas[0].read_queue_nums for route in routes if route is not None] == list(range(1, 5001))
