"""Light message queues (enableLmq, enableMultiDispatch): one message, in the queues of many. The same sends to RocketMQ and to ours: the
answers, the records in each queue, the positions. Stores that change hands go on, whichever product wrote them, stopped or killed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.processes import wait_until

from . import stored, wire
from .products import Cluster, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
TOPIC, ALPHA, BETA, WIDE = "parent", "%LMQ%alpha", "%LMQ%beta", "%LMQ%größe|+#"
PULL, SEND_V2, SEARCH, MAX_OFFSET, MIN_OFFSET, QUERY_OFFSET, UPDATE_OFFSET = 11, 310, 29, 30, 31, 14, 15
GET_TOPIC_CONFIG, TOPIC_STATS, DELETE_TOPIC, END_TRANSACTION = 351, 202, 215, 37
SETTINGS = {"enableLmq": True, "enableMultiDispatch": True}


def send(cluster: Cluster, lists: str | None, body: str, more: str = "", topic: str = TOPIC) -> wire.Reply:
    properties = f"KEYS\x01{body}\x02TAGS\x01T\x02UNIQ_KEY\x01{body.upper():0>32}\x02{more}"
    properties += "" if lists is None else f"INNER_MULTI_DISPATCH\x01{lists}\x02"
    fields = {
        "a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": properties,
        "j": "0", "k": "false", "l": "0", "m": "false", "n": "broker-a",
    }  # fmt: skip
    return wire.call(cluster.broker.address, SEND_V2, fields, body.encode())


def ask(cluster: Cluster, code: int, **fields: Any) -> wire.Reply:
    return wire.call(cluster.broker.address, code, {name: str(value) for name, value in fields.items()})


def pull(cluster: Cluster, queue: str, offset: int = 0, group: str = "%LMQ%reader", suspend_ms: int = 0) -> wire.Reply:
    return ask(
        cluster, PULL, consumerGroup=group, topic=queue, queueId=0, queueOffset=offset, maxMsgNums=32, sysFlag=4 | (2 if suspend_ms else 0),
        commitOffset=0, suspendTimeoutMillis=suspend_ms, subscription="*", subVersion=0, expressionType="TAG",
    )  # fmt: skip


def end_of(cluster: Cluster, queue: str) -> int:
    return int(ask(cluster, MAX_OFFSET, topic=queue, queueId=0).fields["offset"])


def records(cluster: Cluster, queue: str) -> list[stored.Record]:
    reply = pull(cluster, queue)
    return [each.evened() for each in stored.parse(reply.body)] if reply.code == 0 else []


LISTS = (ALPHA, f"{ALPHA},{BETA}", f"{BETA},", None, "", " ", f"{WIDE},{ALPHA}")


def fill(cluster: Cluster, word: str) -> list[int]:
    return [send(cluster, lists, f"{word}{number}").code for number, lists in enumerate(LISTS)]


def what_is_said(cluster: Cluster) -> dict[str, Any]:
    """Everything a client can see, but for times and places."""
    said: dict[str, Any] = {"sends": fill(cluster, "m"), "direct": send(cluster, None, "direct", topic="%LMQ%direct").code}
    wait_until(lambda: (end_of(cluster, ALPHA), end_of(cluster, BETA)) == (3, 2), 20, "the queues have their messages")
    for queue in (ALPHA, BETA, WIDE, "%LMQ%direct", TOPIC):
        said[queue] = records(cluster, queue)
        said[queue, "bounds"] = [ask(cluster, code, topic=queue, queueId=0).fields["offset"] for code in (MIN_OFFSET, MAX_OFFSET)]
        said[queue, "times"] = [ask(cluster, SEARCH, topic=queue, queueId=0, timestamp=at).fields["offset"] for at in (0, 1 << 42)]
    said["behind"] = pull(cluster, ALPHA, 3).code, pull(cluster, ALPHA, 7).code
    said["never sent to"] = pull(cluster, "%LMQ%nobody").code, end_of(cluster, "%LMQ%nobody")
    said["update"] = ask(cluster, UPDATE_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0, commitOffset=2).code
    said["query"] = ask(cluster, QUERY_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0).fields["offset"]
    config = ask(cluster, GET_TOPIC_CONFIG, topic=ALPHA)
    said["config"] = config.code, {name: config.json()[name] for name in ("topicName", "readQueueNums", "writeQueueNums", "perm")}
    said["stats"] = ask(cluster, TOPIC_STATS, topic=ALPHA).code
    return said


def entries(cluster: Cluster, queue: str) -> bytes:
    """What its first file holds."""
    return (cluster.broker.store / "consumequeue" / queue / "0" / f"{0:020}").read_bytes()[:400]


def test_both_say_the_same_and_write_the_same(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    ours, theirs = (new_cluster(brokers=[each], **SETTINGS) for each in (product, peer))
    for cluster in (ours, theirs):
        cluster.create_topic(TOPIC, queues=1)
    said, wanted = what_is_said(ours), what_is_said(theirs)
    for what, value in wanted.items():
        assert said[what] == value, what
    for cluster in (ours, theirs):
        cluster.broker.stop()
    for queue in (ALPHA, BETA, WIDE, TOPIC):
        assert entries(ours, queue) == entries(theirs, queue), queue


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_store_changes_hands(new_cluster: Callable[..., Cluster], product: Product, peer: Product, end: str) -> None:
    cluster = new_cluster(namesrv=product, brokers=[product], **SETTINGS)
    cluster.create_topic(TOPIC, queues=1)
    for turn, owner in enumerate((peer, product, peer, product), 1):
        fill(cluster, f"turn{turn}-")
        wait_until(lambda turn=turn: (end_of(cluster, ALPHA), end_of(cluster, BETA)) == (3 * turn, 2 * turn), 20, "the queues of this turn")
        offset = ask(cluster, UPDATE_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0, commitOffset=turn)
        assert offset.code == 0
        before = {queue: records(cluster, queue) for queue in (ALPHA, BETA, WIDE)}
        if end == "kill":
            cluster.broker.kill()
        else:
            cluster.broker.stop()
        cluster.broker.product = owner
        cluster.broker.start(cluster.namesrv)
        wait_until(lambda before=before: {queue: records(cluster, queue) for queue in before} == before, 20, "all that was there")
        for queue, found in before.items():
            assert [_offset_in(each, queue) for each in found] == list(range(len(found)))
        if end == "stop":
            assert ask(cluster, QUERY_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0).fields["offset"] == str(turn)


def _offset_in(record: stored.Record, queue: str) -> int:
    names, offsets = record.pairs["INNER_MULTI_DISPATCH"].split(","), record.pairs["INNER_MULTI_QUEUE_OFFSET"].split(",")
    return int(offsets[names.index(queue)])


def test_who_waits_is_woken(new_cluster: Callable[..., Cluster], product: Product) -> None:
    cluster = new_cluster(**SETTINGS)
    cluster.create_topic(TOPIC, queues=1)
    answers: list[wire.Reply] = []
    for offset in range(2):  # before the queue is there, and behind its end
        waiting = threading.Thread(target=lambda offset=offset: answers.append(pull(cluster, BETA, offset, suspend_ms=20_000)))
        waiting.start()
        wait_until(lambda: pull(cluster, ALPHA).code != 0, 10, "the broker answers others")
        assert send(cluster, f"{ALPHA}-other,{BETA}", f"late{offset}").code == 0
        waiting.join(30)
        assert [each.code for each in answers] == [0] * (offset + 1)
        assert [each.body for each in stored.parse(answers[-1].body)] == [f"late{offset}".encode()]
