"""The Java client sends to us in every way it has; what it is told and what is stored is what it sent."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import pytest

from tests.processes import wait_until

from .javaenv import OLD, JavaClients
from .products import Cluster

SENT = "SEND_OK"


def bodies(messages: list[dict]) -> list[bytes]:
    return [each["body"] for each in messages]


def read_all(java: JavaClients, topic: str, count: int, group: str) -> list[dict]:
    """Every message of the topic by plain pulls, sorted by queue and offset."""
    consumer = java.pull(group)
    messages: list[dict] = []

    def pull_rest() -> bool:
        messages.clear()
        for queue in consumer.call("queues", topic=topic):
            offset = 0
            while True:
                answer = consumer.pull(queue, offset)
                if answer["status"] not in ("FOUND", "NO_MATCHED_MSG"):
                    break
                messages.extend(answer["messages"])
                offset = answer["next"]
        return len(messages) >= count

    wait_until(pull_rest, 20, f"{count} messages in {topic}")
    return sorted(messages, key=lambda each: (each["broker"], each["queueId"], each["queueOffset"]))


def test_synchronous_sends_are_answered_with_where_the_message_is(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    producer = java.producer()
    results = [producer.send(topic, f"message {number}")[0] for number in range(12)]
    assert {each["status"] for each in results} == {SENT}
    assert {each["queueId"] for each in results} == {0, 1, 2, 3}, "round robin over the four queues"
    assert all(each["broker"] == "broker-a" and each["topic"] == topic for each in results)
    for queue in range(4):
        offsets = [each["queueOffset"] for each in results if each["queueId"] == queue]
        assert offsets == list(range(len(offsets)))
    assert len({each["offsetMsgId"] for each in results}) == 12
    assert {each["region"] for each in results} == {"DefaultRegion"}
    assert all(each["traceOn"] for each in results)

    stored = read_all(java, topic, 12, group)
    assert sorted(bodies(stored)) == sorted(f"message {number}".encode() for number in range(12))
    where = {(each["queueId"], each["queueOffset"]): each for each in stored}
    for result in results:
        message = where[result["queueId"], result["queueOffset"]]
        assert message["msgId"] == result["msgId"]
        assert message["offsetMsgId"] == result["offsetMsgId"]
        assert message["storeHost"].endswith(cluster.broker.address)
        assert message["bornHost"].startswith("/127.0.0.1:")
        assert abs(message["storeTimestamp"] - time.time() * 1000) < 60_000


def test_tags_keys_flag_and_user_properties_come_back(java: JavaClients, topic: str, group: str) -> None:
    properties = {"colour": "blue", "größe": "äöü €"}
    java.producer().send(topic, {"body": "b", "tags": "TagA", "keys": "k1 k2", "flag": 7, "properties": properties})
    (message,) = read_all(java, topic, 1, group)
    assert (message["tags"], message["keys"], message["flag"]) == ("TagA", "k1 k2", 7)
    assert {name: message["properties"][name] for name in properties} == properties
    assert message["properties"]["UNIQ_KEY"] == message["msgId"]


def test_asynchronous_sends_are_all_answered(java: JavaClients, topic: str, group: str) -> None:
    sent = [f"async {number}" for number in range(200)]
    results = java.producer().send(topic, *sent, how="async")
    assert [each["status"] for each in results] == [SENT] * 200
    assert sorted(bodies(read_all(java, topic, 200, group))) == sorted(each.encode() for each in sent)


def test_oneway_sends_arrive(java: JavaClients, topic: str, group: str) -> None:
    sent = [f"oneway {number}" for number in range(100)]
    java.producer().send(topic, *sent, how="oneway")
    assert sorted(bodies(read_all(java, topic, 100, group))) == sorted(each.encode() for each in sent)


def test_a_batch_is_stored_as_single_messages_in_one_queue(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    messages = [{"body": f"batch {number}", "tags": f"T{number % 2}", "keys": f"key{number}"} for number in range(50)]
    (result,) = producer.send(topic, *messages, how="batch")
    assert result["status"] == SENT
    assert result["msgId"].count(",") == 49 and result["offsetMsgId"].count(",") == 49
    stored = read_all(java, topic, 50, group)
    assert {each["queueId"] for each in stored} == {result["queueId"]}
    assert bodies(stored) == [each["body"].encode() for each in messages], "in the order of the batch"
    assert [each["queueOffset"] for each in stored] == list(range(50))
    assert [(each["tags"], each["keys"]) for each in stored] == [(each["tags"], each["keys"]) for each in messages]
    assert [each["msgId"] for each in stored] == result["msgId"].split(",")
    assert [each["offsetMsgId"] for each in stored] == result["offsetMsgId"].split(",")


def test_a_selector_keeps_messages_in_order_in_its_queue(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    for how in ("sync", "async", "oneway"):
        producer.send(topic, *(f"{how} {number}" for number in range(10)), how=how, selector=6)
    stored = read_all(java, topic, 30, group)
    assert {each["queueId"] for each in stored} == {2}
    assert bodies(stored)[:10] == [f"sync {number}".encode() for number in range(10)]


def test_large_and_compressed_bodies_come_back_byte_for_byte(java: JavaClients, topic: str, group: str) -> None:
    noise = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(100_000))
    plain = java.producer(compressOver=8 << 20)
    compressing = java.producer(compressOver=100)
    sent = [b"x", b"y" * 4096, b"z" * 1_000_000, noise[:3_000_000]]
    for body in sent:
        assert plain.send(topic, body, timeout=30)[0]["status"] == SENT
        assert compressing.send(topic, body, timeout=30)[0]["status"] == SENT
    stored = read_all(java, topic, 8, group)
    assert sorted(bodies(stored)) == sorted(sent + sent)
    compressed = [each for each in stored if each["storeSize"] < len(each["body"])]
    assert {each["body"] for each in compressed} == {sent[1], sent[2]}


@pytest.mark.parametrize("kind", ["LZ4", "ZSTD", "ZLIB"])
def test_every_compression_of_the_newer_client_arrives(
    clients: Callable[..., JavaClients], cluster: Cluster, topic: str, group: str, kind: str
) -> None:
    java = clients(cluster)
    java.producer(compressOver=100, compressType=kind).send(
        topic, kind * 5000, *(f"{number}" + kind * 500 for number in range(3)), how="async"
    )
    consumer = java.push(group, topic)
    assert bodies(sorted(consumer.received(4), key=lambda each: -len(each["body"])))[0] == (kind * 5000).encode()


def test_the_older_client_speaks_the_binary_header_too(
    clients: Callable[..., JavaClients], cluster: Cluster, topic: str, group: str
) -> None:
    java = clients(cluster, OLD, "ROCKETMQ")
    sent = [f"binary {number}" for number in range(20)]
    java.producer().send(topic, *sent)
    assert sorted(bodies(java.push(group, topic).received(20))) == sorted(each.encode() for each in sent)


def test_an_unknown_topic_is_created_by_sending_to_it(java: JavaClients, cluster: Cluster, group: str) -> None:
    name = f"auto-{group}"
    (result,) = java.producer(defaultTopicQueueNums=3).send(name, "first")
    assert result["status"] == SENT
    wait_until(lambda: cluster.route(name), 10, "route of the created topic")
    (queues,) = cluster.route(name)
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 3, 6)
    assert bodies(read_all(java, name, 1, group)) == [b"first"]


def test_a_message_is_found_by_its_offset_id(java: JavaClients, topic: str) -> None:
    producer = java.producer()
    (result,) = producer.send(topic, {"body": "look me up", "tags": "T", "keys": "K"})
    message = producer.call("view", topic=topic, msgId=result["offsetMsgId"])
    assert (message["queueId"], message["queueOffset"], message["tags"], message["keys"]) == (
        result["queueId"],
        result["queueOffset"],
        "T",
        "K",
    )


def test_a_body_over_the_brokers_limit_is_refused_with_the_familiar_words(java: JavaClients, topic: str) -> None:
    producer = java.producer(maxMessageSize=16 << 20, compressOver=64 << 20, retries=0)
    future = producer.begin("send", topic=topic, how="sync", messages=[{"body": "QUFB" * ((5 << 20) // 3)}])
    error = str(future.exception(30))
    assert "MESSAGE_ILLEGAL" in error or "CODE: 13" in error, error
    assert producer.send(topic, "the next one")[0]["status"] == SENT
