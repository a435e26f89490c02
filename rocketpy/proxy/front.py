"""The one port that clients know, for clear text and TLS: the first byte of a connection says which, and a relay passes it on to one of
grpc's two own ports on loopback. RocketMQ: ProxyAndTlsProtocolNegotiator (5.3.3 proxy/grpc/).

    client ──► front ── first byte 0x16: TLS ──► 127.0.0.1:tls   ┐
                     └─ anything else ────────► 127.0.0.1:clear ┘ grpc

A balancer may say before the first byte whom it connects (PROXY protocol, versions 1 and 2). Anybody may: where rights go by addresses,
only the balancer should reach the port.

grpc's server takes one kind a port. What the relay costs: a copy of every byte and a turn of the event loop each way.

Threads  one event loop. Bounds: CONNECTIONS_MAX, and a quarter of the files that may be open; a pause in one direction is a pause in the
         other's reading (back-pressure).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import socket
from pathlib import Path
from typing import Any, Final

import grpc

from .._core.errors import NetworkError
from .._core.remoting import scan_proxy_header
from ..config import ConfigError, Problem
from .certificate import self_signed
from .settings import ProxySettings

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 65_536
FILES_EACH: Final = 4
"""Descriptors that a connection may cost, with those that brokers and the process itself need."""
FIRST_BYTE_S: Final = 30.0
TLS_HANDSHAKE: Final = 0x16
LOOPBACK: Final = "127.0.0.1"
NOBODY: Final = ("", 0)
PAUSE_BYTES: Final = 256 * 1024


class _Side(asyncio.Protocol):
    """One end of a relayed connection; `other` once it is known."""

    def __init__(self, front: Front, other: _Side | None = None) -> None:
        self._front = front
        self.other = other
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=PAUSE_BYTES)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Outside(_Side):
    """The client's end: waits for the first byte, then for the inner connection."""

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self._first = b""
        self._client: tuple[str, int] | None = None  # as a balancer has said; else who is connected
        self._has_header = False
        self._patience: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        if not self._front.admit(self):
            self.transport.abort()
            return
        self._patience = asyncio.get_running_loop().call_later(FIRST_BYTE_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            super().data_received(data)
            return
        assert self.transport is not None
        self._first += data
        if not self._has_header and not self._take_header():
            return
        if not self._first:
            return
        self.transport.pause_reading()
        if self._patience is not None:
            self._patience.cancel()
        self._task = asyncio.ensure_future(self._connect(self._first))
        self._first = b""

    def _take_header(self) -> bool:
        """False while more bytes are needed to know whether there is one: fewer than the native scan's bound."""
        size, host, port = scan_proxy_header(self._first)
        if size == 0:
            return False
        self._has_header = True
        self._first = self._first[max(0, size) :]
        if host:
            self._client = str(ipaddress.ip_address(host)), port
        return True

    async def _connect(self, first: bytes) -> None:
        transport = self.transport
        assert transport is not None
        client = self._client or transport.get_extra_info("peername")
        inner = _Side(self._front, self)
        try:
            await asyncio.get_running_loop().create_connection(lambda: inner, LOOPBACK, self._front.inner_port(first[0] == TLS_HANDSHAKE))
        except (OSError, NetworkError) as error:
            log.info("a connection of %s is closed: %s", client[0] if client else "?", error)
            transport.abort()
            return
        assert inner.transport is not None
        if self._is_lost:
            inner.transport.abort()
            return
        self._front.know(inner.transport.get_extra_info("sockname")[1], client)
        inner.transport.write(first)
        self.other = inner
        transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        if self._patience is not None:
            self._patience.cancel()
        if self.other is not None and self.other.transport is not None:
            self._front.forget(self.other.transport.get_extra_info("sockname")[1])
        self._front.left(self)
        super().connection_lost(error)


class Front:
    """The listener, and the two ports behind it."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._server: asyncio.Server | None = None
        self._open: set[_Outside] = set()
        self._clients: dict[int, tuple[str, int]] = {}  # host and port of each, by the port their inner connection comes from
        self._clear_port = self._tls_port = 0
        self._connections_max = min(CONNECTIONS_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // FILES_EACH)
        self.port = 0

    async def start(self, server: Any) -> None:
        """Adds grpc's ports, starts it, and listens. Raises NetworkError, ConfigError."""
        self._clear_port = server.add_insecure_port(f"{LOOPBACK}:0")
        if (credentials := self._credentials()) is not None:
            self._tls_port = server.add_secure_port(f"{LOOPBACK}:0", credentials)
        await server.start()
        wanted = self._settings.grpc_server_port
        try:
            host = self._settings.local_serve_addr or None
            self._server = await asyncio.get_running_loop().create_server(lambda: _Outside(self), host, wanted, backlog=1024)
        except OSError as error:
            raise NetworkError(f"gRPC cannot listen on port {wanted}: {error.strerror}; change grpcServerPort") from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Takes no more connections; those there are stay until grpc ends them."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _credentials(self) -> Any:
        """None: no TLS, as nobody named a certificate. Raises ConfigError for files that cannot be read."""
        settings = self._settings
        if settings.tls_test_mode_enable:
            pair = self_signed()
            if pair is None:
                log.warning(
                    "tlsTestModeEnable: no certificate can be made here (OpenSSL's command is missing): clients come in the clear only"
                )
            return None if pair is None else grpc.ssl_server_credentials([pair])
        if not settings.tls_key_path and not settings.tls_cert_path:
            return None
        parts = []
        for key, path in (("tlsKeyPath", settings.tls_key_path), ("tlsCertPath", settings.tls_cert_path)):
            try:
                parts.append(Path(path).read_bytes())
            except OSError as error:
                raise ConfigError([Problem(key, f"{path!r} cannot be read: {error.strerror}; or set tlsTestModeEnable=true")]) from error
        return grpc.ssl_server_credentials([(parts[0], parts[1])])

    def inner_port(self, is_tls: bool) -> int:
        """Raises NetworkError for TLS where there is none."""
        if is_tls and not self._tls_port:
            raise NetworkError("it speaks TLS, for which this proxy has no certificate")
        return self._tls_port if is_tls else self._clear_port

    def admit(self, connection: _Outside) -> bool:
        if len(self._open) >= self._connections_max:
            return False
        self._open.add(connection)
        return True

    def left(self, connection: _Outside) -> None:
        self._open.discard(connection)

    def know(self, inner_port: int, client: tuple[Any, ...] | None) -> None:
        self._clients[inner_port] = (str(client[0]), int(client[1])) if client else NOBODY

    def forget(self, inner_port: int) -> None:
        self._clients.pop(inner_port, None)

    def client_of(self, peer: str) -> tuple[str, int]:
        """The host and port of the client behind a peer as grpc names it, such as ipv4:127.0.0.1:5000."""
        port = peer.rpartition(":")[2]
        return self._clients.get(int(port), NOBODY) if port.isdigit() else NOBODY
