"""A master is killed: consumers in POP mode go on at the slave that stands in for it (enableRemoteEscape). What they do not ack comes by
the other master of the cluster; the master that returns gives out once more what the slave gave out, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import wait_until

from .javaenv import JavaClients
from .popping import Popper
from .products import Cluster, Product
from .test_pairs import log_end, slave_knows
from .test_pop_java import set_mode
from .test_remote_escape import POP_GROUP, QUEUES, TOPIC, await_all, create_group, send, two_masters

JAVA_GROUP = "GID-escape-java"
COUNT = 8

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def prepare(cluster: Cluster) -> tuple[Popper, Popper]:
    """Poppers of the master and the other one; all brokers have their groups and retry topics, the slave the master's messages."""
    master, other, slave = cluster.brokers
    for broker in cluster.brokers[:2]:
        create_group(broker, JAVA_GROUP)
    poppers = Popper(master.address, POP_GROUP, TOPIC), Popper(other.address, POP_GROUP, TOPIC, "broker-b")
    for each in poppers:
        each.pop()
    for number in range(COUNT):
        send(master, f"{number}", queue=number % QUEUES)
    wait_until(lambda: slave_knows(slave, TOPIC, POP_GROUP), 90, "the slave copied topics and groups")
    wait_until(lambda: slave_knows(slave, TOPIC, JAVA_GROUP), 90, "the slave copied topics and groups")
    set_mode(cluster, TOPIC, JAVA_GROUP)
    wait_until(lambda: log_end(slave) == log_end(master), 40, "the slave follows")
    return poppers


@pytest.mark.parametrize("who", ["one", "our-slave", "our-master", "other-ours"])
def test_pops_go_on_at_the_slave(product: Product, peer: Product, clients: Callable[..., JavaClients], tmp_path: Path, who: str) -> None:
    """who: all of the product, or ours among the peer's."""
    masters = product if who in ("one", "our-master") else peer
    slaves = product if who in ("one", "our-slave") else peer
    others = product if who in ("one", "other-ours") else peer
    with two_masters(product, masters, slaves, others, tmp_path) as (namesrv, cluster):
        master, other, slave = cluster.brokers
        _, again = prepare(cluster)
        master.kill()
        wait_until(lambda: namesrv.broker_addresses()["broker-a"] == {"1": slave.address}, 30, "only the slave is left")
        popper = Popper(slave.address, POP_GROUP, TOPIC)

        def is_served() -> bool:
            return popper.ask(200054, popper.fields()).code == 0

        wait_until(is_served, 60, "the slave stands in")
        begin = time.monotonic()
        taken = popper.pop_until(COUNT - 2, maxMsgNums=1, invisibleTime=10_000)
        assert len({each.body for each in taken}) == COUNT - 2
        popper.ack(*taken[:2])
        popper.batch_ack(taken[2:3])
        popper.change(taken[3], 120_000)
        print(f"{who}: {len(taken)} popped and acked within {time.monotonic() - begin:.1f} s")
        java = clients(cluster).push(JAVA_GROUP, TOPIC, popInvisibleTime=60_000)
        await_all("consumed", {f"{number}" for number in range(COUNT)}, lambda: {each["body"].decode() for each in java.received()}, 60)
        revived: list[str] = []

        def all_revived() -> list[str]:
            found = again.pop(pollTime=1000)
            revived.extend(each.body for each in found)
            again.ack(*found)
            return revived

        await_all("revived", {each.body for each in taken[4:]}, all_revived, 150)
        assert sorted(revived) == sorted(each.body for each in taken[4:])
        print(f"{who}: what was not acked came after {time.monotonic() - begin:.1f} s")
        master.start(namesrv)
        wait_until(lambda: namesrv.broker_addresses()["broker-a"].get("0") == master.address, 60, "the master is back")
        at_master, rest = Popper(master.address, POP_GROUP, TOPIC), set[str]()
        left = {f"{number}" for number in range(COUNT)} - {each.body for each in taken}

        def all_that_were_left() -> set[str]:
            rest.update(each.body for each in at_master.pop(pollTime=1000))
            return rest & left

        await_all("left at the master", left, all_that_were_left, 60)
        print(f"{who}: the master gives out {len(rest)}, of which the slave gave {sorted(rest - left)}")
        assert not Popper(other.address, POP_GROUP, TOPIC, "broker-b").pop()
