"""gRPC's port before clients that no library would be: nothing of theirs stays behind, and others do not hear of them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from rocketpy.proxy import grpc_port, schema
from rocketpy.proxy.grpc_port import Call, GrpcPort, Method
from rocketpy.proxy.settings import ProxySettings
from tests.processes import PATIENCE_S
from tests.unit.proxy.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    call,
    frame,
    head_of,
    message,
    reset,
    settings,
)

MB = 1 << 20


class Port:
    """Echoes the topic of QueryRoute; `wait` waits until it is cancelled or may go on."""

    def __init__(self, port: GrpcPort) -> None:
        self.port = port

    @property
    def under_way(self) -> int:
        return sum(len(each.calls) for each in self.port._connections.values())

    async def none_is_under_way(self) -> None:
        while self.under_way or self.port._tasks:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)

    async def dial(self, first: bytes = PREFACE + settings()) -> Peer:
        return await Peer.dial(self.port.port, first)

    async def serves(self, peer: Peer | None = None, stream: int = 1) -> None:
        """Others are answered, or the peer itself still is."""
        asker = peer or await self.dial()
        asker.say(call(stream, "QueryRoute", query("others")))
        assert b"others" in await asker.ends(stream)
        if peer is None:
            asker.close()


def query(topic: str) -> bytes:
    return bytes(schema.request_of("QueryRoute")(topic={"name": topic}).SerializeToString())


async def answer(request: Any, given: Call) -> Any:
    if request.topic.name == "wait":
        await asyncio.Event().wait()
    return schema.message("QueryRouteResponse")(status={"message": request.topic.name})


async def answers(request: Any, given: Call) -> AsyncGenerator[Any, None]:
    yield schema.message("ReceiveMessageResponse")(message={"body": bytes(300_000)})


def before(test: Callable[[Port], Awaitable[None]], **given: Any) -> None:
    async def run() -> None:
        ports = {"grpc_server_port": 0, "local_serve_addr": "127.0.0.1", "tls_test_mode_enable": False}
        port = GrpcPort(
            ProxySettings(namesrv_addr="127.0.0.1:1", **{**ports, **given}),
            [Method("QueryRoute", answer), Method("ReceiveMessage", answers, gives_stream=True)],
        )
        await port.start()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await test(Port(port))
        finally:
            await port.stop(0)

    asyncio.run(run())


def test_of_calls_that_are_cancelled_before_anybody_looks_nothing_stays() -> None:
    async def test(port: Port) -> None:
        peer = await port.dial()
        streams = range(1, 401, 2)
        peer.say(b"".join(call(stream, "QueryRoute", query("wait")) + reset(stream) for stream in streams))
        await port.serves(peer, 401)
        await port.none_is_under_way()
        peer.close()

    before(test)


def test_what_has_become_large_is_bounded_for_all_calls_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_port, "INFLATED_MAX", 3 * MB)
    large = gzip.compress(query("wait") + b"\x7a\x80\x80\x40" + bytes(MB))  # an unknown field

    async def test(port: Port) -> None:
        peer = await port.dial()
        for stream in (1, 3, 5):
            peer.say(call(stream, "QueryRoute", large, {"grpc-encoding": "gzip"}, flag=1))
        assert b"grpc-status: 8" in await peer.ends(5), "RESOURCE_EXHAUSTED"
        peer.say(reset(1) + reset(3))
        await port.none_is_under_way()
        peer.say(call(7, "QueryRoute", gzip.compress(query("x")), {"grpc-encoding": "gzip"}, flag=1))
        assert b"x" in await peer.ends(7) and port.port._inflated_bytes == 0
        peer.close()

    before(test)


def test_metadata_of_any_bytes_is_read() -> None:
    async def test(port: Port) -> None:
        peer = await port.dial()
        peer.say(call(1, "QueryRoute", query("a"), {"x-mq-client-id": b"\xff\x80", "authorization": b"\xc3"}))
        assert b"a" in await peer.ends(1)
        peer.say(call(3, "QueryRoute", query("b"), {"grpc-timeout": "99999999H"}))
        assert b"b" in await peer.ends(3)
        peer.say(call(5, "QueryRoute", query("wait"), {"grpc-timeout": "0n"}))
        assert b"grpc-status: 4" in await peer.ends(5), "DEADLINE_EXCEEDED"
        await port.none_is_under_way()
        peer.close()

    before(test)
