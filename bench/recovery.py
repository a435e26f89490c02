"""`make bench-recovery`: from kill -9 to serving again, RocketMQ and rocketpy on copies of the same store, alternately, in one run.

    RocketMQ fills a store ─ kill -9 ─┬─ copy ─ RocketMQ: [empty start, recovery] × rounds
                                      └─ copy ─ rocketpy: [empty start, recovery] × rounds

A start runs from the process's creation to its line "boot success". Before each the log is read once and the disk is synced: both find
their pages in memory and nothing to write. The checkpoint is removed, so both have to go through the whole log. The time for a GB is that
of the recovery less that of an empty start, so that neither Java's nor Python's own start counts. rocketpy writes the index again after it
serves.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console

from rocketpy._core.store import MessageStore
from tests.processes import BROKER_PORTS, free_port

from .loads import QUEUES, SEND, TOPIC, run_load
from .resources import read_through
from .servers import BrokerServer, Durability, PeerServer, RocketpyServer, find_peer
from .termination import unwind_at_sigterm

ENCODING = "JSON"
GB = 1e9
TARGET_RATIO = 5.0
BOOTS_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Start:
    """One start of one product."""

    server: str
    round: int
    empty_s: float
    recovery_s: float

    def per_gb_s(self, log_bytes: int) -> float:
        return (self.recovery_s - self.empty_s) / (log_bytes / GB)


def fill(server: BrokerServer, messages: int) -> Path:
    """The store that the killed broker leaves. A cold RocketMQ answers some sends SYSTEM_BUSY: what is there is counted afterwards."""
    with server.running(TOPIC, QUEUES):
        run_load(
            errors_allowed=True,
            address=server.address,
            mode=SEND,
            connections=QUEUES,
            in_flight=32,
            count=messages,
            request_timeout_ms=10000,
        )
        server.processes.pop().kill()
    return server.home / "master" / "store"


def copy_store(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)


def make_ready(store: Path) -> None:
    """As the kill left it, without a checkpoint; its log in the page cache, nothing left to write."""
    (store / "checkpoint").unlink(missing_ok=True)
    for path in sorted((store / "commitlog").glob("[0-9]*")):
        read_through(path)
    os.sync()


def log_bytes_of(store: Path) -> int:
    with MessageStore(store, read_only=1) as opened:
        return int(opened.stats()["commit_log_max_offset"])


def start_once(server: BrokerServer, conf: Path, namesrv: str, home: Path) -> float:
    """Seconds from the process's creation to its boot line; then it is killed."""
    shutil.rmtree(home / "run", ignore_errors=True)
    begin = time.monotonic()
    with server.broker_process(conf, namesrv, home / "run") as process:
        process.next_line("boot success", BOOTS_WITHIN_S)
        return time.monotonic() - begin


def start_pair(server: BrokerServer, store: Path, namesrv: str, home: Path, round_number: int) -> Start:
    """An empty start, then the recovery."""
    shutil.rmtree(home / "empty", ignore_errors=True)
    port = free_port(BROKER_PORTS)
    empty_s = start_once(server, server.write_conf(home / "empty", port, "ASYNC_MASTER", 0), namesrv, home)
    make_ready(store)
    recovery_s = start_once(server, server.write_conf(store.parent, port, "ASYNC_MASTER", 0), namesrv, home)
    return Start(server.name, round_number, empty_s, recovery_s)


def run(messages: int, rounds: int, peer_script: Path, directory: Path, console: Console) -> int:
    durability = Durability()
    peer = PeerServer(directory / "peer", durability, ENCODING, peer_script)
    ours = RocketpyServer(directory / "rocketpy", durability, ENCODING)
    template = fill(PeerServer(directory / "fill", durability, ENCODING, peer_script), messages)
    stores = {server.name: server.home / "recovery" / "store" for server in (peer, ours)}
    for store in stores.values():
        copy_store(template, store)
    shutil.rmtree(template)
    log_bytes = log_bytes_of(stores[ours.name])
    console.print(f"RocketMQ's store of {messages:,} messages, {log_bytes / GB:.2f} GB of log, killed with -9", highlight=False)
    starts: list[Start] = []
    namesrv_port = free_port()
    with ours.namesrv_process(namesrv_port, directory / "namesrv"):
        for round_number in range(1, rounds + 1):
            for server in (peer, ours):
                start = start_pair(server, stores[server.name], f"127.0.0.1:{namesrv_port}", server.home, round_number)
                starts.append(start)
                console.print(
                    f"round {round_number}  {start.server:9} empty start {start.empty_s:6.2f} s   recovery {start.recovery_s:6.2f} s"
                    f"   {start.per_gb_s(log_bytes):6.3f} s a GB",
                    highlight=False,
                )
    per_gb = {name: median(start.per_gb_s(log_bytes) for start in starts if start.server == name) for name in stores}
    ratio = per_gb[peer.name] / per_gb[ours.name]
    console.print(
        f"abnormal recovery, medians: RocketMQ {per_gb[peer.name]:.3f} s a GB, rocketpy {per_gb[ours.name]:.3f} s a GB:"
        f" {ratio:.1f} times as fast (wanted: {TARGET_RATIO:.0f})",
        highlight=False,
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench-recovery", description="RocketMQ and rocketpy after kill -9, on the same store.")
    parser.add_argument("--messages", type=int, default=1_500_000, help="of 1 KB in the store; default 1,500,000 (1.8 GB)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where stores live; default a temporary directory, removed at the end")
    options = parser.parse_args(arguments)
    unwind_at_sigterm()
    console = Console()
    peer_script = find_peer()
    if peer_script is None:
        console.print("RocketMQ is not here: set ROCKETPY_PEER to the script that starts it, and install Java 17")
        return 2
    with ExitStack() as stack:
        directory = options.dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpy-bench-")))
        return run(options.messages, options.rounds, peer_script, directory.resolve(), console)


if __name__ == "__main__":
    sys.exit(main())
