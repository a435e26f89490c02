"""`producer.request` of the Java client is answered by a consumer that replies; what both are told is what RocketMQ tells them."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.processes import PATIENCE_S

from . import wire
from .javaenv import CURRENT, OLD, JavaClients, JavaError
from .products import Cluster, Product, side_by_side

pytestmark = pytest.mark.timeout(300)
slow = pytest.mark.slow

HEART_BEAT, SEND_REPLY, SEND_REPLY_V2, PUSH_REPLY = 34, 324, 325, 326
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
CONSUME_THREADS = 20
"""Of a Java push consumer, unless told otherwise; each begins its round of the queues anywhere."""


@pytest.mark.parametrize("how", ["sync", "async", "oneway"])
def test_a_request_gets_its_reply(java: JavaClients, topic: str, group: str, how: str) -> None:
    replier, requester = java.replier(group, topic, how=how), java.requester()
    for number, asked in enumerate(("sync", "async", "sync")):
        reply = requester.ask(topic, f"question {number} äöü", how=asked)
        assert reply["body"].decode() == f"re: question {number} äöü"
        assert reply["topic"] == REPLY_TOPIC
        properties = reply["properties"]
        assert properties["colour"] == "blue" and properties["MSG_TYPE"] == "reply"
        assert properties["REPLY_TO_CLIENT"] == requester.started
        assert int(properties["PUSH_REPLY_TIME"]) <= int(properties["ARRIVE_TIME"])
    told = replier.told(3)
    if how != "oneway":
        assert [each["status"] for each in told] == ["SEND_OK"] * 3, told
        assert {each["topic"] for each in told} == {REPLY_TOPIC}


def test_large_replies_are_unpacked_and_small_bodies_arrive_side_by_side(java: JavaClients, topic: str, group: str) -> None:
    java.replier(group, topic, bytes=300_000)
    requester = java.requester()
    waiting = [
        requester.begin("ask", topic=topic, body="cQ==", properties={"n": str(number)}, how="async" if number % 2 else "sync")
        for number in range(20)
    ]
    bodies = [each.result(2 * PATIENCE_S)["body"] for each in waiting]
    assert len(set(bodies)) == 1 and len(bodies[0]) > 300_000


def test_a_request_that_nobody_answers_times_out(java: JavaClients, topic: str, group: str) -> None:
    java.replier(group, topic)
    requester = java.requester()
    assert requester.ask(topic, "one that is answered")["body"] == b"re: one that is answered"
    for how in ("sync", "async"):
        with pytest.raises(JavaError, match="RequestTimeoutException"):
            requester.ask(topic, "silence", how=how, timeoutMs=1000)


def test_a_reply_to_a_requester_that_has_left_is_told_so(java: JavaClients, topic: str, group: str) -> None:
    requester = java.requester()
    with pytest.raises(JavaError, match="RequestTimeoutException"):
        requester.ask(topic, "is anybody there", timeoutMs=500)
    requester.shutdown()
    replier = java.replier(group, topic, retries=0)
    (told,) = replier.told(1)
    assert re.match(rf"CODE: 1  DESC: push reply message fail, channel of <{re.escape(requester.started)}> not found\.", told), told


@pytest.mark.parametrize("second", ["ours", pytest.param("theirs", marks=slow)])
@pytest.mark.parametrize("version", [CURRENT, pytest.param(OLD, marks=slow)])
def test_replies_come_by_whichever_broker_their_sender_chooses(
    new_cluster: Callable[..., Cluster],
    clients: Callable[..., JavaClients],
    product: Product,
    peer: Product,
    group: str,
    version: str,
    second: str,
) -> None:
    cluster = new_cluster(brokers=[product, product if second == "ours" else peer])
    cluster.create_topic("questions")
    java = clients(cluster, version)
    replier, requester = java.replier(group, "questions"), java.requester()
    for number in range(CONSUME_THREADS + 1):
        assert requester.ask("questions", str(number))["body"] == f"re: {number}".encode()
    assert {each["broker"] for each in replier.told(CONSUME_THREADS + 1)} == {"broker-a", "broker-b"}, (
        "each thread of the replier's sends them round robin, and one of them had two"
    )


# ---- the same raw requests to both ----


@pytest.fixture(scope="module")
def addresses(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with side_by_side(product, peer, tmp_path_factory) as (ours, theirs):
        yield ours.broker.address, theirs.broker.address


CLIENT_ID = "127.0.0.1@requester"
PROPERTIES = f"REPLY_TO_CLIENT\x01{CLIENT_ID}\x02CORRELATION_ID\x01c\x02UNIQ_KEY\x01K\x02WAIT\x01true\x02"
REPLY = {
    "a": "PID", "b": REPLY_TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "3", "i": PROPERTIES, "j": "0",
    "k": "false", "m": "false",
}  # fmt: skip
LONG_REPLY = {
    "producerGroup": "PID", "topic": REPLY_TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
    "bornTimestamp": "1700000000000", "flag": "3", "properties": PROPERTIES, "reconsumeTimes": "2", "unitMode": "true",
}  # fmt: skip

CASES: dict[str, tuple[int, dict[str, Any], bytes, int | None]] = {
    "answered": (SEND_REPLY_V2, REPLY, b"x", 0),
    "answered, long names": (SEND_REPLY, LONG_REPLY, b"x", 0),
    "answered, no queue chosen": (SEND_REPLY_V2, {**REPLY, "e": "-1"}, b"x", 0),
    "refused by the requester": (SEND_REPLY_V2, REPLY, b"x", 1),
    "requester unknown": (SEND_REPLY_V2, {**REPLY, "i": "REPLY_TO_CLIENT\x01nobody\x02"}, b"x", None),
    "no requester": (SEND_REPLY_V2, {**REPLY, "i": "A\x01b\x02"}, b"x", None),
    "no properties": (SEND_REPLY_V2, {**REPLY, "i": None}, b"x", None),
    "no such queue": (SEND_REPLY_V2, {**REPLY, "e": "1"}, b"x", None),
    "system topic": (SEND_REPLY_V2, {**REPLY, "b": "SCHEDULE_TOPIC_XXXX"}, b"x", None),
    "illegal topic": (SEND_REPLY_V2, {**REPLY, "b": "a b"}, b"x", None),
    "topic that nobody may make": (SEND_REPLY_V2, {**REPLY, "b": "new", "c": "nothing"}, b"x", None),
    "topic that is made": (SEND_REPLY_V2, {**REPLY, "b": "made-for-replies"}, b"x", 0),
}


def evened(value: Any) -> Any:
    """Without what changes from run to run."""
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", json.dumps(value, sort_keys=True))
    text = re.sub(r"PUSH_REPLY_TIME\\u0001\d+", "PUSH_REPLY_TIME", text)
    return json.loads(re.sub(r'"[0-9A-F]{32}"', '"ID"', re.sub(r'"storeTimestamp": "\d+"', '"storeTimestamp": ""', text)))


def read_frame(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack(">I", wire.read_exactly(connection, 4))
    frame = wire.read_exactly(connection, length)
    size = struct.unpack_from(">I", frame)[0] & 0xFFFFFF
    return json.loads(frame[4 : 4 + size]), frame[4 + size :]


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), PATIENCE_S)


def conversation(address: str, code: int, fields: dict[str, Any], body: bytes, answer: int | None) -> Any:
    """(what the requester got, what the replier was told); answer None: no push is expected."""
    pushed: Any = None
    given = {name: value for name, value in fields.items() if value is not None}
    with connect(address) as requester, connect(address) as replier:
        heartbeat = {"clientID": CLIENT_ID, "consumerDataSet": [], "producerDataSet": [{"groupName": "PID"}]}
        requester.sendall(wire.encode(HEART_BEAT, {}, json.dumps(heartbeat).encode()))
        assert wire.read_reply(requester).code == 0
        replier.sendall(wire.encode(code, given, body, opaque=7))
        if answer is not None:
            header, content = read_frame(requester)
            requester.sendall(wire.encode(answer, opaque=header["opaque"], flag=1))
            ext = header["extFields"]
            ext["properties"] = sorted(ext["properties"].strip("\x02").split("\x02"))
            pushed = (header["code"], header["flag"], ext, content.decode())
        told = wire.read_reply(replier)
    if "queueId" in told.fields and fields.get("e") == "-1":
        assert told.fields["queueId"] == "0"
    return evened((pushed, told.code, told.remark, told.fields))


@slow
def test_pushes_and_answers_are_those_of_rocketmq(addresses: tuple[str, str]) -> None:
    for what, case in CASES.items():
        ours, theirs = (conversation(address, *case) for address in addresses)
        assert ours == theirs, what
