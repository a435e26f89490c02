"""`make bench-peer`: the same load against RocketMQ, rocketpy and the floor, alternately, in one run.

    start all ─ warm RocketMQ up ─ for each shape: (what is pulled is sent) for each round: RocketMQ, rocketpy, floors
    ─ footprints ─ table, JSON

Each measurement has a second of its own warm-up, and the disk is synced between two of them, so that nobody pays for another's dirty pages.
A figure is the median of its rounds; ratios are those of medians. The floor (csrc/load/floor.h) does the
unavoidable work of a send only: into pages that are there, or, the growing one, into new ones, as a log does; beside SYNC_FLUSH it syncs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from rocketpy._core.load import floor_replicated, floor_sync
from rocketpy.remoting.codes import RequestCode

from .loads import ENCODINGS, MESSAGE_BYTES, PULL, QUEUES, RECORD_BYTES, SEND, TOPIC, run_load
from .peer_report import RELAY, SYNC_LOOP, Footprint, Sample, print_report, save, targets_of
from .resources import GIB, cpu_share_while_idle, fed_memory, rss_without_files_mib
from .servers import BrokerServer, Durability, FloorServer, PeerServer, RocketpyServer, Server, find_peer
from .termination import unwind_at_sigterm

FED_BYTES_PER_S = GIB * 3 // 4  # what the fastest of the servers writes; 1.25 GiB, given beside it, cost what they gained
PULLED_BYTES_MAX = GIB  # of what is pulled again and again: it stays in memory, on every server
MEMORY_BYTES_MAX = 2 * GIB  # of what is sent before the memory is looked at: a million messages of 1 KB, fewer larger ones
SIZES = range(40, 8 * 1024 * 1024 + 1)  # RP_LOAD_MESSAGE_SIZE_MIN and _MAX
BATCHES = range(1, 4097)  # RP_LOAD_BATCH_MAX
RESULTS = Path(__file__).resolve().parent / "results"
PULL_TOPIC = f"{TOPIC}-pull"  # as many messages on each server, however fast it took those of the other shapes
SHAPES_WITHOUT_TARGETS = {"ASYNC_FLUSH": ("64x1", "16x32", "pull"), "SYNC_FLUSH": ("1x1", "64x1", "16x16")}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and how long."""

    shapes: tuple[str, ...]
    rounds: int
    measured_ms: int
    warm_up_ms: int
    peer_warm_up_s: float
    pull_messages: int
    memory_messages: int
    idle_s: float
    fed_bytes: int
    encoding: str
    message_bytes: int
    batch: int  # messages a request
    durability: Durability

    @property
    def record_bytes(self) -> int:
        return RECORD_BYTES - MESSAGE_BYTES + self.message_bytes

    @property
    def has_targets(self) -> bool:
        return (self.message_bytes, self.batch) == (MESSAGE_BYTES, 1)

    def __str__(self) -> str:
        batches = f" in batches of {self.batch}" if self.batch > 1 else ""
        return f"{self.message_bytes} bytes{batches}, {QUEUES} queues, {self.encoding} headers"


def load_once(
    address: str, plan: Plan, shape: str, *, topic: str = TOPIC, duration_ms: int = 0, warm_up_ms: int = 0, count: int = 0
) -> dict[str, float]:
    """One run of the generator. Raises what the native side raises; one that received something else than it had sent is an error."""
    pulled = shape == "pull"
    connections, in_flight = (QUEUES, 1) if pulled else (int(part) for part in shape.split("x"))
    result = run_load(
        errors_allowed=True,
        address=address,
        topic=PULL_TOPIC if pulled else topic,
        mode=PULL if pulled else SEND,
        serialize_type=ENCODINGS[plan.encoding],
        message_size=plan.message_bytes,
        send_code=RequestCode.SEND_BATCH_MESSAGE if plan.batch > 1 else 0,
        batch_size=plan.batch,
        connections=connections,
        in_flight=in_flight,
        repeat=int(pulled),
        duration_ms=duration_ms,
        warm_up_ms=warm_up_ms,
        count=count,
        request_timeout_ms=10000,
    )
    messages, elapsed = ("measured_received", "measured_receive_ns") if pulled else ("measured_sent", "measured_ns")
    latency = result["latency"]["fetch" if pulled else "publish"]
    return {
        "rate": result[messages] / max(result[elapsed], 1) * 1e9,
        "p50_ms": latency["p50_ns"] / 1e6,
        "p99_ms": latency["p99_ns"] / 1e6,
        "p999_ms": latency["p999_ns"] / 1e6,
        "errors": result["measured_errors"],
        "generator_ns": result["cpu_ns"] / max(result["totals"]["acknowledged"] + result["totals"]["received"], 1),
    }


