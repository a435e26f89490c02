"""A slave stands in for its master that is down: enableSlaveActingMaster at the brokers, supportActingMaster at the name server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import JavaClients
from .products import Broker, Cluster, NameServer, Product
from .test_pairs import log_end, slave_knows

TOPIC, GROUP, QUEUES, COUNT = "stands-in", "GID-acting", 4, 40
SETTINGS: dict[str, object] = {
    "enableSlaveActingMaster": True,
    "slaveReadEnable": True,
    "brokerHeartbeatInterval": 500,
    "brokerNotActiveTimeoutMillis": 4000,
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def create_group(broker: Broker, group: str) -> None:
    update_and_create_subscription_group = 200
    assert wire.call(broker.address, update_and_create_subscription_group, {}, json.dumps({"groupName": group}).encode()).code == 0


@contextmanager
def pair(
    names: Product, masters: Product, slaves: Product, home: Path, settings: dict[str, object]
) -> Iterator[tuple[NameServer, Cluster]]:
    """A name server, a master and its slave, with the topic and the group."""
    namesrv = NameServer(names, home / "namesrv", {"supportActingMaster": True}).start()
    cluster = Cluster(namesrv)
    try:
        cluster.add_brokers(home, [masters], settings)
        cluster.brokers.append(Broker(slaves, home / "slave", cluster.address, settings, "broker-a", 1).start(namesrv))
        cluster.create_topic(TOPIC, QUEUES)
        create_group(cluster.brokers[0], GROUP)
        yield namesrv, cluster
    finally:
        cluster.stop()


def test_offsets_locks_and_messages_are_served_by_the_slave(product: Product, clients: Callable[..., JavaClients], tmp_path: Path) -> None:
    with pair(product, product, product, tmp_path, SETTINGS) as (namesrv, cluster):
        master, slave = cluster.brokers
        java = clients(cluster)
        bodies = {f"message {number}".encode() for number in range(COUNT)}
        producer = java.producer()
        for body in bodies:
            producer.send(TOPIC, body)
        reader = java.pull("GID-acting-pull")
        queues = reader.call("queues", topic=TOPIC)
        ends = [reader.call("maxOffset", **queue) for queue in queues]
        assert sum(ends) == COUNT
        wait_until(lambda: log_end(slave) == log_end(master), 40, "the slave follows")
        wait_until(lambda: slave_knows(slave, TOPIC, GROUP), 90, "the slave copied topics and groups")
        master.stop()
        wait_until(lambda: namesrv.broker_addresses()["broker-a"] == {"1": slave.address}, 30, "only the slave is left")
        assert all(queue["perm"] == 4 for queue in cluster.route(TOPIC)), "the topic is for reading only"
        late = java.pull("GID-acting-late")
        assert [late.call("maxOffset", **queue) for queue in queues] == ends
        ordered = java.push(GROUP, TOPIC, orderly=True)
        assert {each["body"] for each in ordered.received(COUNT, 90)} == bodies
        ordered.shutdown()
        assert sum(cluster.committed(GROUP, TOPIC, queue, slave) for queue in range(QUEUES)) == COUNT


@pytest.mark.parametrize("who", ["our-master", "our-slave"])
def test_in_a_mixed_pair_the_slave_comes_and_the_master_comes_back(product: Product, peer: Product, tmp_path: Path, who: str) -> None:
    """With totalReplicas a broker of RocketMQ registers only after it has exchanged HA addresses with its group."""
    settings = {**SETTINGS, "totalReplicas": 2, "inSyncReplicas": 2, "minInSyncReplicas": 1}
    masters, slaves = {"our-master": (product, peer), "our-slave": (peer, product)}[who]
    with pair(product, masters, slaves, tmp_path, settings) as (namesrv, cluster):
        master, slave = cluster.brokers
        send, update_offset = 310, 15
        message = {"a": "PID", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0", "j": "0", "k": "false"}
        wait_until(lambda: [wire.call(master.address, send, message, b"x").code for _ in range(3)] == [0, 0, 0], 40, "sends to both")
        if masters is peer:
            timed = {**message, "b": "timed", "i": "TIMER_DELAY_SEC\x01600\x02"}
            assert wire.call(master.address, send, timed, b"later").code == 0
        wait_until(lambda: log_end(slave) == log_end(master), 40, "the slave follows")
        wait_until(lambda: slave_knows(slave, TOPIC, GROUP), 90, "the slave copied topics and groups")
        master.kill()
        wait_until(lambda: namesrv.broker_addresses()["broker-a"] == {"1": slave.address}, 30, "only the slave is left")
        read = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": "3"}
        assert wire.call(slave.address, update_offset, read).code == 0
        master.start(namesrv)
        assert cluster.committed(GROUP, TOPIC, 0, master) == 3, "what was read at the slave is not read again"
        wait_until(lambda: wire.call(master.address, send, message, b"y").code == 0, 40, "the slave holds what is sent")
        wait_until(lambda: log_end(slave) == log_end(master), 40, "the slave follows again")
