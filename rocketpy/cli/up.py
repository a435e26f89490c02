"""`rocketpy up`: a name server and a broker in one process, for a first look, for tests and, with --check, to prove that it works."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .._core.errors import DiskFull, InvalidArgument, NetworkError, NotFound, RocketpyError, StoreIOError
from ..broker.service import BrokerService
from ..config import Config, ConfigError, join_address, load_config, registered_host
from ..config.memory import NAMESRV_BESIDE, share
from ..logs import NativeLog, start_logging
from ..namesrv.service import NameServer
from .cluster import cluster_configs
from .place import bytes_of, free_bytes, trial_place
from .process import Service, StopSignal, run, wait_for_signal
from .proxy_beside import ProxyBeside
from .servers import announce_broker, announce_namesrv, announce_proxy
from .terminal import EXIT_USAGE, complain, say

PROGRAM = "rocketpy up"
NAMESRV_PORT = 9876
PROXY_PORT = 8081
BROKER_PORT = 10911
STANDARD_PORT = -1  # the usual one when it is free, any other when not
BROKER_PORT_NEIGHBOURS = (-2, 0, 1)  # VIP channel, clients, slaves
SLAVES_WAIT_S = 30.0
SLAVES_LOOK_S = 0.02
SLAVE_LEAVES = "ha: slave "
"""How a master begins to say that it lost a slave; here the slaves end first, and everything after them."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of the command line."""

    directory: Path | None = None
    host: str = "127.0.0.1"
    namesrv_port: int = STANDARD_PORT
    broker_port: int = STANDARD_PORT
    check_count: int = 0
    message_size: int = 1024
    flush: str = "ASYNC_FLUSH"
    json: bool = False
    proxy_port: int | None = None
    """The port of a proxy for clients that speak gRPC, STANDARD_PORT as above; None: no proxy."""
    cluster: str = ""
    """A sample deployment by name, or a directory of broker files; "" is one broker."""
    memory: str | None = None
    """How much memory this process may take; with a cluster, what each of its brokers plans with. None: what there is."""

    @property
    def keys(self) -> dict[str, str]:
        """The configuration keys that every server gets."""
        return {} if self.memory is None else {"memory": self.memory}


def process_age_s() -> float:
    """Seconds since this process was started, according to the kernel (in steps of 10 ms)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    started_ticks = int(fields[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / 100


def port_is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def choose_port(host: str, wanted: int, usual: int, neighbours: tuple[int, ...] = (0,)) -> int:
    """The wanted port. For STANDARD_PORT it is the usual one if that and its neighbours are free, else 0: any free one."""
    if wanted != STANDARD_PORT:
        return wanted
    return usual if all(port_is_free(host, usual + distance) for distance in neighbours) else 0


def configs_of(options: UpOptions, directory: Path, keys: Mapping[str, str] | None = None) -> tuple[Config, Config]:
    """The configurations of the name server and the broker: everything below one directory, everything on one address.

    `keys` are set in the broker's. Raises ConfigError.
    """
    logs = str(directory / "logs")
    namesrv = {
        "bindAddress": options.host,
        "listenPort": str(choose_port(options.host, options.namesrv_port, NAMESRV_PORT)),
        "kvConfigPath": str(directory / "namesrv" / "kvConfig.json"),
        "configStorePath": str(directory / "namesrv" / "namesrv.properties"),
    } | options.keys
    broker = {
        "bindAddress": options.host,
        "brokerIP1": registered_host(options.host),
        "brokerIP2": registered_host(options.host),
        "listenPort": str(choose_port(options.host, options.broker_port, BROKER_PORT, BROKER_PORT_NEIGHBOURS)),
        "haListenPort": "0",
        "brokerName": "broker-a",
        "storePathRootDir": str(directory / "store"),
        "flushDiskType": options.flush,
        "logPath": logs,
    } | options.keys
    namesrv_config = load_config("namesrv", None, namesrv)
    namesrv_config.override("bufferBytesMax", share(namesrv_config.integer("memory"), *NAMESRV_BESIDE))
    return namesrv_config, load_config("broker", None, broker | dict(keys or {}))


class Embedded:
    """A name server and brokers as one service: the brokers are told the port that the name server got."""

    def __init__(self, namesrv_config: Config, broker_configs: list[Config], native_log: NativeLog) -> None:
        self.namesrv = NameServer(namesrv_config, log_tap=native_log.tap)
        self.brokers: list[BrokerService] = []
        self.registered_after_s = 0.0
        self._broker_configs = broker_configs
        self._native_log = native_log

    async def start(self) -> None:
        await self.namesrv.start()
        members: list[BrokerService] = []
        for config in self._broker_configs:
            config.override("namesrvAddr", join_address(config.text("brokerIP1"), self.namesrv.port))
            broker = BrokerService(config, log_tap=self._native_log.tap)
            self.brokers.append(broker)
            if config.boolean("enableDLegerCommitLog"):
                members.append(broker)
            else:
                await broker.start()
        faults = await asyncio.gather(*(member.start() for member in members), return_exceptions=True)  # none has a role without others
        for fault in filter(None, faults):
            raise fault
        self.registered_after_s = process_age_s()

    def masters(self) -> list[BrokerService]:
        """The masters of this moment: the members of a DLedger group elect theirs."""
        return [broker for broker in self.brokers if broker.config.text("brokerRole") != "SLAVE"]

    def _is_whole(self) -> bool:
        """Whether every broker name has a master, with all its other brokers in sync."""
        names, masters = [broker.name for broker in self.brokers], self.masters()
        return {master.name for master in masters} == set(names) and all(
            master.slaves_in_sync >= names.count(master.name) - 1 for master in masters
        )

    async def slaves_follow(self) -> None:
        """Waits until every master has the slaves of its name in sync, SLAVES_WAIT_S at most. Slaves connect only after they have
        registered, hence after the start: until then messages are stored without them."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SLAVES_WAIT_S):
                while not self._is_whole():  # noqa: ASYNC110 - native threads count them
                    await asyncio.sleep(SLAVES_LOOK_S)

    async def stop(self) -> None:
        """Stops all of them, whatever fails. Raises StoreIOError that names each broker which did not stop cleanly."""
        faults: list[str] = []
        self._native_log.expect(SLAVE_LEAVES)
        masters = self.masters()  # they end last
        others = [broker for broker in self.brokers if broker not in masters]
        for broker in [*reversed(others), *reversed(masters)]:
            try:
                await broker.stop()
            except (RocketpyError, OSError) as error:
                faults.append(f"{broker.name}: {error}")
        await self.namesrv.stop()
        if faults:
            raise StoreIOError("; ".join(faults))


