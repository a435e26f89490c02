"""The asyncio side of a native server: takes what the reactors punted, calls the handler of its code, and answers.
RocketMQ: NettyRemotingAbstract.processRequestCommand, ChannelEventListener (5.3.3 remoting/netty/).

    reactors → ring → event fd → take() → handlers[code] ─ Response now, or a coroutine of one ─ respond()

A plain function answers inside the loop turn; a coroutine becomes a task; a task or future of work that runs already, and has a bound of
its own, is waited for. A handler answers with a Response, with None when it has answered
itself (`respond`) or never will, or by raising CommandError or HeaderError. Anything else it raises is SYSTEM_ERROR, logged with its trace.

Threads  one event loop. Bounds: tasks_max coroutines at once, then RocketMQ's SYSTEM_BUSY; the ring in front has its own bound.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from .._core.errors import NetworkError, NoMemory, RocketpyError, TimedOut
from .._core.remoting import KIND_CLOSED, KIND_COMMAND, KIND_OPENED, KIND_RESPONSE, Command, Request, Server
from ..repeated_warning import RepeatedWarning
from .codes import ResponseCode, request_name
from .command import CommandError, Fields, Response, encode_fields
from .headers import HeaderError
from .latencies import Latencies, remoting_kind

log = logging.getLogger(__name__)

Handler = Callable[[Request], Response | Awaitable[Response | None] | None]
ConnectionCallback = Callable[[Request], None]
"""Called with the KIND_OPENED or KIND_CLOSED event: connection_id, remote_address, and for a close the reason in remark."""

TAKE_MAX = 8
"""Requests between two looks at the clock: what a turn may be over TURN_S."""
OPAQUE_MAX = 0x3FFFFFFF  # of our requests to clients; above it are those of the native broker (csrc/broker/pending_replies.h)
TURN_S = 0.01
"""Of handling requests, before the event loop gets its turn. A thousand heartbeats that came at once are 0.2 s."""


def not_supported(request: Request) -> Response:
    """RocketMQ's answer to a request code that the server does not know."""
    return Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")


