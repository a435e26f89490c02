"""Java push consumers in POP mode, which an operator sets: the broker shares out the queues, and each message comes until it is acked."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import JavaClients, Jvm
from .mqadmin import MqAdmin
from .popping import SET_MODE, Popper
from .products import Cluster
from .stored import queue_end

pytestmark = pytest.mark.timeout(300)

INVISIBLE_MS = 5000
"""The shortest that a client takes."""


@pytest.fixture
def java(clients: Callable[..., JavaClients], cluster: Cluster) -> JavaClients:
    return clients(cluster)


@pytest.fixture
def group(cluster: Cluster, topic: str, group: str) -> str:
    """One that pops the topic."""
    set_mode(cluster, topic, group)
    return group


def set_mode(cluster: Cluster, topic: str, group: str, share: int = 0) -> None:
    """As mqadmin does it; a request by itself, as a Java process takes its time to start."""
    mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": share}
    for broker in cluster.brokers:
        reply = wire.call(broker.address, SET_MODE, body=json.dumps(mode).encode())
        assert reply.code == 0, reply


def all_acked(cluster: Cluster, topic: str, group: str, count: int) -> None:
    """Everything was popped, and nothing but what its consumer wanted came again."""
    committed = [cluster.committed(group, topic, queue) for queue in range(4)]
    assert sum(max(0, each) for each in committed) == count


def test_a_group_that_is_set_to_pop_gets_each_message_once(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    consumer = java.push(group, topic, popInvisibleTime=INVISIBLE_MS, rejectTimes=0)
    wait_until(lambda: consumer.popped(topic) == [-1], what="it pops")
    sent = {f"message {number}" for number in range(40)}
    java.producer().send(topic, *sent)
    received = consumer.received(40)
    assert {each["body"].decode() for each in received} == sent and len(received) == 40
    assert all(each["properties"]["POP_CK"] and each["topic"] == topic and each["reconsumeTimes"] == 0 for each in received)
    all_acked(cluster, topic, group, 40)


@pytest.mark.slow
def test_what_a_consumer_refuses_comes_again_and_is_counted(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    """Its first retry is due in a second; the second, in 30, is not waited for."""
    consumer = java.push(group, topic, popInvisibleTime=60_000, rejectTimes=1)
    java.producer().send(topic, *({"body": f"{number}", "tags": "T", "keys": f"K{number}", "flag": number} for number in range(8)))
    tries = defaultdict(list)
    for each in consumer.attempts(16):
        tries[each["body"]].append(each)
    assert len(tries) == 8
    for first, second in tries.values():
        assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
        assert [first["taken"], second["taken"]] == [False, True]
        assert second["receivedTimestamp"] - first["receivedTimestamp"] >= 1000
        for name in ("topic", "tags", "keys", "flag", "bornTimestamp", "msgId"):
            assert first[name] == second[name], name
    assert len(consumer.received(8)) == 8


@pytest.mark.slow
def test_a_consumer_gets_what_another_popped_and_never_acked(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    java.producer().send(topic, *(f"{number}" for number in range(20)))
    popper = Popper(cluster.broker.address, group, topic)
    taken = popper.pop_until(10, maxMsgNums=10, invisibleTime=2000)
    popper.batch_ack(taken[:5])
    consumer = java.push(group, topic, popInvisibleTime=INVISIBLE_MS)
    received = consumer.received(15)
    again = {each.body for each in taken[5:]}
    assert {each["body"].decode(): each["reconsumeTimes"] for each in received} == {
        f"{number}": int(f"{number}" in again) for number in range(20) if f"{number}" not in {each.body for each in taken[:5]}
    }
    assert len(received) == 15


@pytest.mark.slow
def test_consumers_that_come_and_go_share_a_topic(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    consumers = [java.push(group, topic, popInvisibleTime=INVISIBLE_MS) for _ in range(2)]
    wait_until(lambda: [each.popped(topic) for each in consumers] == [[-1], [-1]], what="both pop all queues")
    producer = java.producer()
    sent = [f"{number}" for number in range(60)]
    producer.send(topic, *sent[:30])
    wait_until(lambda: sum(len(each.received()) for each in consumers) >= 30, what="30 messages")
    consumers[0].shutdown()
    producer.send(topic, *sent[30:])
    wait_until(lambda: len(consumers[1].received()) >= 30, what="30 more")
    all_acked(cluster, topic, group, 60)


@pytest.mark.slow
def test_clients_share_the_queues_of_their_neighbours(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    """popShareQueueNum=1: each its own queues and the next one's."""
    set_mode(cluster, topic, group, share=1)
    consumers = [java.push(group, topic, popInvisibleTime=INVISIBLE_MS) for _ in range(4)]
    wait_until(lambda: [len(each.popped(topic)) for each in consumers] == [2] * 4, what="two queues each")
    shared = [tuple(each.popped(topic)) for each in consumers]
    assert sorted(shared) == [(0, 1), (0, 3), (1, 2), (2, 3)]
    java.producer().send(topic, *(f"{number}" for number in range(40)))
    wait_until(lambda: sum(len(each.received()) for each in consumers) == 40, what="all messages")


