"""A property that a message has twice: RocketMQ keeps the later value, ours keeps both. Filters, index, delays, transactions, retries and
what a client then sees go by the same one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.processes import wait_until

from . import stored, wire
from .products import Cluster, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEND_V2, SEND_BATCH, PULL, QUERY, END, SEND_BACK, UPDATE_GROUP = 310, 320, 11, 12, 37, 36, 200
GROUP, RETRY = "twice", "%RETRY%twice"
DELAYED, TIMED, HALF = ("SCHEDULE_TOPIC_XXXX", 1), ("rmq_sys_wheel_timer", 0), ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
FAR_MS = "32503680000000"
TWICE = {  # by topic
    "tags": "TAGS\x01A\x02TAGS\x01B\x02",
    "tags_apart": "TAGS\x01A\x02KEYS\x01k\x02TAGS\x01B\x02",
    "tags_empty": "TAGS\x01A\x02TAGS\x01\x02",
    "keys": "KEYS\x01one\x02KEYS\x01two\x02",
    "unique": "UNIQ_KEY\x01one\x02UNIQ_KEY\x01two\x02",
}
PLACES = {  # by topic: what is sent, and whether it waits elsewhere
    "delay_off": ("DELAY\x012\x02DELAY\x010\x02", DELAYED),
    "delay_on": ("DELAY\x010\x02DELAY\x012\x02", DELAYED),
    "half_off": ("TRAN_MSG\x01true\x02PGROUP\x01P\x02TRAN_MSG\x01false\x02", HALF),
    "half_on": ("TRAN_MSG\x01false\x02PGROUP\x01P\x02TRAN_MSG\x01true\x02", HALF),
    "timer_on": ("TIMER_DELIVER_MS\x010\x02TIMER_DELAY_SEC\x013600\x02TIMER_DELAY_SEC\x017200\x02", TIMED),
}


def ask(cluster: Cluster, code: int, fields: dict[str, str], body: bytes = b"") -> wire.Reply:
    return wire.call(cluster.broker.address, code, fields, body)


def send(cluster: Cluster, topic: str, properties: str, body: bytes, code: int = SEND_V2) -> wire.Reply:
    fields = {
        "a": "P", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": properties, "j": "0",
        "k": "false", "m": str(code == SEND_BATCH).lower(),
    }  # fmt: skip
    reply = ask(cluster, code, fields, body)
    assert reply.code == 0, reply
    return reply


def batch(*messages: tuple[bytes, str]) -> bytes:
    packed = b""
    for body, properties in messages:
        text = properties.encode()
        packed += struct.pack(">IIIII", 22 + len(body) + len(text), 0, 0, 0, len(body)) + body + struct.pack(">H", len(text)) + text
    return packed


def pulled(cluster: Cluster, topic: str, tag: str) -> list[tuple[bytes, str | None]]:
    """(body, the tag that a client reads) of each message that the broker lets through."""
    fields = {
        "consumerGroup": GROUP, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
        "suspendTimeoutMillis": "0", "subscription": tag, "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    reply = ask(cluster, PULL, fields)
    return [(each.body, read(each.properties).get("TAGS")) for each in stored.parse(reply.body)] if reply.code == 0 else []


def read(properties: str) -> dict[str, str]:
    """As RocketMQ's clients do."""
    pairs = (pair.partition("\x01") for pair in properties.split("\x02"))
    return {name: value for name, _, value in pairs if name and value}


def found(cluster: Cluster, topic: str, key: str, **more: str) -> int:
    times = {"beginTimestamp": "0", "endTimestamp": FAR_MS}
    reply = ask(cluster, QUERY, {"topic": topic, "key": key, "maxNum": "32", **times, **more})
    return len(stored.parse(reply.body)) if reply.code == 0 else 0


def end_of(cluster: Cluster, place: tuple[str, int]) -> int:
    return stored.queue_end(cluster.broker.address, *place)


def await_messages(cluster: Cluster, count: int, *places: tuple[str, int]) -> None:
    wait_until(lambda: sum(end_of(cluster, place) for place in places) == count, 20, f"{count} messages in {places}")


def log_offset(reply: wire.Reply) -> str:
    return str(int(reply.fields["msgId"][-16:], 16))


def filters_and_index(cluster: Cluster) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for topic, properties in TWICE.items():
        cluster.create_topic(topic)
        send(cluster, topic, properties, b"single")
        send(cluster, topic, "", batch((b"first", properties), (b"second", properties)), SEND_BATCH)
        await_messages(cluster, 3, (topic, 0))
        seen |= {(topic, tag): pulled(cluster, topic, tag) for tag in ("A", "B", "*")}
    wait_until(lambda: found(cluster, "keys", "two") == 3, 20, "the index has them")
    seen |= {("keys", key): found(cluster, "keys", key) for key in ("one", "two")}
    seen |= {("unique", key): found(cluster, "unique", key, _UNIQUE_KEY_QUERY="true") for key in ("one", "two")}
    return seen


def places(cluster: Cluster) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for topic, (properties, elsewhere) in PLACES.items():
        cluster.create_topic(topic)
        before = end_of(cluster, elsewhere)
        send(cluster, topic, properties, b"m")
        await_messages(cluster, before + 1, (topic, 0), elsewhere)
        seen[topic] = (end_of(cluster, (topic, 0)), end_of(cluster, elsewhere) - before)
    return seen


def second_lives(cluster: Cluster) -> dict[Any, Any]:
    """A transaction's commit, and a message that its consumer sends back."""
    seen: dict[Any, Any] = {}
    cluster.create_topic("lives")
    half = send(cluster, "lives", f"TRAN_MSG\x01true\x02PGROUP\x01P\x02{TWICE['tags']}", b"committed")
    ids = {"fromTransactionCheck": "false", "msgId": half.fields["msgId"], "transactionId": "t", "topic": "lives"}
    place = {"tranStateTableOffset": half.fields["queueOffset"], "commitLogOffset": log_offset(half)}
    assert ask(cluster, END, {"producerGroup": "P", "commitOrRollback": "8", **place, **ids}).code == 0
    group = b'{"groupName":"%s","consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16,"brokerId":0,"whichBrokerWhenConsumeSlowly":1}'
    assert ask(cluster, UPDATE_GROUP, {}, group % GROUP.encode()).code == 0
    sent = send(cluster, "lives", TWICE["tags"], b"back")
    back = {"offset": log_offset(sent), "group": GROUP, "delayLevel": "1", "originMsgId": "", "originTopic": "lives", "unitMode": "false"}
    assert ask(cluster, SEND_BACK, {**back, "maxReconsumeTimes": "16"}).code == 0
    wait_until(lambda: end_of(cluster, ("lives", 0)) == 2 and end_of(cluster, (RETRY, 0)) == 1, 60, "both are there again")
    for topic in ("lives", RETRY):
        seen |= {(topic, tag): pulled(cluster, topic, tag) for tag in ("A", "B", "*")}
    return seen


def test_both_go_by_the_same_value(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    ours, theirs = (new_cluster(brokers=[each]) for each in (product, peer))
    for look in (filters_and_index, places, second_lives):
        assert look(ours) == look(theirs), look.__name__
