"""Requests whose bytes would become many times as much memory, or whose answers would: they are refused before anybody reads them whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest

from rocketpy.proxy import schema
from rocketpy.proxy.clients import SETTINGS_PARTS_MAX, Clients
from rocketpy.proxy.context import Context, now_ms
from rocketpy.proxy.grpc_port import REQUEST_MAX
from rocketpy.proxy.routing import REQUEST_BYTES_MAX
from rocketpy.proxy.sending import MESSAGES_MAX
from rocketpy.proxy.sending import REQUEST_BYTES_MAX as SENT_BYTES_MAX
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.proxy.telemetry import Telemetry
from rocketpy.testing import LocalRocketMQ
from tests.processes import PATIENCE_S

from .test_service import HEADERS, Peer, code, running

EMPTY_MESSAGE, EMPTY_ENTRY = b"\x0a\x00", b"\x1a\x00"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalRocketMQ]:
    with LocalRocketMQ() as rocketmq:
        yield rocketmq


async def ask(proxy: ProxyService, name: str, request: bytes) -> Any:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}", [("grpc.max_send_message_length", -1)]) as channel:
        method = channel.unary_unary(f"/{schema.SERVICE}/{name}", None, schema.response_of(name).FromString)
        return await method(request, metadata=HEADERS, timeout=PATIENCE_S)


def test_more_than_a_broker_takes_is_not_read(cluster: LocalRocketMQ) -> None:
    async def test(peer: Peer, proxy: ProxyService) -> None:
        assert code(await ask(proxy, "SendMessage", EMPTY_MESSAGE * (SENT_BYTES_MAX // 2 + 1))) == "MESSAGE_BODY_TOO_LARGE"
        assert code(await ask(proxy, "SendMessage", EMPTY_MESSAGE * (MESSAGES_MAX + 1))) == "BAD_REQUEST"
        assert code(await ask(proxy, "SendMessage", EMPTY_MESSAGE * MESSAGES_MAX)) == "ILLEGAL_TOPIC"
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await ask(proxy, "AckMessage", EMPTY_ENTRY * (REQUEST_MAX // 2 + 1))
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    running(cluster, test)


def test_an_answer_that_repeats_its_request_for_each_queue_is_bounded(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Wide")
    endpoints = {"scheme": 1, "addresses": [{"host": "h" * 100, "port": 1}] * (REQUEST_BYTES_MAX // 100)}

    async def test(peer: Peer, proxy: ProxyService) -> None:
        assert code(await peer.ask("QueryRoute", topic={"name": topic}, endpoints=endpoints)) == "BAD_REQUEST"
        spaced = {"name": topic, "resource_namespace": "n" * REQUEST_BYTES_MAX}
        assert code(await peer.ask("QueryRoute", topic=spaced)) == "BAD_REQUEST"
        assigned = await peer.ask("QueryAssignment", topic={"name": topic}, group={"name": "g"}, endpoints=endpoints)
        assert code(assigned) == "BAD_REQUEST"

    running(cluster, test)


class Asked:
    """In the place of Brokers: counts what it is asked."""

    def __init__(self) -> None:
        self.count = 0

    async def route(self, topic: str) -> None:
        self.count += 1


@pytest.mark.parametrize("side", ["subscription", "publishing"])
def test_nothing_is_looked_up_for_settings_that_are_not_kept(side: str) -> None:
    command = schema.message("TelemetryCommand")(settings={"subscription": {"group": {"name": "g"}}})
    for _ in range(SETTINGS_PARTS_MAX + 1):
        if side == "subscription":
            command.settings.subscription.subscriptions.add(topic={"name": "t"})
        else:
            command.settings.publishing.topics.add(name="no topic")
    brokers = Asked()

    async def requests() -> AsyncIterator[Any]:
        yield command

    async def run() -> None:
        telemetry = Telemetry(ProxySettings(), brokers, Clients(now_ms, 1), None, None)  # type: ignore[arg-type]
        context = Context("c", "JAVA", "5.0.4", "h", lambda: 18_000)
        with pytest.raises(ProxyError, match="settings of more than"):
            async for _ in telemetry.telemetry(context, requests()):
                pass

    asyncio.run(run())
    assert brokers.count == 0