def no_room(options: UpOptions, directory: Path, free: int, wanted: int) -> DiskFull:
    return DiskFull(
        f"{options.check_count:,} messages of {options.message_size:,} bytes need about {wanted / 1024**3:,.1f} GiB, {directory} has "
        f"{free / 1024**3:,.1f} free; free disk space there, or name another directory (--dir; of make DIR) or fewer messages (--check; of "
        "make N)"
    )


class Up:
    """One run of the command: what is started, what is printed, what is waited for."""

    def __init__(self, options: UpOptions, directory: Path, namesrv_config: Config, broker_configs: list[Config]) -> None:
        self._options = options
        self._directory = directory
        self._namesrv_config = namesrv_config
        self._broker_configs = broker_configs
        self._servers: Embedded | None = None
        self._proxy: ProxyBeside | None = None
        if options.proxy_port is not None:
            port = choose_port(options.host, options.proxy_port, PROXY_PORT)
            self._proxy = ProxyBeside(broker_configs[0], port=port)

    @property
    def _started(self) -> Embedded:
        assert self._servers is not None
        return self._servers

    def make(self, native_log: NativeLog) -> list[Service]:
        self._servers = Embedded(self._namesrv_config, self._broker_configs, native_log)
        if self._proxy is None:
            return [self._servers]
        self._proxy.log_tap = native_log.tap
        return [self._servers, self._proxy]

    def announce(self) -> None:
        options = self._options
        if options.json and options.check_count > 0:
            return
        announce_namesrv(self._namesrv_config, self._started.namesrv.port)
        for config, broker in zip(self._broker_configs, self._started.brokers, strict=True):
            announce_broker(config, broker)
        if self._proxy is not None:
            announce_proxy(self._proxy.port)
        say(f"Registered {self._started.registered_after_s:.2f} s after the process was started. Data and logs: {self._directory}")
        if options.check_count == 0:
            say(f"Clients connect with namesrvAddr={self._broker_configs[0].text('namesrvAddr')}. Ctrl-C stops.")

    async def work(self, stop: StopSignal) -> int:
        """Runs until a signal or, with --check, until every message has come back. Returns the exit status."""
        if self._options.check_count == 0:
            return await wait_for_signal(stop)
        check = asyncio.ensure_future(self._check())
        ended = asyncio.ensure_future(stop.wait())
        await asyncio.wait((check, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not check.done():
            check.cancel()
            await asyncio.wait((check,))
            return 1
        return check.result()

    async def _check(self) -> int:
        from .check import CheckOptions, run_check

        options, started = self._options, self._started
        durability = f"as the files of {options.cluster} say" if options.cluster else f"{options.flush}, no slave"
        await started.slaves_follow()
        brokers = started.masters() or started.brokers
        check_options = CheckOptions(options.check_count, options.message_size, durability, options.json)
        return await run_check(brokers[0].address, check_options, started.registered_after_s)


def run_up(options: UpOptions) -> int:
    wanted_bytes = bytes_of(options.check_count, options.message_size)
    with ExitStack() as stack:
        directory = options.directory
        if directory is None:
            place = trial_place(wanted_bytes)
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpy-", dir=place, ignore_cleanup_errors=True)))
        directory = directory.absolute()
        if (free := free_bytes(directory)) < wanted_bytes:
            complain(PROGRAM, no_room(options, directory, free, wanted_bytes))
            return 1
        try:
            namesrv_config, broker_config = configs_of(options, directory)
            broker_configs = cluster_configs(options.cluster, options.host, directory, options.keys) if options.cluster else [broker_config]
            start_logging("rocketpy", broker_config, foreground=True)
        except (ConfigError, NotFound, InvalidArgument, NetworkError) as error:
            complain(PROGRAM, error)
            return EXIT_USAGE
        up = Up(options, directory, namesrv_config, broker_configs)
        return run(PROGRAM, [namesrv_config, *broker_configs], up.make, up.announce, up.work)
