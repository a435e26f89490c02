"""Our name server beside RocketMQ's: the same requests get the same answers, and real brokers and tools work with ours.

What mixed clusters show (plain registration, routes for clients, a killed broker) is in test_mixed.py.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rocketpy.remoting.bodies import DataVersion, RegisterBrokerBody, TopicConfig
from tests.processes import wait_until

from . import wire
from .javaenv import Jvm
from .mqadmin import MqAdmin
from .products import Broker, Cluster, NameServer, Peer, Product

MakeCluster = Callable[..., Cluster]
OLD_VERSION = 395  # a client of 4.9.1
BOTH_SETTINGS = {"supportActingMaster": True, "orderMessageEnable": True, "scanNotActiveBrokerInterval": 100}


@pytest.fixture(scope="module")
def pair(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NameServer]]:
    """Ours and theirs."""
    home = tmp_path_factory.mktemp("pair")
    servers = [NameServer(each, home / each.name, BOTH_SETTINGS) for each in (product, peer)]
    try:
        yield [server.start() for server in servers]
    finally:
        for server in servers:
            server.kill()


class Asker:
    """Connections that stay open, since a name server forgets a broker when its connection closes."""

    def __init__(self, servers: list[NameServer]) -> None:
        self._sockets = [wire.socket.create_connection(("127.0.0.1", server.port), 5) for server in servers]
        self._opaque = 0

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", version: int = 501) -> list[dict[str, Any]]:
        """What each server answers, in a form that can be compared."""
        self._opaque += 1
        frame = wire.encode(code, fields, body, self._opaque, version=version)
        answers = []
        for each in self._sockets:
            each.sendall(frame)
            answers.append(comparable(wire.read_reply(each)))
        return answers


def comparable(reply: wire.Reply) -> dict[str, Any]:
    text = reply.body.decode()
    return {
        "code": reply.code,
        "remark": None if reply.remark == "not set any response code" else reply.remark,  # where theirs forgets to clear it
        "fields": reply.fields,
        "keys are bare": '"brokerAddrs":{"' not in text,
        "body": ordered(wire.parse_json(text)) if text else None,
    }


def ordered(value: Any) -> Any:
    """Lists whose order is a hash table's order in Java, sorted."""
    if isinstance(value, dict) and value.get("brokerAddr") and "topicList" in value:
        value = {**value, "brokerAddr": "any"}  # some broker: the first of a hash table
    if isinstance(value, list):
        return sorted((ordered(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return {key: ordered(each) for key, each in value.items()} if isinstance(value, dict) else value


def registration(
    name: str, broker_id: int, *, compressed: bool = False, counter: int = 1, acting: bool | None = True, **topics: int
) -> Any:
    body = RegisterBrokerBody(
        {topic: TopicConfig(topic, queues, queues) for topic, queues in topics.items()}, DataVersion(1, counter), ("f:1",)
    )
    encoded = body.encode(compressed=compressed)
    fields = {
        "brokerName": name, "brokerAddr": f"10.0.0.{broker_id}:{len(name)}", "clusterName": "c", "haServerAddr": f"10.0.0.{broker_id}:9",
        "brokerId": str(broker_id), "compressed": str(compressed).lower(), "bodyCrc32": str(zlib.crc32(encoded) & 0x7FFFFFFF),
    }  # fmt: skip
    if acting is not None:
        fields["enableActingMaster"] = str(acting).lower()
    return 103, fields, encoded


def departure(name: str, broker_id: int) -> Any:
    return 104, {"brokerName": name, "brokerAddr": f"10.0.0.{broker_id}:{len(name)}", "clusterName": "c", "brokerId": str(broker_id)}


def version_query(name: str, broker_id: int, counter: int) -> Any:
    fields = {"brokerName": name, "brokerAddr": f"10.0.0.{broker_id}:{len(name)}", "clusterName": "c", "brokerId": str(broker_id)}
    return 322, fields, DataVersion(1, counter).encode()


ROUTE, LISTS = 105, (106, 206, 304, 311, 312, 313)
STORY: list[Any] = [
    *LISTS,
    (ROUTE, {"topic": "t"}),
    (101, {"namespace": "n", "key": "k"}),
    (219, {"namespace": "n"}),
    (901, {"clusterName": "c", "brokerName": "a"}),
    version_query("a", 0, 1),
    (904, {"clusterName": "c", "brokerName": "a", "brokerAddr": "10.0.0.0:1", "brokerId": "0"}),
    registration("a", 0, t=4),
    registration("a", 0, t=4, u=8),
    registration("a", 1, t=4, u=8, only_slave=1),
    registration("a", 2, compressed=True, t=4, u=8),
    registration("bb", 0, compressed=True, t=2, w=2),
    registration("ccc", 1, acting=None, t=2, x=2),
    registration("dddd", 1, acting=False, t=2, y=2),
    *LISTS,
    (224, {"cluster": "c"}),
    (901, {"clusterName": "c", "brokerName": "a"}),
    *[(ROUTE, {"topic": topic}) for topic in ("t", "u", "w", "x", "y", "only_slave")],
    (ROUTE, {"topic": "t"}, b"", OLD_VERSION),
    (ROUTE, {"topic": "t", "acceptStandardJsonOnly": "true"}, b"", OLD_VERSION),
    version_query("a", 0, 1),
    version_query("a", 0, 2),
    (100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "t", "value": "a:4;bb:2"}),
    (100, {"namespace": "n", "key": "k", "value": "värde"}),
    (101, {"namespace": "n", "key": "k"}),
    (219, {"namespace": "ORDER_TOPIC_CONFIG"}),
    (ROUTE, {"topic": "t"}),
    registration("a", 0, t=4, u=8, counter=1),
    registration("a", 0, t=6, u=8, v=1, counter=2),
    (ROUTE, {"topic": "t"}),
    (ROUTE, {"topic": "v"}),
    (205, {"brokerName": "bb"}),
    (205, {"brokerName": "nobody"}),
    (ROUTE, {"topic": "w"}),
    (327, {"brokerName": "bb"}),
    (ROUTE, {"topic": "w"}),
    (216, {"topic": "t", "clusterName": "c"}),
    (ROUTE, {"topic": "t"}),
    registration("bb", 0, t=2, w=2),
    (ROUTE, {"topic": "t"}),
    (217, {"topic": "made"}, b'{"queueDatas":[{"brokerName":"a","readQueueNums":1,"writeQueueNums":1,"perm":6,"topicSysFlag":1}]}'),
    (217, {"topic": "bad"}, b'{"queueDatas":[{"brokerName":"nobody","readQueueNums":1,"writeQueueNums":1,"perm":6}]}'),
    (ROUTE, {"topic": "made"}),
    (ROUTE, {"topic": "bad"}),
    *LISTS,
    departure("a", 0),
    departure("nobody", 0),
    (ROUTE, {"topic": "u"}),
    (901, {"clusterName": "c", "brokerName": "a"}),
    registration("a", 0, t=6, u=8, v=1, counter=2),
    (ROUTE, {"topic": "u"}),
    departure("a", 1),
    departure("a", 2),
    departure("ccc", 1),
    (ROUTE, {"topic": "u"}),
    (216, {"topic": "u"}),
    (ROUTE, {"topic": "u"}),
    (102, {"namespace": "n", "key": "k"}),
    (102, {"namespace": "nowhere", "key": "k"}),
    (101, {"namespace": "n", "key": "k"}),
    (219, {"namespace": "n"}),
    (318, {}, b"enableTopicList=false\nenableAllTopicList=false"),
    206,
    311,
    (224, {"cluster": "c"}),
    (318, {}, b"enableTopicList=true\nenableAllTopicList=true"),
    (318, {}, b"kvConfigPath=/tmp/x"),
    (318, {}, b"noSuchKey=1"),
    (4711, {}),
    (10, {}),
    departure("a", 0),
    departure("bb", 0),
    departure("dddd", 1),
    106,
    206,
]


def test_the_same_requests_get_the_same_answers(pair: list[NameServer]) -> None:
    with Asker(pair) as asker:
        for number, step in enumerate(STORY):
            arguments = step if isinstance(step, tuple) else (step,)
            answers = asker.ask(*arguments)
            if answers[0] != answers[1] and number and is_departure(STORY[number - 1]):  # a thread of theirs takes it out a little later
                answers = wait_until(
                    lambda arguments=arguments: agreed(asker.ask(*arguments)), 5, f"agreement on step {number}: {arguments[:2]}"
                )
            assert answers[0] == answers[1], f"step {number}: {arguments[:2]}"


def is_departure(step: Any) -> bool:
    return isinstance(step, tuple) and step[0] == 104


def agreed(answers: list[Any]) -> list[Any] | None:
    return answers if answers[0] == answers[1] else None


def test_a_wrong_crc_is_refused_by_both(pair: list[NameServer]) -> None:
    code, fields, body = registration("a", 0, t=1, u=1)
    with Asker(pair) as asker:
        ours, theirs = asker.ask(code, {**fields, "bodyCrc32": "5"}, body)
    assert ours == theirs
    assert (ours["code"], ours["remark"]) == (1, "crc32 not match")


def test_both_forget_a_broker_that_hangs_up_or_falls_silent(pair: list[NameServer]) -> None:
    with Asker(pair) as staying:
        with Asker(pair) as leaving:
            leaving.ask(*registration("a", 0, t=1, u=1))
            code, fields, body = registration("bb", 0, t=1, u=1)
            staying.ask(code, {**fields, "heartbeatTimeoutMillis": "600"}, body)
        for server in pair:
            wait_until(lambda server=server: "a" not in server.broker_addresses(), 10, "the broker that hung up is gone")
        for server in pair:
            wait_until(lambda server=server: not server.broker_addresses(), 10, "the silent broker is gone")


def test_ours_shows_every_configuration_key_of_theirs(pair: list[NameServer]) -> None:
    ours, theirs = ({line.partition("=")[0] for line in wire.call(server.address, 319).body.decode().splitlines()} for server in pair)
    assert "listenPort" in theirs and theirs - ours == set()


@pytest.mark.slow
def test_a_group_of_real_brokers_keeps_an_acting_master(new_cluster: MakeCluster, product: Product, tmp_path: Any) -> None:
    """enableSlaveActingMaster: heartbeats by BROKER_HEARTBEAT, member groups, min-id notices, acting master in the route."""
    namesrv = NameServer(product, tmp_path / "namesrv", {"supportActingMaster": True, "notifyMinBrokerIdChanged": True}).start()
    settings = {"enableSlaveActingMaster": True, "compressedRegister": True, "totalReplicas": 2, "inSyncReplicas": 1}
    brokers = [Broker(Peer(), tmp_path / f"broker-{number}", namesrv.address, settings, "broker-a", number).launch() for number in (0, 1)]
    try:
        for broker in brokers:
            broker.await_listening()
            broker.await_registered(namesrv)
        master, slave = brokers
        wait_until(lambda: members(namesrv) == {"0": master.address, "1": slave.address}, 10, "both are members")
        assert route_addresses(namesrv, "TBW102") == {"0": master.address, "1": slave.address}
        master.kill()
        wait_until(lambda: members(namesrv) == {"1": slave.address}, 20, "the killed master is not a member")
        wait_until(lambda: route_addresses(namesrv, "TBW102") == {"0": slave.address}, 20, "the slave stands in")
    finally:
        for each in (*brokers, namesrv):
            each.kill()


def members(namesrv: NameServer) -> dict[str, str]:
    reply = wire.call(namesrv.address, 901, {"clusterName": "DefaultCluster", "brokerName": "broker-a"})
    group: dict[str, str] = reply.json()["brokerMemberGroup"]["brokerAddrs"]
    return group


def route_addresses(namesrv: NameServer, topic: str) -> dict[str, str]:
    reply = wire.call(namesrv.address, ROUTE, {"topic": topic})
    addresses: dict[str, str] = reply.json()["brokerDatas"][0]["brokerAddrs"] if reply.code == 0 else {}
    return addresses


@pytest.mark.slow
def test_mqadmin_administers_our_name_server(new_cluster: MakeCluster, jvm: Callable[..., Jvm]) -> None:
    cluster = new_cluster(brokers=[Peer()])
    cluster.create_topic("administered", queues=4)
    admin = MqAdmin(jvm(), cluster.address)
    admin.run("updateKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", "administered", "-v", "broker-a:4")
    assert wire.call(cluster.address, 101, {"namespace": "ORDER_TOPIC_CONFIG", "key": "administered"}).fields["value"] == "broker-a:4"
    admin.run("deleteKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", "administered")
    assert wire.call(cluster.address, 101, {"namespace": "ORDER_TOPIC_CONFIG", "key": "administered"}).code == 22
    admin.run("updateOrderConf", "-t", "administered", "-v", "broker-a:4", "-m", "put")
    assert "broker-a:4" in admin.run("updateOrderConf", "-t", "administered", "-m", "get")
    assert "wipe write perm of broker[broker-a]" in admin.run("wipeWritePerm", "-b", "broker-a")
    assert cluster.route("administered")[0]["perm"] == 4
    assert "add write perm of broker[broker-a]" in admin.run("addWritePerm", "-b", "broker-a")
    assert cluster.route("administered")[0]["perm"] == 6
    admin.run("updateNamesrvConfig", "-k", "enableTopicList", "-v", "false")
    assert "enableTopicList" in admin.run("getNamesrvConfig")
    assert wire.call(cluster.address, 224, {"cluster": "DefaultCluster"}).remark == "disable"
    routed = wire.parse_json(admin.run("topicRoute", "-t", "administered"))
    assert [each["brokerAddrs"] for each in routed["brokerDatas"]] == [{"0": cluster.broker.address}]
