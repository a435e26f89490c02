"""The service over a real native server, asked by the asyncio client: answers, failures, bounds, and requests to clients."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast
from unittest.mock import Mock

import pytest

from rocketpy._core.errors import NetworkError, NoMemory, TimedOut
from rocketpy._core.remoting import KIND_COMMAND, Command, Request, Server, decode_command, encode_command
from rocketpy.remoting import service
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import FLAG_ONEWAY, RequestCode, ResponseCode, SerializeType
from rocketpy.remoting.command import CommandError, Response
from rocketpy.remoting.headers import GetKVConfigRequestHeader, GetKVConfigResponseHeader
from rocketpy.remoting.service import Handler, RemotingService
from tests.processes import PATIENCE_S

ECHO, SLOW, BROKEN, REFUSED, SILENT = 1001, 1002, 1003, 1004, 1005


class Running:
    def __init__(self, handlers: Mapping[int, Handler], **options: Any) -> None:
        self.server = Server(bind_address="127.0.0.1")
        self.events: list[tuple[str, int, str]] = []
        self.changed = asyncio.Event()
        self.service = RemotingService(
            self.server,
            handlers,
            on_opened=lambda event: self._note("opened", event),
            on_closed=lambda event: self._note("closed", event),
            **options,
        )
        self.address = f"127.0.0.1:{self.server.port}"

    def _note(self, what: str, event: Request) -> None:
        self.events.append((what, event.connection_id, event.remote_address))
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@contextlib.asynccontextmanager
async def running(handlers: Mapping[int, Handler], **options: Any) -> AsyncIterator[Running]:
    running = Running(handlers, **options)
    running.service.start()
    running.server.start()
    try:
        yield running
    finally:
        await running.service.stop()
        running.server.close()


def echo(request: Request) -> Response:
    return Response(body=request.body, fields=dict(request.fields), remark=request.remark)


@pytest.mark.parametrize("serialize_type", list(SerializeType))
def test_a_plain_handler_answers_in_the_encoding_of_the_request(serialize_type: SerializeType) -> None:
    async def scenario() -> None:
        async with running({ECHO: echo}) as server, RemotingClient(serialize_type=serialize_type) as client:
            response = await client.invoke(server.address, ECHO, {"a": "ä", "b": ""}, b"body")
            assert (response.code, response.body, response.serialize_type) == (0, b"body", serialize_type)
            assert response.fields["a"] == "ä"

    asyncio.run(scenario())


def test_typed_headers_travel_both_ways() -> None:
    def get(request: Request) -> Response:
        header = GetKVConfigRequestHeader.decode(request.fields)
        return Response(fields=GetKVConfigResponseHeader(value=header.key.upper()))

    async def scenario() -> None:
        async with running({RequestCode.GET_KV_CONFIG: get}) as server, RemotingClient() as client:
            response = await client.call(server.address, RequestCode.GET_KV_CONFIG, GetKVConfigRequestHeader(namespace="n", key="k"))
            assert GetKVConfigResponseHeader.decode(response.fields).value == "K"

    asyncio.run(scenario())


def test_an_unknown_code_is_answered_with_rocketmqs_words() -> None:
    async def scenario() -> None:
        async with running({}) as server, RemotingClient() as client:
            response = await client.invoke(server.address, 4711)
            assert (response.code, response.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 4711 not supported")

    asyncio.run(scenario())


def test_failures_of_a_handler_are_answers_and_leave_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Request) -> Response:
        raise LookupError("nothing there")

    async def broken_later(request: Request) -> Response:
        await asyncio.sleep(0)
        raise LookupError("nothing there")

    async def refused(request: Request) -> Response:
        raise CommandError(ResponseCode.NO_PERMISSION, "not you")

    def unreadable(request: Request) -> Response:
        return Response(fields=GetKVConfigRequestHeader.decode(request.fields))

    async def scenario() -> None:
        handlers: dict[int, Handler] = {1: broken, 2: broken_later, 3: refused, 4: unreadable}
        async with running(handlers) as server, RemotingClient() as client:
            answers = [await client.invoke(server.address, code) for code in handlers]
            assert [(answer.code, answer.remark) for answer in answers] == [
                (ResponseCode.SYSTEM_ERROR, "LookupError: nothing there"),
                (ResponseCode.SYSTEM_ERROR, "LookupError: nothing there"),
                (ResponseCode.NO_PERMISSION, "not you"),
                (ResponseCode.SYSTEM_ERROR, "the custom field <namespace> is null"),
            ]

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [record.exc_info is not None for record in caplog.records] == [True, True, False]


UNSENDABLE = {"half a character": Response(remark="\ud800"), "too many fields": Response(fields=dict.fromkeys(map(str, range(10_000)), ""))}


@pytest.mark.parametrize("answer", UNSENDABLE.values(), ids=UNSENDABLE)
def test_an_answer_that_cannot_be_sent_is_a_failure_and_holds_up_nobody_elses(answer: Response) -> None:
    async def later(request: Request) -> Response:
        await asyncio.sleep(0)
        return answer

    async def scenario() -> None:
        async with running({ECHO: echo, BROKEN: lambda request: answer, SLOW: later}) as server, RemotingClient() as client:
            codes = [code for _ in range(20) for code in (BROKEN, SLOW, ECHO)]
            answers = await asyncio.gather(*(client.invoke(server.address, code) for code in codes))
            for code, response in zip(codes, answers, strict=True):
                assert response.code == (ResponseCode.SUCCESS if code == ECHO else ResponseCode.SYSTEM_ERROR)
                assert response.remark or code == ECHO

    asyncio.run(scenario())


def test_coroutines_beyond_the_bound_are_answered_busy_and_the_others_finish() -> None:
    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(request: Request) -> Response:
            await release.wait()
            return Response()

        async with running({SLOW: slow, ECHO: echo}, tasks_max=2) as server, RemotingClient() as client:
            calls = [asyncio.create_task(client.invoke(server.address, SLOW)) for _ in range(5)]
            done, waiting = set[Any](), set(calls)
            async with asyncio.timeout(PATIENCE_S):
                while len(done) < 3:
                    done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            busy = [call.result() for call in done]
            assert {(answer.code, answer.remark) for answer in busy} == {
                (ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")
            }
            assert server.service.busy_rejections == 3
            assert (await client.invoke(server.address, ECHO)).code == 0
            release.set()
            assert [answer.code for answer in await asyncio.gather(*waiting)] == [0, 0]

    asyncio.run(scenario())


def test_what_runs_already_is_answered_by_what_comes_of_it() -> None:
    """SYSTEM_BUSY would say that it was not done."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(request: Request) -> Response:
            await release.wait()
            return Response()

        handlers: dict[int, Any] = {SLOW: slow, ECHO: lambda request: asyncio.ensure_future(slow(request))}
        async with running(handlers, tasks_max=1) as server, RemotingClient() as client:
            calls = [asyncio.create_task(client.invoke(server.address, ECHO)) for _ in range(3)]
            async with asyncio.timeout(PATIENCE_S):
                while len(server.service._tasks) < 3:  # noqa: ASYNC110 - nobody is told
                    await asyncio.sleep(0)
            assert (await client.invoke(server.address, SLOW)).code == ResponseCode.SYSTEM_BUSY
            release.set()
            assert [answer.code for answer in await asyncio.gather(*calls)] == [0, 0, 0]

    asyncio.run(scenario())


