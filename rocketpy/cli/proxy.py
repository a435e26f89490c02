"""`rocketpy proxy`, with the options of mqproxy in cluster mode. RocketMQ: ProxyStartup (5.3.3 proxy/)."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._core.errors import RocketpyError
from ..config import Config, ConfigError, load_config
from ..logs import NativeLog, start_logging
from .process import EXIT_USAGE, Service, complain, run, say

if TYPE_CHECKING:
    from ..proxy.service import ProxyService
    from ..proxy.settings import ProxySettings

LOG_KEYS = ("logPath", "logLevel", "logFormat", "logFileSize", "logFileCount")
"""Those of rocketpy's servers; in the proxy's file, too."""
MISSING = "the proxy needs grpcio and protobuf: pip install 'rocketpy-mq[proxy]'"


def parser_of(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Runs the proxy before brokers: for clients of 5.x, which speak gRPC, and for those of 4.x."
    )
    parser.add_argument("-pc", "-c", "--proxyConfigPath", metavar="FILE", type=Path, help="rmq-proxy.json")
    parser.add_argument("-n", "--namesrvAddr", metavar="ADDR", help="name servers, such as 192.168.0.1:9876;192.168.0.2:9876")
    parser.add_argument("-pm", "--proxyMode", choices=["cluster", "CLUSTER"], default="cluster", help="brokers are processes of their own")
    parser.add_argument("-p", "--port", metavar="PORT", type=int, help="grpcServerPort")
    return parser


def settings_of(options: argparse.Namespace) -> tuple[ProxySettings, list[str], Config]:
    """(settings, keys that do nothing here, where to log). Raises ConfigError."""
    from ..proxy.settings import load_settings

    given = {"namesrvAddr": options.namesrvAddr, "grpcServerPort": options.port}
    overrides = {name: value for name, value in given.items() if value is not None}
    settings, others = load_settings(options.proxyConfigPath, {"namesrvAddr": os.environ.get("NAMESRV_ADDR", "")}, overrides)
    logs = load_config("namesrv", None, {name: others.pop(name) for name in LOG_KEYS if name in others})
    return settings, sorted(others), logs


class ProxyBeside:
    """A proxy in the process of its broker, started behind it: only then the name servers are known.

    Raises ConfigError from its start, RocketpyError where grpcio is missing or the port cannot be had."""

    def __init__(self, name_servers: Callable[[], str], file: Path | None = None, port: int | None = None) -> None:
        self._name_servers = name_servers
        self._file = file
        self._port = port
        self._service: ProxyService | None = None

    @property
    def port(self) -> int:
        return self._service.port if self._service is not None else 0

    async def start(self) -> None:
        if (missing := why_missing()) is not None:
            raise RocketpyError(missing)
        from ..proxy.service import ProxyService
        from ..proxy.settings import NO_PORT, load_settings

        overrides = {"grpcServerPort": self._port} if self._port is not None else {}
        defaults = {"namesrvAddr": self._name_servers(), "remotingListenPort": NO_PORT}  # 4.x clients have the broker's own
        settings, _ = load_settings(self._file, defaults, overrides)
        self._service = ProxyService(settings)
        await self._service.start()

    async def stop(self) -> None:
        service, self._service = self._service, None
        if service is not None:
            await service.stop()


def why_missing() -> str | None:
    """What is to be installed first; None: nothing."""
    try:
        found = [importlib.util.find_spec(name) for name in ("grpc", "google.protobuf")]
    except ModuleNotFoundError:  # there is no google at all
        return MISSING
    return None if all(found) else MISSING


def run_proxy(arguments: Sequence[str], program: str) -> int:
    options = parser_of(program).parse_args(arguments)
    if (missing := why_missing()) is not None:
        complain(program, RocketpyError(missing))
        return 1
    from ..proxy.service import ProxyService

    try:
        settings, idle, logs = settings_of(options)
        start_logging("proxy", logs, foreground=bool(logs.text("logPath")))
    except ConfigError as error:
        complain(program, error)
        return EXIT_USAGE
    started: list[ProxyService] = []

    def make(native_log: NativeLog) -> list[Service]:
        started.append(ProxyService(settings))
        return [*started]

    def announce() -> None:
        others = f"port for 4.x clients {started[0].remoting_port}, " if started[0].remoting_port else ""
        say(f"The proxy boot success. gRPC port {started[0].port}, {others}name server is {settings.namesrv_addr}")
        if idle:
            say(f"Without effect here: {', '.join(idle)}")

    return run(program, [], make, announce)
