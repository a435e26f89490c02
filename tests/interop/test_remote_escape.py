"""A master is killed: the slave that stands in for it passes on what is due to the other master of the cluster (enableRemoteEscape). The
master that returns delivers the rest, and nothing again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketpy.broker.timers import CHECKPOINT
from tests.processes import wait_until

from . import wire
from .javaenv import JavaClients
from .popping import Popper
from .products import Broker, Cluster, NameServer, Product
from .test_acting_master import create_group
from .test_pairs import log_end, slave_knows

TOPIC, GROUP, POP_GROUP, PRODUCERS, QUEUES = "escapes", "GID-escape", "GID-escape-pop", "PID-escape", 4
SETTINGS: dict[str, object] = {
    "enableSlaveActingMaster": True,
    "enableRemoteEscape": True,
    "slaveReadEnable": True,
    "brokerHeartbeatInterval": 500,
    "brokerNotActiveTimeoutMillis": 4000,
    "syncBrokerMemberGroupPeriod": 1000,
    "transactionCheckInterval": 2000,
    "transactionTimeOut": 3000,
    "timerWheelEnable": True,
    "messageDelayLevel": "1s 5s 20s 75s",
    "flushDelayOffsetInterval": 1000,
}
OF_PAIR = {**SETTINGS, "totalReplicas": 2}
"""A master of RocketMQ asks its slaves only then how far they got."""
COUNT = 8

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@contextmanager
def two_masters(names: Product, masters: Product, slaves: Product, others: Product, home: Path) -> Iterator[tuple[NameServer, Cluster]]:
    """broker-a with its slave, and broker-b: brokers[0], [2] and [1] of the cluster."""
    namesrv = NameServer(names, home / "namesrv", {"supportActingMaster": True}).start()
    cluster = Cluster(namesrv)
    of_pair = SETTINGS if masters is slaves else OF_PAIR  # with it RocketMQ's own master was not back within a minute
    try:
        cluster.brokers.append(Broker(masters, home / "broker-a", cluster.address, of_pair).start(namesrv))
        cluster.brokers.append(Broker(others, home / "broker-b", cluster.address, SETTINGS, "broker-b").start(namesrv))
        cluster.brokers.append(Broker(slaves, home / "slave", cluster.address, of_pair, "broker-a", 1).start(namesrv))
        cluster.create_topic(TOPIC, QUEUES)
        for broker in cluster.brokers[:2]:
            create_group(broker, GROUP)
            create_group(broker, POP_GROUP)
        yield namesrv, cluster
    finally:
        cluster.stop()


def send(broker: Broker, body: str, properties: str = "", queue: int = 0) -> None:
    send_v2 = 310
    sys_flag = "4" if "TRAN_MSG" in properties else "0"
    fields = {
        "a": PRODUCERS, "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue), "f": sys_flag, "g": str(int(time.time() * 1000)), "h": "0",
        "i": f"KEYS\x01{body}\x02UNIQ_KEY\x01{body.replace(' ', '')}\x02PGROUP\x01{PRODUCERS}\x02{properties}", "j": "0", "k": "false",
    }  # fmt: skip
    reply = wire.call(broker.address, send_v2, fields, body.encode())
    assert reply.code == 0, reply


def followed(slave: Broker) -> int:
    """How many timed messages the slave knows its master to have entered, by what it has on disk; 0 before it knows anything."""
    file = slave.store / "config/timercheck"
    read_ms, _, _, masters, *_ = CHECKPOINT.unpack_from(file.read_bytes()) if file.exists() and file.stat().st_size else (0,) * 7
    return masters if read_ms > 0 else 0


def await_all(what: str, wanted: Collection[str], come: Callable[[], Collection[str]], timeout: float) -> None:
    missing: set[str] = set(wanted)

    def all_came() -> bool:
        missing.difference_update(come())
        return not missing

    try:
        wait_until(all_came, timeout, what, every=0.2)
    except AssertionError:
        raise AssertionError(f"not {what}: {sorted(missing)}") from None


@pytest.mark.parametrize("who", ["one", "our-slave", "our-master", "other-ours"])
def test_what_is_due_comes_by_the_other_master_and_once(
    product: Product, peer: Product, clients: Callable[..., JavaClients], tmp_path: Path, who: str
) -> None:
    """who: all of the product, or ours among the peer's."""
    masters = product if who in ("one", "our-master") else peer
    slaves = product if who in ("one", "our-slave") else peer
    others = product if who in ("one", "other-ours") else peer
    with two_masters(product, masters, slaves, others, tmp_path) as (namesrv, cluster):
        master, other, slave = cluster.brokers
        java = clients(cluster)
        consumer = java.push(GROUP, TOPIC)
        producer = java.transaction(PRODUCERS)
        producer.send(TOPIC, "COMMIT 1", "COMMIT 2", "COMMIT 3", "COMMIT 4")  # it is connected with both masters
        popper = Popper(master.address, POP_GROUP, TOPIC)
        again = Popper(other.address, POP_GROUP, TOPIC, "broker-b")
        for each in (popper, again):
            each.pop()  # both have the retry topic
        popped = {f"popped {number}" for number in range(COUNT)}
        for body in sorted(popped):
            send(master, body)
        popper.pop_until(COUNT, invisibleTime=20_000)
        wait_until(lambda: slave_knows(slave, TOPIC, GROUP), 90, "the slave copied topics and groups")
        soon = {f"delayed {number}" for number in range(COUNT)} | {f"timed {number}" for number in range(COUNT)}
        later = {f"late {number}" for number in range(COUNT)}
        prepared = {f"UNKNOW COMMIT {number}" for number in range(COUNT)}
        begin = time.monotonic()
        for number in range(COUNT):
            send(master, f"delayed {number}", "DELAY\x013\x02", number % QUEUES)
            send(master, f"timed {number}", "TIMER_DELAY_SEC\x0120\x02", number % QUEUES)
            send(master, f"late {number}", "DELAY\x014\x02", number % QUEUES)
            send(master, f"UNKNOW COMMIT {number}", "TRAN_MSG\x01true\x02", number % QUEUES)
        wait_until(lambda: followed(slave) >= COUNT, 40, "the slave follows the master's timers")
        wait_until(lambda: log_end(slave) == log_end(master), 40, "the slave follows")
        master.kill()
        wait_until(lambda: namesrv.broker_addresses()["broker-a"] == {"1": slave.address}, 30, "only the slave is left")
        wanted = soon | prepared

        def received() -> Counter[str]:
            return Counter(each["body"].decode() for each in consumer.received())

        await_all("passed on", wanted, received, 60)
        passed_s = time.monotonic() - begin
        print(f"{who}: all that was due came after {passed_s:.1f} s; {Counter(received().values())}")
        revived: set[str] = set()

        def all_revived() -> set[str]:
            revived.update(each.body for each in again.pop(pollTime=1000))
            return revived

        if slaves.name == "rocketpy":  # 5.5.0 passes on none of them: they come when the master is back
            await_all("revived", popped, all_revived, 120)  # RocketMQ looks once its timers have caught up
        master.start(namesrv)
        await_all("delivered by the master", later, received, 120)
        behind = {
            "delayed behind": "DELAY\x013\x02",
            "timed behind": "TIMER_DELAY_SEC\x011\x02",
            "UNKNOW COMMIT behind": "TRAN_MSG\x01true\x02",
        }
        for body, properties in behind.items():  # each comes after what its kind would have again
            send(master, body, properties)
        await_all("delivered behind all others", behind, received, 90)
        counts = {body: count for body, count in received().items() if body in wanted | later}
        twice = {body for body, count in counts.items() if count > 1}
        print(f"{who}: {len(twice)} of {len(counts)} came more than once: {sorted(twice)}")
        assert all(count <= 2 for count in counts.values())
        if who == "one" and product.name == "rocketpy":
            assert not twice
