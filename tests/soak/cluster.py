"""A name server, a SYNC_MASTER and its slave as processes with small files and short retention, watched and now and then restarted."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocketpy.remoting.codes import RequestCode
from tests.crash.broker_process import BrokerProcess, NameServerProcess, Server
from tests.interop.wire import call
from tests.processes import free_port, wait_until

from .course import RESTARTS, Course, Extent
from .disk import bytes_in
from .measures import Bounds, Holdings, holdings, memory_fault, running_faults

EVERY_HOUR = ";".join(f"{hour:02}" for hour in range(24))
CLIENTS_MAX = 96
"""Connections of the load at once: a dozen with one purpose each, consumers, strangers, and those that are being closed."""
QUEUE_FILE_BYTES = 20_000
INDEX_KEYS = {"maxHashSlotNum": 1000, "maxIndexNum": 4000}
SENDS_BETWEEN_RESTARTS = 100
LOOKS_A_CENSUS = 60


def broker_keys(extent: Extent, names_address: str) -> dict[str, object]:
    """Files that fill in seconds, retention by bytes, connections given up soon. The disk of the machine is nobody's business here."""
    return {
        "brokerName": "soak", "namesrvAddr": names_address, "slaveReadEnable": "true",
        "mappedFileSizeCommitLog": extent.log_file_bytes, "mappedFileSizeConsumeQueue": QUEUE_FILE_BYTES,
        **INDEX_KEYS, "retentionBytes": extent.retention_bytes, "deleteWhen": EVERY_HOUR,
        "cleanResourceInterval": 1000, "deleteCommitLogFilesInterval": 10, "diskMaxUsedSpaceRatio": 95, "diskSpaceCleanForciblyRatio": 99,
        "diskSpaceWarningLevelRatio": 100, "flushConsumerOffsetInterval": 1000, "serverChannelMaxIdleTimeSeconds": 20,
        "stallTimeoutMillis": 3000, "haHousekeepingInterval": 60_000, "osPageCacheBusyTimeOutMills": 60_000,
    }  # fmt: skip


def log_bytes_max(extent: Extent) -> int:
    """What retention keeps; beside it the file that is written, the one made ahead, those not yet on disk, and what a slow machine takes
    in between two looks of a second: ten files more."""
    return extent.retention_bytes + 13 * extent.log_file_bytes


class SoakCluster:
    """The three processes, and what each of them held when it was idle."""

    def __init__(self, directory: Path, extent: Extent) -> None:
        self.names = NameServerProcess(directory / "n")
        keys = broker_keys(extent, self.names.address)
        self.metrics_port = free_port()
        exporter = {"metricsExporterType": "PROM", "metricsPromExporterPort": self.metrics_port}
        self.master = BrokerProcess(directory / "m", brokerRole="SYNC_MASTER", **{**keys, **exporter})
        self.slave = BrokerProcess(directory / "s", brokerRole="SLAVE", brokerId=1, **keys)
        self.idle: dict[str, Holdings] = {}
        self.idle_census: dict[str, Any] = {}
        for server in self.servers:
            server.inside = [sys.executable, "-m", "tests.soak.census", str(self._census_file(server))]

    @property
    def servers(self) -> tuple[Server, ...]:
        return self.names, self.master, self.slave

    def name_of(self, server: Server) -> str:
        return "name server" if server is self.names else "master" if server is self.master else "slave"

    @contextmanager
    def running(self) -> Iterator[SoakCluster]:
        try:
            for server in self.servers:
                server.start()
            yield self
        finally:
            for server in reversed(self.servers):
                server.stop()

    def holdings_of(self, server: Server, now_s: float) -> Holdings:
        store = server.store if isinstance(server, BrokerProcess) else server.directory / "no store"
        return holdings(server.pid, store, now_s)

    def take_idle(self, now_s: float) -> None:
        for server in self.servers:
            name = self.name_of(server)
            census = self.idle_census[name] = self.census_of(server)
            known = "TopicTable._configs" if isinstance(server, BrokerProcess) else "RouteInfo._topics"
            assert census["tables"].get(known), f"the census of {name} does not see {known}"
            self.idle[name] = self.holdings_of(server, now_s)

    def _census_file(self, server: Server) -> Path:
        return server.directory / "census.json"

    def census_of(self, server: Server) -> Any:
        path = self._census_file(server)
        path.unlink(missing_ok=True)
        server.process.send_signal(signal.SIGUSR2)
        server.process.wait_until(path.exists, 50.0, "its census")
        return json.loads(path.read_text())


