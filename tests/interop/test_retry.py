"""What Java push consumers do not manage to consume comes again later, and goes to the group's dead letter queue in the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import OLD, JavaClients, PullConsumer
from .products import Cluster, Product, running_cluster

pytestmark = pytest.mark.timeout(300)

LEVELS_MS = {1: 1000, 2: 1000, 3: 2000, 4: 1000, 5: 1000}
"""A first retry is of level 3, a second of level 4."""
MAX_OFFSET, GET_TOPIC_CONFIG = 30, 351


@pytest.fixture(scope="module")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """As that of the other tests, with levels that are short."""
    with running_cluster(product, tmp_path_factory.mktemp("retries"), {"messageDelayLevel": "1s 1s 2s 1s 1s"}) as cluster:
        yield cluster


@pytest.fixture
def group(cluster: Cluster, group: str) -> str:
    """One whose retry topic exists."""
    cluster.create_group(group)
    return group


def by_body(attempts: list[dict]) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = defaultdict(list)
    for each in attempts:
        found[each["body"].decode()].append(each)
    return found


def dead_letters(java: JavaClients, cluster: Cluster, group: str, count: int) -> list[dict]:
    """All of the group's dead letter queue, once it has that many, as they are stored."""
    topic = f"%DLQ%{group}"

    def end() -> int:
        reply = wire.call(cluster.broker.address, MAX_OFFSET, {"topic": topic, "queueId": "0"})
        return int(reply.fields["offset"]) if reply.code == 0 else 0

    wait_until(lambda: end() >= count, what=f"{count} messages in {topic}")
    consumer: PullConsumer = java.pull("GID-dead-letters")
    messages: list[dict] = []
    while len(messages) < end():
        answer = consumer.pull({"topic": topic, "broker": "broker-a", "queueId": 0}, len(messages))
        assert answer["status"] == "FOUND", answer
        messages += answer["messages"]
    return messages


def topic_config(cluster: Cluster, topic: str) -> dict[str, Any]:
    reply = wire.call(cluster.broker.address, GET_TOPIC_CONFIG, {"topic": topic})
    assert reply.code == 0, reply
    return reply.json()


