"""A store with messages that wait for their time is handed from one product to the other and back: each goes on delivering where the other
stopped, what was recalled stays recalled, and a slave knows how far its master came."""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import PATIENCE_S, wait_until

from . import wire
from .javaenv import JavaClients, Producer
from .products import Broker, Cluster, Product
from .stored import queue_end, records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

TOPIC, WHEEL = "handed-over", "rmq_sys_wheel_timer"
GET_CHECKPOINT, GET_TOPIC = 60, 351
SETTINGS = {"recallMessageEnable": "true", "timerPrecisionMs": 500}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def hand_over(cluster: Cluster, product: Product, **settings: Any) -> None:
    cluster.broker.product = product
    cluster.broker.settings.update(settings)
    cluster.broker.start(cluster.namesrv)
    wait_until(lambda: cluster.route(TOPIC), 20, "the topic is announced")


def end_of(cluster: Cluster, kill: bool) -> None:
    cluster.broker.kill() if kill else cluster.broker.stop()


def delivered(broker: Broker) -> list[str]:
    return [each.body.decode() for queue in range(4) for each in records(broker.address, TOPIC, queue)]


def entered(address: str) -> int:
    """How many messages of the timer queue are in the wheel for good."""
    return int(struct.unpack(">7q", wire.call(address, GET_CHECKPOINT).body)[2])


def fill(producer: Producer, word: str, delays_s: tuple[int, ...]) -> set[str]:
    """Messages of each delay, a quarter of them recalled: the others."""
    left: set[str] = set()
    for delay_s in delays_s:
        bodies = [f"{word} {delay_s} {number}" for number in range(12)]
        sent = producer.send(TOPIC, *({"body": body, "delayTimeSec": delay_s, "tags": "T"} for body in bodies))
        for result in sent[::4]:
            producer.call("recall", topic=TOPIC, handle=result["recallHandle"])
        left |= {body for number, body in enumerate(bodies) if number % 4}
    return left


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-to-theirs-and-back", "theirs-to-ours-and-back"])
def test_timed_messages_are_delivered_by_who_has_the_store(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, we_begin: bool, kill: bool
) -> None:
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], **SETTINGS)
    cluster.create_topic(TOPIC)
    producer = clients(cluster).producer()
    everything: set[str] = set()
    for word, owner, other in (("first", first, second), ("second", second, first)):
        assert cluster.broker.product is owner
        waits_from = queue_end(cluster.broker.address, WHEEL, 0)
        everything |= fill(producer, f"{word} round", (3, 12, 20))
        wait_until(
            lambda: {each for each in everything if f"{word} round 3 " in each} <= set(delivered(cluster.broker)),  # noqa: B023
            what="what is due soon is delivered",
        )
        wait_until(lambda: entered(cluster.broker.address) == waits_from + 45, what="all are in the wheel")  # noqa: B023
        end_of(cluster, kill)
        hand_over(cluster, other)
        wait_until(lambda: set(delivered(cluster.broker)) >= everything, 2 * PATIENCE_S, "what waited under the other is delivered")  # noqa: B023
        assert set(delivered(cluster.broker)) == everything, "what was recalled stays recalled"
        if not kill:
            assert len(delivered(cluster.broker)) == len(everything), "nothing twice"
    for queue in range(4):
        for each in records(cluster.broker.address, TOPIC, queue):
            assert (each.pairs["REAL_TOPIC"], each.pairs["REAL_QID"], each.pairs["TAGS"]) == (TOPIC, str(queue), "T")


@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-to-theirs-and-back", "theirs-to-ours-and-back"])
def test_messages_beyond_the_roll_window_are_stored_again_on_their_way(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, we_begin: bool
) -> None:
    """Slots of half a second, of which six are one window."""
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], **SETTINGS, timerRollWindowSlot=6)
    cluster.create_topic(TOPIC)
    bodies = {f"rolled {number}" for number in range(8)}
    begun_ms = now_ms()
    clients(cluster).producer().send(TOPIC, *({"body": body, "delayTimeSec": 15} for body in sorted(bodies)))
    wait_until(lambda: queue_end(cluster.broker.address, WHEEL, 0) >= 16, what="each is stored a second time")
    for owner in (second, first):
        cluster.broker.stop()
        hand_over(cluster, owner)
    wait_until(lambda: set(delivered(cluster.broker)) == bodies, 2 * PATIENCE_S, "they are delivered")
    found = [each for queue in range(4) for each in records(cluster.broker.address, TOPIC, queue)]
    for each in found:  # RocketMQ may deliver them again after a restart
        assert each.store_timestamp >= begun_ms + 14_500 and int(each.pairs["TIMER_ROLL_TIMES"]) >= 2


