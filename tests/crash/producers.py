"""Producers and a reader for crash tests: what was acknowledged, and what can be read back.

64 connections send one message after the other, so per producer the order of acknowledgements is the order of sends. Every body says
who sent it and which one it is, and is filled by a generator seeded with that, so that a body can be checked alone.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field

from rocketpy._core.errors import RocketpyError
from rocketpy._core.store import Message, decode_message
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode

TOPIC = "CrashTest"
QUEUES = 8
PULL_BATCH = 32


def body_of(producer: int, sequence: int) -> bytes:
    """The one right body of a message, 32 to 1,055 bytes."""
    head = f"{producer}:{sequence}:".encode()
    filler = random.Random(producer * 1_000_003 + sequence)
    return head + filler.randbytes(32 + filler.randrange(1024) - len(head) % 16)


def sender_of(body: bytes) -> tuple[int, int]:
    producer, sequence, _ = body.split(b":", 2)
    return int(producer), int(sequence)


@dataclass
class Ledger:
    """What the broker said: acknowledged[(producer, sequence)] = (queue id, queue offset); next[producer] is never sent before."""

    acknowledged: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    next: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    refused: dict[int, int] = field(default_factory=lambda: defaultdict(int))


async def _produce(address: str, producer: int, ledger: Ledger, reached: asyncio.Event, stop_at: int, sends_max: int = 1 << 60) -> None:
    async with RemotingClient() as client:
        for _ in range(sends_max):
            sequence = ledger.next[producer]
            ledger.next[producer] += 1
            fields = {
                "a": "crash-producer", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(sequence % QUEUES), "f": "0",
                "g": "1700000000000", "h": "0", "i": f"KEYS\x01k{producer}-{sequence}\x02", "j": "0", "k": "false", "m": "false",
            }  # fmt: skip
            try:
                answer = await client.invoke(address, RequestCode.SEND_MESSAGE_V2, fields, body_of(producer, sequence))
            except (RocketpyError, OSError):
                return  # the broker is gone, which is the point
            if answer.code != ResponseCode.SUCCESS:
                ledger.refused[answer.code] += 1  # stored perhaps, promised not
                continue
            place = (int(answer.fields["queueId"]), int(answer.fields["queueOffset"]))
            ledger.acknowledged[producer, sequence] = place
            if len(ledger.acknowledged) >= stop_at:
                reached.set()


async def produce_until(address: str, ledger: Ledger, producers: int, acknowledgements: int, reached: asyncio.Event) -> None:
    """Sets reached when `acknowledgements` more are in, and goes on sending until the connections break."""
    stop_at = len(ledger.acknowledged) + acknowledgements
    tasks = [asyncio.create_task(_produce(address, producer, ledger, reached, stop_at)) for producer in range(producers)]
    await asyncio.gather(*tasks)
    reached.set()  # also when the broker went away by itself: the test sees it is dead


async def produce(address: str, ledger: Ledger, producers: int, each: int) -> None:
    """Every producer sends `each` messages, one after the other."""
    never = asyncio.Event()
    await asyncio.gather(*(_produce(address, producer, ledger, never, 1 << 60, each) for producer in range(producers)))


async def read_all(address: str, first: dict[int, int]) -> dict[int, list[Message]]:
    """Every message of every queue from first[queue] on."""
    found: dict[int, list[Message]] = {}
    async with RemotingClient() as client:
        for queue_id in range(QUEUES):
            answer = await client.call(address, RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": str(queue_id)})
            end = int(answer.fields["offset"])
            found[queue_id] = [message async for message in _read_queue(client, address, queue_id, first.get(queue_id, 0), end)]
    return found


async def _read_queue(client: RemotingClient, address: str, queue_id: int, offset: int, end: int):  # type: ignore[no-untyped-def]
    while offset < end:
        fields = {
            "consumerGroup": "crash-reader", "topic": TOPIC, "queueId": str(queue_id), "queueOffset": str(offset),
            "maxMsgNums": str(PULL_BATCH), "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
            "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        }  # fmt: skip
        answer = await client.invoke(address, RequestCode.PULL_MESSAGE, fields)
        assert answer.code == 0, f"pull of queue {queue_id} at {offset} of {end}: {answer.code} {answer.remark}"
        body, position = memoryview(answer.body), 0
        while position < len(body):
            size = int.from_bytes(body[position : position + 4], "big")
            yield decode_message(body[position : position + size])
            position += size
        offset = int(answer.fields["nextBeginOffset"])


def check_against(ledger: Ledger, found: dict[int, list[Message]], first: dict[int, int], checked: set[tuple[int, int]]) -> None:
    """Acknowledged = present, once, whole, where it was said to be; per producer and queue in the order of sending."""
    seen: set[tuple[int, int]] = set()
    for queue_id, messages in found.items():
        last: dict[int, int] = {}
        for expected_offset, message in enumerate(messages, first.get(queue_id, 0)):
            assert message.queue_offset == expected_offset, (
                f"queue {queue_id}: offset {message.queue_offset} where {expected_offset} belongs"
            )
            sender = sender_of(message.body)
            assert message.body == body_of(*sender), f"message {sender} came back changed"
            assert sender not in seen and sender not in checked, f"message {sender} is there twice"
            assert last.get(sender[0], -1) < sender[1], f"producer {sender[0]}: {sender[1]} behind {last[sender[0]]}"
            last[sender[0]] = sender[1]
            seen.add(sender)
            said = ledger.acknowledged.get(sender)
            assert said is None or said == (queue_id, message.queue_offset), (
                f"message {sender} is at {queue_id, message.queue_offset}, not {said}"
            )
    missing = [sender for sender in ledger.acknowledged if sender not in seen and sender not in checked]
    assert not missing, f"{len(missing)} acknowledged messages are missing, for example {missing[:5]}"
    checked |= seen
    for queue_id, messages in found.items():
        first[queue_id] = first.get(queue_id, 0) + len(messages)
