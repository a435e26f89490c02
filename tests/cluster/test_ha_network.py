"""Replication over a bad network: delay, partitions, half-open connections, crumbs. SYNC_MASTER loses nothing that it acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketpy.remoting.codes import ResponseCode
from tests.crash.broker_process import BrokerProcess, NameServerProcess
from tests.crash.producers import check_against, read_all
from tests.crash.replica_pair import ReplicaPair
from tests.processes import free_port

from .link import Link

HOUSEKEEPING_MS = 1500
PATIENT = {"haHousekeepingInterval": 60_000, "slaveTimeout": 60_000}
"""For tests of a link that is always there: a busy machine may stand still for longer than the others' limits."""


@dataclass
class Pair(ReplicaPair):
    link: Link

    def take_the_master_away_and_check(self) -> None:
        """What was acknowledged must be on the slave alone."""
        self.master.kill()
        check_against(self.ledger, asyncio.run(read_all(self.slave.address, {})), {}, set())


@pytest.fixture
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """With time limits that the tests wait for, unless a test is parametrized with others."""
    ha_port = free_port()
    limits = {"haHousekeepingInterval": HOUSEKEEPING_MS, "haSendHeartbeatInterval": 300, "slaveTimeout": 1000}
    common = {**limits, **getattr(request, "param", {})}
    with Link(ha_port) as link:
        names = NameServerProcess(tmp_path / "n")
        address = names.address
        master = BrokerProcess(
            tmp_path / "m", brokerRole="SYNC_MASTER", flushDiskType="SYNC_FLUSH", haListenPort=ha_port, namesrvAddr=address, **common
        )
        slave = BrokerProcess(
            tmp_path / "s", brokerRole="SLAVE", brokerId=1, slaveReadEnable="true", haMasterAddress=f"127.0.0.1:{link.port}",
            namesrvAddr=address, **common,
        )  # fmt: skip
        with Pair(names, master, slave, link).running() as made:
            yield made


@pytest.mark.parametrize("pair", [PATIENT], indirect=True)
def test_a_delay_is_paid_once_per_message_and_not_per_batch(pair: Pair) -> None:
    pair.produce(3)
    pair.link.delay_s = 0.2
    took: list[float] = []
    for _ in range(4):
        started = time.monotonic()
        pair.produce(1, producers=16)
        took.append(time.monotonic() - started)
    assert not pair.ledger.refused
    # 16 producers share a round trip, or two, of 400 ms. One after the other they wait 6.4 s, every time; a busy machine does now and then.
    assert min(took) < 16 * 0.4 / 2, f"16 messages took {took} s"
    pair.wait_in_sync()
    pair.take_the_master_away_and_check()


def test_a_partition_is_told_to_producers_and_closes_without_loss(pair: Pair) -> None:
    pair.produce(20)
    pair.link.stall()
    before = sum(pair.ledger.refused.values())  # by a busy machine
    pair.produce(2)
    assert set(pair.ledger.refused) <= {ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
    assert sum(pair.ledger.refused.values()) - before == 16, "nothing can be acknowledged while the slave is cut off"
    pair.link.restore()
    pair.wait_in_sync()
    pair.produce(20)
    pair.wait_in_sync()
    pair.take_the_master_away_and_check()


def test_a_half_open_connection_is_left_without_a_busy_loop(pair: Pair) -> None:
    pair.produce(5)
    before = pair.cpu_s()
    started = time.monotonic()
    pair.link.stall()
    pair.produce(2, producers=2)  # each waits for its time-out: the link is silent meanwhile
    pair.produce(2, producers=2)
    elapsed = time.monotonic() - started
    used = [after - cpu for after, cpu in zip(pair.cpu_s(), before, strict=True)]
    assert max(used) < 0.25 * elapsed, f"{used} s of CPU in {elapsed:.1f} s of silence"
    pair.link.cut()
    pair.link.restore()
    pair.wait_in_sync()
    pair.produce(5)
    pair.take_the_master_away_and_check()


@pytest.mark.parametrize("pair", [PATIENT], indirect=True)
def test_single_bytes_make_the_same_log(pair: Pair) -> None:
    pair.link.piece_bytes = 1
    pair.produce(3, producers=4)
    pair.link.cut()
    pair.wait_in_sync()
    pair.produce(3, producers=4)
    pair.take_the_master_away_and_check()
