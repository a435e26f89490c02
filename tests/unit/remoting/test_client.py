"""The asyncio client against a scripted server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rocketpy._core.errors import Busy, Closed, NetworkError, ProtocolError, TimedOut, TooLarge
from rocketpy._core.remoting import Command, decode_command, encode_command, scan_frame
from rocketpy.remoting.client import RemotingClient, split_address
from rocketpy.remoting.codes import FLAG_RESPONSE, RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError
from rocketpy.remoting.headers import GetKVConfigRequestHeader
from tests.processes import PATIENCE_S

Answer = Callable[[Command, asyncio.StreamWriter], Awaitable[None]]


async def reply(request: Command, writer: asyncio.StreamWriter, code: int = 0, body: bytes = b"", remark: str | None = None) -> None:
    writer.write(encode_command(code, {}, body, opaque=request.opaque, flag=FLAG_RESPONSE, remark=remark))
    await writer.drain()


class ScriptedServer:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.connections = 0
        self.requests: list[Command] = []
        self.arrived = asyncio.Event()
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readexactly(4)
                frame = head + await reader.readexactly(int.from_bytes(head, "big"))
                assert scan_frame(frame) == len(frame)
                request = decode_command(frame)
                self.requests.append(request)
                self.arrived.set()
                await self.answer(request, writer)
        writer.close()


@contextlib.asynccontextmanager
async def scripted(answer: Answer) -> AsyncIterator[ScriptedServer]:
    script = ScriptedServer(answer)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()


async def echo(request: Command, writer: asyncio.StreamWriter) -> None:
    await reply(request, writer, body=request.body)


async def silence(request: Command, writer: asyncio.StreamWriter) -> None:
    pass


async def hang_up(request: Command, writer: asyncio.StreamWriter) -> None:
    writer.close()


def test_a_request_that_no_server_would_read_is_not_sent_and_ends_no_other() -> None:
    async def scenario() -> None:
        async with scripted(echo) as server, RemotingClient(frame_size_max=4096) as client:
            await client.invoke(server.address, 105, body=b"x" * 3900)
            with pytest.raises(TooLarge, match=r"of \d+ bytes: a frame may have 4096"):
                await client.invoke(server.address, 105, body=b"x" * 4096)
            with pytest.raises(TooLarge):
                await client.invoke_oneway(server.address, 105, body=b"x" * 4096)
            await client.invoke(server.address, 105)
            assert server.connections == 1 and [len(each.body) for each in server.requests] == [3900, 0]

    asyncio.run(scenario())


def test_calls_share_one_connection_and_find_their_own_answers() -> None:
    async def scenario() -> None:
        async with scripted(echo) as server, RemotingClient() as client:
            bodies = [b"%d" % i for i in range(100)]
            responses = await asyncio.gather(*(client.invoke(server.address, 105, body=body) for body in bodies))
            assert [response.body for response in responses] == bodies
            assert server.connections == 1

    asyncio.run(scenario())


def test_a_typed_header_travels_as_fields() -> None:
    async def scenario() -> None:
        async with scripted(echo) as server, RemotingClient() as client:
            await client.call(server.address, RequestCode.GET_KV_CONFIG, GetKVConfigRequestHeader(namespace="n", key="k"))
            assert server.requests[0].fields == {"namespace": "n", "key": "k"}

    asyncio.run(scenario())


def test_an_answer_other_than_success_is_an_error_of_call_only() -> None:
    async def refuse(request: Command, writer: asyncio.StreamWriter) -> None:
        await reply(request, writer, ResponseCode.QUERY_NOT_FOUND, remark="No config item")

    async def scenario() -> None:
        async with scripted(refuse) as server, RemotingClient() as client:
            assert (await client.invoke(server.address, 101)).code == ResponseCode.QUERY_NOT_FOUND
            with pytest.raises(CommandError) as caught:
                await client.call(server.address, 101)
            assert str(caught.value) == f"CODE: 22  DESC: No config item BROKER: {server.address}"

    asyncio.run(scenario())


def test_a_silent_server_times_out_and_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        async with scripted(silence) as server, RemotingClient() as client:
            await client._connection_to(server.address)  # a busy machine may take longer for that than the call may last
            with pytest.raises(TimedOut, match=r"wait response on the channel <127\.0\.0\.1:\d+>, timeout: 50\(ms\)"):
                await client.invoke(server.address, 105, timeout_s=0.05)
            assert client._connections[server.address].waiting == {}

    asyncio.run(scenario())


def test_a_lost_connection_fails_the_calls_in_flight_and_the_next_call_reconnects() -> None:
    async def scenario() -> None:
        async with scripted(hang_up) as server, RemotingClient() as client:
            with pytest.raises(NetworkError, match="was lost before the response"):
                await client.invoke(server.address, 105)
            server.answer = echo
            assert (await client.invoke(server.address, 105, body=b"again")).body == b"again"
            assert server.connections == 2

    asyncio.run(scenario())


def test_a_call_that_could_not_be_written_before_its_connection_was_lost_leaves_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with scripted(hang_up) as server, RemotingClient() as client:
            connection = await client._connection_to(server.address)
            connection.pause_writing()  # the socket is full
            call = asyncio.create_task(client.invoke(server.address, 105))
            await asyncio.sleep(0)
            assert connection.waiting and connection._transport is not None
            connection._transport.abort()
            with pytest.raises(NetworkError, match="was lost"):
                await call

    asyncio.run(scenario())
    gc.collect()
    assert caplog.messages == []  # asyncio: "Future exception was never retrieved"


def test_connections_that_ended_are_not_kept_for_addresses_that_never_come_again() -> None:
    async def scenario() -> None:
        async with RemotingClient() as client:
            for _ in range(5):
                async with scripted(hang_up) as server:
                    with pytest.raises(NetworkError):
                        await client.invoke(server.address, 105)
            async with scripted(echo) as first, scripted(echo) as second:
                for server in (first, second):
                    assert (await client.invoke(server.address, 105)).code == 0
                assert set(client._connections) == {first.address, second.address}

    asyncio.run(scenario())


def test_go_away_is_followed_by_one_retry_on_a_new_connection() -> None:
    async def scenario() -> None:
        async def go_away_once(request: Command, writer: asyncio.StreamWriter) -> None:
            await reply(request, writer, ResponseCode.GO_AWAY if len(server.requests) == 1 else 0)

        async with scripted(go_away_once) as server, RemotingClient() as client:
            assert (await client.invoke(server.address, 105)).code == 0
            assert server.connections == 2

    asyncio.run(scenario())


def test_go_away_costs_the_other_calls_of_its_connection_nothing() -> None:
    """Three in flight: two are sent away, one after the other; the third is answered where it was asked, behind them."""

    async def scenario() -> None:
        first: list[tuple[Command, asyncio.StreamWriter]] = []

        async def answer(request: Command, writer: asyncio.StreamWriter) -> None:
            if first and first[0][1] is not writer:
                await reply(request, writer, 0)
                return
            first.append((request, writer))
            if len(first) == 3:
                for (asked, where), code in zip(first, (ResponseCode.GO_AWAY, ResponseCode.GO_AWAY, 0), strict=True):
                    await reply(asked, where, code)

        async with scripted(answer) as server, RemotingClient() as client:
            answers = await asyncio.gather(*(client.invoke(server.address, code) for code in (101, 102, 103)))
            assert [each.code for each in answers] == [0, 0, 0]
            assert server.connections == 2 and [each.code for each in server.requests] == [101, 102, 103, 101, 102]
            assert not any(each.is_open for each in client._retired) and client.is_connected(server.address)

    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_no_host_can_have_does_not_keep_the_others_from_answering(host: str) -> None:
    async def scenario() -> None:
        async with RemotingClient() as client, scripted(echo) as server:
            results = await client.invoke_all([f"{host}:9876", server.address], 1, {}, b"hello")
            unknown, answer = results[f"{host}:9876"], results[server.address]
            assert isinstance(unknown, NetworkError) and f"connect to {host}:9876 failed: " in str(unknown)
            assert isinstance(answer, Command) and answer.body == b"hello"

    asyncio.run(scenario())


def test_a_refused_connection_names_the_address() -> None:
    async def scenario() -> None:
        async with scripted(echo) as server:
            address = server.address
        async with RemotingClient() as client:
            with pytest.raises(NetworkError, match=f"connect to {address} failed"):
                await client.invoke(address, 105)

    asyncio.run(scenario())


def test_oneway_requests_carry_the_flag_and_await_nothing() -> None:
    async def scenario() -> None:
        async with scripted(silence) as server, RemotingClient() as client:
            await client.invoke_oneway(server.address, 905, {"minBrokerId": "0"})
            await asyncio.wait_for(server.arrived.wait(), PATIENCE_S)
            assert server.requests[0].is_oneway

    asyncio.run(scenario())


def test_a_parallel_call_tells_per_address_what_happened() -> None:
    async def scenario() -> None:
        async with scripted(echo) as good, scripted(hang_up) as rude, RemotingClient() as client:
            results = await client.invoke_all([good.address, rude.address, good.address], 105, body=b"x", timeout_s=PATIENCE_S)
            assert set(results) == {good.address, rude.address}
            assert isinstance(results[good.address], Command)
            assert isinstance(results[rude.address], NetworkError)

    asyncio.run(scenario())


def test_the_bound_of_calls_in_flight_is_kept() -> None:
    async def scenario() -> None:
        async with scripted(silence) as server, RemotingClient(in_flight_max=1) as client:
            first = asyncio.create_task(client.invoke(server.address, 105, timeout_s=PATIENCE_S))
            await asyncio.wait_for(server.arrived.wait(), PATIENCE_S)
            with pytest.raises(Busy):
                await client.invoke(server.address, 105)
            first.cancel()

    asyncio.run(scenario())


def test_a_stopped_client_refuses_and_fails_what_was_in_flight() -> None:
    async def scenario() -> None:
        async with scripted(silence) as server:
            client = RemotingClient()
            call = asyncio.create_task(client.invoke(server.address, 105, timeout_s=PATIENCE_S))
            await asyncio.wait_for(server.arrived.wait(), PATIENCE_S)
            await client.stop()
            await client.stop()
            with pytest.raises(NetworkError):
                await call
            with pytest.raises(Closed):
                await client.invoke(server.address, 105)

    asyncio.run(scenario())


def test_a_client_that_is_stopped_while_it_connects_fails_the_call_and_cancels_nobody() -> None:
    async def scenario() -> None:
        arrived = asyncio.Event()

        async def shake_no_hand(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(shake_no_hand, "127.0.0.1", 0)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        client = RemotingClient(connect_timeout_s=PATIENCE_S, tls=tls)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        call = asyncio.create_task(client.invoke(address, 105, timeout_s=PATIENCE_S))
        await asyncio.wait_for(arrived.wait(), PATIENCE_S)
        await client.stop()
        with pytest.raises(NetworkError, match="this client was stopped"):
            await call
        server.close()

    asyncio.run(scenario())


def test_garbage_from_the_server_closes_the_connection_and_fails_its_calls() -> None:
    async def garbage(request: Command, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x00\x00\x02xx")

    async def scenario() -> None:
        async with scripted(garbage) as server, RemotingClient() as client:
            with pytest.raises(ProtocolError):
                await client.invoke(server.address, 105)
            assert not client.is_connected(server.address)

    asyncio.run(scenario())


def test_requests_of_the_server_reach_the_callback() -> None:
    async def scenario() -> None:
        seen: list[tuple[str, int]] = []

        async def notify_first(request: Command, writer: asyncio.StreamWriter) -> None:
            writer.write(encode_command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}, opaque=7, flag=2))
            await reply(request, writer)

        async with (
            scripted(notify_first) as server,
            RemotingClient(on_request=lambda address, command: seen.append((address, command.code))) as client,
        ):
            await client.invoke(server.address, 105)
            assert seen == [(server.address, 40)]

    asyncio.run(scenario())


def test_a_request_of_the_server_that_cannot_be_handled_ends_no_call(caplog: pytest.LogCaptureFixture) -> None:
    """As of a proxy that is stopping, whom a broker asks about a transaction."""

    async def ask_first(request: Command, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_command(RequestCode.CHECK_TRANSACTION_STATE, {}, opaque=7, flag=2))
        await reply(request, writer)

    def cannot(address: str, command: Command) -> None:
        raise NetworkError("the proxy is stopping")

    async def scenario() -> None:
        async with scripted(ask_first) as server, RemotingClient(on_request=cannot) as client:
            for _ in range(2):
                assert (await client.invoke(server.address, 105)).code == ResponseCode.SUCCESS
            assert server.connections == 1

    asyncio.run(scenario())
    assert "CHECK_TRANSACTION_STATE from" in caplog.text and "the proxy is stopping" in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("localhost:9876", ("localhost", 9876)), (" 10.0.0.1:1 ", ("10.0.0.1", 1)), ("[::1]:9876", ("::1", 9876))],
)
def test_addresses_are_split(text: str, expected: tuple[str, int]) -> None:
    assert split_address(text) == expected


@pytest.mark.parametrize("text", ["", "localhost", ":9876", "h:", "h:x", "h:70000", "h:-1", "h:" + "9" * 5000], ids=lambda text: text[:9])
def test_bad_addresses_are_refused_by_name(text: str) -> None:
    with pytest.raises(NetworkError, match="is not HOST:PORT"):
        split_address(text)
