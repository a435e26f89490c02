"""A broker is killed at random moments under producers of delayed and of transactional messages: what it acknowledged comes, what was
rolled back never does. After a kill a message may come twice, as with RocketMQ."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rocketpy._core.errors import RocketpyError
from rocketpy._core.store import Message
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from tests.processes import PATIENCE_S, wait_until

from .broker_process import BrokerProcess
from .producers import QUEUES, TOPIC, body_of, read_all, sender_of

PRODUCERS = 24
DELAY_MS = 1000
COMMIT, ROLL_BACK = "8", "12"

Sender = tuple[int, int]


@dataclass
class Ledger:
    """What the broker said yes to, by (producer, sequence)."""

    sent_ms: dict[Sender, int] = field(default_factory=dict)
    delayed: set[Sender] = field(default_factory=set)
    committed: set[Sender] = field(default_factory=set)
    rolled_back: set[Sender] = field(default_factory=set)
    decided: set[Sender] = field(default_factory=set)
    """Of those that were sent to be committed: whoever was not cannot come."""

    def __len__(self) -> int:
        return len(self.delayed) + len(self.committed) + len(self.rolled_back)


async def send(client: RemotingClient, address: str, sender: Sender, properties: str, sys_flag: int = 0) -> dict[str, str] | None:
    """The fields of the answer; None when the broker did not take it. Raises what the connection does."""
    fields = {
        "a": "crash-producer", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(sender[1] % QUEUES), "f": str(sys_flag),
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    answer = await client.invoke(address, RequestCode.SEND_MESSAGE_V2, fields, body_of(*sender))
    return dict(answer.fields) if answer.code == 0 else None


async def transact(client: RemotingClient, address: str, sender: Sender, ledger: Ledger, decision: str) -> None:
    prepared = await send(client, address, sender, "TRAN_MSG\x01true\x02PGROUP\x01crash-producer\x02", 4)
    if prepared is None:
        return
    end = {
        "producerGroup": "crash-producer", "tranStateTableOffset": prepared["queueOffset"], "commitOrRollback": decision,
        "commitLogOffset": str(int(prepared["msgId"][16:], 16)), "fromTransactionCheck": "false", "msgId": "m",
    }  # fmt: skip
    if decision == COMMIT:
        ledger.decided.add(sender)
    answer = await client.invoke(address, RequestCode.END_TRANSACTION, end)
    if answer.code == 0:
        (ledger.committed if decision == COMMIT else ledger.rolled_back).add(sender)


async def produce(address: str, producer: int, first: int, ledger: Ledger, reached: asyncio.Event, stop_at: int) -> None:
    async with RemotingClient() as client:
        for sequence in range(first, first + 1_000_000):
            sender = producer, sequence
            ledger.sent_ms[sender] = time.time_ns() // 1_000_000
            try:
                if producer % 3 == 0:
                    if await send(client, address, sender, "DELAY\x011\x02") is not None:
                        ledger.delayed.add(sender)
                else:
                    await transact(client, address, sender, ledger, COMMIT if producer % 3 == 1 else ROLL_BACK)
            except (RocketpyError, OSError):
                return  # the broker is gone, which is the point
            if len(ledger) >= stop_at:
                reached.set()


async def produce_and_kill(broker: BrokerProcess, ledger: Ledger, number: int, acknowledgements: int) -> None:
    reached = asyncio.Event()
    stop_at = len(ledger) + acknowledgements
    tasks = [
        asyncio.create_task(produce(broker.address, producer, number * 1_000_000, ledger, reached, stop_at))
        for producer in range(PRODUCERS)
    ]
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    broker.kill()
    waiting.cancel()
    await asyncio.gather(*tasks)


def check(ledger: Ledger, found: list[Message]) -> Counter[Sender]:
    """How often each came: whole, not before its time, and only what may."""
    came: Counter[Sender] = Counter()
    for message in found:
        sender = sender_of(message.body)
        came[sender] += 1
        assert message.body == body_of(*sender), f"message {sender} came back changed"
        if sender[0] % 3 == 0:
            assert message.store_timestamp_ms >= ledger.sent_ms[sender] + DELAY_MS, f"message {sender} came before its time"
        else:
            assert sender in ledger.decided, f"message {sender} was never to be committed"
    return came


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_is_to_come_later_survives_sigkill(flush: str, tmp_path: Path, rounds: int, dice: random.Random) -> None:
    broker = BrokerProcess(tmp_path, flushDiskType=flush, messageDelayLevel="1s")
    ledger = Ledger()
    each = (rounds + 1) // 2

    def messages() -> list[Message]:
        return [message for queue in asyncio.run(read_all(broker.address, {})).values() for message in queue]

    def has_all() -> bool:
        return ledger.delayed | ledger.committed <= {sender_of(message.body) for message in messages()}

    try:
        for number in range(each):
            broker.start()
            asyncio.run(produce_and_kill(broker, ledger, number, dice.randrange(1, 2000)))
        broker.start()
        wait_until(has_all, PATIENCE_S, "everything that was acknowledged")
        came = check(ledger, messages())
        broker.stop()
        broker.check_store()
    finally:
        broker.stop()
    twice = sum(count > 1 for count in came.values())
    counts = f"{len(ledger.delayed)} delayed, {len(ledger.committed)} committed, {len(ledger.rolled_back)} rolled back"
    print(f"{each} kills under {flush}: {counts}; {len(came)} came, {twice} more than once")
    assert len(ledger) > 0
