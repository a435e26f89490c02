"""A proxy in the process of its broker: `broker --enable-proxy`, `up --proxy`, `proxy -pm local`."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.errors import RocketpyError
from ..config import Config, ConfigError, Problem
from ..config.memory import beside_broker

if TYPE_CHECKING:
    from .._core.base import LogTap
    from ..proxy.service import ProxyService

MISSING = "the proxy needs protobuf: pip install 'rocketpy-mq[proxy]'"


class ProxyBeside:
    """A proxy in the process of its broker. It uses the broker's name servers, which are known once the broker has started, and shares its
    memory.

    Its start raises ConfigError, or RocketpyError if protobuf or libnghttp2 is missing or the port cannot be had.
    """

    def __init__(self, broker: Config, file: Path | None = None, port: int | None = None) -> None:
        self._broker = broker
        self._file = file
        self._port = port
        self._service: ProxyService | None = None
        self.log_tap: LogTap | None = None
        """The process', before the start."""

    @property
    def port(self) -> int:
        return self._service.port if self._service is not None else 0

    async def start(self) -> None:
        if (missing := why_missing()) is not None:
            raise RocketpyError(missing)
        from ..proxy.service import ProxyService
        from ..proxy.settings import NO_PORT, load_settings

        overrides: dict[str, Any] = {"proxyMode": "local"}
        if self._port is not None:
            overrides["grpcServerPort"] = self._port
        defaults = {
            "namesrvAddr": self._broker.text("namesrvAddr"),
            "remotingListenPort": NO_PORT,  # 4.x clients have the broker's own
            "memory": self._broker.integer("memory"),
        }
        settings, _ = load_settings(self._file, defaults, overrides)
        settings = dataclasses.replace(settings, memory=beside_broker(settings.memory))
        if not settings.name_servers:
            raise ConfigError([Problem("namesrvAddr", "is needed by the proxy, which finds brokers and topics there")])
        self._service = ProxyService(settings, log_tap=self.log_tap)
        await self._service.start()

    async def stop(self) -> None:
        service, self._service = self._service, None
        if service is not None:
            await service.stop()


def why_missing() -> str | None:
    """What has to be installed first; None if nothing is missing."""
    try:
        found = importlib.util.find_spec("google.protobuf")
    except ModuleNotFoundError:  # there is no google at all
        return MISSING
    return None if found is not None else MISSING
