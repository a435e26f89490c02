"""The table and the JSON of a comparison: medians, ratios to RocketMQ and to the floor, and the targets beside them."""

from __future__ import annotations

import itertools
import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Sample:
    """One server under one shape in one round."""

    server: str
    shape: str
    round: int
    rate: float  # messages a second
    p50_ms: float
    p99_ms: float
    p999_ms: float
    errors: int
    generator_ns: float  # CPU of the generator a message


@dataclass(frozen=True, slots=True)
class Footprint:
    """One server besides its speed."""

    server: str
    started_s: float
    rss_mib: float
    idle_cpu: float


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be reached: a ratio of rates to RocketMQ's, of p99 to RocketMQ's, and a share of the floor."""

    rate_ratio: float | None = None
    p99_ratio: float | None = None
    floor_share: float | None = None
    sync_ratio: float | None = None  # of p50 to that of the bare sync loop, at most
    relay_ratio: float | None = None  # of p50 to that of the bare relay, at most


# By flush, replication and shape: the figures asked of the product.
TARGETS: Mapping[tuple[str, str, str], Target] = {
    ("ASYNC_FLUSH", "NONE", "64x1"): Target(4, 1 / 6, 0.7),
    ("ASYNC_FLUSH", "NONE", "16x32"): Target(8, 1 / 6, 0.7),
    ("ASYNC_FLUSH", "NONE", "pull"): Target(3),
    ("SYNC_FLUSH", "NONE", "1x1"): Target(sync_ratio=1.3),
    ("SYNC_FLUSH", "NONE", "64x1"): Target(4),
    ("SYNC_FLUSH", "NONE", "16x16"): Target(8),
    ("ASYNC_FLUSH", "SYNC_MASTER", "1x1"): Target(relay_ratio=1.5),
    ("ASYNC_FLUSH", "SYNC_MASTER", "64x1"): Target(4, 1 / 8),
    ("ASYNC_FLUSH", "SYNC_MASTER", "16x16"): Target(8, 1 / 8),
}
SYNC_LOOP = "bare sync loop"
RELAY = "bare relay"  # client, master, slave: csrc/load/floor_relay.c
PLAIN_WIDTH = 120  # of a table in a file
FOOTPRINT_TARGETS = {"started_s": 0.5, "rss_mib": 80.0, "idle_cpu": 0.01}


def targets_of(flush: str, replication: str) -> Mapping[str, Target]:
    """By shape, of messages of 1 KB."""
    return {shape: target for (*durability, shape), target in TARGETS.items() if durability == [flush, replication]}


def medians(samples: Sequence[Sample], server: str, shape: str, field: str) -> float | None:
    values = [getattr(sample, field) for sample in samples if sample.server == server and sample.shape == shape]
    return median(values) if values else None


def ratio(samples: Sequence[Sample], shape: str, field: str, ours: str, theirs: str) -> float | None:
    above, below = medians(samples, ours, shape, field), medians(samples, theirs, shape, field)
    return above / below if above is not None and below else None


def verdict(value: float | None, wanted: float | None, *, at_most: bool = False) -> str:
    if value is None:
        return "-"
    text = f"{value:.2f}" if value < 10 else f"{value:.1f}"
    if wanted is None:
        return text
    good = value <= wanted if at_most else value >= wanted
    return f"[{'green' if good else 'red'}]{text}[/] ({'≤' if at_most else '≥'} {wanted:.2f})"


def print_report(
    samples: Sequence[Sample], footprints: Sequence[Footprint], durabilities: Mapping[str, str], targets: Mapping[str, Target], what: str
) -> None:
    """durabilities: by server; targets: by shape."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    shapes = list(dict.fromkeys(sample.shape for sample in samples))
    servers = list(dict.fromkeys(sample.server for sample in samples))
    console.print(figures_table(samples, shapes, servers, durabilities, what))
    if "rocketpy" in servers:
        console.print(ratios_table(samples, shapes, targets))
    if footprints:
        console.print(footprints_table(footprints))


def titled(title: str) -> Table:
    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")


def figures_table(
    samples: Sequence[Sample], shapes: Sequence[str], servers: Sequence[str], durabilities: Mapping[str, str], what: str
) -> Table:
    table = titled(f"{what}: medians of all rounds")
    for name in ("shape", "server", "a second", "lowest – highest", "p50 ms", "p99 ms", "p99.9 ms", "flush, replication"):
        table.add_column(name, justify="right" if name.endswith(("second", "ms", "highest")) else "left")
    for shape, server in itertools.product(shapes, servers):
        chosen = [sample for sample in samples if sample.server == server and sample.shape == shape]
        if not chosen:
            continue
        rates = [sample.rate for sample in chosen]
        cells = [f"{medians(chosen, server, shape, field):,.2f}" for field in ("p50_ms", "p99_ms", "p999_ms")]
        spread = (f"{median(rates):,.0f}", f"{min(rates):,.0f} – {max(rates):,.0f}")
        errors = sum(sample.errors for sample in chosen)
        note = f" [red]{errors:,} errors[/]" if errors else ""
        table.add_row(shape, server, *spread, *cells, durabilities[server] + note)
    return table


def ratios_table(samples: Sequence[Sample], shapes: Sequence[str], targets: Mapping[str, Target]) -> Table:
    table = titled("rocketpy against the others (and what is wanted)")
    for name in ("shape", "rate / RocketMQ's", "p99 / RocketMQ's", "rate / floor's", "rate / growing floor's", "floor's rate / RocketMQ's"):
        table.add_column(name)
    for name in ("p50 / bare sync loop's", "p50 / bare relay's"):
        table.add_column(name)
    for shape in shapes:
        target = targets.get(shape, Target())
        table.add_row(
            shape,
            verdict(ratio(samples, shape, "rate", "rocketpy", "RocketMQ"), target.rate_ratio),
            verdict(ratio(samples, shape, "p99_ms", "rocketpy", "RocketMQ"), target.p99_ratio, at_most=True),
            verdict(ratio(samples, shape, "rate", "rocketpy", "floor"), target.floor_share),
            verdict(ratio(samples, shape, "rate", "rocketpy", "growing floor"), None),
            verdict(ratio(samples, shape, "rate", "floor", "RocketMQ"), None),
            verdict(ratio(samples, shape, "p50_ms", "rocketpy", SYNC_LOOP), target.sync_ratio, at_most=True),
            verdict(ratio(samples, shape, "p50_ms", "rocketpy", RELAY), target.relay_ratio, at_most=True),
        )
    return table


def footprints_table(footprints: Sequence[Footprint]) -> Table:
    table = titled("besides speed")
    for name in ("server", "start to registered, s", "RSS without file pages, MiB", "idle CPU, share of a core"):
        table.add_column(name)
    for footprint in footprints:
        wanted = FOOTPRINT_TARGETS if footprint.server == "rocketpy" else {}
        cells = [verdict(getattr(footprint, field), wanted.get(field), at_most=True) for field in ("started_s", "rss_mib", "idle_cpu")]
        table.add_row(footprint.server, *cells)
    return table


def save(directory: Path, samples: Sequence[Sample], footprints: Sequence[Footprint], settings: Mapping[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"peer-{time.strftime('%Y%m%d-%H%M%S')}.json"
    members = {
        "machine": {"platform": platform.platform(), "processor": platform.processor() or platform.machine()},
        "settings": dict(settings),
        "samples": [asdict(sample) for sample in samples],
        "footprints": [asdict(footprint) for footprint in footprints],
    }
    path.write_text(json.dumps(members, indent=1))
    return path
