"""Master and slave of different products: replication, reads from the slave, byte-identical stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import JavaClients
from .products import Broker, Cluster, Product

TOPIC = "paired"
QUEUES = 4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def log_end(broker: Broker) -> int:
    """Where the broker's commit log ends; -1 while it cannot tell, as RocketMQ cannot in the first moments after a start."""
    get_broker_runtime_info = 28
    reply = wire.call(broker.address, get_broker_runtime_info)
    if reply.code:
        print(f"{broker.product.name} broker {broker.broker_id}: {reply}")
        return -1
    return int(reply.json()["table"]["commitLogMaxOffset"])


def log_bytes(broker: Broker, end: int) -> bytes:
    """The commit log from offset 0 up to `end`."""
    data = bytearray()
    for file in sorted((broker.store / "commitlog").iterdir()):
        assert int(file.name) == len(data)
        data += file.read_bytes()
    assert len(data) >= end
    return bytes(data[:end])


@pytest.fixture
def pair(
    request: pytest.FixtureRequest, new_cluster: Callable[..., Cluster], product: Product, peer: Product, tmp_path: Path
) -> Callable[[str, str], Cluster]:
    def make(role: str, who: str) -> Cluster:
        master, slave = {"our-master": (product, peer), "our-slave": (peer, product), "both-ours": (product, product)}[who]
        common = {"mappedFileSizeCommitLog": 1 << 20, "maxMessageSize": 1 << 18, "slaveReadEnable": True}
        sync = {"inSyncReplicas": 2, "totalReplicas": 2, "slaveTimeout": 10_000} if role == "SYNC_MASTER" else {}
        cluster = new_cluster(namesrv=product, brokers=[master], brokerRole=role, **common, **sync)
        cluster.brokers.append(Broker(slave, tmp_path / "slave", cluster.address, common, "broker-a", 1).start(cluster.namesrv))
        return cluster

    return make


def connected(cluster: Cluster) -> None:
    """Until the slave has followed the master's log to its end."""
    wait_until(lambda: log_end(cluster.brokers[1]) == log_end(cluster.brokers[0]) > 0, 40, "the slave follows the master")


def slave_knows(slave: Broker, topic: str, group: str) -> bool:
    """Topics and groups are copied from the master, by RocketMQ's slave once a minute; until then a slave refuses pulls.

    Names are looked up whole: a slave that has only heard the consumer's heartbeat has `%RETRY%GID-paired`, not yet `paired`.
    """
    get_all_topic_config, get_all_subscription_group_config = 21, 201
    topics = wire.call(slave.address, get_all_topic_config).json()["topicConfigTable"]
    groups = wire.call(slave.address, get_all_subscription_group_config).json()["subscriptionGroupTable"]
    return topic in topics and group in groups


@pytest.mark.parametrize("role", ["SYNC_MASTER", "ASYNC_MASTER"])
@pytest.mark.parametrize("who", ["our-master", "our-slave"])
def test_a_slave_of_the_other_product_holds_the_same_bytes(
    pair: Callable[[str, str], Cluster], clients: Callable[..., JavaClients], role: str, who: str
) -> None:
    cluster = pair(role, who)
    master, slave = cluster.brokers
    java = clients(cluster)
    cluster.create_topic(TOPIC, QUEUES)
    java.producer(timeoutMs=15_000).send(TOPIC, "first", timeout=30)
    connected(cluster)
    load = java.load(TOPIC)
    wait_until(lambda: load.count() >= 1500, 60, "1500 messages")
    acknowledged = load.stop()
    connected(cluster)
    end = log_end(master)
    master.kill()
    slave.kill()
    assert end > 1 << 20, "more than one file"
    assert log_bytes(master, end) == log_bytes(slave, end)
    assert len({(broker, queue, offset) for _, broker, queue, offset in acknowledged}) == len(acknowledged)


def committed(broker: Broker, group: str) -> list[int]:
    """What the broker knows of the group's offsets, -1 where it knows nothing."""
    query_consumer_offset = 14
    found = []
    for queue_id in range(QUEUES):
        fields = {"consumerGroup": group, "topic": TOPIC, "queueId": str(queue_id)}
        reply = wire.call(broker.address, query_consumer_offset, fields)
        found.append(int(reply.fields["offset"]) if reply.code == 0 else -1)
    return found


@pytest.mark.parametrize("who", ["our-master", "our-slave", "both-ours"])
def test_what_a_sync_master_acknowledged_is_read_from_the_slave_when_the_master_is_killed(
    pair: Callable[[str, str], Cluster], clients: Callable[..., JavaClients], who: str
) -> None:
    cluster = pair("SYNC_MASTER", who)
    master, slave = cluster.brokers
    java = clients(cluster)
    cluster.create_topic(TOPIC, QUEUES)
    java.producer(timeoutMs=15_000).send(TOPIC, "first", timeout=30)
    connected(cluster)
    early = java.push("GID-paired", TOPIC)
    assert len(early.received(1)) == 1
    wait_until(lambda: slave_knows(slave, TOPIC, "GID-paired"), 90, "the slave copied topics and groups")
    load = java.load(TOPIC)
    wait_until(lambda: load.count() >= 500, 60, "500 messages")
    master.kill()
    expected = {body for body, *_ in load.stop()} | {b"first"}
    wait_until(lambda: set(cluster.namesrv.broker_addresses().get("broker-a", {})) == {"1"}, 10, "only the slave is left")

    def all_there() -> bool:
        return expected <= {each["body"] for each in early.received()}

    wait_until(all_there, 60, "the group goes on at the slave", every=0.5)
    our_slave = who != "our-master"  # RocketMQ's neither keeps all of them nor holds on to them when its master is back
    if our_slave:
        wait_until(lambda: sum(committed(slave, "GID-paired")) >= len(expected), 30, "the slave keeps the group's offsets", every=0.5)
    at_the_slave = committed(slave, "GID-paired")
    master.start(cluster.namesrv)
    results = java.producer(timeoutMs=15_000).send(TOPIC, "the master is back", timeout=30)
    assert results[0]["status"] in ("SEND_OK", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
    wait_until(
        lambda: b"the master is back" in {each["body"] for each in early.received()}, 60, "the group is back at the master", every=0.5
    )
    connected(cluster)

    def master_has_caught_up() -> bool:
        assert not our_slave or all(now >= then for now, then in zip(committed(slave, "GID-paired"), at_the_slave, strict=True))
        return all(now >= then for now, then in zip(committed(master, "GID-paired"), at_the_slave, strict=True))

    wait_until(master_has_caught_up, 30, "the master has the group's offsets again", every=0.5)
