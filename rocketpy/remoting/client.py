"""Asyncio client of the remoting protocol, for calls of our own: registration, notifications, slave synchronisation, administration.
RocketMQ: NettyRemotingClient (5.3.3 remoting/netty/).

One connection per address, made by the first call and shared by all; a lost one is made again by the next call. Requests are matched to
responses by their opaque, so many may be in flight on one connection. Nothing here is for the data path of messages.

Threads  one event loop. Bounds: in_flight_max calls (then Busy), frame_size_max per frame, writes wait while the socket is full.
Errors   NetworkError (ConnectFailed: no connection; else it was lost before the answer), TimedOut, Busy, TooLarge, ProtocolError, Closed;
         of `call` CommandError.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable

from .._core.errors import Busy, Closed, NetworkError, ProtocolError, RocketpyError, TimedOut, TooLarge
from .._core.remoting import Command, decode_command, encode_command, scan_frame
from .codes import CURRENT_VERSION, FLAG_ONEWAY, FLAG_RESPONSE, Language, ResponseCode, SerializeType, request_name
from .command import Fields, Response, check_success, encode_fields
from .credentials import Credentials
from .look_up import LookUps

log = logging.getLogger(__name__)

FRAME_SIZE_MAX = 16 * 1024 * 1024
UNACKNOWLEDGED_MS = 10_000
"""A host that has not acknowledged what was sent to it for so long is taken for gone. The kernel's own patience is a quarter of an hour, at
whose end it asks every two minutes: so long would a broker stay unknown to a name server that a cut network has given back."""
TLS_SHUTDOWN_S = 1.0
"""How long the other side of a connection that we close may take to say that it has heard of it."""
RequestCallback = Callable[[str, Command], None]
"""Called with (address, request) for what a server sends us on our connection, such as NOTIFY_CONSUMER_IDS_CHANGED."""
LostCallback = Callable[[str], None]
"""Called with the address when a connection ends that we did not close."""


class ConnectFailed(NetworkError):
    """No connection to an address could be made, perhaps only after the whole time that is allowed for connecting."""


def split_address(address: str) -> tuple[str, int]:
    """("host", port) of "host:port" or "[ipv6]:port". Raises NetworkError."""
    host, separator, port = address.strip().rpartition(":")
    if not separator or not host or not re.fullmatch("[0-9]{1,9}", port) or int(port) > 65535:
        raise NetworkError(f"address {address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


class _Connection(asyncio.Protocol):
    """One socket: frames arrive, futures are resolved."""

    def __init__(self, address: str, frame_size_max: int, on_request: RequestCallback | None, on_lost: LostCallback | None) -> None:
        self.address = address
        self._on_lost = on_lost
        self.waiting: dict[int, asyncio.Future[Command]] = {}
        self._frame_size_max = frame_size_max
        self._on_request = on_request
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_retired = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def write(self, frame: bytes) -> None:
        await self._writable.wait()
        if self._transport is None or self._transport.is_closing():
            raise NetworkError(f"connection to {self.address} was lost")
        self._transport.write(frame)

    def retire(self) -> None:
        """The server is going away: the connection is closed as soon as no call waits for an answer on it."""
        self._on_lost = None
        self._is_retired = True

    def forget(self, opaque: int) -> None:
        """The caller no longer waits for the answer to that request."""
        self.waiting.pop(opaque, None)
        if self._is_retired and not self.waiting:
            self.close()

    def close(self) -> None:
        self._on_lost = None
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            self._take_frames()
        except ProtocolError as error:
            log.warning("closing connection to %s: %s", self.address, error)
            self._fail_waiting(error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        cause = f": {exc}" if exc else ""
        self._fail_waiting(NetworkError(f"connection to {self.address} was lost before the response{cause}"))
        if self._on_lost is not None:
            self._on_lost(self.address)

    def _take_frames(self) -> None:
        begin = 0
        view = memoryview(self._buffer)
        try:
            while size := scan_frame(view[begin:], self._frame_size_max):
                if size > len(view) - begin:
                    break
                self._dispatch(decode_command(view[begin : begin + size]))
                begin += size
        finally:
            view.release()
        del self._buffer[:begin]

    def _dispatch(self, command: Command) -> None:
        if command.is_response:
            future = self.waiting.pop(command.opaque, None)
            if future is not None and not future.done():
                future.set_result(command)
        elif self._on_request is not None:
            try:
                self._on_request(self.address, command)
            except Exception:  # outer edge: asyncio would end the connection, and with it all that is waited for there
                log.exception("%s from %s failed", request_name(command.code), self.address)
        else:
            log.debug("%s sent %s, which nobody here handles", self.address, request_name(command.code))

    def _fail_waiting(self, error: RocketpyError) -> None:
        waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen: whoever still waits to write hears of the loss there, and asks no future


class RemotingClient:
    """Calls servers at any number of addresses. `async with RemotingClient() as client:`, or `await client.stop()` at the end."""

    def __init__(
        self,
        *,
        connect_timeout_s: float = 3.0,
        frame_size_max: int = FRAME_SIZE_MAX,
        in_flight_max: int = 65535,
        serialize_type: SerializeType = SerializeType.JSON,
        language: Language = Language.PYTHON,
        version: int = CURRENT_VERSION,
        on_request: RequestCallback | None = None,
        on_lost: LostCallback | None = None,
        tls: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """`credentials`: every request is signed with them."""
        self._tls = tls
        self._credentials = credentials
        self._connect_timeout_s = connect_timeout_s
        self._frame_size_max = frame_size_max
        self._in_flight_max = in_flight_max
        self._serialize_type = serialize_type
        self._language = language
        self._version = version
        self._on_request = on_request
        self._on_lost = on_lost
        self._connections: dict[str, _Connection] = {}
        self._retired: list[_Connection] = []
        self._connecting: dict[str, asyncio.Task[_Connection]] = {}
        self._look_ups = LookUps()
        self._opaques = itertools.count(1)
        self._in_flight = 0
        self._stopped = False

    async def __aenter__(self) -> RemotingClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Closes every connection; calls in flight fail with NetworkError, later ones with Closed. Idempotent."""
        self._stopped = True
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        if connecting:
            await asyncio.wait(connecting)
        for connection in (*self._connections.values(), *self._retired):
            connection.close()
        self._connections.clear()
        self._retired.clear()

    async def invoke(self, address: str, code: int, fields: Fields = None, body: bytes = b"", *, timeout_s: float = 3.0) -> Command:
        """Sends a request and returns its response, whatever its code."""
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._invoke_once(address, code, fields, body)
                if response.code == ResponseCode.GO_AWAY:  # a 5.x server that shuts down: the request was not handled
                    response = await self._invoke_once(address, code, fields, body)
                return response
        except TimeoutError as error:
            if isinstance(error, TimedOut):
                raise
            raise TimedOut(
                f"{request_name(code)}: wait response on the channel <{address}>, timeout: {int(timeout_s * 1000)}(ms)"
            ) from None

    async def call(self, address: str, code: int, fields: Fields = None, body: bytes = b"", *, timeout_s: float = 3.0) -> Command:
        """As invoke, but a response other than SUCCESS is raised as CommandError."""
        return check_success(await self.invoke(address, code, fields, body, timeout_s=timeout_s), address)

    async def invoke_oneway(self, address: str, code: int, fields: Fields = None, body: bytes = b"", *, timeout_s: float = 3.0) -> None:
        """Sends a request that gets no answer. When this returns, the request was handed to the socket; it need not have arrived."""
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connection_to(address)
                await connection.write(self._encode(code, fields, body, self._next_opaque(), FLAG_ONEWAY))
        except TimeoutError as error:
            if isinstance(error, TimedOut):
                raise
            raise TimedOut(f"{request_name(code)}: send request to <{address}> timeout: {int(timeout_s * 1000)}(ms)") from None

    async def respond(self, address: str, request: Command, response: Response) -> None:
        """Answers a request that a server sent on our connection to it. If that connection is gone, there is nothing left to answer. Raises
        NetworkError, TooLarge."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            frame = encode_command(
                int(response.code),
                encode_fields(response.fields),
                response.body,
                opaque=request.opaque,
                flag=FLAG_RESPONSE,
                remark=response.remark,
                language=self._language,
                version=self._version,
                serialize_type=request.serialize_type,
            )
            await connection.write(frame)

    async def invoke_all(
        self, addresses: Iterable[str], code: int, fields: Fields = None, body: bytes = b"", *, timeout_s: float = 3.0
    ) -> dict[str, Command | RocketpyError]:
        """Sends the same request to every address at once. Returns, per address, its response or the reason why there is none, after
        timeout_s at most."""
        targets = list(dict.fromkeys(addresses))
        results = await asyncio.gather(*(self._invoke_or_error(target, code, fields, body, timeout_s) for target in targets))
        return dict(zip(targets, results, strict=True))

    def is_connected(self, address: str) -> bool:
        connection = self._connections.get(address)
        return connection is not None and connection.is_open

    async def _invoke_or_error(self, address: str, code: int, fields: Fields, body: bytes, timeout_s: float) -> Command | RocketpyError:
        try:
            return await self.invoke(address, code, fields, body, timeout_s=timeout_s)
        except RocketpyError as error:
            return error

    async def _invoke_once(self, address: str, code: int, fields: Fields, body: bytes) -> Command:
        if self._in_flight >= self._in_flight_max:
            raise Busy(f"{self._in_flight} requests are in flight already; {request_name(code)} to {address} was not sent")
        self._in_flight += 1
        try:
            connection = await self._connection_to(address)
            opaque = self._next_opaque()
            future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
            connection.waiting[opaque] = future
            try:
                await connection.write(self._encode(code, fields, body, opaque, 0))
                response = await future
                if response.code == ResponseCode.GO_AWAY:
                    self._retire(address, connection)
                return response
            finally:
                connection.forget(opaque)
        finally:
            self._in_flight -= 1

    async def _connection_to(self, address: str) -> _Connection:
        if self._stopped:
            raise Closed("this client was stopped")
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        task = self._connecting.get(address)
        if task is None:  # callers share one attempt; a caller that gives up does not end it for the others
            task = asyncio.get_running_loop().create_task(self._connect(address), name=f"connect {address}")
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._forget_attempt(address, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and not (caller is not None and caller.cancelling()):
                raise NetworkError(f"connect to {address} was given up: this client was stopped") from None
            raise

    def _forget_attempt(self, address: str, task: asyncio.Task[_Connection]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled():
            task.exception()  # seen: every caller may have timed out before it failed

    async def _connect(self, address: str) -> _Connection:
        host, port = split_address(address)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connection = await self._open(address, await self._look_ups.addresses(host), port)
        except TimeoutError:
            raise ConnectFailed(f"connect to {address} failed: no answer within {self._connect_timeout_s:g} s") from None
        except ssl.SSLError as error:
            raise ConnectFailed(f"connect to {address} failed: TLS: {error.reason or error}") from error
        except OSError as error:
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else error.strerror or error  # asyncio's own words hide the cause
            raise ConnectFailed(f"connect to {address} failed: {reason}", os_errno=number) from error
        except UnicodeError as error:  # a part of the name that is empty or has no end
            raise ConnectFailed(f"connect to {address} failed: {host!r} cannot be a host's name") from error
        # Brokers come back under other addresses, for as long as a name server runs: what has ended goes with the next that begins.
        self._connections = {known: each for known, each in self._connections.items() if each.is_open}
        self._connections[address] = connection
        return connection

    async def _open(self, address: str, numbers: Iterable[str], port: int) -> _Connection:
        """A connection to the first of the addresses behind `address` that accepts one. Raises OSError, with the reason of the last one
        tried."""
        fault: OSError | None = None
        shutdown_s = TLS_SHUTDOWN_S if self._tls is not None else None
        for each in numbers:
            try:
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(address, self._frame_size_max, self._on_request, self._on_lost),
                    each,
                    port,
                    ssl=self._tls,
                    ssl_shutdown_timeout=shutdown_s,
                )
            except OSError as error:
                fault = error
            else:
                return connection
        raise fault or OSError(f"{address} has no address")

    def _retire(self, address: str, connection: _Connection) -> None:
        """Makes the next call open another connection. Calls in flight on this one are still answered, perhaps with another GO_AWAY."""
        if self._connections.get(address) is connection:
            del self._connections[address]
            connection.retire()
            self._retired = [each for each in self._retired if each.is_open]
            self._retired.append(connection)

    def _next_opaque(self) -> int:
        return next(self._opaques) & 0x7FFFFFFF

    def _encode(self, code: int, fields: Fields, body: bytes, opaque: int, flag: int) -> bytes:
        encoded = encode_fields(fields)
        frame = encode_command(
            code,
            encoded if self._credentials is None else self._credentials.signed(encoded, body),
            body,
            opaque=opaque,
            flag=flag,
            language=self._language,
            version=self._version,
            serialize_type=self._serialize_type.value,
        )
        if len(frame) > self._frame_size_max:  # the other side would hang up, on all that waits on the connection
            raise TooLarge(f"{request_name(code)} of {len(frame)} bytes: a frame may have {self._frame_size_max}")
        return frame
