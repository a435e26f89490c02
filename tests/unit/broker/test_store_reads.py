"""Requests that read old messages: from a disk that takes its time they keep nothing else waiting."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketpy.broker.admin_offsets import OffsetAdmin
from rocketpy.broker.store_reads import READS_MAX, StoreReads
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.headers import SearchOffsetResponseHeader
from tests.processes import PATIENCE_S
from tests.unit.broker.running import eventually, run, running

GROUP = {"group": "g", "consumerGroup": "g"}
REQUESTS: list[tuple[RequestCode, dict[str, object]]] = [
    (RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60}),
    (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 0}),
    (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "t", "queueId": 77, "timestamp": 1}),  # which the topic may have had: left to Python
    (RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "t", "queueId": 0}),
    (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "t"}),
    (RequestCode.GET_CONSUME_STATS, {**GROUP, "topicList": "t"}),
    (RequestCode.QUERY_CONSUME_TIME_SPAN, {**GROUP, "topic": "t"}),
    (RequestCode.QUERY_CONSUME_QUEUE, {"topic": "t", "queueId": 0, "index": 0, "count": 1}),
]


class SlowStore:
    """A store whose every read by an operator waits until it may end."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.under_way = 0
        self.may_end = threading.Event()

    def __getattr__(self, name: str) -> Any:
        self.under_way += 1
        assert self.may_end.wait(PATIENCE_S)
        return getattr(self._store, name)


class NothingInMemory:
    """A store of which the disk has to be asked for everything."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def read_in_memory(self, offset: int) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize(("code", "fields"), REQUESTS, ids=[code.name for code, _ in REQUESTS])
def test_what_reads_old_messages_keeps_neither_other_requests_nor_every_thread(
    tmp_path: Path, code: RequestCode, fields: dict[str, object]
) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await peer.send("t")).code == 0 == (await peer.heartbeat("c", "g", "t")).code
            committed = {**GROUP, "topic": "t", "queueId": 0, "commitOffset": 1}
            assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, committed)).code == 0
            reads = at.broker.parts.reads
            store = reads._store = SlowStore(reads._store)  # type: ignore[assignment]
            object.__setattr__(at.broker.parts, "store", NothingInMemory(at.broker.parts.store))
            asked = [asyncio.create_task(peer.ask(code, fields)) for _ in range(READS_MAX + 1)]
            try:
                await eventually(lambda: store.under_way == READS_MAX, "the reads")
                assert (await peer.heartbeat("c", "g", "t")).code == 0
                assert store.under_way == READS_MAX
            finally:
                store.may_end.set()
            found = ResponseCode.QUERY_NOT_FOUND if code == RequestCode.QUERY_MESSAGE else ResponseCode.SUCCESS
            assert [answer.code for answer in await asyncio.gather(*asked)] == [found] * len(asked)

    run(test)


def test_what_memory_holds_is_answered_as_the_disk_would_without_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            for number in range(20):
                assert (await peer.send("t", b"%d" % number)).code == 0
            assert (await peer.send("t", bytes(1 << 16))).code == 0
            parts = at.broker.parts
            assert parts is not None
            log_end = parts.store.stats()["commit_log_max_offset"]
            times = [parts.store.time_at("t", 0, number) for number in (0, 10, 20)]
            large = parts.store.entries("t", 0, 20, 1)[0][0]
            places = (0, -1, large, log_end - 1, log_end, log_end + 1, (1 << 63) - 1)

            async def viewed() -> list[Any]:
                answers = [await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": place}) for place in places]
                return [(answer.code, answer.remark, answer.fields, answer.body) for answer in answers]

            in_threads: list[Any] = []
            run_in_thread = parts.reads.run
            monkeypatch.setattr(StoreReads, "run", lambda reads, read: in_threads.append(read) or run_in_thread(read))
            for sought in (time_ms + ms for time_ms in times for ms in (-1, 0, 1)):
                for number, boundary in enumerate(("LOWER", "UPPER")):
                    search = {"topic": "t", "queueId": 0, "timestamp": sought, "boundaryType": boundary}
                    answer = await peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
                    assert answer.fields == {"offset": str(parts.store.offset_by_time("t", 0, sought, number))}
                    request: Any = SimpleNamespace(fields={name: str(value) for name, value in search.items()})
                    left_to_python = await OffsetAdmin(parts)._search(request)
                    assert left_to_python.fields == SearchOffsetResponseHeader(offset=int(answer.fields["offset"]))
            assert len(in_threads) == 2 * 3 * len(times)
            in_threads.clear()
            from_memory = await viewed()
            assert len(in_threads) == len(places) - 1, "what is large, and the disk's to refuse"
            object.__setattr__(parts, "store", NothingInMemory(parts.store))
            assert await viewed() == from_memory
            assert len(in_threads) == len(places) - 1 + len(places)

    run(test)


def test_a_message_is_found_by_its_key_as_soon_as_it_is_stored(tmp_path: Path) -> None:
    """As a consumer does that looks up what a waiting pull gave it: RocketMQ enters the key before it answers that pull."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            for number in range(50):
                assert (await peer.send("t", b"x", f"UNIQ_KEY\x01u{number}\x02KEYS\x01k{number}\x02")).code == 0
                for key in (f"u{number}", f"k{number}"):
                    query = {"topic": "t", "key": key, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60}
                    answer = await peer.ask(RequestCode.QUERY_MESSAGE, query)
                    assert answer.code == ResponseCode.SUCCESS, (key, answer.remark)

    run(test)
