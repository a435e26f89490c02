"""`rocketpy proxy`, with the options of mqproxy in cluster mode. RocketMQ: ProxyStartup (5.3.3 proxy/)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    parser = argparse.ArgumentParser(prog=program, description="Runs the proxy: clients of 5.x, which speak gRPC, before brokers.")
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


def run_proxy(arguments: Sequence[str], program: str) -> int:
    options = parser_of(program).parse_args(arguments)
    try:
        from ..proxy.service import ProxyService
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        complain(program, RuntimeError(MISSING))
        return 1
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
        say(f"The proxy boot success. gRPC port {started[0].port}, name server is {settings.namesrv_addr}")
        if idle:
            say(f"Without effect here: {', '.join(idle)}")

    return run(program, [], make, announce)