def test_the_file_of_counts_has_their_shape(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product
) -> None:
    texts = []
    for owner in (product, peer):
        cluster = new_cluster(namesrv=product, brokers=[owner], **SETTINGS)
        cluster.create_topic(TOPIC)
        clients(cluster).producer().send(TOPIC, *({"body": f"{number}", "delayTimeSec": 3600} for number in range(10)))
        wait_until(lambda: entered(cluster.broker.address) == 10, what="all are in the wheel")  # noqa: B023
        file = cluster.broker.store / "config/timermetrics"
        if owner is product:
            cluster.broker.stop()
        wait_until(lambda: file.exists() and '"count":10' in file.read_text(), what="the counts are written")  # noqa: B023
        value = wire.parse_json(file.read_text())
        assert value["timingCount"][TOPIC]["count"] == 10
        texts.append({name: sorted(member) for name, member in value.items()} | {"of a topic": sorted(value["timingCount"][TOPIC])})
        cluster.broker.stop()
        size = (cluster.broker.store / "timerwheel").stat().st_size
        texts[-1]["sizes"] = [str(size), str((cluster.broker.store / "config/timercheck").stat().st_size)]
        texts[-1]["logs"] = sorted(file.name for file in (cluster.broker.store / "timerlog").iterdir())
    assert texts[0] == texts[1], json.dumps(texts)


@pytest.mark.parametrize("gone", ["timerwheel", "timerlog", "config/timercheck"])
def test_a_lost_file_loses_no_message(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, gone: str
) -> None:
    """Of a store that RocketMQ wrote, opened by this product. RocketMQ itself loses some."""
    if product.name != "rocketpy":
        pytest.skip("RocketMQ makes no lost file again")
    cluster = new_cluster(namesrv=product, brokers=[peer], **SETTINGS)
    cluster.create_topic(TOPIC)
    producer = clients(cluster).producer()
    waiting = fill(producer, "kept", (4, 15))
    wait_until(lambda: entered(cluster.broker.address) == 30, what="all are in the wheel")
    wait_until(lambda: len(delivered(cluster.broker)) == 9, what="what is due soon is delivered")
    cluster.broker.stop()
    lost = cluster.broker.store / gone
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    hand_over(cluster, product)
    wait_until(lambda: set(delivered(cluster.broker)) >= waiting, 2 * PATIENCE_S, "what waited is delivered")
    assert set(delivered(cluster.broker)) == waiting, "what was recalled stays recalled"
    if gone != "config/timercheck":
        assert len(delivered(cluster.broker)) == len(waiting), "nothing twice: the checkpoint says what was delivered"


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
    cluster = new_cluster(namesrv=product, brokers=[master], **SETTINGS)
    cluster.create_topic(TOPIC)
    follower = Broker(slave, tmp_path / "slave", cluster.address, SETTINGS, "broker-a", 1).start(cluster.namesrv)
    cluster.brokers.append(follower)
    everything = fill(clients(cluster).producer(), "replicated", (1, 40))
    wait_until(lambda: len(delivered(cluster.broker)) == 9, what="what is due soon is delivered")
    delivered_ms = now_ms()
    kept = follower.store / "config/timercheck"

    def knows() -> bool:
        if not kept.exists():
            return False
        read_ms, _, queue_offset = struct.unpack_from(">3q", kept.read_bytes())
        return read_ms > delivered_ms and queue_offset >= 30

    wait_until(knows, 35, "the slave has entered what its master has, and knows how far that has delivered")
    wait_until(lambda: wire.call(follower.address, GET_TOPIC, {"topic": TOPIC}).code == 0, 150, "the slave has its master's topics")
    assert queue_end(follower.address, TOPIC, 0) == queue_end(cluster.broker.address, TOPIC, 0)
    cluster.broker.stop()
    follower.stop()
    cluster.brokers.remove(follower)
    promoted = Broker(slave, tmp_path / "slave", cluster.address, SETTINGS, "broker-a", 0).start(cluster.namesrv)
    cluster.brokers[0] = promoted
    wait_until(lambda: set(delivered(promoted)) >= everything, 3 * PATIENCE_S, what="what waited is delivered")
    assert sorted(delivered(promoted)) == sorted(everything)
