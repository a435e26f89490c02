"""Static topics: a global queue that moves from one broker to another while it is written and read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.remoting import Command
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import read_json
from rocketpy.remoting.queue_mapping import MappingItem, QueueMapping
from tests.unit.broker.running import Peer, Running, run, running, started

TOPIC = "orders"
GROUP = "readers"


def item(gen: int, broker: str, queue_id: int, logic_offset: int) -> MappingItem:
    return MappingItem(gen, queue_id, broker, logic_offset)


def mapping(broker: str, epoch: int, hosted: dict[int, tuple[MappingItem, ...]], total: int = 1) -> QueueMapping:
    return QueueMapping(TOPIC, total, broker, epoch, hosted)


async def put(peer: Peer, mapped: QueueMapping, queues: int = 4, **fields: Any) -> Command:
    header = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False, "force": False,
    }  # fmt: skip
    return await peer.ask(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, {**header, **fields}, mapped.to_json())


FIRST = (item(0, "broker-a", 2, 0),)
UNDECIDED = (*FIRST, item(1, "broker-b", 1, -1))
MOVED = (*FIRST, item(1, "broker-b", 1, 10_000))
BACK = (*MOVED, item(2, "broker-a", 3, 20_000))


@dataclass
class Both:
    """Two masters of one cluster."""

    at: Running
    a: Peer
    b: Peer

    async def put(self, *mapped: QueueMapping) -> None:
        for each in mapped:
            answer = await put(self.a if each.broker_name == "broker-a" else self.b, each)
            assert answer.code == 0, answer.remark

    async def move(self, items: tuple[MappingItem, ...] = MOVED, epoch: int = 2) -> None:
        await self.put(mapping("broker-b", epoch, {0: items}), mapping("broker-a", epoch, {0: items}))


@asynccontextmanager
async def both_brokers(home: Path) -> AsyncIterator[Both]:
    async with running(home / "a") as at:
        names = f"127.0.0.1:{at.namesrv.port}"
        async with started(home / "b", brokerName="broker-b", namesrvAddr=names) as b:
            both = Both(at, at.peer(), b)
            for peer in (both.a, both.b):
                assert (await peer.heartbeat("c", GROUP, TOPIC)).code == 0
            yield both


def numbers(answer: Command, *names: str) -> tuple[int, ...]:
    return tuple(int(answer.fields[name]) for name in names)


def pulled(answer: Command) -> tuple[int, ...]:
    return (answer.code, *numbers(answer, "nextBeginOffset", "minOffset", "maxOffset", "offsetDelta"))


async def offset(peer: Peer, code: int, **fields: Any) -> int:
    answer = await peer.ask(code, {"topic": TOPIC, "queueId": 0, "consumerGroup": GROUP, **fields})
    assert answer.code == 0, f"{answer.code} {answer.remark}"
    return int(answer.fields["offset"])


def test_a_global_queue_is_written_and_read_through_two_brokers(tmp_path: Path) -> None:
    async def check() -> None:
        async with both_brokers(tmp_path) as both:
            a, b = both.a, both.b
            await both.put(mapping("broker-a", 1, {0: FIRST}), mapping("broker-b", 1, {}))
            sent = [await a.send(TOPIC, b"old %d" % number) for number in range(3)]
            assert [numbers(answer, "queueId", "queueOffset") for answer in sent] == [(0, 0), (0, 1), (0, 2)]
            await both.put(mapping("broker-b", 2, {0: UNDECIDED}), mapping("broker-a", 2, {0: UNDECIDED}))
            early = await b.send(TOPIC, b"new 0")
            assert numbers(early, "queueId", "queueOffset") == (0, -1), "stored before its offset is known"
            assert pulled(await b.pull(GROUP, TOPIC, offset=3)) == (ResponseCode.PULL_NOT_FOUND, 3, 0, 3, 0), "nothing to go on to yet"
            assert await offset(b, RequestCode.GET_MAX_OFFSET) == 3
            await both.move(epoch=3)
            assert numbers(await b.send(TOPIC, b"new 1"), "queueId", "queueOffset") == (0, 10_001)
            refused = await a.send(TOPIC)
            assert (refused.code, refused.remark) == (
                ResponseCode.NOT_LEADER_FOR_QUEUE,
                "orders-0 does not exit in request process of current broker broker-a",
            )
            found = await b.pull(GROUP, TOPIC, offset=1)
            assert pulled(found) == (0, 3, 0, 10_000, 0) and b"old 1" in found.body and b"old 2" in found.body
            assert pulled(await b.pull(GROUP, TOPIC, offset=3)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 10_000, 10_000, 10_000, 10_000)
            found = await b.pull(GROUP, TOPIC, offset=10_000)
            assert pulled(found) == (0, 10_002, 10_000, 10_002, 10_000) and b"new 0" in found.body and b"new 1" in found.body
            assert [await offset(b, code) for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)] == [0, 10_002]
            assert await offset(b, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=0) == 0
            assert await offset(b, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=1 << 50) == 10_002

    run(check)


def test_offsets_are_kept_where_their_messages_are(tmp_path: Path) -> None:
    async def check() -> None:
        async with both_brokers(tmp_path) as both:
            b = both.b
            await both.move()
            asked = {"topic": TOPIC, "queueId": 0, "consumerGroup": GROUP}
            assert (await b.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).code == ResponseCode.QUERY_NOT_FOUND
            for committed, kept_by, queue_id, kept in ((2, both.a, 2, 2), (10_001, b, 1, 1)):
                assert (await b.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": committed})).code == 0
                assert await offset(b, RequestCode.QUERY_CONSUMER_OFFSET) == committed
                assert await offset(kept_by, RequestCode.QUERY_CONSUMER_OFFSET, queueId=queue_id, lo=False) == kept
            pull = {"sysFlag": 4 | 1, "commitOffset": 10_005}
            assert (await b.pull(GROUP, TOPIC, offset=10_000, **pull)).code == ResponseCode.PULL_NOT_FOUND
            assert await offset(b, RequestCode.QUERY_CONSUMER_OFFSET) == 10_005, "a pull commits in the same offsets"
            assert (await both.a.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).code == ResponseCode.NOT_LEADER_FOR_QUEUE

    run(check)
