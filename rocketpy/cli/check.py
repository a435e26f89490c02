"""The check behind `make quickstart`: N messages through the whole product and back, each one verified, figures at the end.

The native load generator has a codec of its own (it shares csrc/base only with the broker) and looks at every message: present once, body
and CRC as sent, in the order of its producer within each queue.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._core.load import Load
from ..remoting.client import RemotingClient
from ..remoting.codes import RequestCode
from ..remoting.headers import CreateTopicRequestHeader

TOPIC = "RocketpyCheck"
QUEUES = 16
CONNECTIONS = 8
PULL_CONNECTIONS = 4
IN_FLIGHT = 32
MODE_BOTH = 3
REFRESH_S = 0.1
REQUEST_TIMEOUT_MS = 30_000  # a machine that stood still for a few seconds, building something else say, has lost no message
FAILURES = ("missing", "duplicated", "corrupted", "out_of_order", "unverified")


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What is sent, and how the verdict is reported."""

    count: int
    message_size: int
    durability: str
    """In words."""
    as_json: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """What the check found."""

    messages: int
    sent: int
    received: int
    errors: int
    error_causes: list[str]
    failures: dict[str, int]
    first_failure: str
    seconds: float
    send_rate: float
    receive_rate: float
    send_mb_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    end_to_end_p99_ms: float
    started_s: float
    rss_mb: float
    rss_without_files_mb: float

    @property
    def passed(self) -> bool:
        return self.sent == self.received == self.messages and self.errors == 0 and not any(self.failures.values())


def resident_mb() -> tuple[float, float]:
    """(all resident memory, resident memory without file pages) of this process, in MiB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    total, of_files = (int(status[name].split()[0]) / 1024 for name in ("VmRSS", "RssFile"))
    return total, total - of_files


def figures_of(result: Mapping[str, Any], count: int, started_s: float) -> Figures:
    from .bench_report import error_causes

    seconds = max(result["measured_ns"], 1) / 1e9
    receive_seconds = max(result["measured_receive_ns"], 1) / 1e9
    publish, end_to_end = result["latency"]["publish"], result["latency"]["end_to_end"]
    totals = result["totals"]
    rss, rss_without_files = resident_mb()
    return Figures(
        messages=count,
        sent=totals["acknowledged"],
        received=totals["received"],
        errors=totals["errors"],
        error_causes=error_causes(result),
        failures={name: result[name] for name in FAILURES},
        first_failure=result["first_offender"],
        seconds=seconds,
        send_rate=result["measured_sent"] / seconds,
        receive_rate=result["measured_received"] / receive_seconds,
        send_mb_s=result["measured_bytes_sent"] / seconds / 1e6,
        p50_ms=publish["p50_ns"] / 1e6,
        p99_ms=publish["p99_ns"] / 1e6,
        p999_ms=publish["p999_ns"] / 1e6,
        end_to_end_p99_ms=end_to_end["p99_ns"] / 1e6,
        started_s=started_s,
        rss_mb=rss,
        rss_without_files_mb=rss_without_files,
    )


async def create_topic(address: str) -> None:
    async with RemotingClient() as client:
        await client.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopicRequestHeader.plain(TOPIC, QUEUES))


async def run_check(address: str, options: CheckOptions, started_s: float) -> int:
    """0 when every message came back as it was sent."""
    count = options.count
    await create_topic(address)
    load = await asyncio.to_thread(
        Load,
        address=address,
        topic=TOPIC,
        mode=MODE_BOTH,
        serialize_type=1,
        queue_count=QUEUES,
        connections=min(CONNECTIONS, count),
        pull_connections=PULL_CONNECTIONS,
        in_flight=IN_FLIGHT,
        threads=min(2, os.cpu_count() or 1),
        message_size=options.message_size,
        count=count,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        check_order=1,
    )
    try:
        load.start()
        await show_progress(load, count, quiet=options.as_json)
        figures = figures_of(load.result(), count, started_s)
    finally:
        await asyncio.to_thread(load.close)
    if options.as_json:
        print(json.dumps(asdict(figures) | {"passed": figures.passed}))
    else:
        print_table(figures, options)
    return 0 if figures.passed else 1


async def show_progress(load: Load, count: int, *, quiet: bool) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from .tables import Output

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Output(), disable=quiet) as progress:
        sent = progress.add_task("sent", total=count, rate="")
        received = progress.add_task("received", total=count, rate="")
        finished = False
        while not finished:
            finished = await asyncio.to_thread(load.wait, REFRESH_S)
            now = load.progress()
            seconds = max(now["elapsed_ns"], 1) / 1e9
            progress.update(sent, completed=now["acknowledged"], rate=f"{now['acknowledged'] / seconds:,.0f}/s")
            progress.update(received, completed=now["received"], rate=f"{now['received'] / seconds:,.0f}/s")


def print_table(figures: Figures, options: CheckOptions) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from .tables import Output

    failed = {name: value for name, value in figures.failures.items() if value}
    sound = "count, bodies and order of every queue" if figures.received == figures.messages else "bodies and order of what came back"
    rows = [
        ("messages", f"{figures.sent:,} sent, {figures.received:,} received and checked, {figures.errors:,} errors"),
        ("checked", ", ".join(f"{value:,} {name}" for name, value in failed.items()) or f"{sound}: as sent"),
        ("rate", f"{figures.send_rate:,.0f} sent/s, {figures.receive_rate:,.0f} received/s over {figures.seconds:.1f} s"),
        ("throughput", f"{figures.send_mb_s:,.0f} MB/s of {options.message_size}-byte bodies"),
        ("send latency", f"p50 {figures.p50_ms:.2f} ms, p99 {figures.p99_ms:.2f} ms, p99.9 {figures.p999_ms:.2f} ms"),
        ("end to end", f"p99 {figures.end_to_end_p99_ms:.2f} ms"),
        ("durability", options.durability),
        ("start-up", f"{figures.started_s:.2f} s from process start to registered"),
        (
            "memory",
            f"{figures.rss_without_files_mb:,.0f} MiB, {figures.rss_mb:,.0f} MiB with file pages; generator included",
        ),
    ]
    rows += [("error", text) for text in figures.error_causes]
    table = Table(box=box.SIMPLE, show_header=False)
    for name, text in rows:
        table.add_row(name, Text(text))
    console = Output()
    console.print(table)
    if figures.first_failure:
        console.print(f"first failure: {figures.first_failure}", highlight=False, markup=False)
    console.print("[green]every message came back as it was sent[/]" if figures.passed else "[red]the check failed[/]")