def test_a_handler_may_answer_later_by_itself_or_never() -> None:
    async def scenario() -> None:
        held: asyncio.Queue[Request] = asyncio.Queue()

        def hold(request: Request) -> None:
            held.put_nowait(request)

        async with running({SILENT: hold, ECHO: echo}) as server, RemotingClient() as client:
            call = asyncio.create_task(client.invoke(server.address, SILENT))
            request = await asyncio.wait_for(held.get(), PATIENCE_S)
            await client.invoke(server.address, ECHO)
            assert not call.done()
            assert server.service.respond(request, Response(body=b"late"))
            assert (await call).body == b"late"
            with pytest.raises(TimedOut):
                await client.invoke(server.address, SILENT, timeout_s=0.05)

    asyncio.run(scenario())


def test_oneway_requests_are_handled_and_not_answered() -> None:
    async def scenario() -> None:
        handled = asyncio.Event()

        def note(request: Request) -> Response:
            handled.set()
            return Response(remark="nobody reads this")

        async with running({SILENT: note, ECHO: echo}) as server:
            host, port = server.address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_command(SILENT, opaque=1, flag=FLAG_ONEWAY) + encode_command(ECHO, opaque=2))
            frame = await asyncio.wait_for(reader.readexactly(4), PATIENCE_S)
            frame += await reader.readexactly(int.from_bytes(frame, "big"))
            assert handled.is_set() and decode_command(frame).opaque == 2, "the first answer is that of the second request"
            writer.close()
            await writer.wait_closed()

    asyncio.run(scenario())


def test_connections_are_told_when_they_open_and_close() -> None:
    async def scenario() -> None:
        async with running({ECHO: echo}) as server:
            async with RemotingClient() as client:
                await client.invoke(server.address, ECHO)
                assert [event[0] for event in server.events] == ["opened"]
            await server.until(lambda: len(server.events) == 2)
            (_, opened, address), (what, closed, _) = server.events
            assert (what, closed) == ("closed", opened)
            assert address.startswith("127.0.0.1:")

    asyncio.run(scenario())


