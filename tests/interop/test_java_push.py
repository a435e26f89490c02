"""The Java push consumer reads from us: tags, clustering and broadcasting, orderly, offsets that stay."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from tests.processes import wait_until

from .javaenv import JavaClients, PushConsumer
from .products import Cluster

ALL_QUEUES = {("broker-a", number) for number in range(4)}


def bodies(messages: list[dict]) -> list[bytes]:
    return sorted(each["body"] for each in messages)


def numbered(count: int, word: str = "message") -> list[str]:
    return [f"{word} {number:05}" for number in range(count)]


def encoded(texts: list[str]) -> list[bytes]:
    return sorted(each.encode() for each in texts)


def await_assigned(topic: str, consumers: list[PushConsumer], shares: list[int]) -> None:
    """Until the consumers hold all queues, disjoint, in these shares. The client rebalances by itself only every REBALANCE_MS: a shorter
    time-out needs the broker's notification."""

    def shared() -> bool:
        held = [each.queue_ids(topic) for each in consumers]
        return set().union(*held) == ALL_QUEUES and [len(each) for each in held] == shares

    wait_until(shared, what=f"queues of {topic} shared as {shares}")


def test_a_push_consumer_receives_everything_once_and_in_queue_order(java: JavaClients, topic: str, group: str) -> None:
    before, after = numbered(40, "before"), numbered(40, "after")
    producer = java.producer()
    producer.send(topic, *before)
    consumer = java.push(group, topic, threads=2)
    assert bodies(consumer.received(40)) == encoded(before), "what was there already"
    producer.send(topic, *after)
    received = consumer.received(80)
    assert bodies(received) == encoded(before + after)
    assert {each["reconsumeTimes"] for each in received} == {0}


