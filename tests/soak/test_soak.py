"""A cluster under everything at once for as long as one likes: nothing grows, nothing is left behind, nothing is lost.

The short form is a few seconds of it, in every run of the tests; `make soak` is half an hour. What is looked at while the load runs, and
when it is over, stands in measures.py, ledger.py and below.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from tests.crash.broker_process import Server
from tests.crash.replica_pair import wait_in_sync
from tests.interop.wire import call, parse_json
from tests.processes import wait_until

from .cluster import Restarts, SoakCluster, Watch, keep_logs, wait_settled
from .course import Course, Extent
from .disk import bytes_in, first_offset, outlived
from .ledger import Ledger
from .logs import kinds, log_lines, unexpected
from .measures import Bounds, latency_fault, settled_faults
from .names import NAMED
from .operators import Operator
from .traffic import Auditor, NativeLoad, Probe, Sender
from .visitors import Consumer, Strangers

SENDERS, CONSUMERS = 4, 4
BOUNDS = Bounds(clients=96, store_files=700)
MAPS_SLACK = 24
"""malloc keeps the arenas it made for threads under load, and large blocks that were freed in an order it did not like."""
TABLES_SLACK = 100
"""More entries than before the load: what the topics and groups that stay bring with them, 64 queue locks that nobody gave back. What every
passing topic, group, client or connection left behind would be thousands in a long run."""
GROWING_TABLES = re.compile(r"^(_Window|Series|BrokerStats|Latency)\.")
"""Samples of the last hour and day: bounded, and not full after half an hour (stats.py). Ten classes of a kind of request (latencies.py);
how many kinds there are is looked at."""
STAYING = "_Lock.client_id"
"""Where names of clients may stay: a queue lock that nobody gave back is dropped after ten minutes (rebalance_locks.py)."""
EQUAL_TABLES = (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET)


class Soak:
    """One run, from idle to idle."""

    def __init__(self, cluster: SoakCluster, course: Course) -> None:
        self.cluster = cluster
        self.course = course
        self.ledger = Ledger()
        master = cluster.master
        self.operator = Operator(course, self.ledger, master.address, cluster.names.address, cluster.metrics_port)
        self.probe = Probe(course, master.address)
        self.load = NativeLoad(course, master.address)
        self.watch = Watch(course, cluster, BOUNDS)
        self.consumers = [Consumer(course, master.address, "soak", number) for number in range(CONSUMERS)]
        self.auditor = Auditor(course, self.ledger, master.address)

    async def run_load(self) -> None:
        """Until every part has done its turns; the first that fails ends all."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self.watch.run())
            await self._run_parts()
            watching.cancel()

    async def _run_parts(self) -> None:
        course, cluster, operator = self.course, self.cluster, self.operator
        ports = [server.port for server in cluster.servers] + [cluster.master.port + 1]  # the last is for slaves
        parts = (
            *(Sender(course, self.ledger, cluster.master.address, number) for number in range(SENDERS)),
            *self.consumers,
            self.probe,
            self.load,
            self.auditor,
            Strangers(course, ports, cluster.master.port),
            Restarts(course, cluster),
        )
        async with asyncio.TaskGroup() as group:
            for work in (*(part.run for part in parts), operator.make_and_delete, operator.ask_around, operator.turn_knobs):
                group.create_task(work())

    async def end_load(self) -> None:
        await self.operator.reset_knobs()
        await self.operator.delete_all()

    def check_messages(self) -> None:
        """Everything acknowledged that retention has left, at the master and at its slave."""
        for broker in (self.cluster.master, self.cluster.slave):
            asyncio.run(Auditor(self.course, self.ledger, broker.address).read_all())

    def check_settled(self) -> None:
        """What an idle server held before the load is what it holds after it."""
        for server in self.cluster.servers:
            idle = self.cluster.idle[self.cluster.name_of(server)]
            wait_settled(self.cluster, server, lambda server=server, idle=idle: self._left_over(server, idle), "when the load was over")
            wait_settled(self.cluster, server, lambda server=server: self._entries_left(server), "tables when the load was over")

    def _left_over(self, server: Server, idle: Any) -> list[str]:
        """In the short form nobody waits for the end of a connection that is idle: a master that comes back asks its slave for offsets."""
        now = self.cluster.holdings_of(server, self.course.elapsed_s)
        return settled_faults(idle, now, maps_slack=MAPS_SLACK, sockets_slack=0 if self.course.is_long else 1)

    def _entries_left(self, server: Server) -> list[str]:
        now = self.cluster.census_of(server)
        faults = [f"{where}: {count}" for where, count in now["names"].items() if not where.startswith(STAYING)]
        before = self.cluster.idle_census[self.cluster.name_of(server)]["tables"]
        more = {name: count - before.get(name, 0) for name, count in now["tables"].items() if not GROWING_TABLES.match(name)}
        faults += [f"{name}: {count} more" for name, count in more.items() if count > TABLES_SLACK]
        for label, stats in now["native"].items():
            faults += [f"{label} {name} {value}" for name, value in stats.items() if name.endswith("_now") and value]
        return faults

    async def check_tables(self) -> None:
        """The master's answers name nothing that was deleted, and the slave's are the same."""
        async with RemotingClient() as client:
            for code in EQUAL_TABLES:
                ours, theirs = [
                    parse_json((await client.call(broker.address, code)).body.decode())
                    for broker in (self.cluster.master, self.cluster.slave)
                ]
                text = json.dumps(ours)
                assert not any(mark in text for mark in NAMED.values()), f"{RequestCode(code).name} knows what was deleted: {text[:2000]}"
                assert ours == theirs, f"{RequestCode(code).name}: {ours} at the master, {theirs} at the slave"
            topics = (await client.call(self.cluster.names.address, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body.decode()
            assert not any(mark in topics for mark in NAMED.values()), f"the name server knows what was deleted: {topics[:2000]}"
        page = await self.operator.scrape()
        assert page and not any(mark in page for mark in NAMED.values()), "metrics name what was deleted"

    def check_disk(self) -> None:
        """A slave that was away when a topic was deleted keeps its queues until it is told otherwise (docs/compatibility.md)."""
        for broker in (self.cluster.master, self.cluster.slave):
            call(broker.address, RequestCode.CLEAN_UNUSED_TOPIC)
            left = [path.name for path in (broker.store / "consumequeue").iterdir() if any(mark in path.name for mark in NAMED.values())]
            assert not left, f"queues of deleted topics on the disk of {self.cluster.name_of(broker)}: {left}"
            old = outlived(broker.store)
            assert not old, f"files of the {self.cluster.name_of(broker)} that point below its log only: {old[:5]}"


def until_equal(what: str, check: Callable[[], None]) -> None:
    """A slave copies tables every 3 s, retention looks every second, and takes a file while it is looked at."""
    wait_until(lambda: check() is None, 60, what, every=0.2, not_yet=(AssertionError, FileNotFoundError))


def common_log(one: Path, other: Path, end: int) -> tuple[bytes, bytes]:
    """What both logs hold: they are cut at different places."""
    logs = [sorted((store / "commitlog").iterdir()) for store in (one, other)]
    begin = max(int(files[0].name) for files in logs)
    return tuple(b"".join(path.read_bytes() for path in files if int(path.name) >= begin)[: end - begin] for files in logs)  # type: ignore[return-value]


@pytest.mark.timeout(6 * 3600)
def test_nothing_grows_and_nothing_is_lost(tmp_path: Path, extent: Extent, seed: int) -> None:
    cluster = SoakCluster(tmp_path, extent)
    with cluster.running():
        asyncio.run(wait_in_sync(cluster.master, cluster.slave))
        course = Course(time.monotonic, seed, extent)
        soak = Soak(cluster, course)
        asyncio.run(soak.operator.make_lasting())
        cluster.take_idle(course.elapsed_s)
        try:
            asyncio.run(soak.run_load())
        finally:
            print(report(soak))
            if place := os.environ.get("ROCKETPY_SOAK_LOGS"):
                keep_logs(cluster, Path(place))
        course.done["the load ended"] += 1
        asyncio.run(soak.end_load())
        end = asyncio.run(wait_in_sync(cluster.master, cluster.slave))
        soak.check_messages()
        until_equal("equal tables", lambda: asyncio.run(soak.check_tables()))
        until_equal("nothing of deleted topics on disk", soak.check_disk)
        print(f"{course.elapsed_s:.0f} s: read back")
        soak.check_settled()
        print(f"{course.elapsed_s:.0f} s: settled\n{left_over(soak)}")
        faults = soak.watch.memory_faults() + list(filter(None, [latency_fault(soak.probe.latencies)]))
        assert soak.ledger.checked > 0 and soak.load.received > 0
        assert first_offset(cluster.master.store) > 0, "retention took nothing: the load is too small for what this test is about"
    assert not faults, faults
    for server in cluster.servers:
        bad = unexpected(log_lines(server.directory))
        assert not bad, f"{cluster.name_of(server)}: {len(bad)} lines such as {bad[:5]}"
    ours, theirs = common_log(cluster.master.store, cluster.slave.store, end)
    assert ours and ours == theirs, "the slave's log is not its master's"
    for broker in (cluster.master, cluster.slave):
        broker.check_store()


def left_over(soak: Soak) -> str:
    """What there is more of than before the load, by process: for whoever reads a report."""
    lines = []
    for server in soak.cluster.servers:
        name = soak.cluster.name_of(server)
        before, after = soak.cluster.idle_census[name], soak.cluster.census_of(server)
        more = {
            kind: Counter({key: count - before[kind].get(key, 0) for key, count in after[kind].items()}).most_common(15)
            for kind in ("tables", "objects")
        }
        lines.append(f"{name}: heap {before['heap'] / (1 << 20):.2f} MB, then {after['heap'] / (1 << 20):.2f} MB; {more}")
        lines.append(f"{name}: {after['native']}")
    return "\n".join(lines)


def report(soak: Soak) -> str:
    ledger = soak.ledger
    latencies = sorted(value for _, value in soak.probe.latencies) or [0.0]
    lines = [
        f"{soak.course.elapsed_s:.0f} s: {ledger.sent} acknowledged, {ledger.checked} read and checked, refused {dict(ledger.refused)}; "
        f"load generator {soak.load.acknowledged} and {soak.load.received}; consumers {sum(each.received for each in soak.consumers)}",
        f"done: {dict(soak.course.done)}",
        f"probe: median {latencies[len(latencies) // 2] * 1000:.2f} ms, 99 % {latencies[len(latencies) * 99 // 100] * 1000:.2f} ms",
        soak.watch.report(),
    ]
    for server in soak.cluster.servers:
        name = soak.cluster.name_of(server)
        lines.append(f"{name}: {bytes_in(server.directory) >> 20} MB; warnings {kinds(log_lines(server.directory)).most_common(12)}")
    return "\n".join(lines)
