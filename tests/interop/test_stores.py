"""A store directory written by one product is opened by the other, which serves all of it and goes on writing; and back again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.processes import wait_until

from .javaenv import JavaClients, decode_messages
from .products import Cluster, Product
from .wire import parse_json

pytestmark = pytest.mark.timeout(300)
TOPIC, OTHER, GROUP = "store-topic", "store-other", "GID-store-readers"
KEPT = ("queueId", "queueOffset", "commitLogOffset", "msgId", "offsetMsgId", "tags", "keys", "flag", "sysFlag", "storeSize", "bodyCrc",
        "bornTimestamp", "storeTimestamp", "bornHost", "storeHost", "reconsumeTimes", "body")  # fmt: skip
OURS_OF_THE_READER = {"CONSUME_START_TIME", "MIN_OFFSET", "MAX_OFFSET", "CLUSTER"}
"""Properties that a client adds when it receives."""


def read_topic(java: JavaClients, topic: str, count: int) -> list[dict]:
    """All messages of the topic by plain pulls: per queue from 0 to its end, every field that the store keeps."""
    consumer = java.pull("GID-store-whole")
    queues = wait_until(lambda: _queues(consumer, topic), 20, f"route of {topic}")
    wait_until(lambda: sum(consumer.call("maxOffset", **queue) for queue in queues) >= count, 30, f"{count} messages in {topic}")
    messages: list[dict] = []
    for queue in queues:
        offset, end = 0, consumer.call("maxOffset", **queue)
        while offset < end:
            answer = consumer.pull(queue, offset)
            assert answer["status"] == "FOUND", answer
            messages += answer["messages"]
            offset = answer["next"]
    return [_kept(each) for each in sorted(messages, key=lambda each: (each["queueId"], each["queueOffset"]))]


def _queues(consumer: object, topic: str) -> list[dict]:
    try:
        return consumer.call("queues", topic=topic)  # type: ignore[attr-defined]
    except AssertionError:
        return []


def _kept(message: dict) -> dict:
    properties = {name: value for name, value in message["properties"].items() if name not in OURS_OF_THE_READER}
    return {**{name: message.get(name) for name in KEPT}, "properties": properties}


def fill(java: JavaClients, word: str) -> int:
    """Messages of every kind, enough bytes to need another commit log file. Returns how many went to TOPIC."""
    producer = java.producer(compressOver=1000)
    plain = java.producer(compressOver=8 << 20)
    producer.send(TOPIC, *({"body": f"{word} {number}", "tags": f"T{number % 3}", "keys": f"{word}-K{number}"} for number in range(100)))
    producer.send(TOPIC, *({"body": f"{word} batch {number}", "tags": "B"} for number in range(50)), how="batch")
    producer.send(
        TOPIC, *({"body": f"{word} compressed {number}" * 200, "properties": {"größe": "äö €"}, "flag": number} for number in range(10))
    )
    plain.send(TOPIC, *(f"{word} large {number} " * 25_000 for number in range(14)))
    producer.send(OTHER, *(f"{word} other {number}" for number in range(30)))
    return 174


def consume_some(java: JavaClients, count: int) -> set[tuple[int, int]]:
    """A group reads `count` messages more and commits them."""
    consumer = java.push(GROUP, OTHER)
    received = consumer.received(count)
    consumer.shutdown()
    return {(each["queueId"], each["queueOffset"]) for each in received}


def check_lookups(java: JavaClients, word: str, written: list[dict]) -> None:
    """By key through the index, and by offset id."""
    producer = java.producer()
    wanted = next(each for each in written if each["keys"] == f"{word}-K7")
    found = decode_messages(producer.call("query", topic=TOPIC, key=f"{word}-K7"))
    assert [(each["msgId"], each["body"]) for each in found] == [(wanted["msgId"], wanted["body"])]
    (viewed,) = decode_messages([producer.call("view", topic=TOPIC, msgId=wanted["offsetMsgId"])])
    assert (viewed["body"], viewed["keys"]) == (wanted["body"], wanted["keys"])


def topics_of(cluster: Cluster) -> dict[str, dict]:
    table = parse_json((cluster.broker.store / "config/topics.json").read_text())["topicConfigTable"]
    return {topic: {name: table[topic][name] for name in ("readQueueNums", "writeQueueNums", "perm", "order")} for topic in (TOPIC, OTHER)}


def hand_over(cluster: Cluster, product: Product) -> None:
    cluster.broker.product = product
    cluster.broker.start(cluster.namesrv)
    wait_until(lambda: cluster.route(TOPIC), 20, "the topic is announced")


@pytest.mark.parametrize(
    "we_begin", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["ours-to-theirs-and-back", "theirs-to-ours-and-back"]
)
def test_a_store_changes_hands_and_comes_back(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, we_begin: bool
) -> None:
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], mappedFileSizeCommitLog=4 << 20, maxMessageSize=1 << 20)
    java = clients(cluster)
    cluster.create_topic(TOPIC, queues=4)
    cluster.create_topic(OTHER, queues=3)
    count = fill(java, first.name)
    written = read_topic(java, TOPIC, count)
    assert len(written) == count
    consumed = consume_some(java, 30)
    assert len(consumed) == 30
    topics = topics_of(cluster)
    cluster.broker.stop()
    assert len(list((cluster.broker.store / "commitlog").iterdir())) >= 2

    hand_over(cluster, second)
    assert read_topic(java, TOPIC, count) == written
    check_lookups(java, first.name, written)
    java.producer().send(OTHER, "one more")
    assert len(consume_some(java, 1)) == 1, "the other product knows what the group had read"
    count += fill(java, second.name)
    both = read_topic(java, TOPIC, count)
    assert [
        each for each in both if (each["queueId"], each["queueOffset"]) in {(w["queueId"], w["queueOffset"]) for w in written}
    ] == written
    assert topics_of(cluster) == topics
    cluster.broker.stop()

    hand_over(cluster, first)
    assert read_topic(java, TOPIC, count) == both
    check_lookups(java, second.name, both)
    assert len(consume_some(java, 30)) == 30
    assert {each["status"] for each in java.producer().send(TOPIC, "and on")} == {"SEND_OK"}


@pytest.mark.slow
def test_tags_still_choose_messages_whose_queue_entries_point_into_consumequeue_ext(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, group: str
) -> None:
    """With enableConsumeQueueExt RocketMQ writes an address where the tag's hash would be."""
    cluster = new_cluster(namesrv=product, brokers=[peer], enableConsumeQueueExt="true")
    java = clients(cluster)
    cluster.create_topic(TOPIC, queues=2)
    java.producer().send(TOPIC, *({"body": f"{tag} {number}", "tags": tag} for number in range(20) for tag in "AB"))
    cluster.broker.stop()
    assert (cluster.broker.store / "consumequeue_ext" / TOPIC).is_dir()
    hand_over(cluster, product)
    consumer = java.push(group, TOPIC, expression="A")
    assert len(consumer.received(20)) == 20
    java.producer().send(TOPIC, {"body": "ours", "tags": "A"}, {"body": "ours", "tags": "B"})
    assert {each["tags"] for each in consumer.received(21)} == {"A"}
    consumer.shutdown()
    cluster.broker.stop()
    hand_over(cluster, peer)
    java.producer().send(TOPIC, {"body": "theirs", "tags": "A"}, {"body": "theirs", "tags": "B"})
    (last,) = java.push(group, TOPIC, expression="A").received(1)
    assert (last["body"], last["tags"]) == (b"theirs", "A")


def test_our_consumer_offsets_have_their_shape(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], group: str
) -> None:
    cluster = new_cluster()
    java = clients(cluster)
    cluster.create_topic("shape", queues=2)
    java.producer().send("shape", *(f"{number}" for number in range(10)))
    consumer = java.push(group, "shape")
    assert len(consumer.received(10)) == 10
    consumer.shutdown()
    cluster.broker.stop()
    config = cluster.broker.store / "config"
    offsets = parse_json((config / "consumerOffset.json").read_text())["offsetTable"]
    assert sum(offsets[f"shape@{group}"].values()) == 10 and set(offsets[f"shape@{group}"]) == {"0", "1"}
    groups = parse_json((config / "subscriptionGroup.json").read_text())
    assert groups["subscriptionGroupTable"][group]["groupName"] == group and "dataVersion" in groups
    topics = parse_json((config / "topics.json").read_text())
    assert topics["topicConfigTable"]["shape"]["topicName"] == "shape" and {"counter", "timestamp"} <= set(topics["dataVersion"])
