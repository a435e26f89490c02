"""The same raw requests to this product and to RocketMQ 5.5.0 get the same answers: code, remark, fields, and what is stored.

Each case is a request with one thing in it; what may differ between two runs of one product (addresses, ids, stack frames) is evened out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from .products import Cluster, Product, side_by_side
from .wire import Reply, call

pytestmark = pytest.mark.slow

SEND, PULL, QUERY_OFFSET, UPDATE_OFFSET, SEND_V2, SEND_BATCH, LITE_PULL = 10, 11, 14, 15, 310, 320, 361
MAX_OFFSET, MIN_OFFSET = 30, 31
UPDATE_TOPIC, UPDATE_GROUP = 17, 200
TOPIC, GROUP = "answers", "GID_answers"

PLAIN_SEND = {"a": "PID", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "3", "j": "0", "k": "false"}
LONG_SEND = {
    "producerGroup": "PID", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
    "bornTimestamp": "1700000000000", "flag": "3", "properties": "UNIQ_KEY\x01K\x02", "reconsumeTimes": "0", "unitMode": "false",
}  # fmt: skip
PLAIN_PULL = {
    "consumerGroup": GROUP, "topic": TOPIC, "queueId": "1", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
    "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip
OFFSET = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "1"}


@dataclass(frozen=True)
class Case:
    what: str
    code: int
    fields: dict[str, Any]
    body: bytes = b""


def send(what: str, body: bytes = b"x", code: int = SEND_V2, **changes: str | None) -> Case:
    fields = {**PLAIN_SEND, "i": "UNIQ_KEY\x01K\x02", **changes}
    return Case(f"send: {what}", code, {key: value for key, value in fields.items() if value is not None}, body)


def pull(what: str, code: int = PULL, **changes: str | None) -> Case:
    fields = {**PLAIN_PULL, **changes}
    return Case(f"pull: {what}", code, {key: value for key, value in fields.items() if value is not None})


def batch_message(body: bytes, properties: bytes) -> bytes:
    head = struct.pack(">IIIII", 22 + len(body) + len(properties), 0, 0, 5, len(body))
    return head + body + struct.pack(">H", len(properties)) + properties


BATCH = batch_message(b"one", b"UNIQ_KEY\x01A\x02TAGS\x01a\x02") + batch_message(b"two", b"UNIQ_KEY\x01B")

CASES = [
    send("plain"),
    send("plain, with every optional field", m="false", l="16", n="broker-a"),
    Case("send: long names", SEND, LONG_SEND, b"x"),
    send("with tags and keys", i="TAGS\x01t\x02KEYS\x01k\x02UNIQ_KEY\x01K\x02WAIT\x01true\x02"),
    send("batch", BATCH, SEND_BATCH, m="true", e="2"),
    send("queue id past the end", e="4"),
    send("queue id far past the end", e="2147483647"),
    send("topic with illegal characters", b="a b"),
    send("blank topic", b=" "),
    send("topic too long", b="t" * 128),
    send("system topic", b="SCHEDULE_TOPIC_XXXX"),
    send("body too large", b"x" * (4 * 1024 * 1024 + 1)),
    send("properties too long", i="A\x01" + "b" * 32768 + "\x02"),
    *[pull(f"offset {offset} of three messages", queueOffset=str(offset)) for offset in (-5, 0, 1, 2, 3, 4, 1 << 40)],
    *[pull(f"offset {offset} of an empty queue", queueId="3", queueOffset=str(offset)) for offset in (-1, 0, 1)],
    pull("light", code=LITE_PULL),
    pull("one message", maxMsgNums="1"),
    pull("no message asked for", maxMsgNums="0"),
    pull("a negative number of messages", maxMsgNums="-1"),
    pull("tag that is there", subscription="a"),
    pull("tags with blanks", subscription=" a || b "),
    pull("tag that is not there", subscription="zzz"),
    pull("nothing but separators", subscription="||"),
    pull("empty subscription", subscription=""),
    pull("empty expression type", expressionType=""),
    pull("queue id past the end", queueId="4"),
    pull("negative queue id", queueId="-1"),
    pull("subscription of a heartbeat nobody sent", sysFlag="0"),
    pull("unknown topic", topic="never_heard_of"),
    pull("group that may not consume", consumerGroup="GID_closed"),
    pull("topic that may not be read", topic="write_only"),
    Case("offset: nothing committed", QUERY_OFFSET, OFFSET),
    Case("offset: nothing committed, not to be zero", QUERY_OFFSET, {**OFFSET, "setZeroIfNotFound": "false"}),
    Case("offset: commit", UPDATE_OFFSET, {**OFFSET, "commitOffset": "2"}),
    Case("offset: committed", QUERY_OFFSET, OFFSET),
    Case("offset: commit for an unknown topic", UPDATE_OFFSET, {**OFFSET, "topic": "never_heard_of", "commitOffset": "2"}),
    Case("offset: commit without offset", UPDATE_OFFSET, OFFSET),
    Case("offset: maximum", MAX_OFFSET, OFFSET),
    Case("offset: maximum of a queue that is not there", MAX_OFFSET, {**OFFSET, "queueId": "99"}),
    Case("offset: maximum of a queue with messages that its topic no longer has", MAX_OFFSET, {"topic": "reduced", "queueId": "3"}),
    Case("offset: minimum", MIN_OFFSET, OFFSET),
]


def evened(text: str) -> str:
    """Without what changes from run to run."""
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    return re.sub(r"CL: .*? INDEX: *[\d.]+", "RATIOS", text)


def answer(reply: Reply) -> dict[str, Any]:
    fields = dict(reply.fields)
    for name in ("msgId", "recallHandle"):
        if name in fields:
            fields[name] = re.sub(r"[0-9A-F]{32}", "ID", fields[name])
    return {"code": reply.code, "remark": evened(reply.remark) if reply.remark else None, "fields": fields, "body": bodies(reply.body)}


def bodies(data: bytes) -> list[tuple[Any, ...]]:
    """Queue offset, flag, body, topic and properties of the records of a pull."""
    found = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        queue_id, flag, queue_offset = struct.unpack_from(">iiq", data, at + 12)
        sys_flag, born = struct.unpack_from(">iq", data, at + 36)
        (length,) = struct.unpack_from(">I", data, at + 84)
        body = data[at + 88 : at + 88 + length]
        place = at + 88 + length
        topic = data[place + 1 : place + 1 + data[place]]
        place += 1 + data[place]
        properties = data[place + 2 : at + size].decode()
        pairs = frozenset(tuple(pair.split("\x01")) for pair in properties.split("\x02") if pair)
        found.append((queue_id, flag, queue_offset, sys_flag, born, body, topic, pairs))
        at += size
    return found


def prepare(cluster: Cluster) -> str:
    address = cluster.broker.address
    cluster.create_topic(TOPIC)
    cluster.create_topic("write_only")
    topic = {"topic": "write_only", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "2"}
    topic |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    assert call(address, UPDATE_TOPIC, topic).code == 0
    cluster.create_topic("reduced")
    assert call(address, SEND_V2, {**PLAIN_SEND, "b": "reduced", "e": "3"}, b"x").code == 0
    assert call(address, UPDATE_TOPIC, {**topic, "topic": "reduced", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}).code == 0
    for group, enabled in ((GROUP, "true"), ("GID_closed", "false")):
        body = (
            f'{{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":{enabled},"consumeFromMinEnable":true,"groupName":"{group}",'
            '"groupSysFlag":0,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
        )
        assert call(address, UPDATE_GROUP, {}, body.encode()).code == 0
    for number, tag in enumerate("aab"):
        fields = {**PLAIN_SEND, "e": "1", "i": f"TAGS\x01{tag}\x02UNIQ_KEY\x01K{number}\x02WAIT\x01true\x02CLUSTER\x01other\x02"}
        assert call(address, SEND_V2, fields, f"message {number}".encode()).code == 0
    return address


@pytest.fixture(scope="module")
def addresses(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with side_by_side(product, peer, tmp_path_factory) as (ours, theirs):
        yield prepare(ours), prepare(theirs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_request_gets_the_answer_rocketmq_gives(case: Case, addresses: tuple[str, str]) -> None:
    ours, theirs = (answer(call(address, case.code, case.fields, case.body)) for address in addresses)
    assert ours == theirs
