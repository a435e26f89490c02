"""gRPC's port before clients that no library would be: nothing of theirs stays behind, and others do not hear of them."""

from __future__ import annotations

import asyncio
import gzip
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from rocketpy.proxy import schema
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
    WINDOW_UPDATE,
    Peer,
    block,
    call,
    frame,
    head_of,
    message,
    reset,
    settings,
)

MB = 1 << 20


class Port:
    """Whose methods are below: QueryRoute echoes the topic, and that of `wait` is never answered."""

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


def test_what_has_become_large_is_bounded_for_all_calls_together() -> None:
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

    before(test, memory=112 * MB)  # of which this may take 3 MB


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


GREETING = PREFACE + settings()
OPEN = frame(HEADERS, END_HEADERS, 1, head_of("QueryRoute"))
BOMB = b"\x40\x01x" + b"\x7f\x81\x1e" + b"y" * 4000  # goes into HPACK's table, where each byte of what follows names it


def window(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))


def of_one(data: bytes) -> bytes:
    return GREETING + OPEN + frame(DATA, END_STREAM, 1, data)


WILD: Mapping[str, bytes] = {
    "HTTP/1": b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
    "an upgrade": b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    "half a preface": PREFACE[:11],
    "half a handshake": b"\x16\x03\x01\x02\x00\x01",
    "half a balancer's word": b"PROXY TCP4 1.2.3.4",
    "bytes": bytes(range(256)) * 40,
    "a frame that is too long": GREETING + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    "many settings": GREETING + settings({1: 0}) * 5000,
    "pings": GREETING + frame(PING, 0, 0, b"12345678") * 5000,
    "priorities": GREETING + b"".join(frame(PRIORITY, 0, n, struct.pack(">IB", n - 2 if n > 2 else 0, 255)) for n in range(1, 20_001, 2)),
    "a window that never opens": PREFACE + settings({4: 0}) + call(1, "QueryRoute", b"") + reset(1),
    "a window that overflows": GREETING + OPEN + window(1, 0x7FFFFFFF) + window(0, 0x7FFFFFFF),
    "a window of no bytes": GREETING + OPEN + window(1, 0) + window(0, 0),
    "a window that cannot be": PREFACE + settings({4: 0x80000000}),
    "a table of another size": PREFACE + settings({1: 0xFFFFFFFF}) + settings({1: 0}) + call(1, "QueryRoute", b""),
    "a table larger than it may be": GREETING + frame(HEADERS, END_HEADERS, 1, b"\x3f\xe1\xff\x03" + head_of("QueryRoute")),
    "a head without an end": GREETING + frame(HEADERS, 0, 1, head_of("QueryRoute")) + frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y") * 2000,
    "a head that is large": GREETING + frame(HEADERS, END_HEADERS, 1, head_of("QueryRoute", {"large": b"x" * 15_000})),
    "a head that grows": GREETING + frame(HEADERS, END_HEADERS, 1, head_of("QueryRoute") + BOMB + b"\xbe" * 8000),
    "a head that breaks off": GREETING + frame(HEADERS, END_HEADERS, 1, head_of("QueryRoute")[:-3]),
    "a head of nothing": GREETING + frame(HEADERS, END_HEADERS | END_STREAM, 1),
    "a name in capitals": GREETING + frame(HEADERS, END_HEADERS, 1, head_of("QueryRoute", {"X-Large": "1"})),
    "no message": GREETING + frame(HEADERS, END_HEADERS | END_STREAM, 1, head_of("QueryRoute")),
    "half a message": of_one(message(bytes(100))[:50]),
    "half a message, and no more": GREETING + OPEN + frame(DATA, 0, 1, message(bytes(100))[:50]),
    "a message that would be large": of_one(b"\x00\xff\xff\xff\xff1"),
    "a flag that is none": of_one(message(b"", 2)),
    "a flag without a name": of_one(message(b"", 1)),
    "two messages": of_one(message(b"") * 2),
    "trailers": GREETING + OPEN + frame(DATA, 0, 1, message(b"")) + frame(HEADERS, END_HEADERS | END_STREAM, 1, block({"x": "y"})),
    "no protobuf": of_one(message(b"\x0a\xff")),
    "groups in groups": of_one(message(b"\x0b" * 200)),
    "gzip that is none": GREETING + call(1, "QueryRoute", b"gzip", {"grpc-encoding": "gzip"}, flag=1),
    "empty frames": GREETING + OPEN + frame(DATA, 0, 1) * 5000,
    "a stream twice": GREETING + call(3, "QueryRoute", query("a")) + call(1, "QueryRoute", b"") + call(3, "QueryRoute", b""),
    "a server's stream": GREETING + call(2, "QueryRoute", b""),
    "stream 0": GREETING + frame(DATA, 0, 0, b"x") + frame(HEADERS, END_HEADERS, 0, head_of("QueryRoute")),
    "an end of what was never begun": GREETING + reset(99),
    "a goodbye, and more": GREETING + frame(GOAWAY, 0, 0, bytes(8)) + call(1, "QueryRoute", b""),
    "more calls than there may be": GREETING
    + b"".join(frame(HEADERS, END_HEADERS, stream, head_of("QueryRoute")) for stream in range(1, 4001, 2)),
    "calls that break the rules": GREETING
    + b"".join(call(stream, "QueryRoute", query("wait")) + window(stream, 0x7FFFFFFF) for stream in range(1, 4801, 2)),
}


def test_whatever_one_says_others_are_answered_and_nothing_of_it_stays() -> None:
    async def test(port: Port) -> None:
        for name, said in WILD.items():
            print(name)  # shown with what fails
            peer = await port.dial(said)
            await port.serves()
            peer.close()
            await port.none_is_under_way()
            while port.port._server.stats()["connections_open"] or port.port._server.stats()["buffer_bytes"]:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.005)

    before(test)


def test_who_has_calls_reset_by_breaking_the_rules_is_sent_away() -> None:
    async def test(port: Port) -> None:
        peer = await port.dial(WILD["calls that break the rules"])
        said = []
        while (heard := await peer.hear()) is not None:
            said.append(heard)
        assert [payload[7] for kind, _, _, payload in said if kind == GOAWAY] == [11], "ENHANCE_YOUR_CALM"
        peer.close()

    before(test)
