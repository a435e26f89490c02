"""Master and slave on two hosts of their own, SYNC_MASTER and SYNC_FLUSH, with a network between them that delays, loses and falls silent.

Every test ends the same way: the master is killed and its disk taken away; what it acknowledged must be on the slave alone.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketpy.remoting.codes import ResponseCode
from tests.crash.broker_process import BrokerProcess, NameServerProcess
from tests.crash.producers import check_against, read_all
from tests.crash.replica_pair import ReplicaPair

from .link import Link
from .namespaces import Network, require_namespaces

HOUSEKEEPING_MS = 2000
HA_PORT = 10912
LAN, WAN = 0.0002, 0.01
PATIENT = {"haHousekeepingInterval": 60_000, "slaveTimeout": 60_000}
"""For a network that is always there: a busy machine may stand still for longer than the others' limits."""


@dataclass
class Pair(ReplicaPair):
    network: Network

    def take_the_masters_disk_away_and_check(self) -> None:
        self.master.kill()
        shutil.rmtree(self.master.store)
        check_against(self.ledger, asyncio.run(read_all(self.slave.address, {})), {}, set())
        self.slave.stop()
        self.slave.check_store()


@pytest.fixture
def network() -> Iterator[Network]:
    require_namespaces()
    with Network() as made:
        print(made.kind)
        yield made


@pytest.fixture
def pair(network: Network, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Replication and what a slave copies besides go over the shaped link, unless a test names another HA address. With time limits that
    the tests wait for, unless a test is parametrized with others."""
    names = NameServerProcess(tmp_path / "n", bindAddress="0.0.0.0")
    common = {
        "bindAddress": "0.0.0.0", "haHousekeepingInterval": HOUSEKEEPING_MS, "haSendHeartbeatInterval": 300, "slaveTimeout": 1500,
        **getattr(request, "param", {}),
    }  # fmt: skip
    brokers = []
    for host, role in ((network.master, {"brokerRole": "SYNC_MASTER", "flushDiskType": "SYNC_FLUSH", "haListenPort": HA_PORT}),
                       (network.slave, {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"})):  # fmt: skip
        brokers.append(
            BrokerProcess(
                tmp_path / host.namespace,
                host=host.address,
                inside=host.inside,
                brokerIP1=host.inner,
                brokerIP2=host.inner,
                namesrvAddr=f"{host.outside}:{names.port}",
                **common,
                **role,
            )
        )
    with Pair(names, *brokers, network).running() as made:
        yield made


@pytest.mark.parametrize("pair", [PATIENT], indirect=True, ids=["patient"])
@pytest.mark.parametrize("delay_s", [pytest.param(LAN, id="lan"), pytest.param(WAN, id="wan", marks=pytest.mark.slow)])
def test_delay_and_loss_cost_time_and_no_message(pair: Pair, delay_s: float) -> None:
    pair.network.shape(delay_s, loss=0.01)
    pair.produce(40, producers=16)
    assert not pair.ledger.refused, dict(pair.ledger.refused)
    assert len(pair.ledger.acknowledged) > 600
    pair.wait_in_sync()
    pair.take_the_masters_disk_away_and_check()


def test_a_partition_is_quiet_told_to_producers_and_heals(pair: Pair) -> None:
    pair.produce(20)
    pair.network.cut()
    refused = sum(pair.ledger.refused.values())  # by a busy machine
    before, started = pair.cpu_s(), time.monotonic()
    pair.produce(1)  # waits for its time-out
    pair.produce(1)
    elapsed = time.monotonic() - started
    used = [after - cpu for after, cpu in zip(pair.cpu_s(), before, strict=True)]
    assert elapsed > 1.4
    assert max(used) < 0.2 * elapsed, f"{used} s of CPU in {elapsed:.1f} s of silence"
    assert sum(pair.ledger.refused.values()) - refused == 16, "nothing can be acknowledged while the slave is cut off"
    assert set(pair.ledger.refused) <= {ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
    pair.network.heal()
    pair.wait_in_sync()
    pair.produce(20)
    pair.take_the_masters_disk_away_and_check()


@pytest.mark.slow
def test_a_slave_that_died_unheard_leaves_a_half_open_connection_and_comes_back(pair: Pair) -> None:
    pair.produce(10)
    pair.network.cut()
    pair.slave.kill()  # its kernel's farewell is lost with everything else
    pair.network.heal()
    pair.slave.start()
    pair.wait_in_sync()
    pair.produce(20)
    pair.take_the_masters_disk_away_and_check()


@pytest.mark.slow
def test_single_bytes_from_host_to_host_make_the_same_log(pair: Pair, network: Network) -> None:
    with Link(HA_PORT, network.master.address, network.slave.outside) as link:
        link.piece_bytes = 1
        pair.slave.stop()
        with pair.slave.config.open("a") as config:
            config.write(f"haMasterAddress={link.host}:{link.port}\n")
        pair.slave.start()
        pair.wait_in_sync()
        pair.produce(3, producers=4)
        pair.wait_in_sync()
        assert link.bytes_passed > 12 * 100
        pair.take_the_masters_disk_away_and_check()
