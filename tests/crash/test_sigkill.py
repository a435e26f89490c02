"""A broker under 64 producers is killed at random moments: what it acknowledged is there afterwards, once, in order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from .broker_process import BrokerProcess
from .producers import Ledger, check_against, produce_until, read_all

PRODUCERS = 64


async def produce_and_kill(broker: BrokerProcess, ledger: Ledger, acknowledgements: int) -> None:
    reached = asyncio.Event()
    producing = asyncio.create_task(produce_until(broker.address, ledger, PRODUCERS, acknowledgements, reached))
    await reached.wait()
    broker.kill()
    await producing


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_acknowledged_messages_survive_sigkill(flush: str, tmp_path: Path, rounds: int, dice: random.Random) -> None:
    broker = BrokerProcess(tmp_path, flushDiskType=flush)
    ledger, first, checked = Ledger(), {}, set()
    each = (rounds + 1) // 2
    try:
        for number in range(each):
            broker.start()
            found = asyncio.run(read_all(broker.address, first)) if number else {}
            check_against(ledger, found, first, checked)
            asyncio.run(produce_and_kill(broker, ledger, dice.randrange(1, 3000)))
        broker.start()
        check_against(ledger, asyncio.run(read_all(broker.address, first)), first, checked)
        broker.stop()
        counts = broker.check_store()
        assert counts["messages"] == len(checked)
        assert counts["queue_entries"] == len(checked)
    finally:
        broker.stop()
    print(f"{each} kills under {flush}: {len(ledger.acknowledged)} acknowledged, {len(checked)} present")
