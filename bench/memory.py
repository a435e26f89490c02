"""`python -m bench.memory`: what a name server and a broker hold of memory when idle and under load; with --limit the broker in a cgroup
that may have no more (root only; version 1 or 2): it has to be there at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocketpy.cli.place import trial_place
from rocketpy.config.keys import parse_size
from rocketpy.config.memory import shown_size
from tests.processes import ROCKETPY, Process

from .loads import QUEUES, RECORD_BYTES, SEND, TOPIC, p99_ms, run_load, send_rate
from .resources import rss_without_files_mib
from .servers import LOG, Durability, RocketpyServer
from .termination import unwind_at_sigterm

LOOKS_EVERY_S = 0.1
CGROUPS = Path("/sys/fs/cgroup")
SHAPE = {"connections": 16, "in_flight": 32}
SEND_CODE, BATCH_CODE = 310, 320
FULL_RATE = 300_000
"""A second, for room on the disk."""


class Cgroup:
    """One that holds at most `limit` bytes, file pages among them, for as long as a process is measured."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        version_2 = (CGROUPS / "cgroup.controllers").exists()
        self._directory = (CGROUPS if version_2 else CGROUPS / "memory") / f"rocketpy-bench-{os.getpid()}"
        self._peak, self._events = ("memory.peak", "memory.events") if version_2 else ("memory.max_usage_in_bytes", "memory.oom_control")
        self._directory.mkdir()
        try:
            (self._directory / ("memory.max" if version_2 else "memory.limit_in_bytes")).write_text(str(limit))
        except OSError:
            self.remove()
            raise

    def command(self, *arguments: str) -> list[str]:
        """It, run within."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._directory / "cgroup.procs"), *arguments]

    def __str__(self) -> str:
        """What it held at most, and how many were killed for it."""
        events = dict(line.split() for line in (self._directory / self._events).read_text().splitlines())
        most = shown_size(int((self._directory / self._peak).read_text()))
        return f"cgroup of {shown_size(self._limit)}: {most} at most with file pages, oom_kill {events['oom_kill']}"

    def remove(self) -> None:
        self._directory.rmdir()


class LimitedServer(RocketpyServer):
    """Whose broker runs in a cgroup."""

    def __init__(self, home: Path, cgroup: Cgroup | None) -> None:
        super().__init__(home, Durability(), "JSON")
        self._cgroup = cgroup

    def broker_process(self, conf: Path, namesrv: str, home: Path) -> Process:
        if self._cgroup is None:
            return super().broker_process(conf, namesrv, home)
        command = self._cgroup.command(*ROCKETPY, "broker", "-c", str(conf), "-n", namesrv)
        return Process("broker", command, home / LOG, {"HOME": str(home)})


@contextmanager
def limited(limit: int | None) -> Iterator[Cgroup | None]:
    cgroup = Cgroup(limit) if limit is not None else None
    try:
        yield cgroup
    finally:
        if cgroup is not None:
            cgroup.remove()


def watched(server: RocketpyServer, rate: int, seconds: int, batch: int) -> tuple[dict[str, Any], list[float]]:
    """The load's result, and the most that each process held meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        sends = {**SHAPE, "batch_size": batch, "send_code": BATCH_CODE if batch > 1 else SEND_CODE}
        load = pool.submit(run_load, address=server.address, mode=SEND, rate=rate, duration_ms=seconds * 1000, **sends)
        peaks = [0.0 for _ in server.processes]
        while not load.done():
            peaks = [max(peak, rss_without_files_mib(each.pid)) for peak, each in zip(peaks, server.processes, strict=True)]
            wait([load], LOOKS_EVERY_S)
        return load.result(), peaks


def run(rate: int, seconds: int, batch: int, limit: int | None, directory: Path) -> int:
    with limited(limit) as cgroup:
        server = LimitedServer(directory / "rocketpy", cgroup)
        with server.running_once(TOPIC, QUEUES):
            idle = [rss_without_files_mib(each.pid) for each in server.processes]
            result, peaks = watched(server, rate, seconds, batch)
            after = [rss_without_files_mib(each.pid) for each in server.processes]
            print(f"{send_rate(result):,.0f} messages of 1 KB a second for {seconds} s, p99 {p99_ms(result):.1f} ms")
            print("MiB without file pages: idle, most under load, after it")
            for name, *figures in zip(("name server", "broker"), idle, peaks, after, strict=True):
                print(f"{name}: {', '.join(f'{each:.1f}' for each in figures)}")
            if cgroup is not None:
                print(f"{cgroup}; {server.main_process.next_line('Memory to plan with.*')[0]}")
    return 0


def size_of(text: str) -> int:
    """Raises ArgumentTypeError."""
    size = parse_size(text)
    if not size:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 256m")
    return size


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.memory", description=__doc__)
    parser.add_argument("--rate", type=int, default=100_000, help="messages a second; 0: as fast as the broker takes them")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--batch", type=int, default=1, help="messages in a request")
    parser.add_argument("--limit", type=size_of, metavar="SIZE", help="of the broker's cgroup, such as 256m")
    options = parser.parse_args(arguments)
    unwind_at_sigterm()
    place = trial_place((options.rate or FULL_RATE) * options.seconds * RECORD_BYTES)
    with tempfile.TemporaryDirectory(prefix="rocketpy-bench-", dir=place) as directory:
        return run(options.rate, options.seconds, options.batch, options.limit, Path(directory))


if __name__ == "__main__":
    sys.exit(main())
