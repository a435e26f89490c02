"""Consumers in POP mode by raw requests: what is popped is hidden, what is acked never comes again, what is not acked does."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.processes import PATIENCE_S, wait_until

from . import wire
from .popping import NOTIFY, ORDER_QUEUE, POLLING_TIMEOUT, Popped, Popper, handles
from .products import Cluster, Product, running_cluster
from .stored import queue_end, records

pytestmark = pytest.mark.timeout(300)

SEND_V2, SEND_BACK, UPDATE_TOPIC = 310, 36, 17
SOON_MS, LONG_MS = 1000, 600_000
SETTINGS = {"reviveQueueNum": 1}
"""One queue of checkpoints: they are gone through in the order in which they are due."""


@pytest.fixture(scope="module")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(product, tmp_path_factory.mktemp("pop"), SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def popper(cluster: Cluster, topic: str, group: str) -> Popper:
    return Popper(cluster.broker.address, group, topic)


def send(popper: Popper, *bodies: str, queue: int | None = None, tags: str = "") -> None:
    """Round and round the topic's four queues, or all to one."""
    for number, body in enumerate(bodies):
        properties = f"UNIQ_KEY\x01{popper.topic}-{body}\x02" + (f"TAGS\x01{tags}\x02" if tags else "")
        fields = {
            "a": "PID", "b": popper.topic, "c": "TBW102", "d": "4", "e": str(number % 4 if queue is None else queue), "f": "0",
            "g": "1700000000000", "h": "7", "i": properties, "j": "0", "k": "false",
        }  # fmt: skip
        reply = wire.call(popper.address, SEND_V2, fields, body.encode())
        assert reply.code == 0, reply


def bodies(found: list[Popped]) -> list[str]:
    return sorted(each.body for each in found)


def all_settled(popper: Popper) -> None:
    """Nothing of the group's is left to come again: one that is due later than all the others comes, and it alone."""
    send(popper, "the last one", queue=0)
    assert bodies(popper.pop_until(1, invisibleTime=SOON_MS)) == ["the last one"]
    (last,) = popper.pop_until(1)
    assert (last.body, last.times) == ("the last one", 1)
    popper.ack(last)
    assert popper.pop() == []


def test_what_is_popped_is_hidden_from_its_group_alone(cluster: Cluster, popper: Popper, group: str) -> None:
    sent = [f"message {number}" for number in range(12)]
    send(popper, *sent)
    first = popper.pop_until(5, maxMsgNums=5)
    assert len(first) == 5
    rest = popper.pop_until(7)
    assert bodies(first + rest) == sorted(sent) and popper.pop() == []
    assert all(each.times == 0 and each.kind == "0" for each in first + rest)
    assert bodies(Popper(popper.address, f"{group}-other", popper.topic).pop_until(12)) == sorted(sent)
    popper.ack(*first)
    popper.batch_ack(rest)
    assert [cluster.committed(group, popper.topic, queue) for queue in range(4)] == [3] * 4
    assert popper.pop() == []


@pytest.mark.slow
def test_what_is_not_acked_comes_again_and_is_counted(popper: Popper) -> None:
    send(popper, *(f"message {number}" for number in range(6)), queue=2, tags="T")
    found = popper.pop_until(6, invisibleTime=SOON_MS)
    one, two, three, *others = sorted(found, key=lambda each: each.body)
    popper.ack(one)
    popper.batch_ack([two, three])
    for times in (1, 2):
        again = popper.pop_until(3, invisibleTime=SOON_MS)
        assert bodies(again) == bodies(others)
        for each in again:
            assert (each.times, each.kind, each.record.flag, each.record.queue_id) == (times, "1", 7, 0)
            assert each.record.pairs["TAGS"] == "T" and each.record.pairs["1ST_POP_TIME"] == others[0].handle.split(" ")[1]
            assert each.record.born_timestamp == 1700000000000
    popper.batch_ack(again)
    all_settled(popper)


@pytest.mark.slow
def test_a_consumer_changes_when_a_message_comes_again(popper: Popper) -> None:
    send(popper, "sooner", "later", queue=1)
    sooner, later = popper.pop_until(2, invisibleTime=LONG_MS)
    assert (sooner.body, later.body) == ("sooner", "later")
    changed = popper.change(sooner, SOON_MS)
    popper.ack(sooner)  # by the handle of before: it says nothing of the message now
    assert changed.handle.split(" ")[2] == str(SOON_MS)
    (again,) = popper.pop_until(1, invisibleTime=SOON_MS)
    assert (again.body, again.times) == ("sooner", 1)
    again = popper.change(again, LONG_MS)
    again = popper.change(again, LONG_MS)
    all_settled(popper)
    popper.ack(popper.change(later, SOON_MS))
    popper.ack(popper.change(again, SOON_MS))
    all_settled(popper)


