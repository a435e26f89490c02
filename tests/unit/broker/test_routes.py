"""Routes of topics asked from name servers: kept, refreshed, and never kept as unknown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.broker.rebalance_locks import MessageQueue
from rocketpy.broker.routes import REFRESH_MS, TopicRoutes
from rocketpy.remoting.codes import ResponseCode

ROUTE = json.dumps({"queueDatas": [{"brokerName": "broker-a", "readQueueNums": 2, "perm": 6}]}).encode()
QUEUES = [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)]


class NameServer:
    """Answers with what it is told to, or not at all."""

    def __init__(self) -> None:
        self.code: int | None = ResponseCode.SUCCESS
        self.asked = 0

    async def invoke(self, address: str, code: int, fields: Any = None, body: bytes = b"", *, timeout_s: float = 0) -> Command:
        self.asked += 1
        if self.code is None:
            raise NetworkError(f"connect to {address} failed")
        return decode_command(encode_command(self.code, body=ROUTE, flag=1))


def routes_of(name_server: NameServer, now_ms: Callable[[], int] = lambda: 0) -> TopicRoutes:
    return TopicRoutes(name_server, lambda: ["127.0.0.1:9876"], lambda topic: None, now_ms)


async def others_run() -> None:
    """The task that asks begins, ends and is taken note of."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("code", [None, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR])
def test_a_topic_that_was_not_found_is_asked_for_again_at_once(code: int | None) -> None:
    async def scenario() -> None:
        name_server = NameServer()
        routes = routes_of(name_server)
        name_server.code = code
        assert await routes.queues("T") is None
        name_server.code = ResponseCode.SUCCESS
        assert await routes.queues("T") == QUEUES
        assert await routes.queues("T") == QUEUES and name_server.asked == 2

    asyncio.run(scenario())


def test_an_old_route_serves_while_it_is_asked_for_and_while_nobody_answers() -> None:
    async def scenario() -> None:
        name_server, now_ms = NameServer(), 0
        routes = routes_of(name_server, lambda: now_ms)
        assert await routes.queues("T") == QUEUES
        name_server.code = None
        for round_number in range(1, 3):
            now_ms += REFRESH_MS + 1
            assert await routes.queues("T") == QUEUES
            await others_run()
            assert name_server.asked == 1 + round_number
        name_server.code = ResponseCode.TOPIC_NOT_EXIST  # deleted
        now_ms += REFRESH_MS + 1
        assert await routes.queues("T") == QUEUES
        await others_run()
        assert await routes.queues("T") is None
        await routes.stop()

    asyncio.run(scenario())
