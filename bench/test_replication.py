"""What durability costs: {ASYNC, SYNC} flush x {no slave, ASYNC_MASTER, SYNC_MASTER}, same load, one table and one plot.

`make bench` writes bench/results/durability.json and durability.svg. Figures of different modes stand side by side so that the price of
each promise can be read off; they are never each other's rivals.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Figure, Figures, Size
from .plot import bar_chart
from .servers import Durability, RocketpyServer, Server
from .test_send_pull import QUEUES, TOPIC, send

RESULTS = Path(__file__).resolve().parent / "results"
SHAPES = {"1x1": (1, 1), "64x1": (64, 1), "16x16": (16, 16)}
MODES = [
    Durability(flush, replication) for flush in ("ASYNC_FLUSH", "SYNC_FLUSH") for replication in ("NONE", "ASYNC_MASTER", "SYNC_MASTER")
]

TRIED = MODES if os.environ.get("ROCKETPY_BENCH") == "full" else [MODES[0], MODES[-1]]  # the cheapest and the dearest


@pytest.fixture(scope="module", params=TRIED, ids=str)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = RocketpyServer(tmp_path_factory.mktemp("durability"), request.param, "JSON")
    server.start(TOPIC, QUEUES)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def table(size: Size) -> Iterator[dict[str, dict[str, dict[str, float]]]]:
    """rates[shape][mode] and p99 likewise; drawn when everything has run."""
    collected: dict[str, dict[str, dict[str, float]]] = {"rate": {}, "p99_ms": {}}
    yield collected
    if size.full and collected["rate"]:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "durability.json").write_text(json.dumps(collected, indent=1), encoding="utf-8")
        bar_chart(RESULTS / "durability.svg", "1 KB sends by durability", "sends a second", collected["rate"])


@pytest.mark.parametrize("shape", list(SHAPES))
def test_send(
    shape: str, benchmark: Any, broker: Server, size: Size, figures: Figures, table: dict[str, dict[str, dict[str, float]]]
) -> None:
    result = benchmark.pedantic(send, args=(broker.address, SHAPES[shape], 0, size), rounds=1)
    rate = result["measured_sent"] / result["measured_ns"] * 1e9
    p99_ms = result["latency"]["publish"]["p99_ns"] / 1e6
    benchmark.extra_info |= {"rate": rate, "p99_ms": p99_ms, "durability": broker.durability}
    table["rate"].setdefault(shape, {})[broker.durability] = rate
    table["p99_ms"].setdefault(shape, {})[broker.durability] = p99_ms
    cheapest = table["rate"][shape].get(str(MODES[0]), rate)
    figures.rows.append(Figure(f"send {shape}", rate, cheapest, "a second", "ASYNC_FLUSH without a slave", broker.durability))
