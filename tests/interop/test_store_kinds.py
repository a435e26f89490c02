"""Stores in which RocketMQ keeps queues of other kinds, batch queues and light ones. Ours is killed on them and gives them back whole, and
the offsets of consumers, which are in another file then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import CURRENT, OLD, JavaClients
from .products import Cluster, Peer, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
TOPIC, BATCHES, LIGHT = "kinds", "kinds-batches", "%LMQ%kinds"
UPDATE_TOPIC, MAX_OFFSET, PULL, SEND_V2, UPDATE_CONSUMER_OFFSET = 17, 30, 11, 310, 15


def send(cluster: Cluster, properties: str) -> None:
    fields = {
        "a": "producers", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": properties,
        "j": "0", "k": "false", "l": "0", "m": "false", "n": "broker-a",
    }  # fmt: skip
    reply = wire.call(cluster.broker.address, SEND_V2, fields, b"body")
    assert reply.code == 0, reply


def max_offset(cluster: Cluster, topic: str) -> int:
    return int(wire.call(cluster.broker.address, MAX_OFFSET, {"topic": topic, "queueId": "0"}).fields["offset"])


def messages(cluster: Cluster, topic: str) -> int:
    """How many of a topic's one queue can be read, from its first on."""
    fields = {
        "consumerGroup": "readers", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    reply = wire.call(cluster.broker.address, PULL, fields)
    return reply.body.count(b"KEYS\x01") if reply.code == 0 else 0


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_batch_queues_and_light_queues_come_back_to_rocketmq(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, end: str
) -> None:
    cluster = new_cluster(namesrv=product, brokers=[peer], enableLmq=True, enableMultiDispatch=True)
    fields = {
        "topic": BATCHES, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "+queue.type=BatchCQ",
    }  # fmt: skip
    assert wire.call(cluster.broker.address, UPDATE_TOPIC, fields).code == 0
    cluster.create_topic(TOPIC, queues=1)
    wait_until(lambda: cluster.route(BATCHES), 20, "the topic is announced")
    for number in range(10):
        send(cluster, f"INNER_MULTI_DISPATCH\x01{LIGHT}\x02KEYS\x01k{number}\x02")
    clients(cluster).producer().send(BATCHES, *(f"{number}" for number in range(10)), how="batch")
    wait_until(lambda: (max_offset(cluster, LIGHT), max_offset(cluster, BATCHES)) == (10, 10), 20, "the queues of RocketMQ")
    for owner in (product, peer):
        cluster.broker.stop() if end == "stop" else cluster.broker.kill()
        cluster.broker.product = owner
        cluster.broker.start(cluster.namesrv)
        send(cluster, "KEYS\x01other\x02")
    assert not (cluster.broker.store / "consumequeue" / BATCHES).exists()
    assert max_offset(cluster, TOPIC) == 12
    assert (max_offset(cluster, LIGHT), max_offset(cluster, BATCHES)) == (10, 10)
    assert messages(cluster, LIGHT) == 10
    send(cluster, f"INNER_MULTI_DISPATCH\x01{LIGHT}\x02KEYS\x01k\x02")
    wait_until(lambda: messages(cluster, LIGHT) == 11, 20, "the next light message")


@pytest.mark.parametrize("version", [CURRENT, OLD])
def test_offsets_of_consumers_go_on_where_light_queues_are_enabled(
    new_cluster: Callable[..., Cluster], product: Product, version: str
) -> None:
    peer = Peer(version)
    cluster = new_cluster(namesrv=product, brokers=[peer], enableLmq=True, enableMultiDispatch=True)
    cluster.create_topic(TOPIC, queues=1)
    committed = {("readers", TOPIC): 0, ("%LMQ%me", LIGHT): 0}
    for round_number, owner in enumerate((product, peer, product), 1):
        send(cluster, f"INNER_MULTI_DISPATCH\x01{LIGHT}\x02KEYS\x01k\x02")
        assert messages(cluster, TOPIC) == round_number  # a pull makes its group
        wait_until(lambda wanted=round_number: max_offset(cluster, LIGHT) == wanted, 20, "the light queue")
        for group, topic in committed:
            committed[group, topic] = round_number
            fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(round_number)}
            assert wire.call(cluster.broker.address, UPDATE_CONSUMER_OFFSET, fields).code == 0
        cluster.broker.stop()
        cluster.broker.product = owner
        cluster.broker.start(cluster.namesrv)
        assert {key: cluster.committed(*key, 0) for key in committed} == committed