def test_pops_and_notifications_wait_for_messages(popper: Popper) -> None:
    with popper.begin(pollTime=60_000) as any_queue, popper.begin(queueId=3, pollTime=60_000) as queue:
        wait_until(lambda: (popper.waiting(), popper.waiting(3)) == (1, 1), what="both pops wait")
        send(popper, "for one of them", queue=3)
        send(popper, "for the other", queue=3)
        found = [*handles(wire.read_reply(any_queue)), *handles(wire.read_reply(queue))]
    assert bodies(found) == ["for one of them", "for the other"]
    assert (popper.waiting(), popper.waiting(3)) == (0, 0)
    popper.ack(*found)
    assert popper.notify() == {"hasMsg": "false", "pollingFull": "false"}
    with popper.begin(NOTIFY, pollTime=60_000) as notified:
        send(popper, "told of")
        assert wire.read_reply(notified).fields["hasMsg"] == "true"
    assert popper.notify(pollTime=60_000)["hasMsg"] == "true"
    popper.ack(*popper.pop_until(1))


def test_a_pop_that_waits_in_vain_is_told_so(popper: Popper) -> None:
    with popper.begin(pollTime=300) as waiting:
        assert wire.read_reply(waiting).code == POLLING_TIMEOUT
    wait_until(lambda: popper.waiting() == 0, what="nobody waits")


def test_a_peek_hides_nothing(popper: Popper) -> None:
    popper.pop()  # the group begins
    send(popper, "seen", "and seen", queue=1)
    for _ in range(2):
        reply = popper.peek(queueId=1)
        assert reply.code == 0 and reply.fields["restNum"] == "2", "those that are shown count, too"
    assert bodies(popper.pop_until(2)) == ["and seen", "seen"]


@pytest.mark.slow
def test_a_consumer_by_tags_gets_its_messages_alone(popper: Popper) -> None:
    for tags in ("a", "b", "c"):
        send(popper, *(f"{tags} {number}" for number in range(4)), tags=tags)
    wanted = {"exp": "a || c", "invisibleTime": SOON_MS}
    first = popper.pop_until(8, **wanted)
    assert bodies(first) == [f"{tags} {number}" for tags in "ac" for number in range(4)]
    popper.batch_ack([each for each in first if each.body.startswith("a")])
    again = popper.pop_until(4, **wanted)
    assert bodies(again) == [f"c {number}" for number in range(4)] and {each.times for each in again} == {1}
    popper.batch_ack(again)
    all_settled(popper)


class Orderly:
    """Pops one queue in order. `found`: what came last."""

    def __init__(self, popper: Popper, queue: int) -> None:
        self._popper, self._queue = popper, queue
        self.found: list[Popped] = []

    def pop(self, **changes: Any) -> list[str]:
        found = self._popper.pop(**{"queueId": self._queue, "order": "true", "invisibleTime": LONG_MS, "maxMsgNums": 2, **changes})
        assert {each.handle.split(" ")[3] for each in found} <= {str(ORDER_QUEUE)}
        self.found = found or self.found
        return [f"{each.body}:{each.times}" for each in found]

    def pop_until_found(self, **changes: Any) -> list[str]:
        return wait_until(lambda: self.pop(**changes), what="the queue is free", every=0.05)


def test_an_order_consumer_gets_the_next_messages_after_its_acks(cluster: Cluster, popper: Popper) -> None:
    send(popper, *"ABCDE", queue=1)
    orderly = Orderly(popper, 1)
    assert orderly.pop() == ["A:0", "B:0"]
    first, second = orderly.found
    assert orderly.pop() == [], "the queue is blocked"
    popper.ack(second)
    assert orderly.pop() == [] and cluster.committed(popper.group, popper.topic, 1) == 0
    popper.ack(first)
    assert cluster.committed(popper.group, popper.topic, 1) == 2
    assert orderly.pop(attemptId="an attempt") == ["C:0", "D:0"]
    assert orderly.pop(attemptId="another") == []
    assert orderly.pop(attemptId="an attempt") == ["C:0", "D:0"], "the answer was lost"
    popper.batch_ack(orderly.found[:1])
    assert cluster.committed(popper.group, popper.topic, 1) == 3
    assert orderly.pop() == []
    changed = popper.change(orderly.found[1], SOON_MS)
    assert changed.handle.split(" ")[3] == str(ORDER_QUEUE)
    assert orderly.pop_until_found() == ["D:1", "E:0"]
    popper.batch_ack(orderly.found)
    assert orderly.pop() == [] and cluster.committed(popper.group, popper.topic, 1) == 5


