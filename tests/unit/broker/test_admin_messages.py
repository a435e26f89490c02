"""Requests about messages that take long."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rocketpy._core.results import KeyQuery
from rocketpy.broker.admin_messages import QUERIES_MAX
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S
from tests.unit.broker.running import eventually, run, running


class SlowStore:
    """The index on a disk that takes its time."""

    def __init__(self) -> None:
        self.under_way = 0
        self.may_end = threading.Event()

    def query(self, *asked: Any) -> KeyQuery:
        self.under_way += 1
        assert self.may_end.wait(PATIENCE_S)
        return KeyQuery([], 0, 0)


def test_queries_by_key_keep_neither_other_requests_nor_every_thread(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer, store = at.peer(), SlowStore()
            queries = at.broker._services[0]._handlers[RequestCode.QUERY_MESSAGE].__self__  # type: ignore[union-attr]
            queries._parts = SimpleNamespace(settings=queries._parts.settings, store=store)
            fields = {"topic": "t", "key": "k", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1}
            asked = [asyncio.create_task(peer.ask(RequestCode.QUERY_MESSAGE, fields)) for _ in range(QUERIES_MAX + 1)]
            try:
                await eventually(lambda: store.under_way == QUERIES_MAX, "the queries")
                assert (await peer.heartbeat("c", "g", "t")).code == 0
                assert store.under_way == QUERIES_MAX
            finally:
                store.may_end.set()
            assert [answer.code for answer in await asyncio.gather(*asked)] == [ResponseCode.QUERY_NOT_FOUND] * len(asked)

    run(test)
