"""Delayed sends of Java producers: each level's messages arrive when their time has come, in the order of their levels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import wait_until

from .javaenv import JavaClients, JavaError, PushConsumer
from .products import Cluster, Product, running_cluster

pytestmark = pytest.mark.timeout(300)

DELAYS_MS = {1: 1000, 2: 2000, 3: 3000, 4: 1000}
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture(scope="module")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """As that of the other tests, with levels that are short."""
    with running_cluster(product, tmp_path_factory.mktemp("delays"), {"messageDelayLevel": "1s 2s 3s 1s"}) as cluster:
        yield cluster


def waiting_consumer(java: JavaClients, topic: str, group: str, queue: int) -> PushConsumer:
    """One that waits at the queue: it has had a first message from there."""
    consumer = java.push(group, topic, rejectTimes=0)
    java.producer().send(topic, "first", selector=queue)
    assert [each["body"] for each in consumer.attempts(1)] == [b"first"]
    return consumer


def came_in_time(level: int, *attempts: dict) -> bool:
    """Not before their time. How late they are shows in the output: other load decides that."""
    times = [each["bornTimestamp"] + DELAYS_MS[level] for each in attempts]
    for what in ("storeTimestamp", "receivedTimestamp"):
        late = [each[what] - time for each, time in zip(attempts, times, strict=True)]
        print(f"level {level}: {what} {min(late)} to {max(late)} ms after the time it was born and its delay")
        if min(late) < 0:
            return False
    return True


@pytest.mark.parametrize("how", ["sync", *(pytest.param(how, marks=pytest.mark.slow) for how in ("async", "oneway"))])
def test_delayed_messages_come_in_the_order_of_their_levels(java: JavaClients, topic: str, group: str, how: str) -> None:
    consumer = waiting_consumer(java, topic, group, 2)
    producer = java.producer()
    producer.call("queues", topic=topic)  # knows the way: the first send takes no longer than the others
    messages = [
        {"body": f"level {level}", "tags": f"T{level}", "keys": f"K{level}", "flag": level, "delayLevel": level} for level in (3, 2, 1)
    ]
    results = producer.send(topic, *messages, how=how, selector=2)
    assert {each["status"] for each in results} <= {"SEND_OK"}
    assert {each["queueId"] for each in results} <= {2}, "its sender is told the queue it will be in"
    attempts = consumer.attempts(4)[1:]
    assert [each["body"].decode() for each in attempts] == ["level 1", "level 2", "level 3"]
    for level, each in enumerate(attempts, 1):
        assert (each["topic"], each["queueId"], each["queueOffset"]) == (topic, 2, level)
        assert (each["tags"], each["keys"], each["flag"], each["reconsumeTimes"]) == (f"T{level}", f"K{level}", level, 0)
        assert (each["properties"]["REAL_TOPIC"], each["properties"]["REAL_QID"]) == (topic, "2")
        assert came_in_time(level, each)


@pytest.mark.slow
def test_messages_of_one_level_keep_their_order_beside_plain_ones(java: JavaClients, topic: str, group: str) -> None:
    consumer = waiting_consumer(java, topic, group, 1)
    producer = java.producer()
    producer.send(topic, *({"body": f"delayed {number:03}", "delayLevel": 1} for number in range(60)), selector=1)
    producer.send(topic, *(f"plain {number:03}" for number in range(20)), selector=1)
    attempts = consumer.attempts(81)[1:]
    assert len(attempts) == 80
    for word, count in (("delayed", 60), ("plain", 20)):
        found = sorted((each["queueOffset"], each["body"].decode()) for each in attempts if each["body"].startswith(word.encode()))
        assert [body for _, body in found] == [f"{word} {number:03}" for number in range(count)]
    assert came_in_time(1, *(each for each in attempts if each["body"].startswith(b"delayed")))


@pytest.mark.slow
def test_a_level_above_the_last_is_the_last(java: JavaClients, topic: str, group: str) -> None:
    consumer = waiting_consumer(java, topic, group, 0)
    java.producer().send(topic, {"body": "far", "delayLevel": 99}, selector=0)
    _, attempt = consumer.attempts(2)
    assert attempt["properties"]["DELAY"] == "4" and came_in_time(4, attempt)


@pytest.mark.slow
def test_tags_choose_among_delayed_messages(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic, expression="TagB", rejectTimes=0)
    java.producer().send(topic, *({"body": tag, "tags": tag, "delayLevel": 1} for tag in ("TagA", "TagB", "TagC")))
    java.producer().send(topic, {"body": "last", "tags": "TagB", "delayLevel": 2})
    assert {each["body"] for each in consumer.attempts(2)} == {b"TagB", b"last"}


@pytest.mark.slow
def test_a_large_delayed_message_is_compressed_all_the_way(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic)
    body = "großer Körper " * 20_000
    java.producer(compressOver=1000).send(topic, {"body": body, "delayLevel": 1, "properties": {"größe": "äö €"}})
    (message,) = consumer.received(1)
    assert message["body"].decode() == body and message["properties"]["größe"] == "äö €"
    assert message["storeSize"] < 50_000


@pytest.mark.slow
def test_a_delayed_message_is_found_by_its_key(java: JavaClients, topic: str, group: str) -> None:
    """Where it was delivered to; while it waits it is stored under another topic."""
    consumer = java.push(group, topic)
    producer = java.producer()
    producer.send(topic, {"body": "by key", "keys": f"key-of-{group}", "delayLevel": 1})
    assert len(consumer.received(1)) == 1
    found: list[dict] = wait_until(
        lambda: producer.call("query", topic=topic, key=f"key-of-{group}"), what="the message's key", not_yet=JavaError
    )
    assert len(found) == 1 and found[0]["topic"] == topic
