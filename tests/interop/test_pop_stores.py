"""A store whose messages are popped and not acked is handed from one product to the other and back: none of them is lost, none that was
acked comes again."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.processes import PATIENCE_S, wait_until

from .popping import ACK, Popped, Popper, revive_topic
from .products import Cluster, Peer, Product
from .stored import queue_end
from .test_pop import LONG_MS, Orderly, bodies, send

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

TOPIC, GROUP = "handed-over", "GID-handed-over"
SETTINGS = {"reviveQueueNum": 2}
AT_REST = {"reviveInterval": 30_000}
"""RocketMQ's revive service sleeps first, also at its end: what its timer brings to the revive topic stays there."""


def start(cluster: Cluster, product: Product, settings: dict[str, int]) -> None:
    cluster.broker.product = product
    cluster.broker.settings.pop("reviveInterval", None)
    cluster.broker.settings.update(settings)
    cluster.broker.start(cluster.namesrv)
    wait_until(lambda: cluster.route(TOPIC), what="the topic is announced")


def revive_records(cluster: Cluster) -> int:
    return sum(queue_end(cluster.broker.address, revive_topic(), queue) for queue in range(2))


def pop_and_ack(popper: Popper, word: str) -> tuple[set[str], set[str], int]:
    """(what has to come again, what must not, records of it in the revive topic)"""
    send(popper, *(f"{word} {number}" for number in range(30)))
    taken = popper.pop_until(20, maxMsgNums=20, invisibleTime=3000)
    assert len(taken) == 20
    popper.ack(*taken[:5])
    popper.batch_ack(taken[5:10])
    changed = popper.change(taken[10], 3000)
    checkpoints = {tuple(each.handle.split(" ")[index] for index in (0, 1, 4, 6)) for each in taken}
    batches = {tuple(each.handle.split(" ")[index] for index in (0, 1, 4, 6)) for each in taken[5:10]}
    return (
        {each.body for each in [changed, *taken[11:]]},
        {each.body for each in taken[:10]},
        len(checkpoints) + 5 + len(batches) + 2,
    )


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-to-theirs-and-back", "theirs-to-ours-and-back"])
def test_unacked_messages_come_again_under_the_other_product(
    new_cluster: Callable[..., Cluster], product: Product, peer: Product, we_begin: bool, kill: bool
) -> None:
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], **SETTINGS, **(AT_REST if isinstance(first, Peer) else {}))
    cluster.create_topic(TOPIC)
    popper = Popper(cluster.broker.address, GROUP, TOPIC)
    before = 0
    for word, owner, other in (("first round", first, second), ("second round", second, first)):
        unacked, acked, count = pop_and_ack(popper, word)
        if isinstance(owner, Peer):
            wait_until(lambda: revive_records(cluster) >= before + count, what="its timer is empty")  # noqa: B023
        cluster.broker.kill() if kill else cluster.broker.stop()
        start(cluster, other, {})
        found: list[Popped] = []
        end = time.monotonic() + 2 * PATIENCE_S
        while missing := unacked - {each.body for each in found if each.times > 0}:
            assert time.monotonic() < end, f"{word}: {sorted(missing)} did not come again, of {len(found)} messages"
            found += popper.pop(pollTime=1000)
        while more := popper.pop():
            found += more
        everything = {f"{word} {number}" for number in range(30)}
        assert everything - acked <= {each.body for each in found}
        if not kill:  # else offsets of the last seconds were not on disk yet: those messages are popped once more
            assert bodies(found) == sorted(everything - acked), "nothing twice"
        popper.batch_ack(found)
        if isinstance(other, Peer):  # what it has got has to be out of its timer
            settled = revive_records(cluster)
            cluster.broker.stop()
            start(cluster, other, AT_REST)
            before = settled
        else:
            before = revive_records(cluster)


@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-to-theirs", "theirs-to-ours"])
def test_an_order_consumer_is_blocked_under_the_other_product(
    new_cluster: Callable[..., Cluster], product: Product, peer: Product, we_begin: bool
) -> None:
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], **SETTINGS)
    cluster.create_topic(TOPIC)
    popper = Popper(cluster.broker.address, GROUP, TOPIC)
    orderly = Orderly(popper, 2)
    send(popper, *"ABCDE", queue=2)
    assert orderly.pop(attemptId="before") == ["A:0", "B:0"]
    held = list(orderly.found)
    popper.ack(held[0])
    popper.change(held[1], LONG_MS)
    cluster.broker.stop()
    start(cluster, second, {})
    assert orderly.pop(attemptId="after") == []
    assert orderly.pop(attemptId="before") == ["B:0", "C:0"], "its answer might have been lost"
    for each in orderly.found:
        assert popper.ask(ACK, popper.handle_fields(each)).code == 0
    assert orderly.pop() == ["D:0", "E:0"]
    assert cluster.committed(GROUP, TOPIC, 2) == 3
