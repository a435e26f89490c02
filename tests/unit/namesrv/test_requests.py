"""Every request of a name server: fields and body in, code, remark and answer out, without sockets."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import DiskFull
from rocketpy.config import load_config
from rocketpy.namesrv.events import Departure, MinBrokerIdNotice, RouteSettings
from rocketpy.namesrv.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from rocketpy.namesrv.requests import Effects, NamesrvRequests, request_settings
from rocketpy.namesrv.route_info import RouteInfo
from rocketpy.remoting.bodies import BodyError, DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.codes import VERSION_4_6_0, VERSION_5_3_3, RequestCode, ResponseCode
from rocketpy.remoting.command import Response, encode_fields
from rocketpy.remoting.headers import HeaderError, RegisterBrokerRequestHeader
from rocketpy.remoting.json_codec import read_json


@dataclass
class Asked:
    """What a handler reads of a native request."""

    code: int
    fields: Mapping[str, str]
    body: bytes = b""
    version: int = VERSION_5_3_3
    connection_id: int = 1
    remote_address: str = "127.0.0.1:1"


async def awaited(answer: Awaitable[Response]) -> Response:
    return await answer


async def store_nothing(changes: Mapping[str, str]) -> None:
    pass


@dataclass
class Harness:
    home: Path
    settings: dict[str, str] = field(default_factory=dict)
    now_ms: int = 0

    def __post_init__(self) -> None:
        overrides = {"kvConfigPath": str(self.home / "kv.json"), "configStorePath": str(self.home / "ns.properties"), **self.settings}
        self.config = load_config("namesrv", None, overrides)
        self.kv = KvConfig(self.home / "kv.json")
        self.routes = RouteInfo(RouteSettings(), lambda: self.now_ms)
        self.departures: list[Departure] = []
        self.notices: list[MinBrokerIdNotice] = []
        self.stored: list[Mapping[str, str]] = []
        self.queue_has_room = True
        self.disk_fault: DiskFull | None = None
        effects = Effects(self.notices.extend, self._unregister, self._store)
        self.requests = NamesrvRequests(self.config, self.routes, self.kv, effects, lambda: self.now_ms)
        self.config.subscribe(lambda changes: setattr(self.requests, "settings", request_settings(self.config)))

    async def _store(self, changes: Mapping[str, str]) -> None:
        if self.disk_fault is not None:
            raise self.disk_fault
        self.stored.append(changes)

    def _unregister(self, departure: Departure) -> bool:
        self.departures.append(departure)
        return self.queue_has_room

    def ask(self, code: RequestCode, fields: Any = None, body: bytes = b"", **more: Any) -> Response:
        asked: Any = Asked(code, encode_fields(fields) or {}, body, **more)
        answer = self.requests.handlers[code](asked)
        return answer if isinstance(answer, Response) else asyncio.run(awaited(answer))

    def register(
        self, body: RegisterBrokerBody | None = None, *, compressed: bool = False, raw: bytes | None = None, **more: Any
    ) -> Response:
        if body is None:
            body = RegisterBrokerBody({name: TopicConfig(name) for name in ("t", "u")}, DataVersion(1, 1))
        data = raw if raw is not None else body.encode(compressed=compressed)
        values: dict[str, Any] = {
            "broker_name": "a",
            "broker_addr": "a:1",
            "cluster_name": "c",
            "ha_server_addr": "a:2",
            "broker_id": 0,
            "compressed": compressed,
            "body_crc32": zlib.crc32(data) & 0x7FFFFFFF,
        }
        version = more.pop("version", VERSION_5_3_3)
        return self.ask(RequestCode.REGISTER_BROKER, RegisterBrokerRequestHeader(**{**values, **more}), data, version=version)


@pytest.fixture
def namesrv(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def body_of(response: Response) -> Any:
    assert response.code == ResponseCode.SUCCESS, response.remark
    return read_json(response.body)


def test_every_request_of_rocketmqs_name_server_has_a_handler(namesrv: Harness) -> None:
    codes = (100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901, 904)
    assert set(namesrv.requests.handlers) == set(codes)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registration_in_either_form_makes_routes(namesrv: Harness, compressed: bool) -> None:
    response = namesrv.register(compressed=compressed)
    assert (response.code, encode_fields(response.fields), response.body) == (0, {}, b"")
    route = body_of(namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}))
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "a:1"}


def test_a_compressed_registration_that_says_it_is_not_is_read_all_the_same(namesrv: Harness) -> None:
    """RocketMQ 5.x's own brokers send that with compressedRegister=true, and its name servers refuse it."""
    body = RegisterBrokerBody({name: TopicConfig(name) for name in ("t", "u")}).encode(compressed=True)
    assert namesrv.register(raw=body).code == 0
    assert namesrv.routes.all_topics() == ["t", "u"]


