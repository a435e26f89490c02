"""End to end through sockets: a name server and a broker as processes, loaded by the native generator, against the floor server.

Shapes are those of `make bench-peer`: 64 connections with one request each is the latency-bound one, 16 with 32 the batching one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Figure, Figures, Size
from .loads import BOTH, ENCODINGS, PULL, QUEUES, TOPIC, p99_ms, run_load, send, send_rate
from .servers import Durability, FloorServer, RocketpyServer, Server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with RocketpyServer(tmp_path_factory.mktemp("rocketpy"), Durability(), "JSON").running_once(TOPIC, QUEUES) as server:
        yield server


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with FloorServer(tmp_path_factory.mktemp("floor"), "reused").running_once(TOPIC, QUEUES) as server:
        yield server


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("shape", [(1, 1), (64, 1), (16, 32)], ids=["1x1", "64x1", "16x32"])
def test_send(shape: tuple[int, int], encoding: str, benchmark: Any, broker: Server, floor: Server, size: Size, figures: Figures) -> None:
    limit = send(floor.address, shape, ENCODINGS[encoding], size)
    result = benchmark.pedantic(send, args=(broker.address, shape, ENCODINGS[encoding], size), rounds=1)
    rate, limit_rate = send_rate(result), send_rate(limit)
    benchmark.extra_info |= {"rate": rate, "floor": limit_rate, "p99_ms": p99_ms(result)}
    name = f"send {shape[0]}x{shape[1]}, {encoding}"
    figures.rows.append(Figure(name, rate, limit_rate, "a second", "floor server", broker.durability))


def test_pull(benchmark: Any, broker: Server, size: Size, figures: Figures) -> None:
    send(broker.address, (16, 32), ENCODINGS["JSON"], size)
    options = {"duration_ms": 3000, "warm_up_ms": 500, "repeat": 1} if size.full else {"count": 1000}
    result = benchmark.pedantic(run_load, kwargs={"address": broker.address, "mode": PULL, "connections": QUEUES, **options}, rounds=1)
    rate = result["measured_received"] / result["measured_receive_ns"] * 1e9
    busy = result["cpu_ns"] / max(result["totals"]["received"], 1)
    benchmark.extra_info |= {"rate": rate, "generator_ns": busy}
    figures.rows.append(Figure("pull, 16 queues, JSON", rate, 1e9 / busy, "a second", "one core reading and checking", broker.durability))


def test_messages_sent_and_read_at_once_all_come_back(benchmark: Any, broker: Server, size: Size) -> None:
    count = size.of(2000, 1_000_000)
    options = {"mode": BOTH, "connections": 8, "pull_connections": 4, "in_flight": 16, "count": count, "check_order": 1}
    result = benchmark.pedantic(run_load, kwargs={"address": broker.address, **options}, rounds=1)
    assert result["totals"]["acknowledged"] == result["totals"]["received"] == count
