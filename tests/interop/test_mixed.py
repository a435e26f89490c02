"""Mixed clusters: their broker under our name server, our broker under theirs, and brokers of both side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.processes import wait_until

from .javaenv import OLD, JavaClients, Jvm
from .mqadmin import MqAdmin, table
from .products import Broker, Cluster, Peer, Product

pytestmark = pytest.mark.timeout(300)
slow = pytest.mark.slow
MakeCluster = Callable[..., Cluster]
MakeClients = Callable[..., JavaClients]


def numbered(count: int, word: str = "message") -> list[str]:
    return [f"{word} {number:04}" for number in range(count)]


def bodies(messages: list[dict]) -> list[str]:
    return sorted(each["body"].decode() for each in messages)


def send_and_receive(java: JavaClients, topic: str, group: str) -> list[dict]:
    """Forty messages in each way of sending; the group reads them, and may read more that was there before."""
    consumer = java.push(group, topic)
    producer = java.producer()
    expected = set()
    for how in ("sync", "async", "batch"):
        sent = numbered(40, f"{how} for {group}")
        expected.update(sent)
        producer.send(topic, *sent, how=how)
    received: list[dict] = []

    def all_received() -> bool:
        received[:] = consumer.received(len(received) + 1, timeout=1)
        return expected <= set(bodies(received))

    wait_until(all_received, 40, f"120 messages for {group}")
    return received


def only_broker(cluster: Cluster, name: str) -> bool:
    return set(cluster.namesrv.broker_addresses()) == {name}


@slow
@pytest.mark.parametrize("version", ["5.5.0", OLD])
def test_a_real_broker_registers_with_our_name_server(
    new_cluster: MakeCluster, clients: MakeClients, jvm: Callable[..., Jvm], version: str, group: str
) -> None:
    cluster = new_cluster(brokers=[Peer(version)])
    cluster.create_topic("under-ours", queues=6)
    send_and_receive(clients(cluster), "under-ours", group)
    send_and_receive(clients(cluster, OLD), "under-ours", group + "-old")
    admin = MqAdmin(jvm(), cluster.address)
    (row,) = table(admin.run("clusterList"))
    assert (row["Broker Name"], row["Addr"], row["Version"]) == ("broker-a", cluster.broker.address, "V" + version.replace(".", "_"))
    assert [(each["readQueueNums"], each["writeQueueNums"]) for each in cluster.route("under-ours")] == [(6, 6)]
    assert {"under-ours", "TBW102", "DefaultCluster", "broker-a"} <= set(admin.run("topicList").split())
    admin.run("deleteTopic", "-c", "DefaultCluster", "-t", "under-ours")
    wait_until(lambda: not cluster.route("under-ours"), 15, "the deleted topic's route is gone")
    cluster.broker.stop()
    wait_until(lambda: not cluster.namesrv.broker_addresses(), 10, "a stopped broker is unregistered")


@slow
def test_our_broker_registers_with_the_real_name_server(
    new_cluster: MakeCluster, clients: MakeClients, jvm: Callable[..., Jvm], peer: Product, group: str
) -> None:
    cluster = new_cluster(namesrv=peer)
    cluster.create_topic("under-theirs", queues=6)
    send_and_receive(clients(cluster), "under-theirs", group)
    send_and_receive(clients(cluster, OLD), "under-theirs", group + "-old")
    (row,) = table(MqAdmin(jvm(), cluster.address).run("clusterList"))
    assert (row["Broker Name"], row["Addr"]) == ("broker-a", cluster.broker.address)
    clients(cluster).producer().send("created-by-sending", "first")
    wait_until(lambda: cluster.route("created-by-sending"), 15, "a topic made by sending reaches the name server at once")
    cluster.broker.stop()
    wait_until(lambda: not cluster.namesrv.broker_addresses(), 10, "a stopped broker is unregistered")


@slow
@pytest.mark.parametrize("namesrv_is_ours", [True, False], ids=["our-namesrv", "their-namesrv"])
def test_brokers_of_both_products_share_a_topic(
    new_cluster: MakeCluster, clients: MakeClients, product: Product, peer: Product, namesrv_is_ours: bool, group: str
) -> None:
    cluster = new_cluster(namesrv=product if namesrv_is_ours else peer, brokers=[product, peer])
    cluster.create_topic("shared", queues=4)
    java = clients(cluster)
    received = send_and_receive(java, "shared", group)
    assert {each["broker"] for each in received} == {"broker-a", "broker-b"}
    consumers = [java.push(group + "-two", "shared") for _ in range(2)]
    wait_until(lambda: [len(each.queue_ids("shared")) for each in consumers] == [4, 4], 30, "eight queues of two brokers shared")
    for broker, other in (cluster.brokers, reversed(cluster.brokers)):
        broker.kill()
        wait_until(partial(only_broker, cluster, other.name), 10, "a killed broker is gone as soon as its connection is")
        results = java.producer(retries=3).send("shared", *numbered(8, f"without {broker.name}"))
        assert {each["broker"] for each in results} == {other.name}
        if broker is cluster.brokers[0]:
            broker.start(cluster.namesrv)


@slow
def test_a_broker_registers_with_name_servers_of_both_products(
    product: Product, peer: Product, new_cluster: MakeCluster, clients: MakeClients, group: str
) -> None:
    ours, theirs = new_cluster(brokers=[]), new_cluster(namesrv=peer, brokers=[])
    broker = Broker(product, ours.namesrv.home.parent / "broker-a", f"{ours.address};{theirs.address}")
    ours.brokers.append(broker.start(ours.namesrv))
    broker.await_registered(theirs.namesrv)
    ours.create_topic("everywhere")
    wait_until(lambda: theirs.route("everywhere"), 15, "the topic reached both name servers")
    ours.namesrv.kill()
    send_and_receive(clients(theirs), "everywhere", group)