def test_a_registration_whose_crc_is_wrong_is_refused(namesrv: Harness) -> None:
    response = namesrv.register(body_crc32=5)
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert namesrv.register(body_crc32=0).code == 0


def test_a_registration_without_body_is_a_broker_without_topics(namesrv: Harness) -> None:
    assert namesrv.register(raw=b"", body_crc32=0).code == 0
    assert body_of(namesrv.ask(RequestCode.GET_BROKER_CLUSTER_INFO))["clusterAddrTable"] == {"c": ["a"]}


def test_a_single_topic_of_a_stranger_is_refused(namesrv: Harness) -> None:
    response = namesrv.register(RegisterBrokerBody({"t": TopicConfig("t")}))
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "register broker failed")


@pytest.mark.parametrize(
    "raw",
    [b"{", b"[]", b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"perm":"x"},"u":{}}}}', b'{"topicConfigSerializeWrapper":5}'],
)
def test_a_registration_that_cannot_be_read_says_so(namesrv: Harness, raw: bytes) -> None:
    with pytest.raises(BodyError, match="Failed to decode RegisterBrokerBody"):
        namesrv.register(raw=raw)
    assert namesrv.routes.counts()["brokers_live"] == 0


def test_brokers_before_3_0_11_register_topics_alone(namesrv: Harness) -> None:
    raw = b'{"dataVersion":{"counter":1,"timestatmp":2},"topicConfigTable":{"t":{"topicName":"t"},"u":{"topicName":"u"}}}'
    assert namesrv.register(raw=raw, version=10).code == 0
    assert namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "u"}).code == 0


def test_a_slave_is_told_its_master(namesrv: Harness) -> None:
    namesrv.register()
    response = namesrv.register(broker_id=1, broker_addr="b:1")
    assert encode_fields(response.fields) == {"haServerAddr": "a:2", "masterAddr": "a:1"}


def test_registrations_are_answered_with_the_order_configuration(namesrv: Harness) -> None:
    namesrv.kv.put(ORDER_TOPIC_CONFIG, "t", "a:4")
    assert body_of(namesrv.register()) == {"table": {"t": "a:4"}}
    namesrv.config.update({"returnOrderTopicConfigToBroker": "false"})
    assert namesrv.register().body == b""


def test_an_unknown_topic_is_answered_as_every_client_expects(namesrv: Harness) -> None:
    response = namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "X"})
    assert response.code == ResponseCode.TOPIC_NOT_EXIST
    assert response.remark == (
        "No topic route info in name server for the topic: X\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    )


def test_clients_before_4_9_4_get_bare_numeric_keys_unless_they_ask_otherwise(namesrv: Harness) -> None:
    namesrv.register()
    old = namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}, version=VERSION_4_6_0)
    assert b'"brokerAddrs":{0:"a:1"}' in old.body
    asked = {"topic": "t", "acceptStandardJsonOnly": "true"}
    assert b'"brokerAddrs":{"0":"a:1"}' in namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, asked, version=VERSION_4_6_0).body


def test_routes_are_withheld_while_brokers_register_if_asked_to(tmp_path: Path) -> None:
    namesrv = Harness(tmp_path, {"needWaitForService": "true", "waitSecondsForService": "45"})
    namesrv.register()
    response = namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "name server not ready")
    namesrv.now_ms = 45_000
    assert namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}).code == 0


def test_a_zone_request_gets_its_zone_only(namesrv: Harness) -> None:
    namesrv.register()
    fields = {"topic": "t", "__ZONE_MODE": "true", "__ZONE_NAME": "z"}
    assert body_of(namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields))["brokerDatas"] == []
    fields["__ZONE_MODE"] = "false"
    assert len(body_of(namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields))["brokerDatas"]) == 1


def test_missing_fields_are_named(namesrv: Harness) -> None:
    with pytest.raises(HeaderError, match="the custom field <topic> is null"):
        namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {})


