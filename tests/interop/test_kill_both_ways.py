"""kill -9 under load, then the other product recovers the store: everything acknowledged is there once, at its offset, in order."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.processes import wait_until

from .javaenv import JavaClients
from .products import Cluster, Product

TOPIC, QUEUES = "killed", 4
Acknowledged = list[tuple[bytes, str, int, int]]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def load_and_kill(java: JavaClients, cluster: Cluster, dice: random.Random) -> Acknowledged:
    """Eight threads send; the broker is killed at a moment of the dice's choice."""
    load = java.load(TOPIC)
    enough = dice.randrange(300, 2000)
    wait_until(lambda: load.count() >= enough, 40, f"{enough} acknowledged messages", every=0.005)
    cluster.broker.kill()
    return load.stop()


def stored(java: JavaClients) -> dict[tuple[int, int], bytes]:
    """(queue, offset) → body of everything that the broker serves; each queue must be without gaps."""
    consumer = java.pull("GID-killed-readers")
    messages: dict[tuple[int, int], bytes] = {}
    for queue in consumer.call("queues", topic=TOPIC):
        offset, end = consumer.call("minOffset", **queue), consumer.call("maxOffset", **queue)
        assert offset == 0
        while offset < end:
            answer = consumer.pull(queue, offset, max=32)
            assert answer["status"] == "FOUND", answer
            for message in answer["messages"]:
                assert message["queueOffset"] == offset, "no gap, nothing twice"
                messages[message["queueId"], offset] = message["body"]
                offset += 1
    return messages


def check(acknowledged: Acknowledged, messages: dict[tuple[int, int], bytes]) -> None:
    lost = [each for each in acknowledged if messages.get((each[2], each[3])) != each[0]]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged messages are not where they were: {lost[:3]}"
    bodies = list(messages.values())
    assert len(set(bodies)) == len(bodies), "a message is there twice"


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-killed", "theirs-killed"])
def test_the_other_product_recovers_a_killed_store(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, we_begin: bool, flush: str
) -> None:
    """A killed process loses nothing that it had written to its mapped files, so this holds for ASYNC_FLUSH as well."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], flushDiskType=flush, mappedFileSizeCommitLog=1 << 20, maxMessageSize=1 << 18)
    java = clients(cluster)
    cluster.create_topic(TOPIC, queues=QUEUES)
    acknowledged: Acknowledged = []
    for owner in (second, first, second):
        acknowledged += load_and_kill(java, cluster, dice)
        assert (cluster.broker.store / "abort").exists()
        cluster.broker.product = owner
        cluster.broker.start(cluster.namesrv)
        wait_until(lambda: cluster.route(TOPIC), 20, "the topic is announced")
        check(acknowledged, stored(java))
