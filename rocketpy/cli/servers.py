"""`rocketpy namesrv`, `rocketpy broker` and `rocketpy controller`, with the options of mqnamesrv, mqbroker and mqcontroller.
RocketMQ: NamesrvStartup, BrokerStartup, ControllerStartup (5.3.3): same options, same boot lines.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config, ConfigError, Role, load_config, memory_of, reach_warning
from ..ha.service import HaSettings
from ..logs import NativeLog, start_logging
from .process import Service, run
from .proxy_beside import ProxyBeside
from .terminal import EXIT_USAGE, complain, forget_output, say

if TYPE_CHECKING:
    from ..broker.service import BrokerService

MEMORY_HELP = "memory to plan with, such as 512m or 8g; default the machine's, or less by its cgroup"
SERVERS: dict[Role, str] = {"namesrv": "name server", "broker": "broker", "controller": "controller"}
FLUSH_MEANING = {
    "ASYNC_FLUSH": "a send is answered when it is in the page cache, synced to disk every {interval} ms",
    "SYNC_FLUSH": "a send is answered when it is on disk, synced by {backend}",
}
BACKENDS = {"SYSCALL": "msync and fdatasync", "IO_URING": "io_uring"}
ROLE_MEANING = {
    "ASYNC_MASTER": "no slave has to hold it",
    "SYNC_MASTER": "{slaves} slave(s) must hold it",
    "SLAVE": "takes no sends",
}


def parser_of(role: Role, program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description=f"Runs the {SERVERS[role]}.")
    parser.add_argument("-c", "--configFile", metavar="FILE", help="properties file, RocketMQ's keys")
    if role != "controller":
        parser.add_argument("-n", "--namesrvAddr", metavar="ADDR", help="name servers, such as 192.168.0.1:9876;192.168.0.2:9876")
    parser.add_argument("-p", "--printConfigItem", action="store_true", help="print all configuration items and exit")
    parser.add_argument("--memory", metavar="SIZE", help=MEMORY_HELP)
    if role == "broker":
        parser.add_argument("-m", "--printImportantConfig", action="store_true", help="print the important configuration items and exit")
        parser.add_argument("--enable-proxy", action="store_true", help="run a proxy, too, for clients that speak gRPC")
        parser.add_argument("-pc", "--proxyConfigPath", metavar="FILE", type=Path, help="rmq-proxy.json of that proxy")
    parser.add_argument(
        "-o", "--set", metavar="KEY=VALUE", type=key_value, action="append", default=[], help="set a key, over the file; repeatable"
    )
    return parser


def key_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def overrides_of(role: Role, arguments: argparse.Namespace) -> dict[str, str]:
    overrides = dict(arguments.set)
    if role == "broker" and arguments.namesrvAddr:
        overrides["namesrvAddr"] = arguments.namesrvAddr
    if arguments.memory is not None:
        overrides["memory"] = arguments.memory
    return overrides


def run_server(role: str, arguments: Sequence[str], program: str) -> int:
    known: Role = role if role in SERVERS else "broker"
    options = parser_of(known, program).parse_args(arguments)
    important = known == "broker" and options.printImportantConfig
    try:
        config = load_config(known, options.configFile, overrides_of(known, options))
        if not (options.printConfigItem or important):
            start_logging(known, config, foreground=bool(config.text("logPath")))
    except ConfigError as error:
        complain(program, error)
        return EXIT_USAGE
    if options.printConfigItem or important:
        logging.basicConfig(format="%(message)s", level=logging.INFO)
        config.report_remarks()
        try:
            say("\n".join(config.print_lines(important=important)))
        except BrokenPipeError:  # the reader has seen enough: `rocketpy broker -p | head`
            forget_output()
        return 0
    if known != "broker":
        return {"namesrv": run_namesrv, "controller": run_controller}[known](program, config)
    beside = ProxyBeside(config, options.proxyConfigPath) if options.enable_proxy else None
    return run_broker(program, config, beside)


def run_namesrv(program: str, config: Config) -> int:
    from ..namesrv.service import NameServer

    servers: list[NameServer] = []

    def make(native_log: NativeLog) -> list[Service]:
        servers.append(NameServer(config, log_tap=native_log.tap))
        return [*servers, *controllers_within(config, native_log)]

    return run(program, [config], make, lambda: announce_namesrv(config, servers[0].port))


def controllers_within(config: Config, native_log: NativeLog) -> list[Service]:
    """The controller inside a name server, if there is to be one; both read the same configuration."""
    if not config.boolean("enableControllerInNamesrv"):
        return []
    from ..controller.service import Controller

    return [Controller(config, log_tap=native_log.tap)]


def run_controller(program: str, config: Config) -> int:
    from ..controller.service import Controller

    def announce() -> None:
        announce_controller(config)
        announce_memory(config.integer("memory"))

    return run(program, [config], lambda native_log: [Controller(config, log_tap=native_log.tap)], announce)


def run_broker(program: str, config: Config, proxy: ProxyBeside | None = None) -> int:
    from ..broker.service import BrokerService

    brokers: list[BrokerService] = []

    def make(native_log: NativeLog) -> list[Service]:
        brokers.append(BrokerService(config, log_tap=native_log.tap))
        if proxy is None:
            return [*brokers]
        proxy.log_tap = native_log.tap
        return [*brokers, proxy]

    def announce() -> None:
        announce_broker(config, brokers[0])
        announce_memory(config.integer("memory"))
        warn_of_reach(brokers[0].address)
        if proxy is not None:
            announce_proxy(proxy.port)

    return run(program, [config], make, announce)


def announce_namesrv(config: Config, port: int) -> None:
    say(f"The Name Server boot success. serializeType=JSON, address {config.text('bindAddress')}:{port}")
    announce_memory(config.integer("memory"))
    if config.boolean("enableControllerInNamesrv"):
        announce_controller(config)


def announce_controller(config: Config) -> None:
    """Says that the controller runs, and how many members it takes to elect a master."""
    say("The Controller Server boot success. serializeType=JSON")
    member, count = config.text("controllerDLegerSelfId"), config.text("controllerDLegerPeers").strip(";").count(";") + 1
    if count == 1:
        say(f"Controller {member} is alone in its group: while it is down, nobody elects a master")
    else:
        say(f"Controller {member} is one of {count}: masters are elected while {count // 2 + 1} of them are up")


def announce_broker(config: Config, broker: BrokerService) -> None:
    namesrv = config.text("namesrvAddr")
    known_to = f" and name server is {namesrv}" if namesrv else ""
    say(f"The broker[{config.text('brokerName')}, {broker.address}] boot success. serializeType=JSON{known_to}")
    say(durability(config, broker.flush_backend))


def announce_memory(size: int) -> None:
    say(f"Memory to plan with: {memory_of(size)}")


def announce_proxy(port: int) -> None:
    say(f"The proxy boot success. Clients that speak gRPC connect to port {port}")


def warn_of_reach(address: str) -> None:
    if warning := reach_warning(address.rpartition(":")[0]):
        say(f"Warning: {address} is registered for clients: {warning} (advertise or brokerIP1 changes it)")


def durability(config: Config, backend: str) -> str:
    """What an acknowledged send means under this configuration."""
    flush, role = config.text("flushDiskType"), config.text("brokerRole")
    flush_meaning = FLUSH_MEANING[flush].format(interval=config.integer("flushIntervalCommitLog"), backend=BACKENDS[backend])
    replication = HaSettings.of(config)
    role_meaning = ROLE_MEANING[role].format(slaves=replication.slaves_required)
    if config.boolean("enableControllerMode"):
        waits_for = (
            "all replicas in sync" if config.boolean("allAckInSyncStateSet") else f"inSyncReplicas={config.integer('inSyncReplicas')}"
        )
        role_meaning = f"of this moment, the controller elects; a master waits for {waits_for}"
    if config.boolean("enableDLegerCommitLog"):
        members = config.text("dLegerPeers").strip(";").count(";") + 1
        role_meaning = f"of this moment, the group elects; {members // 2 + 1} of its {members} members must hold it"
    if replication.is_sync and replication.fewer_gap_bytes:
        role_meaning += f", or those in sync when they are fewer, {replication.slaves_min} at least"
    return f"Durability: flushDiskType={flush} ({flush_meaning}), brokerRole={role} ({role_meaning})"
