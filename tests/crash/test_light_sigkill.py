"""A broker is killed at random moments under producers whose messages go to light queues: what it acknowledged is in each of them, once, in
order, at the offset that its record says."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from rocketpy._core.errors import RocketpyError
from rocketpy._core.store import Message, decode_message
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode

from .broker_process import BrokerProcess
from .producers import QUEUES, TOPIC, body_of, sender_of

PRODUCERS, OWN = 16, 4
ALL = "%LMQ%all"
Sender = tuple[int, int]


def queues_of(sender: Sender) -> tuple[str, ...]:
    """Everybody's, and now and then one that few have."""
    return (ALL, f"%LMQ%own{sender[0] % OWN}") if sender[1] % 3 == 0 else (ALL,)


async def produce(address: str, producer: int, first: int, acknowledged: set[Sender], reached: asyncio.Event, stop_at: int) -> None:
    async with RemotingClient() as client:
        for sequence in range(first, first + 1_000_000):
            sender = producer, sequence
            fields = {
                "a": "crash-producer", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(sequence % QUEUES), "f": "0", "g": "1",
                "h": "0", "i": f"INNER_MULTI_DISPATCH\x01{','.join(queues_of(sender))}\x02", "j": "0", "k": "false", "m": "false",
            }  # fmt: skip
            try:
                answer = await client.invoke(address, RequestCode.SEND_MESSAGE_V2, fields, body_of(*sender))
            except (RocketpyError, OSError):
                return  # the broker is gone, which is the point
            if answer.code == 0:
                acknowledged.add(sender)
            if len(acknowledged) >= stop_at:
                reached.set()


async def produce_and_kill(broker: BrokerProcess, acknowledged: set[Sender], number: int, more: int) -> None:
    reached = asyncio.Event()
    arguments = number * 1_000_000, acknowledged, reached, len(acknowledged) + more
    tasks = [asyncio.create_task(produce(broker.address, producer, *arguments)) for producer in range(PRODUCERS)]
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    broker.kill()
    waiting.cancel()
    await asyncio.gather(*tasks)


async def read(address: str, queue: str) -> list[Message]:
    found: list[Message] = []
    async with RemotingClient() as client:
        while True:
            fields = {
                "consumerGroup": "%LMQ%crash-reader", "topic": queue, "queueId": "0", "queueOffset": str(len(found)), "maxMsgNums": "32",
                "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
                "expressionType": "TAG",
            }  # fmt: skip
            answer = await client.invoke(address, RequestCode.PULL_MESSAGE, fields)
            if answer.code != 0:
                return found
            position = 0
            while position < len(answer.body):
                size = int.from_bytes(answer.body[position : position + 4], "big")
                found.append(decode_message(answer.body[position : position + size]))
                position += size


def check(queue: str, found: list[Message], acknowledged: set[Sender]) -> None:
    last: dict[int, int] = {}
    for offset, message in enumerate(found):
        names, offsets = (message.properties[f"INNER_MULTI_{what}"].split(",") for what in ("DISPATCH", "QUEUE_OFFSET"))
        assert int(offsets[names.index(queue)]) == offset, f"{queue}: another offset than {offset} is in the record"
        producer, sequence = sender_of(message.body)
        assert message.body == body_of(producer, sequence) and sequence > last.get(producer, -1), (queue, producer, sequence)
        last[producer] = sequence
    missing = {sender for sender in acknowledged if queue in queues_of(sender)} - {sender_of(message.body) for message in found}
    assert not missing, f"{queue} lacks {len(missing)} acknowledged messages"


def test_what_is_in_light_queues_survives_sigkill(tmp_path: Path, rounds: int, dice: random.Random) -> None:
    flush = dice.choice(["ASYNC_FLUSH", "SYNC_FLUSH"])
    broker = BrokerProcess(tmp_path, flushDiskType=flush, enableLmq=True, enableMultiDispatch=True)
    acknowledged: set[Sender] = set()
    try:
        for number in range(1 + rounds // 10):
            broker.start()
            asyncio.run(produce_and_kill(broker, acknowledged, number, dice.randrange(1, 1500)))
        broker.start()
        for queue in (ALL, *(f"%LMQ%own{number}" for number in range(OWN))):
            check(queue, asyncio.run(read(broker.address, queue)), acknowledged)
        broker.stop()
        broker.check_store()
    finally:
        broker.stop()