@pytest.mark.slow
def test_a_consumer_by_tags_pops_its_messages_alone(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic, popInvisibleTime=60_000, expression="TagA", rejectTimes=1)
    java.producer().send(topic, *({"body": f"{tag} {number}", "tags": tag} for tag in ("TagA", "TagB") for number in range(6)))
    attempts = consumer.attempts(12)
    assert {each["body"] for each in attempts} == {b"TagA %d" % number for number in range(6)} and len(attempts) == 12


@pytest.mark.slow
def test_large_messages_come_again_whole(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic, popInvisibleTime=60_000, rejectTimes=1)
    body = "großer Körper " * 20_000
    java.producer(compressOver=1000).send(topic, {"body": body, "properties": {"größe": "äö €"}})
    first, second = consumer.attempts(2)
    assert first["body"].decode() == second["body"].decode() == body
    assert second["properties"]["größe"] == "äö €" and second["reconsumeTimes"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_consumer_goes_on_after_its_broker_was_started_again(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], kill: bool
) -> None:
    cluster = new_cluster()
    cluster.create_topic("popped")
    set_mode(cluster, "popped", "GID-popped")
    java = clients(cluster)
    consumer = java.push("GID-popped", "popped", popInvisibleTime=INVISIBLE_MS, rejectTimes=1)
    producer = java.producer(retries=5)
    producer.send("popped", *(f"before {number}" for number in range(20)))
    assert len(consumer.attempts(20)) >= 20
    cluster.broker.kill() if kill else cluster.broker.stop()
    cluster.broker.start(cluster.namesrv)
    wait_until(lambda: cluster.route("popped"), what="the topic is announced")
    producer.send("popped", *(f"after {number}" for number in range(20)))
    wanted = {f"{when} {number}".encode() for when in ("before", "after") for number in range(20)}
    wait_until(lambda: {each["body"] for each in consumer.received()} >= wanted, 90, "every message was taken")


@pytest.mark.slow
def test_operators_set_the_mode_by_mqadmin_and_back(
    java: JavaClients, jvm: Callable[..., Jvm], cluster: Cluster, topic: str, group: str
) -> None:
    admin = MqAdmin(jvm(), cluster.address)
    for mode, ids in (("PULL", [0, 1, 2, 3]), ("POP", [-1])):
        admin.run("setConsumeMode", "-b", cluster.broker.address, "-t", topic, "-g", group, "-m", mode, "-q", "0")
        consumer = java.push(group, topic, popInvisibleTime=INVISIBLE_MS)
        java.producer().send(topic, mode)
        assert [each["body"] for each in consumer.received(1)] == [mode.encode()]
        assert (consumer.popped(topic) or sorted(queue for _, queue in consumer.queue_ids(topic))) == ids
        consumer.shutdown()
    assert queue_end(cluster.broker.address, f"%RETRY%{group}_{topic}", 0) == 0