def test_the_server_asks_and_notifies_its_clients() -> None:
    async def scenario() -> None:
        heard: list[Command] = []
        arrived = asyncio.Event()

        def hear(address: str, command: Command) -> None:
            heard.append(command)
            arrived.set()

        async with running({ECHO: echo}) as server, RemotingClient(on_request=hear) as client:
            await client.invoke(server.address, ECHO)
            connection_id = server.events[0][1]
            assert server.service.notify(connection_id, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"})
            await asyncio.wait_for(arrived.wait(), PATIENCE_S)
            assert (heard[0].code, heard[0].is_oneway, heard[0].fields["consumerGroup"]) == (40, True, "g")
            with pytest.raises(TimedOut, match="the client did not answer within 50 ms"):
                await server.service.call_client(connection_id, RequestCode.GET_CONSUMER_RUNNING_INFO, timeout_s=0.05)
            with pytest.raises(NetworkError):
                await server.service.call_client(connection_id + 1, RequestCode.GET_CONSUMER_RUNNING_INFO)

    asyncio.run(scenario())


def test_who_cannot_be_told_for_want_of_memory_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        def send(self, *told: object, **how: object) -> bool:
            raise NoMemory("memory is out")

    service = RemotingService(cast(Server, Full()), {})
    assert not any(service.notify(client, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}) for client in range(1000))
    assert caplog.messages == ["NOTIFY_CONSUMER_IDS_CHANGED cannot be sent to a client: memory is out"]


def test_a_call_to_a_client_that_goes_away_fails_at_once() -> None:
    async def scenario() -> None:
        async with running({ECHO: echo}) as server:
            client = RemotingClient()
            await client.invoke(server.address, ECHO)
            call = asyncio.create_task(server.service.call_client(server.events[0][1], RequestCode.GET_CONSUMER_RUNNING_INFO, timeout_s=30))
            await asyncio.sleep(0)
            await client.stop()
            with pytest.raises(NetworkError, match="closed before it answered"):
                await asyncio.wait_for(call, PATIENCE_S)

    asyncio.run(scenario())


def test_many_requests_of_many_connections_all_find_their_answer() -> None:
    async def scenario() -> None:
        async with running({ECHO: echo}) as server, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(RemotingClient()) for _ in range(8)]
            bodies = [b"%d" % number for number in range(400)]
            calls = [
                clients[number % 8].invoke(server.address, ECHO, body=body, timeout_s=PATIENCE_S) for number, body in enumerate(bodies)
            ]
            assert [response.body for response in await asyncio.gather(*calls)] == bodies

    asyncio.run(scenario())


def test_stopping_ends_running_handlers_and_may_be_repeated() -> None:
    async def scenario() -> None:
        started = asyncio.Event()
        cancelled: list[bool] = []

        async def for_ever(request: Request) -> Response:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise
            return Response()

        async with running({SLOW: for_ever}) as server, RemotingClient() as client:
            call = asyncio.create_task(client.invoke(server.address, SLOW))
            await asyncio.wait_for(started.wait(), PATIENCE_S)
            await server.service.stop(drain_s=0.01)
            await server.service.stop()
            assert cancelled == [True]
            call.cancel()

    asyncio.run(scenario())


def test_requests_that_came_at_once_leave_the_loop_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeats of a thousand clients took 0.2 s, in which no timer, no other listener and no connection of ours was looked at.
    And with each turn of a flood one more drained it."""
    now_s = 0.0
    waiting = [Mock(spec=Request, kind=KIND_COMMAND, code=ECHO, is_oneway=True) for _ in range(1000)]
    turns: list[int] = []
    event_fd = os.eventfd(1, os.EFD_NONBLOCK)

    def take(count: int) -> list[Any]:
        taken = waiting[:count]
        del waiting[:count]
        if not taken:  # csrc/remoting/request_queue.c: it stays readable until then
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(event_fd)
        return taken

    def takes_a_millisecond(request: Request) -> None:
        nonlocal now_s
        now_s += 0.001

    async def scenario() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(service, "time", Mock(monotonic=lambda: now_s))
            remoting = RemotingService(Mock(take=take, event_fd=event_fd), {ECHO: takes_a_millisecond})
            remoting.start()
            while waiting:
                turns.append(len(waiting))
                await asyncio.sleep(0)
            await remoting.stop()

    try:
        asyncio.run(scenario())
    finally:
        os.close(event_fd)
    taken = [before - behind for before, behind in itertools.pairwise([*turns, 0])]
    assert max(taken) * 0.001 < 2 * service.TURN_S and len(turns) > 1000 * 0.001 / service.TURN_S / 2, taken