class RemotingService:
    """Dispatches a server's requests to handlers. The server belongs to the caller, who starts it before this service and closes it
    after."""

    def __init__(
        self,
        server: Server,
        handlers: Mapping[int, Handler],
        *,
        fallback: Handler = not_supported,
        on_opened: ConnectionCallback | None = None,
        on_closed: ConnectionCallback | None = None,
        tasks_max: int = 1024,
        latencies: Latencies | None = None,
    ) -> None:
        """`latencies` counts the answers."""
        self.server = server
        self._handlers = dict(handlers)
        self._fallback = fallback
        self._on_opened = on_opened
        self._on_closed = on_closed
        self._tasks_max = tasks_max
        self._latencies = latencies
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[tuple[int, int], asyncio.Future[Command]] = {}
        self._opaques = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._busy_rejections = 0
        self._untold = RepeatedWarning(log)

    @property
    def busy_rejections(self) -> int:
        """How many requests were answered with SYSTEM_BUSY because tasks_max handlers were running."""
        return self._busy_rejections

    def start(self) -> None:
        """Starts to take requests, on the running event loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self.server.event_fd, self._drain)

    async def stop(self, drain_s: float = 0.5) -> None:
        """Takes no more requests, gives running handlers drain_s to finish, and cancels the rest. Idempotent."""
        if self._loop is None:
            return
        self._loop.remove_reader(self.server.event_fd)
        self._loop = None
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=drain_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=drain_s)
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()

    def respond(self, request: Request, response: Response) -> bool:
        """Answers a request whose handler returned None. False if its connection is gone, or if the request was oneway."""
        return self.server.respond(request, int(response.code), response.remark, encode_fields(response.fields), response.body)

    def notify(self, connection_id: int, code: int, fields: Fields = None, body: bytes = b"") -> bool:
        """Sends a oneway request to a client. False if its connection is gone or full or memory is out: who tells many tells the others."""
        try:
            return self.server.send(connection_id, code, encode_fields(fields), body, opaque=self._next_opaque(), oneway=True)
        except NoMemory as error:
            self._untold.warning("%s cannot be sent to a client: %s", request_name(code), error)
            return False

    async def call_client(
        self, connection_id: int, code: int, fields: Fields = None, body: bytes = b"", *, timeout_s: float = 3.0
    ) -> Command:
        """Sends a request to a client and returns its response. Raises NetworkError, TimedOut."""
        opaque = self._next_opaque()
        key = (connection_id, opaque)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._calls[key] = future
        try:
            if not self.server.send(connection_id, code, encode_fields(fields), body, opaque=opaque):
                raise NetworkError(f"{request_name(code)}: connection {connection_id:#x} of the client is gone or does not read")
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            if isinstance(error, RocketpyError):
                raise
            raise TimedOut(f"{request_name(code)}: the client did not answer within {int(timeout_s * 1000)} ms") from None
        finally:
            self._calls.pop(key, None)

    def _next_opaque(self) -> int:
        return next(self._opaques) & OPAQUE_MAX

    def _drain(self) -> None:
        until_s = time.monotonic() + TURN_S
        while self._loop is not None:
            requests = self.server.take(TAKE_MAX)
            if not requests:
                return
            for request in requests:
                self._dispatch(request)
            if time.monotonic() >= until_s:
                return  # the event fd is readable still

    def _dispatch(self, request: Request) -> None:
        if request.kind == KIND_COMMAND:
            self._handle(request)
        elif request.kind == KIND_RESPONSE:
            call = self._calls.get((request.connection_id, request.opaque))
            if call is not None and not call.done():
                call.set_result(request)
        elif request.kind == KIND_OPENED:
            self._tell(self._on_opened, request)
        elif request.kind == KIND_CLOSED:
            self._tell(self._on_closed, request)
            self._fail_calls(request.connection_id)

    def _handle(self, request: Request) -> None:
        handler = self._handlers.get(request.code, self._fallback)
        begin_s = time.monotonic()
        try:
            answer = handler(request)
        except Exception as error:  # outer edge: one request's failure is that request's answer
            self._answer(request, self._failure(request, error), begin_s)
            return
        if answer is None or isinstance(answer, Response):
            self._answer(request, answer, begin_s)
        elif len(self._tasks) >= self._tasks_max and asyncio.iscoroutine(answer):  # any other is of what runs already: it has its own bound
            answer.close()
            self._busy_rejections += 1
            self._answer(request, Response(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while"), begin_s)
        else:
            task = asyncio.ensure_future(self._finish(request, answer, begin_s))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, request: Request, answer: Awaitable[Response | None], begin_s: float) -> None:
        try:
            response = await answer
        except Exception as error:  # outer edge of the task
            response = self._failure(request, error)
        self._answer(request, response, begin_s)

    def _answer(self, request: Request, response: Response | None, begin_s: float) -> None:
        if response is None or request.is_oneway:
            return
        try:
            self.respond(request, response)
        except Exception as error:  # outer edge: one that is too large or no UTF-8; those behind it in the batch must still be answered
            response = self._failure(request, error)
            self.respond(request, response)
        if self._latencies is not None:
            self._latencies.add(remoting_kind(request.code, response.code), (time.monotonic() - begin_s) * 1000)

    def _failure(self, request: Request, error: Exception) -> Response:
        if isinstance(error, CommandError):
            return Response(error.code, error.remark)
        if isinstance(error, HeaderError):
            log.warning("%s from %s refused: %s", request_name(request.code), request.remote_address, error)
            return Response(ResponseCode.SYSTEM_ERROR, str(error))
        if isinstance(error, RocketpyError):
            log.error("%s from %s failed: %s", request_name(request.code), request.remote_address, error)
            return Response(ResponseCode.SYSTEM_ERROR, str(error))
        log.error("%s from %s failed", request_name(request.code), request.remote_address, exc_info=error)
        return Response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _tell(self, callback: ConnectionCallback | None, event: Request) -> None:
        if callback is None:
            return
        try:
            callback(event)
        except Exception:  # outer edge: the other events of this batch must still be told
            log.exception("connection event of %s failed", event.remote_address)

    def _fail_calls(self, connection_id: int) -> None:
        for key in [key for key in self._calls if key[0] == connection_id]:
            call = self._calls[key]
            if not call.done():
                call.set_exception(NetworkError(f"the client's connection {connection_id:#x} closed before it answered"))
