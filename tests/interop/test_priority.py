"""Priorities: both products get the same sends and pops. Which queue each message goes to, what is stored and in which order pops return it
have to be equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.processes import wait_until

from . import stored, wire
from .popping import Popper
from .products import Cluster, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TOPIC, GROUP, PLAIN = "ranked", "rankers", "plain"
SEND_V2, PULL, UPDATE_TOPIC, UPDATE_GROUP, GET_TOPIC_CONFIG = 310, 11, 17, 200, 351
PRIORITY = "_SYS_MSG_PRIORITY_\x01"
SAID = [
    "", f"{PRIORITY}0\x02", f"{PRIORITY}2\x02", f"{PRIORITY}9\x02", f"{PRIORITY}+1\x02", f"{PRIORITY}-1\x02", f"{PRIORITY}x\x02",
    f"{PRIORITY}2147483648\x02", f"{PRIORITY}3\x02__SHARDINGKEY\x01k\x02", f"{PRIORITY}3\x02DELAY\x010\x02",
    f"{PRIORITY}3\x02{PRIORITY}0\x02", f"{PRIORITY}3\x02TRAN_MSG\x01false\x02", f"{PRIORITY}3\x02__LITE_TOPIC\x01\x02",
]  # fmt: skip


def send(cluster: Cluster, topic: str, said: str, body: str) -> tuple[int, str | None]:
    properties = f"UNIQ_KEY\x01{body.upper():0>32}\x02{said}"
    fields = {
        "a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0", "i": properties,
        "j": "0", "k": "false", "l": "0", "m": "false", "n": "broker-a",
    }  # fmt: skip
    reply = wire.call(cluster.broker.address, SEND_V2, fields, body.encode())
    return reply.code, reply.fields.get("queueId")


def make(cluster: Cluster, topic: str, attributes: str, queues: int = 4) -> None:
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": attributes,
    }  # fmt: skip
    assert wire.call(cluster.broker.address, UPDATE_TOPIC, fields).code == 0


def kept(cluster: Cluster, topic: str, queue_id: int) -> list[tuple[bytes, str | None]]:
    """(body, priority) of each message of a queue."""
    fields = {
        "consumerGroup": GROUP, "topic": topic, "queueId": str(queue_id), "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    reply = wire.call(cluster.broker.address, PULL, fields)
    return [(each.body, said_last(each.properties)) for each in stored.parse(reply.body)] if reply.code == 0 else []


def said_last(properties: str) -> str | None:
    """The priority of a record. When the property comes twice the later one counts: our records hold both, RocketMQ's only that one."""
    return dict(pair.split("\x01", 1) for pair in properties.split("\x02") if pair).get("_SYS_MSG_PRIORITY_")


def order_of(cluster: Cluster, topic: str, group: str, rounds: int = 12) -> list[int]:
    """The queues that single pops come from, with a message in each of four."""
    popper, order = Popper(cluster.broker.address, group, topic), []
    for number in range(rounds):
        for priority in (1, 0, 3, 2):
            assert send(cluster, topic, f"{PRIORITY}{priority}\x02", f"p{number}{priority}") == (0, str(priority))
    wait_until(lambda: all(stored.queue_end(cluster.broker.address, topic, queue) >= rounds for queue in range(4)), 20, "all are there")
    for _ in range(4 * rounds):
        (popped,) = popper.pop(maxMsgNums=1, initMode=0)
        order.append(popped.record.queue_id)
    return order


def what_is_seen(cluster: Cluster) -> dict[str, Any]:
    make(cluster, TOPIC, "+message.type=PRIORITY")
    make(cluster, PLAIN, "")
    seen: dict[str, Any] = {topic: [send(cluster, topic, said, f"m{at}") for at, said in enumerate(SAID)] for topic in (TOPIC, PLAIN)}
    wait_until(lambda: sum(stored.queue_end(cluster.broker.address, PLAIN, queue) for queue in range(4)) == len(SAID), 20, "all are there")
    for topic in (TOPIC, PLAIN):
        seen[topic, "kept"] = [kept(cluster, topic, queue) for queue in range(4)]
    make(cluster, "fresh", "+message.type=PRIORITY")
    seen["order"] = order_of(cluster, "fresh", GROUP)
    return seen


def test_both_products_store_and_pop_priorities_alike(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    ours, theirs = (new_cluster(brokers=[each]) for each in (product, peer))
    seen, wanted = what_is_seen(ours), what_is_seen(theirs)
    for what, value in wanted.items():
        assert seen[what] == value, what
    assert seen["order"] == [3] * 12 + [2] * 12 + [1] * 12 + [0] * 12


def test_a_group_with_priority_factor_0_pops_in_another_order(new_cluster: Callable[..., Cluster], product: Product) -> None:
    cluster = new_cluster()
    make(cluster, TOPIC, "+message.type=PRIORITY")
    body = b'{"groupName":"rankers","attributes":{"+priority.factor":"0"}}'
    assert wire.call(cluster.broker.address, UPDATE_GROUP, {}, body).code == 0
    assert order_of(cluster, TOPIC, GROUP)[:12] != [3] * 12


def what_comes_again(cluster: Cluster) -> list[Any]:
    """Of each priority one message, that comes again twice; then its topic has more queues."""
    address = cluster.broker.address
    popper, seen = Popper(address, GROUP, TOPIC), []
    for queues, priorities in ((4, (0, 1, 2, 3)), (8, (2, 7))):
        make(cluster, TOPIC, "+message.type=PRIORITY", queues)
        before = {priority: stored.queue_end(address, TOPIC, priority) for priority in priorities}
        for priority in priorities:
            assert send(cluster, TOPIC, f"{PRIORITY}{priority}\x02", f"q{queues}p{priority}")[0] == 0
        wait_until(
            lambda before=before: all(stored.queue_end(address, TOPIC, each) > end for each, end in before.items()), 20, "all are there"
        )
        assert len(popper.pop(initMode=0, invisibleTime=1000)) == len(priorities)
        for tries in (1, 2):
            popped = popper.pop_until(len(priorities), initMode=0)
            seen.append(sorted((each.body, each.record.queue_id, each.record.reconsume_times) for each in popped))
            for each in popped:
                popper.change(each, 1000) if tries == 1 else popper.ack(each)
        retry = wire.call(address, GET_TOPIC_CONFIG, {"topic": f"%RETRY%{GROUP}_{TOPIC}", "lo": "false"}).json()
        seen.append({name: retry[name] for name in ("readQueueNums", "writeQueueNums", "perm")})
    return seen


def test_what_comes_again_keeps_its_priority_in_both(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    ours, theirs = (new_cluster(brokers=[each], useSeparateRetryQueue="true") for each in (product, peer))
    seen = what_comes_again(ours)
    assert seen[0] == [(f"q4p{priority}", priority, 1) for priority in range(4)] and seen[4] == [("q8p2", 2, 2), ("q8p7", 7, 2)]
    assert seen == what_comes_again(theirs)
