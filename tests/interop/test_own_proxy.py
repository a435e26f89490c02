"""rocketpy's proxy as a process, and strangers: what they send takes nothing from others, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from rocketpy._core.remoting import encode_command
from rocketpy.proxy.grpc_port import REACTORS
from tests.processes import PATIENCE_S, Process, wait_until
from tests.unit.proxy.test_relay import client_of
from tests.unit.proxy.test_service import HEADERS, Peer, code, consumer, message

from . import wire
from .products import Cluster
from .proxies import OwnProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEND_MESSAGE_V2, PULL_MESSAGE, HEART_BEAT, GET_ROUTEINFO_BY_TOPIC = 310, 11, 34, 105
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS_FRAME, RST_STREAM, PING, CONTINUATION = 4, 1, 3, 6, 9
MB = 1 << 20


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


OPENING = PREFACE + frame(SETTINGS, 0, 0)
GARBAGE = {
    "random": os.urandom(100_000),
    "random behind the opening": OPENING + os.urandom(100_000),
    "half an opening": PREFACE[:7],
    "HTTP/1.1": b"POST / HTTP/1.1\r\nHost: h\r\n\r\n" * 50,
    "TLS": b"\x16\x03\x01\x02\x00\x01" + os.urandom(511),
    "a header of 2 GB": OPENING + frame(HEADERS_FRAME, 4, 1, b"\x40\x01a\x7f\xff\xff\xff\xff\x07"),
    "headers without an end": OPENING + frame(HEADERS_FRAME, 0, 1, b"\x82") + frame(CONTINUATION, 0, 1, bytes(100)) * 3000,
    "streams opened and reset": OPENING
    + b"".join(frame(HEADERS_FRAME, 5, at, b"\x83\x86\x84") + frame(RST_STREAM, 0, at, b"\0\0\0\x08") for at in range(1, 20_001, 2)),
    "pings": OPENING + frame(PING, 0, 0, b"12345678") * 20_000,
}


FRAMES = {
    "random": os.urandom(100_000),
    "a frame of 2 GB": b"\x7f\xff\xff\xff" + bytes(100_000),
    "a header without an end": b"\0\0\1\0\0\0\0\xf0" + b'{"code":' * 40,
    "requests of every code": b"".join(encode_command(number, {"bname": "x", "topic": "t"}) for number in range(500)),
    "heartbeats of many topics": b"".join(
        encode_command(
            HEART_BEAT,
            None,
            json.dumps(
                {
                    "clientID": "c",
                    "consumerDataSet": [{"groupName": f"g{at}", "subscriptionDataSet": [{"topic": f"t{at}-{of}"} for of in range(500)]}],
                }
            ).encode(),
        )
        for at in range(50)
    ),
    "routes of a thousand topics": b"".join(encode_command(GET_ROUTEINFO_BY_TOPIC, {"topic": f"nowhere-{at}"}) for at in range(1000)),
    "HTTP/1.1": GARBAGE["HTTP/1.1"],
    "TLS": GARBAGE["TLS"],
}


def pull_fields(topic: str, broker: str, offset: int) -> dict[str, Any]:
    return {
        "consumerGroup": "g", "topic": topic, "bname": broker, "queueId": 0, "queueOffset": offset, "maxMsgNums": 1, "sysFlag": 6,
        "commitOffset": 0, "suspendTimeoutMillis": 60_000, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip


@pytest.fixture(scope="module")
def proxy(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnProxy]:
    proxy = OwnProxy(tmp_path_factory.mktemp("proxy"), cluster.address)
    proxy.start()
    yield proxy
    proxy.kill()


def talking(proxy: OwnProxy, test: Callable[[Peer], Awaitable[None]]) -> None:
    """The proxy is there afterwards."""

    async def run() -> None:
        async with grpc.aio.insecure_channel(proxy.address, [("grpc.max_send_message_length", -1)]) as channel:
            await test(Peer(channel))

    asyncio.run(run())
    assert proxy.process.is_running()


def send_garbage(stranger: socket.socket, garbage: bytes) -> None:
    """All of it, or up to where the proxy closes the connection."""
    stranger.settimeout(PATIENCE_S)
    with contextlib.suppress(OSError):
        stranger.sendall(garbage)


def open_files(process: Process) -> int:
    return sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir())


def test_a_message_with_an_impossible_time_comes_and_takes_no_other_with_it(
    proxy: OwnProxy, cluster: Cluster, topic: str, group: str
) -> None:
    """Brokers store what a 4.x client says of its birth; gRPC knows the years 1 to 9999."""
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}

    async def test(peer: Peer) -> None:
        async with peer.telemetry(**consumer(topic, group)):
            await peer.receive(topic, group, invisible_duration={"seconds": 60})  # so that the group begins before them
            for born in (2**63 - 1, -(2**63), 1):
                sent = await asyncio.to_thread(
                    wire.call, cluster.brokers[0].address, SEND_MESSAGE_V2, {**fields, "g": f"{born}"}, str(born).encode()
                )
                assert sent.code == 0
            got: list[tuple[bytes, int]] = []
            while len(got) < 3:
                _, messages = await peer.receive(topic, group, invisible_duration={"seconds": 60})
                got += [(each.body, each.system_properties.delivery_attempt) for each in messages]
            assert sorted(got) == sorted((str(born).encode(), 1) for born in (2**63 - 1, -(2**63), 1))

    talking(proxy, test)


@pytest.mark.parametrize("size", [10 * MB, 129 * MB])
def test_a_body_that_is_too_large_is_refused_and_others_are_answered(proxy: OwnProxy, topic: str, size: int) -> None:
    async def test(peer: Peer) -> None:
        large = asyncio.ensure_future(peer.ask("SendMessage", messages=[message(topic, bytes(size))]))
        assert code(await peer.ask("SendMessage", messages=[message(topic)])) == "OK"
        assert code(await large) == "MESSAGE_BODY_TOO_LARGE"

    talking(proxy, test)


def test_more_than_a_message_may_have_ends_the_call_alone(proxy: OwnProxy, topic: str) -> None:
    async def test(peer: Peer) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await peer.ask("SendMessage", messages=[message(topic, bytes(131 * MB))])
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert code(await peer.ask("QueryRoute", topic={"name": topic})) == "OK"

    talking(proxy, test)


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_no_concern_of_others(proxy: OwnProxy, topic: str, garbage: bytes) -> None:
    before = open_files(proxy.process)
    with socket.create_connection(("127.0.0.1", proxy.port)) as stranger:
        send_garbage(stranger, garbage)

        async def test(peer: Peer) -> None:
            assert code(await peer.ask("QueryRoute", topic={"name": topic})) == "OK"

        talking(proxy, test)
    wait_until(lambda: open_files(proxy.process) <= before, what="its connection is closed")


@pytest.mark.parametrize("is_remoting", [False, True], ids=["grpc", "4.x"])
def test_a_thousand_connections_leave_nothing_behind(proxy: OwnProxy, topic: str, is_remoting: bool) -> None:
    async def test(peer: Peer) -> None:
        assert code(await peer.ask("SendMessage", messages=[message(topic)])) == "OK"

    for _ in range(3):
        talking(proxy, test)  # its connections to the broker stay: Python's, and one of each reactor that has sent to it
    before = open_files(proxy.process) + REACTORS - 1
    port, opening = (proxy.remoting_port, encode_command(SEND_MESSAGE_V2, {"n": "x"})) if is_remoting else (proxy.port, OPENING)
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(1000)]
    for each in strangers:
        each.sendall(opening)

    talking(proxy, test)
    for each in strangers:
        each.close()
    wait_until(lambda: open_files(proxy.process) <= before, what="their connections are closed")


@pytest.mark.parametrize("garbage", FRAMES.values(), ids=FRAMES)
def test_garbage_at_the_other_port_is_no_concern_of_others(proxy: OwnProxy, topic: str, garbage: bytes) -> None:
    before = open_files(proxy.process)
    with socket.create_connection(("127.0.0.1", proxy.remoting_port)) as stranger:
        send_garbage(stranger, garbage)
        reply = wire.call(proxy.remoting, GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        assert reply.code == 0 and proxy.process.is_running()
    wait_until(lambda: open_files(proxy.process) <= before, what="its connection is closed")


def test_4x_clients_go_on_when_their_brokers_come_back(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = new_cluster()
    cluster.create_topic("orders")
    broker, proxy = cluster.broker, OwnProxy(tmp_path / "proxy", cluster.address)
    proxy.start()

    async def run() -> None:
        async with client_of(proxy.remoting) as client:
            assert (await client.send("orders", b"x", n=broker.name)).code == 0
            waiting = asyncio.ensure_future(client.ask(PULL_MESSAGE, **pull_fields("orders", broker.name, offset=99)))
            await asyncio.to_thread(broker.kill)
            assert (await waiting).code == 1, "what waited for the broker is answered"
            assert (await client.send("orders", b"x", n=broker.name)).code == 1
            await asyncio.to_thread(broker.start, cluster.namesrv)
            async with asyncio.timeout(PATIENCE_S):
                while (await client.send("orders", b"x", n=broker.name)).code != 0:  # noqa: ASYNC110 - the broker takes its time
                    await asyncio.sleep(0.1)

    try:
        asyncio.run(run())
    finally:
        proxy.kill()


@pytest.mark.parametrize(
    "handle", ["1 99999999999999 1 1 0 {} 1 1".format("b" * MB), "9" * MB, " " * MB, "1 99999999999999 1 1 0 b 77 1\n"]
)
def test_a_handle_that_is_none_is_not_looked_for(proxy: OwnProxy, topic: str, group: str, handle: str) -> None:
    async def test(peer: Peer) -> None:
        of = {"topic": {"name": topic}, "group": {"name": group}}
        acked = await peer.ask("AckMessage", **of, entries=[{"receipt_handle": handle}] * 3)
        assert code(acked) == "INVALID_RECEIPT_HANDLE" and len(acked.entries[0].status.message) < 1000
        many = await peer.ask("AckMessage", **of, entries=[{}] * 100_000)
        assert code(many) == "BAD_REQUEST"

    talking(proxy, test)


def test_settings_that_are_too_large_are_not_kept(proxy: OwnProxy, topic: str, group: str) -> None:
    settings = consumer(topic, group)
    settings["subscription"]["subscriptions"][0]["expression"]["expression"] = "x" * MB

    async def test(peer: Peer) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            async with peer.telemetry(headers=(("x-mq-client-id", "large"), *HEADERS[1:]), **settings):
                pass
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    talking(proxy, test)
