"""What the broker's own requests need of RemotingClient, as protocols: tests put a recorder in its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.command import Fields


class Caller(Protocol):
    """Sends a request to one server."""

    async def call(self, address: str, code: int, fields: Fields = ..., body: bytes = ..., *, timeout_s: float = ...) -> Command: ...


class GroupCaller(Protocol):
    """Sends a request to many servers at once."""

    async def invoke_all(
        self, addresses: Iterable[str], code: int, fields: Fields = ..., body: bytes = ..., *, timeout_s: float = ...
    ) -> dict[str, Command | RocketpyError]: ...
