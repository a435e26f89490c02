"""gRPC's port alone, before methods made here: asked by grpc's own client."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from rocketpy.proxy import schema
from rocketpy.proxy.grpc_port import Call, CallError, GrpcPort, Method, inflated
from rocketpy.proxy.settings import ProxySettings
from tests.processes import PATIENCE_S

SETTINGS = ProxySettings(namesrv_addr="127.0.0.1:1", grpc_server_port=0, local_serve_addr="127.0.0.1", tls_test_mode_enable=False)
KB = 1024


class Methods:
    """QueryRoute answers, or does what its topic says; ReceiveMessage sends bodies; Telemetry says each command twice."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.may_go_on = asyncio.Event()
        self.waiting: list[str] = []
        self.ended: list[str] = []
        self.sent = 0

    def all(self) -> list[Method]:
        return [
            Method("QueryRoute", self.query),
            Method("ReceiveMessage", self.receive, gives_stream=True),
            Method("Telemetry", self.telemetry, takes_stream=True, gives_stream=True),
        ]

    async def query(self, request: Any, call: Call) -> Any:
        self.calls.append(call)
        name = request.topic.name
        if name == "refuse":
            raise CallError(7, "not for you: ü%")
        if name == "fail":
            raise KeyError("what")
        if name.startswith("wait"):
            self.waiting.append(name)
            try:
                await self.may_go_on.wait()
            except asyncio.CancelledError:
                self.ended.append(name)
                raise
        return schema.message("QueryRouteResponse")(status={"message": name})

    async def receive(self, request: Any, call: Call) -> AsyncGenerator[Any, None]:
        try:
            for _ in range(request.batch_size):
                yield schema.message("ReceiveMessageResponse")(message={"body": bytes(64 * KB)})
                self.sent += 1
        finally:
            self.ended.append("receive")

    async def telemetry(self, requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
        async for each in requests:
            yield each
            yield each


def talking(test: Callable[[Any, Methods, GrpcPort], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        methods = Methods()
        port = GrpcPort(SETTINGS, methods.all())
        await port.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port.port}", **options) as channel:
                async with asyncio.timeout(PATIENCE_S):
                    await test(channel, methods, port)
        finally:
            await port.stop(0)

    asyncio.run(run())


def method(channel: Any, name: str, kind: str = "unary_unary") -> Any:
    make = getattr(channel, kind)
    return make(f"/{schema.SERVICE}/{name}", schema.request_of(name).SerializeToString, schema.response_of(name).FromString)


def query(topic: str) -> Any:
    return schema.request_of("QueryRoute")(topic={"name": topic})


async def until(claim: Callable[[], bool]) -> None:
    while not claim():  # noqa: ASYNC110 - what is waited for is another task's
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip], ids=["plain", "gzip"])
def test_a_call_is_answered_with_its_metadata_client_and_deadline(compression: grpc.Compression) -> None:
    async def test(channel: Any, methods: Methods, port: GrpcPort) -> None:
        topic = "x" * 100 * KB
        answer = await method(channel, "QueryRoute")(query(topic), metadata=[("a", "1"), ("a", "2")], timeout=50)
        assert answer.status.message == topic
        (call,) = methods.calls
        assert call.metadata["a"] == "2" and call.client[0] == "127.0.0.1" and call.client[1] > 0
        assert 0 < (call.remaining_s() or 0) <= 50 + 0.1, "the client writes its timeout in tenths of a second, rounded up"
        await method(channel, "QueryRoute")(query("y"))
        assert methods.calls[1].remaining_s() is None

    talking(test, compression=compression)