def sync_loop_once(directory: Path, plan: Plan, round_number: int) -> Sample:
    """A bare pwrite + fdatasync loop of a record's size: what one synchronous producer could have at best."""
    rate = floor_sync(str(directory / "sync.dat"), plan.record_bytes, plan.measured_ms)
    p50_ms, p99_ms = rate.p50_ns / 1e6, rate.p99_ns / 1e6
    return Sample(SYNC_LOOP, "1x1", round_number, rate.rounds / rate.elapsed_ns * 1e9, p50_ms, p99_ms, rate.p999_ns / 1e6, 0, 0)


def relay_once(directory: Path, plan: Plan, round_number: int) -> Sample:
    """A bare client, master and slave in three threads that block: what one producer of a replicated message could have at best."""
    rate = floor_replicated(str(directory / "relay.dat"), plan.record_bytes, plan.measured_ms)
    p50_ms, p99_ms = rate.p50_ns / 1e6, rate.p99_ns / 1e6
    return Sample(RELAY, "1x1", round_number, rate.rounds / rate.elapsed_ns * 1e9, p50_ms, p99_ms, rate.p999_ns / 1e6, 0, 0)


@contextmanager
def all_paused_but(measured: Server | None, servers: Sequence[Server]) -> Iterator[None]:
    with ExitStack() as stack:
        for server in servers:
            if server is not measured:
                stack.enter_context(server.paused())
        yield


def fill_pull_topic(brokers: Sequence[BrokerServer], plan: Plan) -> None:
    """Right before the pulls: in front of gigabytes of sends they would read what is in memory on one server and on disk on the other."""
    for server in brokers:
        server.make_topic(PULL_TOPIC, QUEUES)
        load_once(server.address, plan, "16x32", topic=PULL_TOPIC, count=plan.pull_messages)
        if isinstance(server, PeerServer):
            load_once(server.address, plan, "pull", duration_ms=int(plan.peer_warm_up_s * 500))


def measure(servers: Sequence[Server], plan: Plan, directory: Path, console: Console) -> list[Sample]:
    samples = []
    for shape in plan.shapes:
        if shape == "pull":
            fill_pull_topic([server for server in servers if isinstance(server, BrokerServer)], plan)
        for round_number in range(1, plan.rounds + 1):
            with all_paused_but(None, servers):
                if shape == "1x1" and plan.durability.flush == "SYNC_FLUSH":
                    samples.append(sync_loop_once(directory, plan, round_number))
                if shape == "1x1" and plan.durability.replication == "SYNC_MASTER":
                    samples.append(relay_once(directory, plan, round_number))
            for server in servers:
                if shape == "pull" and isinstance(server, FloorServer):
                    continue
                os.sync()
                seconds = (plan.warm_up_ms + plan.measured_ms) / 1000
                fed_bytes = 0 if shape == "pull" else plan.fed_bytes
                with all_paused_but(server, servers), fed_memory(fed_bytes, seconds):
                    figures = load_once(server.address, plan, shape, duration_ms=plan.measured_ms, warm_up_ms=plan.warm_up_ms)
                sample = Sample(server.name, shape, round_number, **figures)  # type: ignore[arg-type]
                samples.append(sample)
                console.print(
                    f"{shape:6} round {round_number}  {server.name:13} {sample.rate:>10,.0f}/s  p99 {sample.p99_ms:8.2f} ms"
                    f"  ({server.durability}; generator {sample.generator_ns:,.0f} ns a message)",
                    highlight=False,
                )
    return samples


def footprint_of(server: Server, plan: Plan) -> Footprint:
    """Memory after memory_messages more sends (whatever came before them), then the CPU of doing nothing."""
    load_once(server.address, plan, "16x32", count=plan.memory_messages)
    rss = rss_without_files_mib(server.main_process.pid)
    os.sync()
    return Footprint(server.name, server.started_s, rss, cpu_share_while_idle(server.main_process.pid, plan.idle_s))


def run(plan: Plan, peer_script: Path | None, *, with_rocketpy: bool, directory: Path, console: Console) -> int:
    servers: list[Server] = []
    if peer_script is not None:
        servers.append(PeerServer(directory / "peer", plan.durability, plan.encoding, peer_script))
    if with_rocketpy:
        servers.append(RocketpyServer(directory / "rocketpy", plan.durability, plan.encoding))
    kinds = ("synced",) if plan.durability.flush == "SYNC_FLUSH" else ("reused", "growing")
    servers += [FloorServer(directory / f"floor-{kind}", kind) for kind in kinds]
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(server.running(TOPIC, QUEUES))
            console.print(f"{server.name} at {server.address}: {server.durability}", highlight=False)
        brokers = [server for server in servers if isinstance(server, BrokerServer)]
        for server in brokers:
            if isinstance(server, PeerServer):
                console.print(f"warming {server.name} up for {plan.peer_warm_up_s:.0f} s", highlight=False)
                load_once(server.address, plan, "16x16", duration_ms=int(plan.peer_warm_up_s * 1000))
        samples = measure(servers, plan, directory, console)
        footprints = [footprint_of(server, plan) for server in brokers] if plan.memory_messages else []
    durabilities = {server.name: server.durability for server in servers} | {
        SYNC_LOOP: "pwrite + fdatasync, no server",
        RELAY: "two round trips, two appends, no server",
    }
    targets = targets_of(plan.durability.flush, plan.durability.replication) if plan.has_targets else {}
    print_report(samples, footprints, durabilities, targets, str(plan))
    settings = {
        "flush": plan.durability.flush,
        "replication": plan.durability.replication,
        "encoding": plan.encoding,
        "message_size": plan.message_bytes,
        "batch": plan.batch,
        "queues": QUEUES,
        "rounds": plan.rounds,
        "measured_ms": plan.measured_ms,
    }
    console.print(f"saved as {save(RESULTS, samples, footprints, settings)}", highlight=False)
    return 0