class Watch:
    """Looks at the processes again and again; what is out of bounds ends the soak at once."""

    def __init__(self, course: Course, cluster: SoakCluster, bounds: Bounds) -> None:
        self._course = course
        self._cluster = cluster
        self._bounds = bounds
        self.rows: dict[tuple[str, int], list[Holdings]] = defaultdict(list)
        """By name and process id: a restart begins a new row."""
        self.censuses: dict[tuple[str, int], list[tuple[float, int, int]]] = defaultdict(list)
        """Likewise: when, bytes in use of the heap, Python objects."""

    async def run(self) -> None:
        """Until it is cancelled."""
        for number in itertools.count(1):
            self.look()
            if number % LOOKS_A_CENSUS == 0:
                await self._take_censuses()
            await asyncio.sleep(1.0 if self._course.is_long else 0.2)

    async def _take_censuses(self) -> None:
        async with self._course.restarting:
            for server in self._cluster.servers:
                name, pid = self._cluster.name_of(server), server.pid
                taken = await asyncio.to_thread(self._cluster.census_of, server)
                self.censuses[name, pid].append((self._course.elapsed_s, taken["heap"], sum(taken["objects"].values())))

    def look(self) -> None:
        for server in self._cluster.servers:
            name = self._cluster.name_of(server)
            try:
                pid = server.pid
                now = self._cluster.holdings_of(server, self._course.elapsed_s)
            except (OSError, KeyError, AssertionError):  # it is being restarted; a process that has ended has no memory
                assert self._course.restarts_under_way, f"the {name} is gone"
                continue
            self.rows[name, pid].append(now)
            faults = running_faults(self._cluster.idle[name], now, self._bounds)
            assert not faults, f"{name} at {self._course.elapsed_s:.0f} s: {faults}"
        self._look_at_the_disk()

    def _look_at_the_disk(self) -> None:
        for broker in (self._cluster.master, self._cluster.slave):
            size = bytes_in(broker.store / "commitlog")
            most = log_bytes_max(self._course.extent)
            assert size <= most, f"the log of {broker.role} holds {size} bytes at {self._course.elapsed_s:.0f} s, {most} at most"

    def memory_faults(self) -> list[str]:
        return [f"{name} {pid}: {fault}" for (name, pid), row in self.rows.items() if (fault := memory_fault(row))]

    def report(self) -> str:
        lines = []
        for (name, pid), row in self.rows.items():
            parts = [row[len(row) * share // 8] for share in range(8)] + [row[-1]]
            sizes = " ".join(f"{each.anonymous_bytes / (1 << 20):.1f}" for each in parts)
            lines.append(
                f"{name} {pid}, {row[-1].at_s - row[0].at_s:.0f} s: anonymous MB {sizes}; at most "
                f"sockets {max(each.sockets for each in row)}, threads {max(each.thread_count for each in row)}, "
                f"maps {max(each.maps for each in row)}, store files {max(each.store_files for each in row)}, "
                f"store maps {max(each.store_maps for each in row)}; heap MB and objects "
                + " ".join(f"{heap / (1 << 20):.2f}/{objects}" for _, heap, objects in self.censuses[name, pid])
            )
        return "\n".join(lines)


class Restarts:
    """The slave often, the master now and then, by SIGTERM or SIGKILL. None in the later two thirds of a long run: what is judged there
    needs processes that live."""

    def __init__(self, course: Course, cluster: SoakCluster) -> None:
        self._course = course
        self._cluster = cluster
        self._dice = course.dice("restarts")

    async def run(self) -> None:
        async for number in self._course.turns("restarts", 20.0, RESTARTS, until=0.3):
            await self._course.until_done("sends", SENDS_BETWEEN_RESTARTS * (number + 1))
            server = self._cluster.master if number % 5 == 1 else self._cluster.slave
            async with self._course.restarting:
                await self._restart(server, kill=self._dice.random() < 0.4)

    async def _restart(self, server: Server, *, kill: bool) -> None:
        course = self._course
        course.restarts += 1
        course.restarts_under_way += 1
        course.quiet.clear()
        course.count(f"{self._cluster.name_of(server)} {'killed' if kill else 'stopped'}")
        try:
            await asyncio.to_thread(server.kill if kill else server.stop)
            await asyncio.to_thread(server.start)
        finally:
            course.restarts_under_way -= 1
        await asyncio.to_thread(wait_follows, self._cluster.master, self._cluster.slave)
        course.quiet.set()


def wait_follows(master: BrokerProcess, slave: BrokerProcess) -> None:
    """Until a slave counts as in sync; under load it is never quite at the end."""

    def follows() -> bool:
        return bool(json.loads(call(master.address, RequestCode.GET_BROKER_HA_STATUS).body)["inSyncSlaveNums"])

    wait_until(follows, what="the slave follows", every=0.05, not_yet=OSError)


def keep_logs(cluster: SoakCluster, target: Path) -> None:
    """For whoever looks into a long run afterwards."""
    for server in cluster.servers:
        place = target / cluster.name_of(server).replace(" ", "-")
        shutil.copytree(server.directory / "logs", place, dirs_exist_ok=True)


def wait_settled(cluster: SoakCluster, server: Server, faults: Callable[[], list[str]], what: str) -> None:
    """Until a server holds no more than it should: it notices the end of connections at once, retention looks for files every second."""
    last: list[str] = []

    def look() -> bool:
        last[:] = faults()
        return not last

    try:
        wait_until(look, what=what, every=0.2)
    except AssertionError:
        raise AssertionError(f"{cluster.name_of(server)}, {what}: {last}") from None
