"""gRPC at the port for 4.x clients: what begins as HTTP/2 goes on to gRPC's own port, in the clear and by TLS, and nothing else does."""

from __future__ import annotations

import asyncio
import socket
import ssl

import grpc
import grpc.aio
import pytest

from rocketpy.proxy.service import ProxyService
from rocketpy.remoting.codes import ResponseCode
from rocketpy.testing import LocalRocketMQ
from tests.processes import PATIENCE_S

from .test_relay import BROKER, client_of, cluster
from .test_service import Peer, code, consumer, message, running

__all__ = ["cluster"]


def test_both_protocols_come_to_one_port_in_the_clear_and_by_tls(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Both")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        address = f"127.0.0.1:{proxy.remoting_port}"
        certificate = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", proxy.remoting_port))
        credentials = grpc.ssl_channel_credentials(certificate.encode())
        options = [("grpc.ssl_target_name_override", "localhost")]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])  # who offers others alone is let in, too
        clear, sealed = grpc.aio.insecure_channel(address), grpc.aio.secure_channel(address, credentials, options)
        async with clear, sealed:
            large = [Peer(each).ask("SendMessage", messages=[message(topic, b"x" * 3_500_000)]) for each in (clear, sealed, clear, sealed)]
            assert [code(answer) for answer in await asyncio.gather(*large)] == ["OK"] * 4, "at once, so that one waits for the other"
            for channel, tls in ((clear, None), (sealed, context)):
                asked = Peer(channel)
                assert code(await asked.ask("SendMessage", messages=[message(topic)])) == "OK"
                async with client_of(address, tls=tls) as client:
                    assert (await client.send(topic, b"x", n=BROKER)).code == ResponseCode.SUCCESS
                async with asked.telemetry(**consumer(topic, "readers")):
                    assert proxy._clients.known("c1").address.startswith("127.0.0.1:")

    running(cluster, test, remoting_listen_port=0, tls_test_mode_enable=True)


def test_much_goes_both_ways_and_who_does_not_read_is_not_read(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Wide")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.remoting_port}") as channel:
            asked = Peer(channel)
            async with asked.telemetry(**consumer(topic, "wide")):
                await asked.receive(topic, "wide", invisible_duration={"seconds": 30})
                sends = [asked.ask("SendMessage", messages=[message(topic, bytes([number]) * 1_000_000)]) for number in range(12)]
                assert [code(answer) for answer in await asyncio.gather(*sends)] == ["OK"] * 12
                found: set[int] = set()
                while len(found) < 12:
                    _, messages = await asked.receive(topic, "wide", invisible_duration={"seconds": 30})
                    found |= {each.body[0] for each in messages}

    polls = {f"grpc_client_consumer_{bound}_long_polling_timeout_millis": 100 for bound in ("min", "max")}
    running(cluster, test, remoting_listen_port=0, **polls)


def test_a_proxy_that_stops_ends_streams_there_as_at_its_own_port(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Last")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{proxy.remoting_port}")
        async with channel, Peer(channel).telemetry(**consumer(topic, "last")) as stream:
            stopping = asyncio.ensure_future(proxy.stop())
            assert await stream.read() is grpc.aio.EOF and await stream.code() == grpc.StatusCode.OK
            await stopping

    running(cluster, test, remoting_listen_port=0)


@pytest.mark.parametrize("is_on", [True, False])
def test_what_begins_otherwise_is_no_http(cluster: LocalRocketMQ, is_on: bool) -> None:
    async def test(peer: Peer, proxy: ProxyService) -> None:
        def said(*parts: bytes, is_all: bool = True) -> bytes:
            """What is answered; is_all: nothing follows."""
            with socket.create_connection(("127.0.0.1", proxy.remoting_port), PATIENCE_S) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for part in parts:
                    client.sendall(part)
                if is_all:
                    client.shutdown(socket.SHUT_WR)
                try:
                    return client.recv(100)
                except ConnectionError:
                    return b""

        assert await asyncio.to_thread(said, b"PRIX") == b""
        assert await asyncio.to_thread(said, b"P") == await asyncio.to_thread(said, b"GET / HTTP/1.1\r\n\r\n") == b""
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
        assert bool(await asyncio.to_thread(said, preface[:1], preface[1:], is_all=False)) == is_on

    running(cluster, test, remoting_listen_port=0, enable_remoting_local_proxy_grpc=is_on)
