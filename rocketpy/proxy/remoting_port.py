"""The port for 4.x clients: a native server, TLS and clear text, with the gate in front where users are asked for.
RocketMQ: RemotingProtocolServer, MultiProtocolRemotingServer (5.3.3 proxy/remoting/).

    4.x client ── reactor ── gate ── ring ── Relay ── asyncio ── broker
    5.x client ── HTTP/2 ── reactor ── gRPC's port, as if he had come there

Threads  REACTORS of the server's beside the event loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import time
from typing import Final

from .._core.auth import AuthTable
from .._core.errors import NetworkError
from .._core.remoting import LogTap, Request, Server
from ..config import registered_host
from ..remoting.command import Response
from ..remoting.latencies import Latencies, remoting_kind
from ..remoting.listen_address import numeric_address
from ..remoting.service import RemotingService
from .brokers import Brokers
from .clients import Clients
from .found_messages import FoundMessages
from .relay import Relay, RelayHandler
from .relay_rules import POLLS
from .settings import NO_PORT, ProxySettings
from .tls_files import PERMISSIVE, load_tls

log = logging.getLogger(__name__)

REACTORS: Final = 2
FILES_EACH: Final = 8
"""Descriptors that a connection may cost: its own, and those to brokers."""
CONNECTIONS_MAX: Final = 65_536
LOOPBACK: Final = "127.0.0.1"
TASKS_MAX: Final = 50_000
"""Requests under way; pulls wait for messages."""


class RemotingPort:
    """One remoting listener. `stop` it before the brokers' client and the gate are closed."""

    def __init__(
        self,
        settings: ProxySettings,
        brokers: Brokers,
        clients: Clients,
        gate: AuthTable | None,
        latencies: Latencies | None = None,
        *,
        log_tap: LogTap | None = None,
        grpc_port: int = NO_PORT,
        found: FoundMessages | None = None,
    ) -> None:
        """`latencies` counts the time of each request. `grpc_port`: where connections that speak gRPC are forwarded to, if they may be.

        Raises NetworkError, ConfigError, InvalidArgument.
        """
        self._settings = settings
        host = numeric_address("localServeAddr", settings.local_serve_addr or "0.0.0.0")
        try:
            self._server = Server(
                log=log_tap,
                bind_address=host,
                port=settings.remoting_listen_port,
                reactors=REACTORS,
                connections_max=min(CONNECTIONS_MAX, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // FILES_EACH)),
                memory_bytes_max=settings.port_bytes_max,
                tls_mode=PERMISSIVE,
                thread_name="remoting",
            )
        except NetworkError as error:
            raise NetworkError(f"no port for 4.x clients: {error}; change remotingListenPort ({NO_PORT}: none)") from error
        if gate is not None:
            self._server.set_gate(gate)
        if grpc_port != NO_PORT and settings.enable_remoting_local_proxy_grpc:
            own = ipaddress.ip_address(host)
            self._server.pass_http2_on((ipaddress.ip_address(LOOPBACK) if own.is_unspecified else own).packed, grpc_port)
        access = settings.remoting_access_addr or registered_host(host)
        self.address = f"[{access}]:{self.port}" if ":" in access and not access.startswith("[") else f"{access}:{self.port}"
        """Where clients are told that the brokers are."""
        self._relay = Relay(brokers, clients, settings.credentials, self.address, settings.kept_bytes_max, found)
        handlers = self._relay.handlers()
        if latencies is not None:
            handlers = {code: _timed(handler, latencies) for code, handler in handlers.items()}
        self._service = RemotingService(
            self._server, handlers, on_opened=self._relay.opened, on_closed=self._relay.closed, tasks_max=TASKS_MAX
        )
        self._relay.attach(self._service)

    @property
    def port(self) -> int:
        return self._server.port

    def __len__(self) -> int:
        """How many clients are connected."""
        return len(self._relay)

    async def start(self) -> None:
        """Raises ConfigError for a certificate that cannot be used."""
        await asyncio.get_running_loop().run_in_executor(None, load_tls, self._server, self._settings, "4.x clients")
        self._service.start()
        self._server.start()

    async def stop(self) -> None:
        """Guests leave the brokers, and their connections are cut."""
        await self._service.stop()
        await self._relay.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._server.close)


def _timed(handler: RelayHandler, latencies: Latencies) -> RelayHandler:
    async def timed(request: Request) -> Response | None:
        began_s = time.monotonic()
        answer = await handler(request)
        if answer is not None:
            took_ms = (time.monotonic() - began_s) * 1000
            latencies.add(remoting_kind(request.code, answer.code, request.code in POLLS), took_ms)
        return answer

    return timed
