"""Requests of ours on the connections of clients, whichever listener they came in by.
RocketMQ: Broker2Client (5.3.3 broker/client/net/).
"""

from __future__ import annotations

import contextlib

from .._core.errors import RocketpyError
from .._core.remoting import Command, Server
from ..remoting.command import Fields
from ..remoting.service import RemotingService
from .clients import Channel


class ServiceLink:
    """A ClientLink over the broker's listeners. The lists belong to the broker, which fills them while it starts."""

    def __init__(self, servers: list[Server], services: list[RemotingService]) -> None:
        self._servers = servers
        self._services = services

    def notify(self, channel: Channel, code: int, fields: Fields = None, body: bytes = b"") -> bool:
        return self._services[channel.listener].notify(channel.connection_id, code, fields, body)

    async def call(self, channel: Channel, code: int, fields: Fields = None, body: bytes = b"", *, timeout_s: float = 3.0) -> Command:
        return await self._services[channel.listener].call_client(channel.connection_id, code, fields, body, timeout_s=timeout_s)

    def close(self, channel: Channel) -> None:
        with contextlib.suppress(RocketpyError):
            self._servers[channel.listener].close_connection(channel.connection_id)
