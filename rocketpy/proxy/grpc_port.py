"""gRPC's port, clear text and TLS: a native server speaks HTTP/2, calls come up from it and become coroutines here.
RocketMQ: GrpcServer, ProxyAndTlsProtocolNegotiator (5.3.3 proxy/grpc/).

    client ── TLS or clear ── reactor ── HTTP/2 ── call ── ring ── event fd ── GrpcPort ── method ── answer ──► reactor

A load balancer may name its client before the first byte (PROXY protocol, versions 1 and 2). Anybody else may do so, too: where rights
depend on addresses, only the balancer should reach the port.

Threads  REACTORS of the server's beside the event loop. Bounds: CONNECTIONS_MAX, and a quarter of the files that may be open; STREAMS_MAX
         calls a connection; a call's messages as csrc/grpc/grpc.h says. An answer that its connection does not take waits until it does.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import resource
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from .._core.errors import NetworkError
from .._core.grpc import EVENT_COMPRESSED, EVENT_STREAM, Grpc
from .._core.remoting import (
    KIND_CALL,
    KIND_CANCELLED,
    KIND_CLOSED,
    KIND_HALF_CLOSED,
    KIND_ROOM,
    NO_DEADLINE,
    Handler,
    LogTap,
    Request,
    Server,
)
from ..remoting.client import split_address
from ..remoting.listen_address import numeric_address
from . import schema
from .settings import ProxySettings
from .tls_files import PERMISSIVE, load_tls

log = logging.getLogger(__name__)

REACTORS: Final = 2
CONNECTIONS_MAX: Final = 65_536
FILES_EACH: Final = 4
"""Descriptors that a connection may cost, with those that brokers and the process itself need."""
STREAMS_MAX: Final = 1024
"""Calls at once of one connection."""
RING_MAX: Final = 20_000
"""Calls, and messages of their clients' streams, that wait for the event loop."""
REQUEST_MAX: Final = 4 << 20
"""Bytes of a request, where its method has no rule of its own: of empty entries protobuf makes 40 times as much memory."""
TAKE_MAX: Final = 64
TURN_S: Final = 0.01
"""Events handled before the event loop gets its turn."""
AHEAD_BYTES: Final = 64 * 1024
"""Of a stream of answers: no more is said before the client has let this go, so that a method knows what was not taken."""
AGAIN_S: Final = 0.02
"""A reactor that is behind is told again after this."""
LATE_S: Final = 5.0
"""For calls that are cancelled when the port closes."""
OK, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, INTERNAL = 0, 3, 8, 13
"""gRPC's status codes."""
GZIP: Final = 31
"""zlib's number for it."""
INT_MAX: Final = 2**31 - 1
_ENDS: Final = object()


class CallError(Exception):
    """Ends a call with one of gRPC's status codes."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Refused(Exception):
    """A request that is answered without being read."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer


