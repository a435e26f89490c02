"""`rocketpy proxy`, with the options of mqproxy in cluster mode. RocketMQ: ProxyStartup (5.3.3 proxy/)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.errors import RocketpyError
from ..config import Config, ConfigError, Problem, found_memory, load_config
from ..logs import NativeLog, start_logging
from .process import Service, run
from .proxy_beside import why_missing
from .servers import MEMORY_HELP, announce_memory, run_server
from .terminal import EXIT_USAGE, complain, say

if TYPE_CHECKING:
    from ..proxy.service import ProxyService
    from ..proxy.settings import ProxySettings

LOG_KEYS = ("logPath", "logLevel", "logFormat", "logFileSize", "logFileCount")
"""The keys of rocketpy's servers that may also stand in a proxy's file."""


def parser_of(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Runs the proxy before brokers: for clients of 5.x, which speak gRPC, and for those of 4.x."
    )
    parser.add_argument("-pc", "-c", "--proxyConfigPath", metavar="FILE", type=Path, help="rmq-proxy.json")
    parser.add_argument("-n", "--namesrvAddr", metavar="ADDR", help="name servers, such as 192.168.0.1:9876;192.168.0.2:9876")
    parser.add_argument(
        "-pm",
        "--proxyMode",
        type=str.lower,
        choices=["cluster", "local"],
        help="cluster, the default: brokers are processes of their own; local: one in this process, as `broker --enable-proxy` has it",
    )
    parser.add_argument("-bc", "--brokerConfigPath", metavar="FILE", help="broker.conf, in local mode")
    parser.add_argument("--memory", metavar="SIZE", help=MEMORY_HELP)
    parser.add_argument("-p", "--port", metavar="PORT", type=int, help="grpcServerPort")
    return parser


def settings_of(options: argparse.Namespace) -> tuple[ProxySettings, list[str], Config]:
    """(settings, keys that have no effect here, where to log). Raises ConfigError."""
    from ..proxy.settings import load_settings

    given = {"namesrvAddr": options.namesrvAddr, "grpcServerPort": options.port, "proxyMode": options.proxyMode, "memory": options.memory}
    overrides = {name: value for name, value in given.items() if value is not None}
    settings, others = load_settings(options.proxyConfigPath, {"namesrvAddr": os.environ.get("NAMESRV_ADDR", "")}, overrides)
    logs = take_log_config(others)
    return settings, sorted(others), logs


def take_log_config(others: dict[str, Any]) -> Config:
    """Takes LOG_KEYS out of the keys that a proxy's file has besides its own, and returns them as a configuration. Raises ConfigError."""
    given = {name: others.pop(name) for name in LOG_KEYS if name in others}
    if wrong := [name for name, value in given.items() if isinstance(value, bool) or not isinstance(value, str | int)]:
        raise ConfigError([Problem(name, "is neither a text nor a number") for name in wrong])
    return load_config("namesrv", None, {name: str(value) for name, value in given.items()})


def run_local(options: argparse.Namespace, settings: ProxySettings, program: str) -> int:
    """Runs what RocketMQ calls local mode: a broker, which does the logging, with a proxy in the same process."""
    if options.port is not None:
        complain(program, ConfigError([Problem("-p", "is of cluster mode: in local mode grpcServerPort stands in the file of -pc")]))
        return EXIT_USAGE
    broker_file = options.brokerConfigPath or settings.broker_config_path
    arguments = [
        "--enable-proxy",
        *(["-c", broker_file] if broker_file else []),
        *(["-n", settings.namesrv_addr] if settings.namesrv_addr else []),
        *(["--memory", str(settings.memory)] if settings.memory != found_memory().size else []),
    ]
    file = ["-pc", str(options.proxyConfigPath)] if options.proxyConfigPath else []
    return run_server("broker", [*arguments, *file], program)


def run_proxy(arguments: Sequence[str], program: str) -> int:
    options = parser_of(program).parse_args(arguments)
    if (missing := why_missing()) is not None:
        complain(program, RocketpyError(missing))
        return 1
    from ..proxy.service import ProxyService

    try:
        settings, idle, logs = settings_of(options)
        if settings.proxy_mode != "local":
            start_logging("proxy", logs, foreground=bool(logs.text("logPath")))
    except ConfigError as error:
        complain(program, error)
        return EXIT_USAGE
    if settings.proxy_mode == "local":
        return run_local(options, settings, program)
    started: list[ProxyService] = []

    def make(native_log: NativeLog) -> list[Service]:
        started.append(ProxyService(settings, log_tap=native_log.tap))
        return [*started]

    def announce() -> None:
        others = f"port for 4.x clients {started[0].remoting_port}, " if started[0].remoting_port else ""
        say(f"The proxy boot success. gRPC port {started[0].port}, {others}name server is {settings.namesrv_addr}")
        announce_memory(settings.memory)
        if idle:
            say(f"Without effect here: {', '.join(idle)}")

    return run(program, [], make, announce)