def test_a_waiting_consumer_gets_a_message_without_polling_delay(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    producer.send(topic, "warm up")
    consumer = java.push(group, topic)
    assert len(consumer.received(1)) == 1
    delays = []
    for number in range(5):
        begin = time.monotonic()
        producer.send(topic, f"now {number}")
        assert len(consumer.received(number + 2)) == number + 2
        delays.append(time.monotonic() - begin)
    assert min(delays) < 1.0, f"a pull that waits is answered when a message arrives, not at its time-out: {delays}"


def test_tag_expressions_choose_messages(java: JavaClients, topic: str, group: str) -> None:
    java.producer().send(topic, *({"body": f"{tag} {number}", "tags": tag} for number in range(10) for tag in ("TagA", "TagB", "TagC")))
    consumer = java.push(group, topic, expression="TagA || TagC")
    received = consumer.received(20)
    assert Counter(each["tags"] for each in received) == {"TagA": 10, "TagC": 10}
    java.producer().send(topic, {"body": "no", "tags": "TagB"}, {"body": "yes", "tags": "TagC"})
    assert Counter(each["tags"] for each in consumer.received(21)) == {"TagA": 10, "TagC": 11}


def test_a_subscription_in_the_pull_request_is_used(java: JavaClients, topic: str, group: str) -> None:
    java.producer().send(topic, *({"body": tag, "tags": tag} for tag in ("TagA", "TagB") * 5))
    consumer = java.push(group, topic, expression="TagB", postSubscriptionWhenPull=True)
    assert bodies(consumer.received(5)) == [b"TagB"] * 5


def test_two_consumers_of_a_group_share_the_queues_and_inherit_them(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    first = java.push(group, topic)
    await_assigned(topic, [first], [4])
    second = java.push(group, topic)
    await_assigned(topic, [first, second], [2, 2])
    sent = numbered(80)
    producer.send(topic, *sent)
    wait_until(lambda: len(first.received()) + len(second.received()) >= 80, 30, "all 80 between the two")
    assert bodies(first.received() + second.received()) == encoded(sent), "each message went to one of them"
    assert {each["queueId"] for each in first.received()}.isdisjoint(each["queueId"] for each in second.received())
    second.shutdown()
    await_assigned(topic, [first], [4])
    had = len(first.received())
    producer.send(topic, *numbered(20, "late"))
    late = first.received(had + 20)[had:]
    assert bodies(late) == encoded(numbered(20, "late"))


def test_broadcasting_gives_every_consumer_everything(java: JavaClients, topic: str, group: str) -> None:
    consumers = [java.push(group, topic, model="BROADCASTING", **{"from": "CONSUME_FROM_LAST_OFFSET"}) for _ in range(2)]
    for consumer in consumers:
        await_assigned(topic, [consumer], [4])
    # A queue is read from its end as it was at the first pull; that every queue has been pulled shows by a message through each.
    producer = java.producer()
    queues = producer.call("queues", topic=topic)
    for queue in queues:
        producer.send(topic, f"first {queue['queueId']}", queue=queue)
    sent = numbered(20)
    producer.send(topic, *sent)
    for consumer in consumers:
        received = bodies(consumer.received(24))
        assert [each for each in received if each.startswith(b"message")] == encoded(sent)


def test_an_orderly_consumer_locks_its_queues_and_keeps_their_order(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    for queue in range(4):
        producer.send(topic, *(f"{queue} {number:03}" for number in range(25)), selector=queue)
    first = java.push(group, topic, orderly=True)
    received = first.received(100)
    for queue in range(4):
        assert [each["body"].decode() for each in received if each["queueId"] == queue] == [f"{queue} {number:03}" for number in range(25)]
    assert all(each["locked"] for each in first.assigned(topic))


def test_the_lock_of_a_queue_moves_with_it(clients: Callable[..., JavaClients], cluster: Cluster, topic: str, group: str) -> None:
    """With the newer client only: the old one tries again to lock a queue only after twenty seconds."""
    java = clients(cluster)
    first = java.push(group, topic, orderly=True)
    await_assigned(topic, [first], [4])
    wait_until(lambda: all(each["locked"] for each in first.assigned(topic)), 30, "the first consumer got its locks")
    second = java.push(group, topic, orderly=True)
    await_assigned(topic, [first, second], [2, 2])
    wait_until(lambda: all(each["locked"] for each in second.assigned(topic)), 30, "the second consumer got the locks the first gave up")


def test_offsets_survive_a_consumer_restart(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    producer.send(topic, *numbered(30, "first"))
    consumer = java.push(group, topic)
    assert len(consumer.received(30)) == 30
    consumer.shutdown()
    producer.send(topic, *numbered(30, "second"))
    again = java.push(group, topic)
    assert bodies(again.received(30)) == encoded(numbered(30, "second"))
    again.shutdown()
    reader = java.pull(group)
    for queue in reader.call("queues", topic=topic):
        assert reader.call("fetchOffset", **queue) == reader.call("maxOffset", **queue)


def test_a_new_group_may_start_at_the_end(java: JavaClients, topic: str, group: str) -> None:
    producer = java.producer()
    producer.send(topic, *numbered(20, "old"))
    reader = java.pull(group + "-reader")
    queues = reader.call("queues", topic=topic)
    wait_until(lambda: sum(reader.call("maxOffset", **queue) for queue in queues) == 20, 10, "20 messages indexed")
    first = java.push(group, topic)
    assert len(first.received(20)) == 20
    first.shutdown()
    consumer = java.push(group, topic, **{"from": "CONSUME_FROM_LAST_OFFSET"})
    producer.send(topic, "new")
    assert bodies(consumer.received(1)) == [b"new"], "a committed offset counts more than the rule for new groups"


def test_everything_survives_a_broker_restart(new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], group: str) -> None:
    cluster = new_cluster()
    java = clients(cluster)
    cluster.create_topic("restarts", queues=4)
    producer = java.producer()
    producer.send("restarts", *numbered(100, "before"))
    consumer = java.push(group, "restarts")
    assert len(consumer.received(100)) == 100
    consumer.shutdown()
    producer.send("restarts", *numbered(50, "unread"))
    cluster.broker.stop()
    cluster.broker.start(cluster.namesrv)
    wait_until(lambda: cluster.route("restarts"), 20, "the topic is known again")
    again = java.push(group, "restarts")
    assert bodies(again.received(50)) == encoded(numbered(50, "unread")), "exactly what this group had not read"
    results = producer.send("restarts", *numbered(20, "after"))
    assert {each["status"] for each in results} == {"SEND_OK"}
    assert bodies(again.received(70)) == encoded(numbered(50, "unread") + numbered(20, "after"))
    fresh = java.push(group + "-fresh", "restarts")
    assert len(fresh.received(170)) == 170


def test_a_running_consumer_goes_on_after_a_broker_restart(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], group: str
) -> None:
    cluster = new_cluster()
    java = clients(cluster)
    cluster.create_topic("goes-on", queues=4)
    producer = java.producer()
    consumer = java.push(group, "goes-on")
    producer.send("goes-on", *numbered(40, "before"))
    assert len(consumer.received(40)) == 40
    cluster.broker.stop()
    cluster.broker.start(cluster.namesrv)
    wait_until(lambda: cluster.route("goes-on"), 20, "the topic is known again")
    producer.send("goes-on", *numbered(40, "after"))
    received = set(bodies(consumer.received(80, timeout=60)))
    assert received == set(encoded(numbered(40, "before") + numbered(40, "after")))
