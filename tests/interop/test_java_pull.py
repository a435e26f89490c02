"""The Java pull consumers and their offset queries."""

from __future__ import annotations

import time
from functools import partial

import pytest

from tests.processes import PATIENCE_S, wait_until

from .javaenv import JavaClients, PullConsumer


def filled(java: JavaClients, topic: str, group: str, count: int, **fields: object) -> tuple[PullConsumer, dict]:
    """A consumer, and queue 1 of the topic with `count` messages in it, indexed."""
    producer = java.producer()
    queue = producer.call("queues", topic=topic)[1]
    producer.send(topic, *({"body": f"{number:04}", "tags": f"T{number % 3}"} for number in range(count)), queue=queue)
    consumer = java.pull(group, **fields)
    wait_until(lambda: consumer.call("maxOffset", **queue) == count, 10, "all messages indexed")
    return consumer, queue


def test_a_pull_returns_messages_from_an_offset_and_where_to_go_on(java: JavaClients, topic: str, group: str) -> None:
    consumer, queue = filled(java, topic, group, 50)
    answer = consumer.pull(queue, 10, max=20)
    assert answer["status"] == "FOUND"
    assert [each["body"].decode() for each in answer["messages"]] == [f"{number:04}" for number in range(10, 30)]
    assert [each["queueOffset"] for each in answer["messages"]] == list(range(10, 30))
    assert (answer["next"], answer["min"], answer["max"]) == (30, 0, 50)


def test_tags_are_filtered_and_the_next_offset_moves_on(java: JavaClients, topic: str, group: str) -> None:
    consumer, queue = filled(java, topic, group, 30)
    offset, received = 0, []
    while offset < 30:
        answer = consumer.pull(queue, offset, expression="T1", max=4)
        assert answer["status"] in ("FOUND", "NO_MATCHED_MSG")
        assert answer["next"] > offset
        received += answer["messages"]
        offset = answer["next"]
    assert [each["body"].decode() for each in received] == [f"{number:04}" for number in range(1, 30, 3)]
    nothing = consumer.pull(queue, 0, expression="Absent")
    assert nothing["status"] == "NO_MATCHED_MSG" and nothing["next"] > 0


def test_offsets_outside_the_queue_are_answered_as_rocketmq_does(java: JavaClients, topic: str, group: str) -> None:
    consumer, queue = filled(java, topic, group, 10)
    at_end = consumer.pull(queue, 10)
    assert (at_end["status"], at_end["next"]) == ("NO_NEW_MSG", 10)
    past_end = consumer.pull(queue, 11)
    assert (past_end["status"], past_end["next"]) == ("OFFSET_ILLEGAL", 10)
    far_past_end = consumer.pull(queue, 1_000_000)
    assert (far_past_end["status"], far_past_end["next"]) == ("OFFSET_ILLEGAL", 10)


def test_an_empty_queue_has_nothing_and_says_so(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.pull(group)
    queue = consumer.call("queues", topic=topic)[0]
    assert (consumer.call("minOffset", **queue), consumer.call("maxOffset", **queue)) == (0, 0)
    answer = consumer.pull(queue, 0)
    assert (answer["status"], answer["next"]) == ("NO_NEW_MSG", 0)


def test_a_blocking_pull_waits_for_the_next_message(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    producer.send(topic, "warm up")
    consumer = java.pull(group)
    queue = consumer.call("queues", topic=topic)[2]
    begin = consumer.call("maxOffset", **queue)
    waiting = consumer.begin("pull", **queue, offset=begin, block=True)
    with pytest.raises(TimeoutError):
        waiting.result(0.5)
    producer.send(topic, "wake up", queue=queue)
    answer = waiting.result(PATIENCE_S)
    assert answer["status"] == "FOUND" and len(answer["messages"]) == 1


def test_a_blocking_pull_gives_up_after_its_suspend_time(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.pull(group, suspendMs=2000)
    queue = consumer.call("queues", topic=topic)[0]
    answer = consumer.call("pull", **queue, offset=0, block=True)
    assert answer["status"] == "NO_NEW_MSG"
    assert answer["tookMs"] >= 1900  # RocketMQ's broker looks at its time-outs every five seconds; ours may be more exact, but never early


def test_committed_offsets_are_kept_by_the_broker(java: JavaClients, topic: str, group: str) -> None:
    consumer, queue = filled(java, topic, group, 10)
    other = java.pull(group)

    def commit(offset: int) -> bool:
        # Commits are oneway, and refused while the group is unknown, which is until a client's first heartbeat.
        consumer.call("commitOffset", **queue, offset=offset)
        return other.call("fetchOffset", **queue) == offset

    for offset in (7, 9, 3):
        wait_until(partial(commit, offset), 10, f"offset {offset}")


def test_offsets_are_found_by_time(java: JavaClients, topic: str, group: str) -> None:
    consumer, queue = filled(java, topic, group, 10)
    (last,) = consumer.pull(queue, 9)["messages"]
    between = last["storeTimestamp"] + 1
    wait_until(lambda: time.time() * 1000 > between + 1, 5, "a later store time")
    producer = java.producer()
    producer.send(topic, *(f"late {number}" for number in range(5)), queue=queue)
    wait_until(lambda: consumer.call("maxOffset", **queue) == 15, 10, "15 messages")
    assert consumer.call("searchOffset", **queue, timestamp=between) == 10
    assert consumer.call("searchOffset", **queue, timestamp=0) == 0
    first = consumer.pull(queue, 0, max=1)["messages"][0]["storeTimestamp"]
    assert consumer.call("searchOffset", **queue, timestamp=first) == 0
    assert consumer.call("searchOffset", **queue, timestamp=between + 3_600_000) in (14, 15)
    assert consumer.call("earliestTime", **queue) == first


def test_a_lite_consumer_reads_by_subscription_and_commits(java: JavaClients, topic: str, group: str) -> None:
    java.producer().send(topic, *({"body": f"{number}", "tags": f"T{number % 2}"} for number in range(40)))
    consumer = java.lite(group, topic, expression="T0")
    received = consumer.poll(20)
    assert sorted(int(each["body"]) for each in received) == list(range(0, 40, 2))
    consumer.call("commit")
    consumer.shutdown()
    reader = java.pull(group)
    for queue in reader.call("queues", topic=topic):
        last = max((each["queueOffset"] for each in received if each["queueId"] == queue["queueId"]), default=None)
        if last is not None:
            assert reader.call("fetchOffset", **queue) > last


def test_a_lite_consumer_reads_by_assignment_and_seeks(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    queue = producer.call("queues", topic=topic)[3]
    producer.send(topic, *(f"{number:03}" for number in range(20)), queue=queue)
    consumer = java.lite(group, topic, assign=True)
    assert [each["body"].decode() for each in consumer.poll(20)] == [f"{number:03}" for number in range(20)]
    consumer.call("seek", **queue, offset=15)
    assert [each["body"].decode() for each in consumer.poll(5)] == [f"{number:03}" for number in range(15, 20)]
