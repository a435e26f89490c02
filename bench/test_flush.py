"""SYNC_FLUSH against ASYNC_FLUSH, in turn, and a lone producer against a bare loop of pwrite and fdatasync measured beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from rocketpy._core.load import floor_sync

from .conftest import Figure, Figures, Size
from .loads import ENCODINGS, QUEUES, RECORD_BYTES, TOPIC, send, send_rate
from .plot import bar_chart
from .resources import GIB, fed_memory
from .servers import Durability, RocketpyServer, Server

RESULTS = Path(__file__).resolve().parent / "results"
SHAPES = {"1x1": (1, 1), "64x1": (64, 1), "16x16": (16, 16)}
ROUNDS = 3
FED_BYTES = 2 * GIB  # of a round, see fed_memory
ROUND_S = 3.5


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    with ExitStack() as stack:
        yield {
            flush: stack.enter_context(
                RocketpyServer(tmp_path_factory.mktemp(flush), Durability(flush), "JSON").running_once(TOPIC, QUEUES)
            )
            for flush in ("ASYNC_FLUSH", "SYNC_FLUSH")
        }


@pytest.fixture(scope="module")
def rates(size: Size) -> Iterator[dict[str, dict[str, float]]]:
    collected: dict[str, dict[str, float]] = {}
    yield collected
    if size.full and collected:
        bar_chart(RESULTS / "flush.svg", "1 KB sends, SYNC and ASYNC flush", "sends a second", collected)


def round_of(server: Server, shape: str, size: Size) -> float:
    """Messages a second. What the round before left to write is not this one's."""
    os.sync()
    with fed_memory(size.of(0, FED_BYTES), ROUND_S):
        return send_rate(send(server.address, SHAPES[shape], ENCODINGS["JSON"], size))


@pytest.mark.parametrize("shape", list(SHAPES))
def test_sync_beside_async(
    shape: str, benchmark: Any, brokers: dict[str, Server], size: Size, figures: Figures, rates: dict[str, dict[str, float]]
) -> None:
    rounds: dict[str, list[float]] = {flush: [] for flush in brokers}

    def run(flush: str) -> None:
        rounds[flush].append(round_of(brokers[flush], shape, size))

    def async_first() -> tuple[tuple[str], dict[str, str]]:
        """Before each round that pytest-benchmark times; what run is called with."""
        run("ASYNC_FLUSH")
        return ("SYNC_FLUSH",), {}

    benchmark.pedantic(run, setup=async_first, rounds=size.of(1, ROUNDS))
    rate = {flush: median(each) for flush, each in rounds.items()}
    rates[shape] = rate
    benchmark.extra_info |= rate | {"rounds": rounds}
    figures.rows.append(Figure(f"send {shape}", rate["SYNC_FLUSH"], rate["ASYNC_FLUSH"], "a second", "ASYNC_FLUSH", "SYNC_FLUSH, no slave"))


def test_a_lone_synchronous_producer_beside_the_bare_loop(
    benchmark: Any, brokers: dict[str, Server], size: Size, figures: Figures, tmp_path: Path
) -> None:
    bare = floor_sync(str(tmp_path / "loop.dat"), RECORD_BYTES, size.of(50, 2000))
    loop = bare.rounds / bare.elapsed_ns * 1e9
    result = benchmark.pedantic(send, args=(brokers["SYNC_FLUSH"].address, (1, 1), ENCODINGS["JSON"], size), rounds=1)
    rate = send_rate(result)
    benchmark.extra_info |= {"rate": rate, "bare_loop": loop}
    figures.rows.append(Figure("send 1x1", rate, loop, "a second", "bare pwrite + fdatasync loop", "SYNC_FLUSH, no slave"))