def plan_of(arguments: argparse.Namespace) -> Plan:
    flush = f"{arguments.flush}_FLUSH"
    replication = {"NONE": "NONE", "ASYNC": "ASYNC_MASTER", "SYNC": "SYNC_MASTER"}[arguments.replication]
    shapes = tuple(arguments.shape or targets_of(flush, replication) or SHAPES_WITHOUT_TARGETS[flush])
    quick = arguments.quick
    measured_ms = int(arguments.seconds * 1000) if arguments.seconds else (1500 if quick else 4000)
    warm_up_ms = 300 if quick else 1000
    return Plan(
        shapes=shapes,
        rounds=arguments.rounds or (1 if quick else 3),
        measured_ms=measured_ms,
        warm_up_ms=warm_up_ms,
        peer_warm_up_s=5 if quick else 20,
        pull_messages=min(50_000 if quick else 500_000, PULLED_BYTES_MAX // arguments.size),
        memory_messages=0 if arguments.no_footprint else min(100_000 if quick else 1_000_000, MEMORY_BYTES_MAX // arguments.size),
        idle_s=2 if quick else 5,
        fed_bytes=0 if quick else FED_BYTES_PER_S * (warm_up_ms + measured_ms) // 1000,
        encoding=arguments.encoding,
        message_bytes=arguments.size,
        batch=arguments.batch,
        durability=Durability(flush, replication),
    )


def is_shape(text: str) -> str:
    connections, separator, in_flight = text.partition("x")
    if text != "pull" and not (separator and connections.isdigit() and in_flight.isdigit()):
        raise argparse.ArgumentTypeError("CONNECTIONSxIN_FLIGHT, such as 64x1, or pull")
    return text


def in_range(allowed: range) -> Callable[[str], int]:
    """An argument's type: a whole number among the allowed ones."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) not in allowed:
            raise argparse.ArgumentTypeError(f"a number from {allowed[0]} to {allowed[-1]}, not {text!r}")
        return int(text)

    return number


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench-peer", description="The same load against RocketMQ, rocketpy and the floor.")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, not what it measures")
    parser.add_argument("--shape", action="append", type=is_shape, help="64x1, 16x32, pull…; repeatable")
    parser.add_argument("--encoding", choices=sorted(ENCODINGS), default="JSON")
    parser.add_argument("--size", type=in_range(SIZES), default=MESSAGE_BYTES, help="bytes of a body; default %(default)s")
    parser.add_argument("--batch", type=in_range(BATCHES), default=1, help="messages a request; default 1")
    parser.add_argument("--rounds", type=int, default=0, help="default 3")
    parser.add_argument("--seconds", type=float, default=0, help="of each measurement; default 4")
    parser.add_argument("--flush", choices=("ASYNC", "SYNC"), default="ASYNC")
    parser.add_argument("--replication", choices=("NONE", "ASYNC", "SYNC"), default="NONE")
    parser.add_argument("--without-peer", action="store_true", help="rocketpy and the floor only")
    parser.add_argument("--without-rocketpy", action="store_true", help="RocketMQ and the floor only")
    parser.add_argument("--no-footprint", action="store_true", help="leave out memory and idle CPU")
    parser.add_argument("--dir", type=Path, help="where stores live; default a temporary directory, removed at the end")
    options = parser.parse_args(arguments)
    unwind_at_sigterm()
    console = Console()
    peer_script = None if options.without_peer else find_peer()
    if peer_script is None and not options.without_peer:
        console.print(
            "RocketMQ is not here: set ROCKETPY_PEER to the script that starts it, and install Java 17 "
            "(apt-get install default-jdk-headless maven); or leave it out with --without-peer"
        )
        return 2
    with ExitStack() as stack:
        directory = options.dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpy-bench-")))
        try:
            return run(
                plan_of(options), peer_script, with_rocketpy=not options.without_rocketpy, directory=directory.resolve(), console=console
            )
        except KeyboardInterrupt:
            return 1


if __name__ == "__main__":
    sys.exit(main())