def test_a_rejected_message_comes_again_until_it_is_taken(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    consumer = java.push(group, topic, rejectTimes=2)
    sent = {
        each["body"]: each
        for each in ({"body": f"message {number}", "tags": "T", "keys": f"K{number}", "flag": number} for number in range(6))
    }
    results = java.producer().send(topic, *sent.values())
    attempts = by_body(consumer.attempts(18))
    assert set(attempts) == set(sent)
    offset_ids = {message["keys"]: result["offsetMsgId"] for message, result in zip(sent.values(), results, strict=True)}
    for body, tries in attempts.items():
        first, second, third = tries
        assert [each["reconsumeTimes"] for each in tries] == [0, 1, 2]
        assert [each["taken"] for each in tries] == [False, False, True]
        for each in (second, third):
            assert each["topic"] == topic, "the client shows the topic it was sent to"
            assert (each["tags"], each["keys"], each["flag"]) == ("T", sent[body]["keys"], sent[body]["flag"])
            # Had sending back been refused, newer clients would send it themselves, and the message would be born again.
            assert (each["bornTimestamp"], each["bornHost"], each["msgId"]) == (
                first["bornTimestamp"], first["bornHost"], first["msgId"])  # fmt: skip
            assert each["properties"]["RETRY_TOPIC"] == topic and each["queueId"] == 0
            assert each["properties"]["ORIGIN_MESSAGE_ID"] == offset_ids[first["keys"]]
        for level, before, after in ((3, first, second), (4, second, third)):
            assert after["receivedTimestamp"] - before["receivedTimestamp"] >= LEVELS_MS[level]
    assert len(consumer.received(6)) == 6
    config = topic_config(cluster, f"%RETRY%{group}")
    assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (1, 1, 6)


@pytest.mark.slow
def test_a_consumer_says_how_late_it_wants_a_message_again(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic, rejectTimes=1, nextDelayLevel=1)
    java.producer().send(topic, "in a second", "in a second, too")
    for first, second in by_body(consumer.attempts(4)).values():
        assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
        assert second["properties"]["DELAY"] == "1"
        assert second["receivedTimestamp"] - first["receivedTimestamp"] >= LEVELS_MS[1]


@pytest.mark.slow
def test_a_consumer_wants_a_message_never_again(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    consumer = java.push(group, topic, rejectTimes=1, nextDelayLevel=-1)
    java.producer().send(topic, "never again")
    (dead,) = dead_letters(java, cluster, group, 1)
    assert dead["body"] == b"never again" and dead["reconsumeTimes"] == 1 and dead["properties"]["RETRY_TOPIC"] == topic
    assert len(consumer.attempts()) == 1


@pytest.mark.parametrize("orderly", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["concurrent", "orderly"])
def test_a_message_is_a_dead_letter_after_the_last_try(java: JavaClients, cluster: Cluster, topic: str, group: str, orderly: bool) -> None:
    consumer = java.push(group, topic, rejectTimes=5, maxReconsumeTimes=1, orderly=orderly)
    java.producer().send(topic, *({"body": f"{number}", "keys": f"K{number}", "tags": "T"} for number in range(5)), selector=3)
    dead = dead_letters(java, cluster, group, 5)
    assert {each["body"] for each in dead} == {b"0", b"1", b"2", b"3", b"4"}
    if orderly:
        assert [each["body"] for each in dead] == [b"0", b"1", b"2", b"3", b"4"]
    for each in dead:
        assert each["topic"] == f"%DLQ%{group}" and each["tags"] == "T" and each["keys"] == f"K{each['body'].decode()}"
        # The older client sends it to the retry topic without counting the last try; that its queues are locked is enough for the broker.
        assert each["reconsumeTimes"] == (1 if orderly and java.jvm.version == OLD else 2) and each["properties"]["RETRY_TOPIC"] == topic
    attempts = by_body(consumer.attempts(10))
    assert {body: [each["reconsumeTimes"] for each in tries] for body, tries in attempts.items()} == {f"{n}": [0, 1] for n in range(5)}
    config = topic_config(cluster, f"%DLQ%{group}")
    assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (1, 1, 6)


@pytest.mark.slow
def test_an_orderly_consumer_keeps_the_order_while_it_tries_again(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic, rejectTimes=2, orderly=True)
    java.producer().send(topic, *(f"{number}" for number in range(4)), selector=0)
    attempts = consumer.attempts(12)
    assert [(each["body"].decode(), each["reconsumeTimes"]) for each in attempts] == [
        (f"{n}", times) for n in range(4) for times in range(3)
    ]


@pytest.mark.slow
def test_large_and_delayed_messages_come_again_whole(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic, rejectTimes=1, nextDelayLevel=1)
    body = "großer Körper " * 20_000
    java.producer(compressOver=1000).send(
        topic, {"body": body, "properties": {"größe": "äö €"}}, {"body": "delayed", "delayLevel": 2, "keys": "K"}
    )
    attempts = by_body(consumer.attempts(4))
    assert {each: [tried["reconsumeTimes"] for tried in tries] for each, tries in attempts.items()} == {body: [0, 1], "delayed": [0, 1]}
    assert attempts[body][1]["properties"]["größe"] == "äö €" and attempts[body][1]["storeSize"] < 50_000
    first, second = attempts["delayed"]
    assert (first["properties"]["REAL_TOPIC"], second["properties"]["REAL_TOPIC"]) == (topic, f"%RETRY%{group}")
    assert first["bornTimestamp"] == second["bornTimestamp"]


@pytest.mark.slow
def test_the_next_consumer_of_the_group_gets_what_the_last_one_rejected(java: JavaClients, topic: str, group: str) -> None:
    first = java.push(group, topic, rejectTimes=9)
    java.producer().send(topic, "for the next", "for the next, too")
    assert len(first.attempts(2)) == 2
    first.shutdown()  # waits for the answers to what was sent back
    second = java.push(group, topic, rejectTimes=1)
    taken = second.received(2)
    assert {each["body"] for each in taken} == {b"for the next", b"for the next, too"}
    assert all(each["reconsumeTimes"] >= 1 for each in taken)


@pytest.mark.slow
def test_a_consumer_by_tags_gets_its_retries(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic, expression="TagA", rejectTimes=1, nextDelayLevel=1)
    java.producer().send(topic, *({"body": f"{tag} {number}", "tags": tag} for tag in ("TagA", "TagB") for number in range(3)))
    attempts = by_body(consumer.attempts(6))
    assert {body: len(tries) for body, tries in attempts.items()} == {f"TagA {number}": 2 for number in range(3)}