def test_an_order_consumer_gets_what_it_did_not_ack_in_time_again(popper: Popper) -> None:
    send(popper, *"ABC", queue=0)
    orderly = Orderly(popper, 0)
    assert orderly.pop(invisibleTime=SOON_MS) == ["A:0", "B:0"]
    assert orderly.pop_until_found(invisibleTime=SOON_MS) == ["A:1", "B:1"]
    assert orderly.pop_until_found() == ["A:2", "B:2"]
    popper.ack(*orderly.found)
    assert orderly.pop() == ["C:0"]
    popper.ack(*orderly.found)


def test_what_is_given_up_is_a_dead_letter(cluster: Cluster, popper: Popper) -> None:
    """As the proxy does it: sent back with a level below 0, then acked."""
    send(popper, "hopeless", queue=2)
    popper.pop_until(1, invisibleTime=SOON_MS)
    (again,) = popper.pop_until(1)
    fields = {
        "offset": str(again.record.physical_offset), "group": popper.group, "delayLevel": "-1", "originMsgId": "",
        "originTopic": popper.topic, "unitMode": "false", "maxReconsumeTimes": "0",
    }  # fmt: skip
    reply = wire.call(popper.address, SEND_BACK, fields)
    assert reply.code == 0, reply
    popper.ack(again)
    dead = f"%DLQ%{popper.group}"
    wait_until(lambda: queue_end(popper.address, dead, 0) == 1, what="the dead letter")
    (record,) = records(popper.address, dead, 0)
    assert (record.body, record.reconsume_times) == (b"hopeless", 2)
    assert popper.pop() == []


def test_a_group_that_begins_at_the_end_is_given_what_comes_later(popper: Popper) -> None:
    send(popper, "before", "before, too", queue=0)
    late = Popper(popper.address, f"{popper.group}-late", popper.topic)
    found = late.pop(initMode=1)
    send(popper, "after", queue=0)
    assert "after" in bodies(found + late.pop_until(1, initMode=1))


@pytest.mark.slow
def test_all_of_many_messages_are_acked_though_consumers_forget_some(popper: Popper) -> None:
    """Each comes at least once; what was acked in time comes once."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    sent = {f"message {number}" for number in range(400)}
    send(popper, *sorted(sent))
    acked: Counter[str] = Counter()
    lock = threading.Lock()

    def consume(dice: random.Random) -> None:
        end = time.monotonic() + PATIENCE_S
        while len(acked) < len(sent) and time.monotonic() < end:
            found = popper.pop(pollTime=1000, invisibleTime=10_000, maxMsgNums=dice.randrange(1, 33))
            kept = [each for each in found if each.times > 0 or dice.random() < 0.8]
            for each in found:
                if each not in kept:
                    popper.change(each, SOON_MS)
            with lock:
                acked.update(each.body for each in kept)
            if kept and dice.random() < 0.5:
                popper.batch_ack(kept)
            else:
                popper.ack(*kept)

    threads = [threading.Thread(target=consume, args=(random.Random(seed + number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * PATIENCE_S)
    assert set(acked) == sent
    assert acked.total() == len(sent), [body for body, count in acked.items() if count > 1]
    all_settled(popper)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_unacked_messages_come_again_after_a_restart(new_cluster: Callable[..., Cluster], kill: bool) -> None:
    cluster = new_cluster(**SETTINGS)
    cluster.create_topic("restarted")
    popper = Popper(cluster.broker.address, "GID-restarted", "restarted")
    orderly = Orderly(Popper(cluster.broker.address, "GID-restarted-in-order", "restarted"), 0)
    send(popper, *(f"message {number}" for number in range(40)))
    taken = popper.pop_until(30, invisibleTime=3000, maxMsgNums=30)
    acked, unacked = taken[::2], taken[1::2]
    popper.ack(*acked[1:])
    popper.batch_ack(acked[:1])
    assert orderly.pop() == ["message 0:0", "message 4:0"]
    cluster.broker.kill() if kill else cluster.broker.stop()
    cluster.broker.start(cluster.namesrv)
    wanted = set(bodies(unacked))
    later: list[Popped] = []
    while not wanted <= {each.body for each in later if each.times > 0}:
        later += popper.pop_until(1)
    later += popper.pop()
    expected = {f"message {number}" for number in range(40)} - set(bodies(acked))
    got = {each.body for each in later}
    assert got >= expected
    if not kill:  # else offsets of the last seconds were not on disk yet: they are popped once more
        assert got == expected and len(later) == len(expected)
        assert orderly.pop() == [], "the queue is blocked"