class Call:
    """A call under way: who makes it, and how long the caller waits."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.metadata: Mapping[str, str] = request.fields
        self.deadline_ns = request.deadline_ns
        self.messages: asyncio.Queue[Any] | None = asyncio.Queue() if request.flag & EVENT_STREAM else None
        """Of the client's stream, as KIND_MESSAGE; _ENDS behind the last. The native side has a bound for them."""
        self.task: asyncio.Task[None] | None = None
        self.room = asyncio.Event()
        self.ahead = 0
        """Bytes of the answer since `room` was waited for."""
        self.inflated_bytes = 0
        """Of its last message, where it came compressed."""

    @property
    def client(self) -> tuple[str, int]:
        """The caller's address; behind a load balancer, the one that the balancer reports."""
        return split_address(self.request.remote_address)

    def remaining_s(self) -> float | None:
        """Seconds until the client gives up; None if it never does."""
        return None if self.deadline_ns == NO_DEADLINE else (self.deadline_ns - time.monotonic_ns()) / 1e9


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the service. `answer` gets the request, or the client's stream of requests, and the call; it is a coroutine that returns
    the response, or sends responses."""

    name: str
    answer: Callable[[Any, Call], Any]
    takes_stream: bool = False
    gives_stream: bool = False
    refusal: Callable[[bytes], Any] | None = None
    """Its rule: the answer to a request that is not to be read, None to others."""


class _Connection:
    """What is known about a connection that has calls under way."""

    def __init__(self) -> None:
        self.calls: dict[int, Call] = {}
        self.room: asyncio.Event | None = None


class GrpcPort:
    """One gRPC listener. Raises NetworkError if the port cannot be had, Unsupported without libnghttp2."""

    def __init__(
        self, settings: ProxySettings, methods: Sequence[Method], handler: Handler | None = None, *, log_tap: LogTap | None = None
    ) -> None:
        """`handler` is asked before the methods, and answers some calls natively. A call refers to its method by its index in `methods`."""
        self._settings = settings
        self._methods = [(method, schema.request_of(method.name)) for method in methods]
        self._bytes_max = min(max(0, settings.grpc_max_inbound_message_size), INT_MAX)
        self._connections: dict[int, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._inflated_bytes = 0  # of messages under way that came compressed: the native side has no bound for these
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_over = False
        paths = [(f"/{schema.SERVICE}/{method.name}", method.takes_stream) for method in methods]
        self._grpc = Grpc(paths, handler=handler, message_bytes_max=self._bytes_max, calls_max=STREAMS_MAX)
        try:
            self._server = self._listen(handler, log_tap)
        except BaseException:
            self._grpc.close()
            raise
        self._server.set_protocol(self._grpc)

    def _listen(self, handler: Handler | None, log_tap: LogTap | None) -> Server:
        settings = self._settings
        host = numeric_address("localServeAddr", settings.local_serve_addr or "0.0.0.0")
        try:
            return Server(
                handler=handler,
                log=log_tap,
                bind_address=host,
                port=settings.grpc_server_port,
                reactors=REACTORS,
                connections_max=min(CONNECTIONS_MAX, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // FILES_EACH)),
                idle_timeout_ms=min(max(0, settings.grpc_client_idle_time_mills), INT_MAX),
                memory_bytes_max=settings.port_bytes_max,
                ring_capacity=RING_MAX,
                tls_mode=PERMISSIVE,
                thread_name="grpc",
            )
        except NetworkError as error:
            raise NetworkError(f"no port for gRPC: {error}; change grpcServerPort") from error

    @property
    def port(self) -> int:
        return self._server.port

    def __len__(self) -> int:
        """How many calls are under way."""
        return sum(len(connection.calls) for connection in self._connections.values())

    async def start(self) -> None:
        """Raises ConfigError for a certificate that cannot be used."""
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(None, load_tls, self._server, self._settings, "gRPC clients")
        self._loop.add_reader(self._server.event_fd, self._drain)
        self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Accepts no more calls. Those under way have grace_s to be answered. Idempotent."""
        loop, self._loop = self._loop, None
        if loop is not None:
            await loop.run_in_executor(None, self._server.stop, int(grace_s * 1000))
            loop.remove_reader(self._server.event_fd)
            self._drain()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=LATE_S)
        self._is_over = True
        await asyncio.get_running_loop().run_in_executor(None, self._server.close)

    # ---- what the native side tells ----

    def _drain(self) -> None:
        until_s = time.monotonic() + TURN_S
        while requests := self._server.take(TAKE_MAX):
            for request in requests:
                self._dispatch(request)
            if self._loop is not None and time.monotonic() >= until_s:
                return  # the event fd is readable still

    def _dispatch(self, request: Request) -> None:
        if request.kind == KIND_CALL:
            self._begin(request)
            return
        connection = self._connections.get(request.connection_id)
        if connection is None:
            return
        if request.kind == KIND_CLOSED:
            del self._connections[request.connection_id]
            for each in connection.calls.values():
                self._cancel(each)
        elif request.opaque == 0:  # KIND_ROOM of the connection
            if connection.room is not None:
                connection.room.set()
        elif (call := connection.calls.get(request.opaque)) is not None:
            if request.kind == KIND_CANCELLED:
                self._cancel(call)
            elif request.kind == KIND_ROOM:
                call.room.set()
            elif call.messages is not None:
                call.messages.put_nowait(_ENDS if request.kind == KIND_HALF_CLOSED else request)

    def _begin(self, request: Request) -> None:
        call = Call(request)
        method, kind = self._methods[request.code]
        connection = self._connections.setdefault(request.connection_id, _Connection())
        connection.calls[request.opaque] = call
        call.task = asyncio.ensure_future(self._serve(call, method, kind))
        self._tasks.add(call.task)
        call.task.add_done_callback(lambda task: self._forget(call, task))

    def _forget(self, call: Call, task: asyncio.Task[None]) -> None:
        """Forgets a call that is done. This cannot be done at the end of _serve, which does not run at all if the call is cancelled in the
        turn of the loop in which it came."""
        self._tasks.discard(task)
        call.task = None  # whose end, where it was cancelled, knows the call: large as it may be it would wait for the collector
        self._inflated_bytes -= call.inflated_bytes
        connection = self._connections.get(call.request.connection_id)
        if connection is not None:
            del connection.calls[call.request.opaque]
            if not connection.calls:
                del self._connections[call.request.connection_id]

    def _cancel(self, call: Call) -> None:
        if call.task is not None:
            call.task.cancel()

    # ---- a call's coroutine ----

    async def _serve(self, call: Call, method: Method, kind: Any) -> None:
        request = call.request
        try:
            given = self._stream(call, method, kind) if method.takes_stream else self._read(call, request, method, kind)
            if method.gives_stream:
                async with aclosing(method.answer(given, call)) as answers:
                    async for answer in answers:
                        await self._send(call, answer)
                self._insist(self._grpc.end, request, OK)
            else:
                await self._send(call, await method.answer(given, call), is_last=True)
        except _Refused as refused:
            await self._send(call, refused.answer, is_last=True)
        except CallError as error:
            self._insist(self._grpc.end, request, error.code, str(error))
        except Exception as error:  # outer edge of a task
            log.exception("%s from %s failed", method.name, request.remote_address)
            self._insist(self._grpc.end, request, INTERNAL, f"{type(error).__name__}: {error}")

    def _read(self, call: Call, event: Request, method: Method, kind: Any) -> Any:
        """The message of a call, or of one of its events. Raises CallError, _Refused."""
        data = event.body
        if event.flag & EVENT_COMPRESSED:
            self._inflated_bytes -= call.inflated_bytes
            call.inflated_bytes = 0
            data = inflated(data, min(self._bytes_max, self._settings.kept_bytes_max - self._inflated_bytes))
            call.inflated_bytes = len(data)
            self._inflated_bytes += len(data)
        if method.refusal is None and len(data) > REQUEST_MAX:
            raise CallError(RESOURCE_EXHAUSTED, f"a request of more than {REQUEST_MAX} bytes")
        if method.refusal is not None and (answer := method.refusal(data)) is not None:
            raise _Refused(answer)
        try:
            return kind.FromString(data)
        except DecodeError as error:
            raise CallError(INTERNAL, "the request is no message of this method") from error

    async def _stream(self, call: Call, method: Method, kind: Any) -> AsyncIterator[Any]:
        assert call.messages is not None
        while (event := await call.messages.get()) is not _ENDS:
            yield self._read(call, event, method, kind)
            self._insist(self._grpc.took, call.request)

    async def _send(self, call: Call, answer: Any, *, is_last: bool = False) -> None:
        message = answer.SerializeToString()
        while not self._grpc.send(call.request, message, is_last=is_last):
            connection = self._connections[call.request.connection_id]
            if connection.room is None or connection.room.is_set():
                connection.room = asyncio.Event()
                self._insist(functools.partial(self._grpc.ask_room, of_connection=True), call.request)
            await connection.room.wait()
        call.ahead += len(message)
        if call.ahead >= AHEAD_BYTES and not is_last:
            call.ahead = 0
            call.room.clear()
            self._insist(self._grpc.ask_room, call.request)
            await call.room.wait()

    def _insist(self, say: Callable[..., bool], *arguments: Any) -> None:
        """Repeats what the reactor, which is behind, could not take, until it does or the connection or the port has ended."""
        if not self._is_over and not say(*arguments):
            asyncio.get_running_loop().call_later(AGAIN_S, self._insist, say, *arguments)


def inflated(data: bytes, bytes_max: int) -> bytes:
    """The data behind gzip's compression. Raises CallError."""
    inflater = zlib.decompressobj(GZIP)
    try:
        found = inflater.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise CallError(INTERNAL, f"a compressed message cannot be read: {error}") from error
    if len(found) > bytes_max:
        raise CallError(RESOURCE_EXHAUSTED, f"a message of more than {bytes_max} bytes")
    if not inflater.eof or inflater.unused_data:
        raise CallError(INTERNAL, "a compressed message ends too soon, or too late")
    return found