def test_what_a_method_raises_ends_its_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def test(channel: Any, methods: Methods, port: GrpcPort) -> None:
        for topic, code, text in (
            ("refuse", grpc.StatusCode.PERMISSION_DENIED, "not for you: ü%"),
            ("fail", grpc.StatusCode.INTERNAL, "KeyError: 'what'"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await method(channel, "QueryRoute")(query(topic))
            assert (raised.value.code(), raised.value.details()) == (code, text)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary(f"/{schema.SERVICE}/QueryRoute")(b"\xff\xff")
        assert raised.value.code() == grpc.StatusCode.INTERNAL
        assert (await method(channel, "QueryRoute")(query("y"))).status.message == "y"

    talking(test)
    assert "QueryRoute from 127.0.0.1:" in caplog.text


def test_a_stream_goes_both_ways_until_its_client_ends_it() -> None:
    async def test(channel: Any, methods: Methods, port: GrpcPort) -> None:
        stream = method(channel, "Telemetry", "stream_stream")()
        for number in range(100):
            await stream.write(schema.message("TelemetryCommand")(status={"message": f"{number}"}))
        await stream.done_writing()
        said = [each.status.message async for each in stream]
        assert said == [f"{number}" for number in range(100) for _ in range(2)]

    talking(test)


def test_a_client_that_cancels_or_leaves_ends_the_method() -> None:
    async def test(channel: Any, methods: Methods, port: GrpcPort) -> None:
        waiting = method(channel, "QueryRoute")(query("wait"))
        await until(lambda: methods.waiting == ["wait"])
        waiting.cancel()
        await until(lambda: methods.ended == ["wait"])
        timeout_s = 0.05
        while "wait not so long" not in methods.ended:  # a busy machine's client gives up before it has said anything
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await method(channel, "QueryRoute")(query("wait not so long"), timeout=timeout_s)
            assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            timeout_s *= 2
        leaving = asyncio.ensure_future(method(channel, "QueryRoute")(query("wait and leave")))
        await until(lambda: "wait and leave" in methods.waiting)
        await channel.close()
        await until(lambda: "wait and leave" in methods.ended)
        await asyncio.wait([leaving])

    talking(test)


def frame(kind: int, flags: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + (1 if kind != 4 else 0).to_bytes(4) + payload


def test_a_call_that_is_cancelled_as_it_begins_leaves_nothing_behind() -> None:
    path = f"/{schema.SERVICE}/QueryRoute".encode()
    head = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x0f\x10\x10application/grpc"  # POST, http, :path, content-type
    message = query("wait").SerializeToString()
    body = b"\0" + len(message).to_bytes(4) + message
    said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0) + frame(1, 4, head) + frame(0, 1, body) + frame(3, 0, (8).to_bytes(4))

    async def test(channel: Any, methods: Methods, port: GrpcPort) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
        writer.write(said)
        assert await reader.read(9)  # it has been taken, and its events are before those of what follows
        assert (await method(channel, "QueryRoute")(query("other"))).status.message == "other"
        await until(lambda: len(port) == 0)
        writer.close()

    talking(test)


def test_an_answer_that_its_client_does_not_read_waits() -> None:
    async def test(channel: Any, methods: Methods, port: GrpcPort) -> None:
        stream = method(channel, "ReceiveMessage", "unary_stream")(schema.request_of("ReceiveMessage")(batch_size=400))
        seen = 0
        await asyncio.sleep(0.1)
        assert methods.sent < 200  # of 400: what the client's library takes by itself, and a little
        async for each in stream:
            seen += len(each.message.body)
        assert seen == 400 * 64 * KB and methods.ended == ["receive"]

    talking(test)


def test_a_port_that_stops_lets_calls_end() -> None:
    async def test(channel: Any, methods: Methods, port: GrpcPort) -> None:
        waiting = method(channel, "QueryRoute")(query("wait"))
        await until(lambda: len(methods.calls) == 1)
        stopping = asyncio.ensure_future(port.stop(PATIENCE_S))
        await asyncio.sleep(0.05)
        assert not stopping.done()
        methods.may_go_on.set()
        assert (await waiting).status.message == "wait"
        await stopping

    talking(test)


def test_a_reactor_that_is_behind_is_told_nothing_by_a_port_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server is closed: what was to be said again raised an error in the event loop."""
    again: list[Callable[[], Any]] = []

    class Behind:
        times = 0

        def __call__(self) -> bool:
            self.times += 1
            return False

    async def run() -> None:
        port, say = GrpcPort(SETTINGS, Methods().all()), Behind()
        await port.start()
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", lambda _, told, *arguments: again.append(lambda: told(*arguments)))
        port._insist(say)
        again.pop()()
        assert say.times == 2
        monkeypatch.undo()
        await port.stop(0)
        again.pop()()
        assert say.times == 2

    asyncio.run(run())


def test_what_gzip_has_made_smaller_stays_within_its_bound() -> None:
    assert inflated(gzip.compress(bytes(KB)), KB) == bytes(KB)
    for data, code in (
        (gzip.compress(bytes(KB + 1)), 8),
        (gzip.compress(bytes(10 * KB * KB)), 8),
        (gzip.compress(b"x")[:-1], 13),
        (gzip.compress(b"x") + b"y", 13),
        (b"no gzip", 13),
    ):
        with pytest.raises(CallError) as raised:
            inflated(data, KB)
        assert raised.value.code == code
