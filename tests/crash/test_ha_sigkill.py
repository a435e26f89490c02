"""A master and its slave under producers; one of them is killed at random moments. What SYNC_MASTER acknowledged is on both."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path

from .broker_process import BrokerProcess, NameServerProcess
from .producers import Ledger, check_against, produce_until, read_all
from .replica_pair import CATCH_UP_S, log_bytes, wait_in_sync

PRODUCERS = 16


@dataclass
class Kills:
    """Who was killed how often, under load."""

    master: int = 0
    slave: int = 0

    @property
    def count(self) -> int:
        return self.master + self.slave


async def produce_and_kill(master: BrokerProcess, slave: BrokerProcess, ledger: Ledger, dice: random.Random, kills: Kills) -> None:
    """The slave dies under load in half of the rounds, is back under load, and acknowledges again; the master's death ends every round."""
    reached = asyncio.Event()
    producing = asyncio.create_task(produce_until(master.address, ledger, PRODUCERS, dice.randrange(1, 600), reached))
    await reached.wait()
    if dice.random() < 0.5:
        slave.kill()
        kills.slave += 1
        await asyncio.to_thread(slave.start)
        wanted, end = len(ledger.acknowledged) + dice.randrange(1, 200), time.monotonic() + CATCH_UP_S
        while len(ledger.acknowledged) < wanted:
            assert time.monotonic() < end, f"nothing is acknowledged since the slave is back:\n{master.tail()}\n{slave.tail()}"
            await asyncio.sleep(0.005)
    master.kill()
    kills.master += 1
    await producing


def test_what_sync_master_acknowledged_is_on_both_after_any_kill(tmp_path: Path, rounds: int, dice: random.Random) -> None:
    names = NameServerProcess(tmp_path / "n")
    master = BrokerProcess(tmp_path / "m", brokerRole="SYNC_MASTER", slaveTimeout=500, namesrvAddr=names.address)
    slave = BrokerProcess(tmp_path / "s", brokerRole="SLAVE", brokerId=1, slaveReadEnable="true", namesrvAddr=names.address)
    ledger, first, checked = Ledger(), {}, set()
    kills = Kills()
    try:
        names.start()
        while kills.count < rounds:
            master.start()
            slave.start()
            asyncio.run(wait_in_sync(master, slave))
            reader = dice.choice((master, slave))
            check_against(ledger, asyncio.run(read_all(reader.address, dict(first))), first, checked)
            asyncio.run(produce_and_kill(master, slave, ledger, dice, kills))
            slave.stop()
        master.start()
        slave.start()
        end = asyncio.run(wait_in_sync(master, slave))
        before = dict(first), set(checked)
        check_against(ledger, asyncio.run(read_all(slave.address, before[0])), *before)
        check_against(ledger, asyncio.run(read_all(master.address, dict(first))), first, checked)
        slave.stop()
        master.stop()
        assert log_bytes(master.store, end) == log_bytes(slave.store, end)
        for broker in (master, slave):
            broker.check_store()
    finally:
        for server in (slave, master, names):
            server.stop()
        names.stop()
    print(f"{kills}: {len(ledger.acknowledged)} acknowledged, {len(checked)} present, refused by code {dict(ledger.refused)}")
