"""Brokers behind a controller of RocketMQ: who is elected, what is acknowledged, and what of it is there when the master is killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.processes import wait_until

from . import wire
from .controllers import GET_BROKER_EPOCH_CACHE, GET_BROKER_HA_STATUS, Set, replica_set, runtime
from .products import Broker, Peer, Product
from .stored import records
from .test_pairs import log_bytes, log_end

SEND, TOPIC, GROUP = 310, "elected", "GID-elected"
FIELDS = {"a": "PID", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0", "j": "0", "k": "false"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def send(broker: Broker, body: bytes) -> bool:
    """Whether it is acknowledged."""
    try:
        return wire.call(broker.address, SEND, {**FIELDS, "i": f"UNIQ_KEY\x01{body.decode()}\x02"}, body, timeout=6).code == 0
    except (OSError, AssertionError):
        return False


class Load(threading.Thread):
    """Sends to whoever the name server calls the master; `acked` are those that were acknowledged."""

    def __init__(self, brokers: Set) -> None:
        super().__init__(daemon=True)
        self._brokers, self._over = brokers, threading.Event()
        self.acked: list[bytes] = []
        self.tries = 0

    def run(self) -> None:
        while not self._over.is_set():
            try:
                master = self._brokers.master()
            except OSError:
                master = None
            self.tries += 1
            body = f"message {self.tries}".encode()
            if master is not None and send(master, body):
                self.acked.append(body)
            elif self._over.wait(0.05):
                return

    def end(self) -> list[bytes]:
        self._over.set()
        self.join(30)
        return self.acked


def acknowledges_more(load: Load, count: int = 100) -> None:
    wanted = len(load.acked) + count
    wait_until(lambda: len(load.acked) >= wanted, 90, f"{count} more messages acknowledged")


def bodies(broker: Broker) -> list[bytes]:
    return [each.body for each in records(broker.address, TOPIC, 0)]


@pytest.fixture
def real(peer: Product) -> Peer:
    assert isinstance(peer, Peer)
    return peer


@pytest.mark.parametrize("pair", ["ours", "our-master", "our-slave"])
def test_nothing_acknowledged_is_missing_when_the_master_is_killed(product: Product, real: Peer, tmp_path: Path, pair: str) -> None:
    products = {"ours": [product, product], "our-master": [product, real], "our-slave": [real, product]}[pair]
    with replica_set(product, real, products, tmp_path, {"slaveReadEnable": True}) as found:
        load = Load(found)
        load.start()
        acknowledges_more(load)
        killed = found.await_master()
        killed.kill()
        promoted = found.await_master(other_than=killed)
        acknowledges_more(load)
        killed.start()
        found.await_in_sync(2)
        acknowledges_more(load)
        acked = load.end()
        wait_until(lambda: log_end(killed) == log_end(promoted), 60, "the old master follows")
        stored = bodies(promoted)
        assert set(acked) <= set(stored), sorted(set(acked) - set(stored))[:10]
        end = log_end(promoted)
        assert log_bytes(killed, end) == log_bytes(promoted, end), "two logs"
        wait_until(lambda: bodies(killed) == stored, 60, "the old master's queue")


def test_operators_see_who_is_what(product: Product, real: Peer, tmp_path: Path) -> None:
    with replica_set(product, real, [product, product], tmp_path) as found:
        master = found.await_master()
        slave = next(each for each in found.brokers if each is not master)
        assert send(master, b"one")
        wait_until(lambda: log_end(slave) == log_end(master), 30, "the slave follows")
        epochs = wire.call(master.address, GET_BROKER_EPOCH_CACHE).json()
        assert [entry["epoch"] for entry in epochs["epochList"]] == [1] and epochs["brokerId"] == 0
        status = wire.call(master.address, GET_BROKER_HA_STATUS).json()
        assert status["master"] and status["inSyncSlaveNums"] == 1 and status["haConnectionInfo"][0]["inSync"]
        table, other = runtime(master), runtime(slave)
        assert (table["brokerRole"], table["syncStateSet"], table["replicaState"]) == ("SYNC_MASTER", "1,2", "RUNNING")
        assert (other["brokerRole"], other["masterAddress"]) == ("SLAVE", master.address)
        wait_until(lambda: runtime(slave)["confirmOffset"] == str(log_end(master)), 30, "the confirmed offset")
