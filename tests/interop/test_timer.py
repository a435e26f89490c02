"""Timed sends of Java producers: messages arrive when their time has come, and not when they were recalled before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .javaenv import CURRENT, JavaClients, JavaError, PushConsumer
from .products import Cluster, Product, running_cluster
from .stored import queue_end

pytestmark = pytest.mark.timeout(300)

WHEEL = "rmq_sys_wheel_timer"
PRECISION_MS = 100


@pytest.fixture(scope="module")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """As that of the other tests, with slots that are short."""
    settings = {"timerPrecisionMs": PRECISION_MS, "recallMessageEnable": "true"}
    with running_cluster(product, tmp_path_factory.mktemp("timers"), settings) as cluster:
        yield cluster


@pytest.fixture(params=["JSON", pytest.param("ROCKETMQ", marks=pytest.mark.slow)])
def java(request: pytest.FixtureRequest, clients: Callable[..., JavaClients], cluster: Cluster) -> JavaClients:
    """Clients of 5.x: older ones know no timers."""
    return clients(cluster, CURRENT, request.param)


def waiting_consumer(java: JavaClients, topic: str, group: str, queue: int) -> PushConsumer:
    """One that waits at the queue: it has had a first message from there."""
    consumer = java.push(group, topic, rejectTimes=0)
    java.producer().send(topic, "first", selector=queue)
    assert [each["body"] for each in consumer.attempts(1)] == [b"first"]
    return consumer


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def came_in_time(message: dict[str, Any], due_ms: int) -> bool:
    """Not before the slot of its time. How late it is shows in the output: other load decides that."""
    late = message["storeTimestamp"] - due_ms
    print(f"{message['body']!r}: {late} ms after its time")
    return late >= -PRECISION_MS


@pytest.mark.parametrize("how", ["sync", *(pytest.param(how, marks=pytest.mark.slow) for how in ("async", "oneway"))])
def test_timed_messages_come_in_the_order_of_their_times(java: JavaClients, topic: str, group: str, how: str) -> None:
    consumer = waiting_consumer(java, topic, group, 2)
    producer = java.producer()
    producer.call("queues", topic=topic)  # knows the way: the first send takes no longer than the others
    begun_ms = now_ms()
    delays = {"seconds": {"delayTimeSec": 2}, "milliseconds": {"delayTimeMs": 1500}, "a time": {"deliverTimeMs": begun_ms + 1000}}
    messages = [
        {"body": body, "tags": f"T{body}", "keys": f"K{body}", "flag": number, **delay}
        for number, (body, delay) in enumerate(delays.items())
    ]
    results = producer.send(topic, *messages, how=how, selector=2)
    assert {each["status"] for each in results} <= {"SEND_OK"} and all(each["recallHandle"] for each in results)
    attempts = consumer.attempts(4)[1:]
    assert [each["body"] for each in attempts] == [b"a time", b"milliseconds", b"seconds"]
    for delay_ms, flag, each in zip((1000, 1500, 2000), (2, 1, 0), attempts, strict=True):
        assert (each["topic"], each["queueId"], each["reconsumeTimes"], each["flag"]) == (topic, 2, 0, flag)
        assert (each["tags"], each["keys"]) == (f"T{each['body'].decode()}", f"K{each['body'].decode()}")
        assert came_in_time(each, begun_ms + delay_ms)


def test_a_recalled_message_does_not_come(java: JavaClients, topic: str, group: str) -> None:
    consumer = waiting_consumer(java, topic, group, 0)
    producer = java.producer()
    due_ms = now_ms() + 1500
    bodies = [f"message {number}" for number in range(6)]
    results = producer.send(topic, *({"body": body, "deliverTimeMs": due_ms} for body in bodies), selector=0)
    for result in results[::2]:
        assert producer.call("recall", topic=topic, handle=result["recallHandle"]) == result["msgId"]
    producer.send(topic, {"body": "behind them", "deliverTimeMs": due_ms + 500}, selector=0)
    assert sorted(each["body"].decode() for each in consumer.attempts(5)) == sorted(["first", "behind them", *bodies[1::2]])
    assert len(consumer.attempts(0)) == 5
    with pytest.raises(JavaError, match=r"(?s)CODE: 604.*timestamp invalid"):
        producer.call("recall", topic=topic, handle=results[1]["recallHandle"])


@pytest.mark.slow
def test_sends_that_are_too_far_ahead_and_batches_are_refused(java: JavaClients, topic: str) -> None:
    producer = java.producer(retries=0)
    with pytest.raises(JavaError, match=r"(?s)CODE: 13 .*timer message illegal, the delay time should not be bigger than the max delay"):
        producer.send(topic, {"body": "too far", "delayTimeSec": 3 * 24 * 3600 + 60})
    with pytest.raises(JavaError, match="not support"):
        producer.send(topic, {"body": "a", "delayTimeSec": 1}, {"body": "b", "delayTimeSec": 1}, how="batch")


@pytest.mark.slow
def test_timed_messages_may_be_of_an_order(java: JavaClients, topic: str, group: str) -> None:
    """Those of one time come to an orderly consumer in the order they were sent in."""
    consumer = java.push(group, topic, orderly=True, rejectTimes=0)
    due_ms = now_ms() + 2000
    bodies = [f"{number:03}" for number in range(100)]
    java.producer().send(topic, *({"body": body, "deliverTimeMs": due_ms} for body in bodies), selector=3)
    found = consumer.attempts(100)
    assert sorted(each["body"].decode() for each in found) == bodies and {each["queueId"] for each in found} == {3}


@pytest.mark.slow
def test_a_large_timed_message_is_compressed_all_the_way(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic)
    body = "großer Körper " * 20_000
    java.producer(compressOver=1000).send(topic, {"body": body, "delayTimeMs": 500, "properties": {"größe": "äö €"}})
    (message,) = consumer.received(1)
    assert message["body"].decode() == body and message["properties"]["größe"] == "äö €"
    assert message["storeSize"] < 50_000


@pytest.mark.slow
def test_a_timed_message_is_sent_back_as_any_other(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    """Its retry is due by its level: the time is over."""
    cluster.create_topic(f"%RETRY%{group}", queues=1)  # a client that starts its group looks for it at its next rebalance only
    consumer = java.push(group, topic, rejectTimes=1, nextDelayLevel=1)
    before = queue_end(cluster.broker.address, WHEEL, 0)
    java.producer().send(topic, {"body": "again", "delayTimeMs": 300})
    first, second = consumer.attempts(2)
    assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1) and second["body"] == b"again"
    assert queue_end(cluster.broker.address, WHEEL, 0) == before + 1