def test_data_versions_are_compared_and_heard(namesrv: Harness) -> None:
    fields = {"brokerName": "a", "brokerAddr": "a:1", "clusterName": "c", "brokerId": "0"}
    unknown = namesrv.ask(RequestCode.QUERY_DATA_VERSION, fields, DataVersion(1, 1).encode())
    assert (encode_fields(unknown.fields), unknown.body) == ({"changed": "true"}, b"")
    namesrv.register()
    namesrv.now_ms = 120_000
    same = namesrv.ask(RequestCode.QUERY_DATA_VERSION, fields, DataVersion(1, 1).encode())
    assert encode_fields(same.fields) == {"changed": "false"}
    assert body_of(same) == {"counter": 1, "stateVersion": 0, "timestamp": 1}
    other = namesrv.ask(RequestCode.QUERY_DATA_VERSION, fields, b"{counter:2,timestamp:1}")
    assert encode_fields(other.fields) == {"changed": "true"}
    silent = namesrv.ask(RequestCode.QUERY_DATA_VERSION, fields)
    assert (encode_fields(silent.fields), silent.body) == ({"changed": "true"}, same.body)
    nobody = namesrv.ask(RequestCode.QUERY_DATA_VERSION, {**fields, "brokerAddr": "b:1"})
    assert (encode_fields(nobody.fields), nobody.body) == ({"changed": "true"}, b"")
    namesrv.now_ms = 240_000
    assert namesrv.routes.departures_by_silence() == []


def test_heartbeats_are_answered_whoever_sends_them(namesrv: Harness) -> None:
    assert namesrv.ask(RequestCode.BROKER_HEARTBEAT, {"clusterName": "c", "brokerAddr": "x:1", "brokerName": "x"}).code == 0


def test_unregistering_is_queued_and_refused_when_the_queue_is_full(namesrv: Harness) -> None:
    fields = {"brokerName": "a", "brokerAddr": "a:1", "clusterName": "c", "brokerId": "0"}
    assert namesrv.ask(RequestCode.UNREGISTER_BROKER, fields).code == 0
    assert namesrv.departures == [Departure("c", "a:1", "a", 0, registration=0)]
    namesrv.queue_has_room = False
    assert namesrv.ask(RequestCode.UNREGISTER_BROKER, fields).code == ResponseCode.SYSTEM_ERROR


def test_a_broker_that_registers_right_behind_its_leave_stays(namesrv: Harness) -> None:
    """Departures are taken out at the end of a turn, in which the broker may have come back already."""
    fields = {"brokerName": "a", "brokerAddr": "a:1", "clusterName": "c", "brokerId": "0"}
    namesrv.register()
    namesrv.ask(RequestCode.UNREGISTER_BROKER, fields)
    namesrv.register()
    namesrv.routes.unregister_brokers(namesrv.departures)
    assert namesrv.routes.all_topics() == ["t", "u"]
    namesrv.ask(RequestCode.UNREGISTER_BROKER, fields)
    namesrv.routes.unregister_brokers(namesrv.departures)
    assert namesrv.routes.all_topics() == []


def test_member_groups_and_clusters_are_in_fastjsons_shape(namesrv: Harness) -> None:
    namesrv.register()
    group = namesrv.ask(RequestCode.GET_BROKER_MEMBER_GROUP, {"clusterName": "c", "brokerName": "a"})
    assert group.body == b'{"brokerMemberGroup":{"brokerAddrs":{0:"a:1"},"brokerName":"a","cluster":"c"}}'
    empty = namesrv.ask(RequestCode.GET_BROKER_MEMBER_GROUP, {"clusterName": "c", "brokerName": "x"})
    assert empty.body == b'{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"x","cluster":"c"}}'
    assert namesrv.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body == (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"a:1"},"brokerName":"a","cluster":"c","enableActingMaster":false}},'
        b'"clusterAddrTable":{"c":["a"]}}'
    )


def test_write_permission_requests_count_topics(namesrv: Harness) -> None:
    namesrv.register()
    wiped = namesrv.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
    assert encode_fields(wiped.fields) == {"wipeTopicCount": "2"}
    added = namesrv.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "nobody"})
    assert encode_fields(added.fields) == {"addTopicCount": "0"}


TOPIC_LISTS = (
    (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "enableAllTopicList", ["t", "u"]),
    (RequestCode.GET_TOPICS_BY_CLUSTER, "enableTopicList", ["t", "u"]),
    (RequestCode.GET_UNIT_TOPIC_LIST, "enableTopicList", []),
    (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, "enableTopicList", []),
    (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, "enableTopicList", []),
)


