"""A store with messages that wait for their time is handed from one product to the other and back: each goes on delivering where the
other stopped, and a slave knows how far its master came."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import JavaClients
from .products import Broker, Cluster, Product
from .stored import queue_end, records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

TOPIC, SCHEDULE, GROUP = "handed-over", "SCHEDULE_TOPIC_XXXX", "GID-handed-over"
GET_DELAY_OFFSETS = 45
SOON, LATER = {"messageDelayLevel": "1s 1s 1s 1s"}, {"messageDelayLevel": "1s 2h 2h 2h"}
"""Under LATER what has a level above 1 waits. Under SOON it is due: RocketMQ delivers at once what would wait for longer than its level."""


def hand_over(cluster: Cluster, product: Product, levels: dict[str, str]) -> None:
    cluster.broker.product = product
    cluster.broker.settings.update(levels)
    cluster.broker.start(cluster.namesrv)
    wait_until(lambda: cluster.route(TOPIC), 20, "the topic is announced")


def end_of(cluster: Cluster, kill: bool) -> None:
    cluster.broker.kill() if kill else cluster.broker.stop()


def bodies(messages: list[dict]) -> list[str]:
    return sorted(each["body"].decode() for each in messages)


def fill(java: JavaClients, word: str) -> set[str]:
    """Delayed messages of each level. Returns those that wait."""
    producer = java.producer()
    for level in (1, 2, 3, 4):
        producer.send(TOPIC, *({"body": f"{word} {level} {number}", "delayLevel": level, "tags": "T"} for number in range(10)))
    return {f"{word} {level} {number}" for level in (2, 3, 4) for number in range(10)}


def delivered(cluster: Cluster) -> list[str]:
    return [each.body.decode() for queue in range(4) for each in records(cluster.broker.address, TOPIC, queue)]


def offset_file(cluster: Cluster) -> dict[str, Any]:
    return wire.parse_json((cluster.broker.store / "config/delayOffset.json").read_text())


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-to-theirs-and-back", "theirs-to-ours-and-back"])
def test_delayed_messages_are_delivered_by_who_has_the_store(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, we_begin: bool, kill: bool
) -> None:
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], **LATER)
    java = clients(cluster)
    cluster.create_topic(TOPIC)
    everything: set[str] = set()
    for word, other in (("first round", second), ("second round", first)):
        waiting = fill(java, word)
        everything |= waiting | {each.replace(" 2 ", " 1 ") for each in waiting if " 2 " in each}
        wait_until(lambda: len(set(delivered(cluster))) == len(everything) - len(waiting), what="level 1 is delivered")  # noqa: B023
        assert waiting.isdisjoint(delivered(cluster))
        end_of(cluster, kill)
        hand_over(cluster, other, SOON)
        wait_until(lambda: set(delivered(cluster)) == everything, what="what waited under the other product is delivered")  # noqa: B023
        if not kill:
            assert len(delivered(cluster)) == len(everything), "nothing twice"
        for queue in range(4):
            for each in records(cluster.broker.address, TOPIC, queue):
                assert (each.pairs["REAL_TOPIC"], each.pairs["REAL_QID"], each.pairs["TAGS"]) == (TOPIC, str(queue), "T")
        end_of(cluster, kill)
        hand_over(cluster, other, LATER)
    assert set(delivered(cluster)) == everything
    if kill:
        return  # the positions of the last seconds went with it: what was delivered since may wait again, under other levels for hours
    ends = {str(level): queue_end(cluster.broker.address, SCHEDULE, level - 1) for level in (1, 2, 3, 4)}
    wait_until(lambda: wire.call(cluster.broker.address, GET_DELAY_OFFSETS).json()["offsetTable"] == ends, what="all levels at their ends")
    cluster.broker.stop()
    assert offset_file(cluster)["offsetTable"] == ends


@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-to-theirs-and-back", "theirs-to-ours-and-back"])
def test_what_consumers_sent_back_comes_again_from_who_has_the_store(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, we_begin: bool
) -> None:
    """First tries under one product, second ones under the other, third ones and the dead letters under the first."""
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], **LATER)
    java = clients(cluster)
    cluster.create_topic(TOPIC)
    sent = {f"message {number}" for number in range(8)}
    java.producer().send(TOPIC, *({"body": body, "keys": body[-1]} for body in sorted(sent)))
    for times, owner in enumerate((first, second, first)):
        if times:
            hand_over(cluster, owner, SOON)
            wait_until(lambda: queue_end(cluster.broker.address, f"%RETRY%{GROUP}", 0) == 8 * times, what="retries are due")  # noqa: B023
            cluster.broker.stop()
            hand_over(cluster, owner, LATER)
            wait_until(lambda: cluster.route(f"%RETRY%{GROUP}"), what="the retry topic is announced")
        consumer = java.push(GROUP, TOPIC, rejectTimes=9, maxReconsumeTimes=2)
        attempts = consumer.attempts(8)
        assert sorted((each["body"].decode(), each["reconsumeTimes"]) for each in attempts) == [(body, times) for body in sorted(sent)]
        assert {each["topic"] for each in attempts} == {TOPIC}
        if times < 2:
            level = 3 + times
            wait_until(lambda: queue_end(cluster.broker.address, SCHEDULE, level - 1) == 8, what=f"all wait in level {level}")  # noqa: B023
        consumer.shutdown()
        if times < 2:
            cluster.broker.stop()
    dead = wait_until(lambda: queue_end(cluster.broker.address, f"%DLQ%{GROUP}", 0) >= 8 and records_of_dead(cluster), what="dead letters")
    assert sorted(each.body.decode() for each in dead) == sorted(sent)
    for each in dead:
        assert each.reconsume_times == 3 and each.pairs["RETRY_TOPIC"] == TOPIC and each.pairs["KEYS"] == each.body.decode()[-1]
        origin = int(each.pairs["ORIGIN_MESSAGE_ID"][16:], 16)
        (original,) = (one for queue in range(4) for one in records(cluster.broker.address, TOPIC, queue) if one.body == each.body)
        assert origin == original.physical_offset and each.born_timestamp == original.born_timestamp


def records_of_dead(cluster: Cluster) -> list[Any]:
    return records(cluster.broker.address, f"%DLQ%{GROUP}", 0)


def test_the_offset_file_has_their_shape(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product
) -> None:
    texts = []
    for owner in (product, peer):
        cluster = new_cluster(namesrv=product, brokers=[owner], **SOON)
        cluster.create_topic(TOPIC)
        clients(cluster).producer().send(TOPIC, *({"body": f"{number}", "delayLevel": number % 2 + 1} for number in range(10)))
        ends = {"1": 5, "2": 5}
        wait_until(
            lambda: wire.call(cluster.broker.address, GET_DELAY_OFFSETS).json()["offsetTable"] == ends,  # noqa: B023
            what="all levels at their ends",
        )
        cluster.broker.stop()
        text = (cluster.broker.store / "config/delayOffset.json").read_text()
        texts.append(re.sub(r'("(?:counter|timestamp)": ?)\d+', r"\1N", text))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("who", ["our-master", "our-slave", "both-ours"])
def test_a_slave_that_becomes_the_master_goes_on_delivering(
    new_cluster: Callable[..., Cluster],
    clients: Callable[..., JavaClients],
    product: Product,
    peer: Product,
    tmp_path: Path,
    who: str,
) -> None:
    """A slave delivers nothing; started as a master, it delivers what its master had not, and nothing twice."""
    master, slave = {"our-master": (product, peer), "our-slave": (peer, product), "both-ours": (product, product)}[who]
    cluster = new_cluster(namesrv=product, brokers=[master], **LATER)
    java = clients(cluster)
    cluster.create_topic(TOPIC)
    follower = Broker(slave, tmp_path / "slave", cluster.address, SOON, "broker-a", 1).start(cluster.namesrv)
    cluster.brokers.append(follower)
    waiting = fill(java, "replicated")
    wait_until(lambda: len(delivered(cluster)) == 10, what="level 1 is delivered")
    kept = follower.store / "config/delayOffset.json"

    def knows() -> bool:
        return kept.exists() and wire.parse_json(kept.read_text())["offsetTable"].get("1") == 10

    wait_until(knows, 150, "the slave has its master's delay offsets, for which RocketMQ's asks every ten seconds or every minute")
    wait_until(
        lambda: all(queue_end(follower.address, SCHEDULE, level) == 10 for level in range(4)), what="the slave has what the master has"
    )
    cluster.broker.stop()
    follower.stop()
    cluster.brokers.remove(follower)
    promoted = Broker(slave, tmp_path / "slave", cluster.address, SOON, "broker-a", 0).start(cluster.namesrv)
    cluster.brokers[0] = promoted
    everything = waiting | {f"replicated 1 {number}" for number in range(10)}
    wait_until(lambda: set(delivered(cluster)) >= everything, what="what waited is delivered")
    assert sorted(delivered(cluster)) == sorted(everything)
