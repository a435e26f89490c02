"""End to end through sockets: a name server and a broker as processes, loaded by the native generator, against the floor server.

Shapes are those of `make bench-peer`: 64 connections with one request each is the latency-bound one, 16 with 32 the batching one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.load import Load

from .conftest import Figure, Figures, Size
from .servers import Durability, FloorServer, RocketpyServer, Server

QUEUES = 16
TOPIC = "bench"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = RocketpyServer(tmp_path_factory.mktemp("rocketpy"), Durability(), "JSON")
    server.start(TOPIC, QUEUES)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = FloorServer(Path(tmp_path_factory.mktemp("floor")))
    server.start(TOPIC, QUEUES)
    yield server
    server.stop()


def run(**options: Any) -> dict[str, Any]:
    with Load(topic=TOPIC, queue_count=QUEUES, **options) as load:
        load.start()
        assert load.wait(110), "the load does not end"
        result = load.result()
    assert result["status"] == 0 and result["totals"]["errors"] == 0, result["error_codes"]
    assert result["totals"]["failures"] == 0, result["first_offender"]
    return result


def send(address: str, shape: tuple[int, int], encoding: int, size: Size) -> dict[str, Any]:
    connections, in_flight = shape
    options = {"duration_ms": 3000, "warm_up_ms": 500} if size.full else {"count": 2000}
    return run(address=address, mode=1, connections=connections, in_flight=in_flight, serialize_type=encoding, **options)


@pytest.mark.parametrize("encoding", [0, 1], ids=["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("shape", [(1, 1), (64, 1), (16, 32)], ids=["1x1", "64x1", "16x32"])
def test_send(shape: tuple[int, int], encoding: int, benchmark: Any, broker: Server, floor: Server, size: Size, figures: Figures) -> None:
    limit = send(floor.address, shape, encoding, size)
    result = benchmark.pedantic(send, args=(broker.address, shape, encoding, size), rounds=1)
    rate, limit_rate = (each["measured_sent"] / each["measured_ns"] * 1e9 for each in (result, limit))
    benchmark.extra_info |= {"rate": rate, "floor": limit_rate, "p99_ms": result["latency"]["publish"]["p99_ns"] / 1e6}
    name = f"send {shape[0]}x{shape[1]}, {('JSON', 'ROCKETMQ')[encoding]}"
    figures.rows.append(Figure(name, rate, limit_rate, "a second", "floor server", broker.durability))


def test_pull(benchmark: Any, broker: Server, size: Size, figures: Figures) -> None:
    send(broker.address, (16, 32), 0, size)
    options = {"duration_ms": 3000, "warm_up_ms": 500, "repeat": 1} if size.full else {"count": 1000}
    result = benchmark.pedantic(run, kwargs={"address": broker.address, "mode": 2, "connections": QUEUES, **options}, rounds=1)
    rate = result["measured_received"] / result["measured_receive_ns"] * 1e9
    busy = result["cpu_ns"] / max(result["totals"]["received"], 1)
    benchmark.extra_info |= {"rate": rate, "generator_ns": busy}
    figures.rows.append(Figure("pull, 16 queues, JSON", rate, 1e9 / busy, "a second", "one core reading and checking", broker.durability))


def test_messages_sent_and_read_at_once_all_come_back(benchmark: Any, broker: Server, size: Size) -> None:
    count = size.of(2000, 1_000_000)
    options = {"mode": 3, "connections": 8, "pull_connections": 4, "in_flight": 16, "count": count, "check_order": 1}
    result = benchmark.pedantic(run, kwargs={"address": broker.address, **options}, rounds=1)
    assert result["totals"]["acknowledged"] == result["totals"]["received"] == count
