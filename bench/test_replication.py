"""What durability costs: {ASYNC, SYNC} flush x {no slave, ASYNC_MASTER, SYNC_MASTER}, same load, one table and one plot; a lone
synchronous producer beside the bare relay; a slave that catches up beside bare sendfile; what 2 ms on the way to the slave cost.

`make bench` writes bench/results/durability.json, durability.md and durability.svg. Figures of different modes stand side by side so that
the price of each promise can be read off; they are never each other's rivals.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.load import floor_replicated, floor_sendfile
from rocketpy.remoting.client import RemotingClient
from tests.cluster.link import Link

from .conftest import Figure, Figures, Size
from .loads import ENCODINGS, QUEUES, RECORD_BYTES, SEND, TOPIC, p50_us, p99_ms, run_load, send, send_rate
from .plot import bar_chart
from .resources import GIB, fed_memory, read_through
from .servers import Durability, RocketpyServer, Server, replication

FED_BYTES, FED_S = 6 * GIB, 6.0  # what a slave that catches up writes, and how fast it would like to
RESULTS = Path(__file__).resolve().parent / "results"
SHAPES = {"1x1": (1, 1), "64x1": (64, 1), "16x16": (16, 16)}
MODES = [
    Durability(flush, replication) for flush in ("ASYNC_FLUSH", "SYNC_FLUSH") for replication in ("NONE", "ASYNC_MASTER", "SYNC_MASTER")
]

TRIED = MODES if os.environ.get("ROCKETPY_BENCH") == "full" else [MODES[0], MODES[-1]]  # the cheapest and the dearest


@pytest.fixture(scope="module", params=TRIED, ids=str)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with RocketpyServer(tmp_path_factory.mktemp("durability"), request.param, "JSON").running_once(TOPIC, QUEUES) as server:
        yield server


@pytest.fixture(scope="module")
def table(size: Size) -> Iterator[dict[str, dict[str, dict[str, float]]]]:
    """rates[shape][mode] and p99 likewise; drawn when everything has run."""
    collected: dict[str, dict[str, dict[str, float]]] = {"rate": {}, "p99_ms": {}}
    yield collected
    if size.full and collected["rate"]:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "durability.json").write_text(json.dumps(collected, indent=1), encoding="utf-8")
        (RESULTS / "durability.md").write_text(markdown(collected), encoding="utf-8")
        bar_chart(RESULTS / "durability.svg", "1 KB sends by durability", "sends a second", collected["rate"])


def markdown(collected: dict[str, dict[str, dict[str, float]]]) -> str:
    """The table of the README: a row a mode, rate and p99 of each shape."""
    rates, tails = collected["rate"], collected["p99_ms"]
    lines = ["| flush, replication | " + " | ".join(rates) + " |", "| --- |" + " --- |" * len(rates)]
    for mode in map(str, MODES):
        cells = [f"{rates[shape][mode]:,.0f}, p99 {tails[shape][mode]:.2f} ms" for shape in rates if mode in rates[shape]]
        lines.append(f"| {mode} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("shape", list(SHAPES))
def test_send(
    shape: str, benchmark: Any, broker: Server, size: Size, figures: Figures, table: dict[str, dict[str, dict[str, float]]]
) -> None:
    result = benchmark.pedantic(send, args=(broker.address, SHAPES[shape], ENCODINGS["JSON"], size), rounds=1)
    rate = send_rate(result)
    benchmark.extra_info |= {"rate": rate, "p99_ms": p99_ms(result), "durability": broker.durability}
    table["rate"].setdefault(shape, {})[broker.durability] = rate
    table["p99_ms"].setdefault(shape, {})[broker.durability] = p99_ms(result)
    cheapest = table["rate"][shape].get(str(MODES[0]), rate)
    figures.rows.append(Figure(f"send {shape}", rate, cheapest, "a second", "ASYNC_FLUSH without a slave", broker.durability))


def test_a_lone_synchronous_producer_beside_the_bare_relay(benchmark: Any, size: Size, figures: Figures, tmp_path: Path) -> None:
    """The relay: client, master and slave in three threads that block; both round trips and both appends, and nothing else."""
    mode = Durability("ASYNC_FLUSH", "SYNC_MASTER")
    with RocketpyServer(tmp_path / "pair", mode, "JSON").running_once(TOPIC, QUEUES) as server:
        bare = floor_replicated(str(tmp_path / "relay.dat"), RECORD_BYTES, size.of(50, 3000))
        result = benchmark.pedantic(send, args=(server.address, (1, 1), ENCODINGS["JSON"], size), rounds=1)
    ours, limit = p50_us(result), bare.p50_ns / 1e3
    benchmark.extra_info |= {"p50_us": ours, "relay_p50_us": limit}
    figures.rows.append(Figure("latency of one producer, p50", ours, limit, "us", "the bare relay", str(mode)))


async def follow(server: RocketpyServer) -> tuple[float, int]:
    """Seconds and bytes from the slave's first report to its holding the master's whole log."""
    async with RemotingClient() as client:
        deadline = time.monotonic() + 100
        while (first := (await replication(client, server.address))[0]) < 0:
            assert time.monotonic() < deadline, "the slave does not come"
            await asyncio.sleep(0.002)
        started = time.monotonic()
        while (now := await replication(client, server.address))[0] < now[1]:
            assert time.monotonic() < deadline, f"the slave stands at {now[0]} of {now[1]}"
            await asyncio.sleep(0.02)  # asked 500 times a second, both ends in Python would take half a core from what is measured
        return time.monotonic() - started, now[1] - first


def catch_up(server: RocketpyServer, home: Path, size: Size) -> tuple[float, float, int]:
    """GB/s of a slave as it was `before`, and of the bare loop right before it; bytes. Both find the log in the page cache."""
    shutil.rmtree(home / "slave" / "store")
    shutil.copytree(home / "before", home / "slave" / "store")
    os.sync()  # the slave shall not pay for anybody's dirty pages
    files = sorted((home / "master" / "store" / "commitlog").iterdir())
    with server.paused():
        for path in files:
            read_through(path)
        bare = [floor_sendfile(str(path), 1 << 20, 0) for path in files[: size.of(1, 5)]]
    with fed_memory(size.of(0, FED_BYTES), FED_S):
        server.start_slave()
        seconds, count = asyncio.run(follow(server))
    server.stop_slave()
    return count / seconds / 1e9, sum(each.bytes for each in bare) / sum(each.elapsed_ns for each in bare), count


def test_a_slave_catches_up_beside_a_bare_sendfile_loop(benchmark: Any, size: Size, figures: Figures, tmp_path: Path) -> None:
    """The loop sends the same files through a loopback socket to a reader that discards them; the slave keeps them and fills its queues."""
    mode, home = Durability("ASYNC_FLUSH", "ASYNC_MASTER"), tmp_path / "pair"
    keys = {"mappedFileSizeCommitLog": size.of(16 << 20, GIB)}  # the bare loop sends whole files
    with RocketpyServer(home, mode, "JSON", keys).running_once(TOPIC, QUEUES) as server:
        run_load(address=server.address, mode=SEND, connections=1, in_flight=1, count=10)
        asyncio.run(follow(server))
        server.stop_slave()
        shutil.copytree(home / "slave" / "store", home / "before")
        run_load(address=server.address, mode=SEND, connections=16, in_flight=32, count=size.of(2000, 4_400_000))
        rounds = benchmark.pedantic(lambda: [catch_up(server, home, size) for _ in range(size.of(1, 3))], rounds=1)
    for rate, limit, count in rounds:
        figures.rows.append(
            Figure(f"catching up on {count / 1e9:.2f} GB", rate, limit, "GB/s", "bare sendfile, reader discards", str(mode))
        )
    benchmark.extra_info |= {"gb_per_s": [row[0] for row in rounds], "sendfile_gb_per_s": [row[1] for row in rounds]}


def test_two_milliseconds_to_the_slave_cost_latency_and_little_throughput(
    benchmark: Any, size: Size, figures: Figures, tmp_path: Path
) -> None:
    """The slave behind a forwarder, without delay and with 1 ms each way; 2,048 requests under way keep the producers out of the figure."""
    mode = Durability("ASYNC_FLUSH", "SYNC_MASTER")
    options = {"duration_ms": 3000, "warm_up_ms": 500} if size.full else {"count": 4000}
    load = {"mode": SEND, "connections": 32, "in_flight": 64, **options}
    pair = RocketpyServer(tmp_path / "pair", mode, "JSON")
    with pair.running_once(TOPIC, QUEUES) as server, Link(int(server.address.rpartition(":")[2]) + 1) as link:
        server.move_slave_behind(f"127.0.0.1:{link.port}")
        asyncio.run(follow(server))
        near = run_load(address=server.address, **load)
        link.delay_s = 0.001
        lone = run_load(address=server.address, mode=SEND, connections=1, in_flight=1, count=size.of(20, 300))
        far = benchmark.pedantic(run_load, kwargs={"address": server.address, **load}, rounds=1)
    rate, limit = send_rate(far), send_rate(near)
    assert p50_us(lone) >= 2000, "the delay is not there"
    benchmark.extra_info |= {"rate": rate, "without_delay": limit, "lone_p50_us": p50_us(lone)}
    name = f"send 32x64, one alone takes {p50_us(lone) / 1e3:.1f} ms"
    figures.rows.append(Figure(name, rate, limit, "a second", "the same without delay", str(mode)))