@pytest.mark.parametrize(("code", "switch", "topics"), TOPIC_LISTS, ids=lambda value: getattr(value, "name", None))
def test_topic_lists_can_be_switched_off(namesrv: Harness, code: RequestCode, switch: str, topics: list[str]) -> None:
    namesrv.register()
    assert body_of(namesrv.ask(code, {"cluster": "c"})) == {"topicList": topics}
    namesrv.config.update({switch: "false"})
    response = namesrv.ask(code, {"cluster": "c"})
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "disable")


def test_the_system_topic_list_names_a_broker(namesrv: Harness) -> None:
    namesrv.register()
    assert body_of(namesrv.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)) == {"brokerAddr": "a:1", "topicList": ["c", "a"]}


def test_topics_are_deleted_and_registered_by_request(namesrv: Harness) -> None:
    namesrv.register()
    assert namesrv.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "t", "clusterName": "c"}).code == 0
    assert namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}).code == ResponseCode.TOPIC_NOT_EXIST
    assert namesrv.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "u"}).code == 0
    route = json.dumps({"queueDatas": [{"brokerName": "a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}).encode()
    assert namesrv.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "t"}, route).code == 0
    assert namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}).code == 0
    assert namesrv.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "w"}).code == 0


def test_key_values_are_put_got_listed_and_deleted(namesrv: Harness) -> None:
    entry = {"namespace": "n", "key": "k", "value": "v"}
    missing = namesrv.ask(RequestCode.GET_KV_CONFIG, entry)
    assert (missing.code, missing.remark) == (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: n Key: k")
    missing = namesrv.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, entry)
    assert (missing.code, missing.remark) == (ResponseCode.QUERY_NOT_FOUND, "No config item, Namespace: n")
    assert namesrv.ask(RequestCode.PUT_KV_CONFIG, entry).code == 0
    assert encode_fields(namesrv.ask(RequestCode.GET_KV_CONFIG, entry).fields) == {"value": "v"}
    assert body_of(namesrv.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, entry)) == {"table": {"k": "v"}}
    assert namesrv.ask(RequestCode.DELETE_KV_CONFIG, entry).code == 0
    assert namesrv.ask(RequestCode.GET_KV_CONFIG, entry).code == ResponseCode.QUERY_NOT_FOUND


def test_a_key_value_that_was_not_stored_is_not_acknowledged(namesrv: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(namesrv.kv, "put", full)
    response = namesrv.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"})
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "kvconfig was not stored: no space left")


def test_configuration_is_shown_and_changed_by_request(namesrv: Harness) -> None:
    shown = namesrv.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode().splitlines()
    assert "enableTopicList=true" in shown
    assert shown == sorted(shown)
    assert namesrv.ask(RequestCode.UPDATE_NAMESRV_CONFIG, None, b"enableTopicList=false\n").code == 0
    assert not namesrv.config.boolean("enableTopicList")
    assert namesrv.stored == [{"enableTopicList": "false"}]


def test_a_change_that_was_not_stored_says_that_it_is_in_force(namesrv: Harness) -> None:
    namesrv.disk_fault = DiskFull("no space left")
    response = namesrv.ask(RequestCode.UPDATE_NAMESRV_CONFIG, None, b"enableTopicList=false")
    assert (response.code, response.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "the change is in force, but it could not be stored: no space left",
    )
    assert not namesrv.config.boolean("enableTopicList")


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "configBlackList", "rocketmqHome"])
def test_the_black_list_is_not_changed_by_request(namesrv: Harness, key: str) -> None:
    response = namesrv.ask(RequestCode.UPDATE_NAMESRV_CONFIG, None, f"{key}=x\nenableTopicList=false".encode())
    assert (response.code, response.remark) == (ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    assert namesrv.config.boolean("enableTopicList")


def test_a_bad_value_changes_nothing(namesrv: Harness) -> None:
    response = namesrv.ask(RequestCode.UPDATE_NAMESRV_CONFIG, None, b"enableTopicList=false\nwaitSecondsForService=x")
    assert response.code == ResponseCode.INVALID_PARAMETER
    assert response.remark == "waitSecondsForService: 'x' is not valid: expected a whole number of s from 0 to 2147483647"
    assert namesrv.config.boolean("enableTopicList")
    assert namesrv.stored == []
