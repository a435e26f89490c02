"""The output of a benchmark: a live table while it runs, a table of figures at its end, and JSON.

The JSON uses the field names of OpenMessaging Benchmark's TestResult where they exist (rates in messages a second, latencies in
milliseconds), so that the files of both can be plotted together; what it has no name for stands under "rocketpy".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.live import Live
from rich.table import Table

from .._core.errors import NetworkError, NoMemory, ProtocolError, TimedOut
from .._core.load import Load
from ..remoting.codes import response_name
from .tables import Output

Row = tuple[str, str]
REFRESH_S = 0.2
SAMPLE_S = 1.0
PUBLISH, PUBLISH_DELAY, END_TO_END, FETCH = range(4)
KIND_NAMES = {PUBLISH: "publish", PUBLISH_DELAY: "publish_delay", END_TO_END: "end_to_end", FETCH: "fetch"}
# Latency kind, its name in OpenMessaging Benchmark.
OMB_KINDS = ((PUBLISH, "PublishLatency"), (PUBLISH_DELAY, "PublishDelayLatency"), (END_TO_END, "EndToEndLatency"))
OMB_PERCENTS = (("50pct", 50.0), ("75pct", 75.0), ("95pct", 95.0), ("99pct", 99.0), ("999pct", 99.9), ("9999pct", 99.99))
CURVE = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999, 100.0)
PERCENTILES = {
    "p50 ms": "p50_ns",
    "p90 ms": "p90_ns",
    "p99 ms": "p99_ns",
    "p99.9 ms": "p999_ns",
    "p99.99 ms": "p9999_ns",
    "max ms": "max_ns",
}
FAILURES = ("missing", "duplicated", "corrupted", "out_of_order")
LOCAL_CODES = {
    NoMemory.status: "no memory",
    TimedOut.status: "time-out",
    ProtocolError.status: "protocol error",
    NetworkError.status: "connection",
}


@dataclass(slots=True)
class Samples:
    """The rates of each second, laid out as OpenMessaging Benchmark keeps them."""

    publish_rate: list[float] = field(default_factory=list)
    publish_error_rate: list[float] = field(default_factory=list)
    consume_rate: list[float] = field(default_factory=list)
    backlog: list[int] = field(default_factory=list)
    _last: Mapping[str, int] = field(default_factory=dict)

    def take(self, progress: Mapping[str, int]) -> None:
        if self._last:
            seconds = max(progress["elapsed_ns"] - self._last["elapsed_ns"], 1) / 1e9
            self.publish_rate.append((progress["acknowledged"] - self._last["acknowledged"]) / seconds)
            self.publish_error_rate.append((progress["errors"] - self._last["errors"]) / seconds)
            self.consume_rate.append((progress["received"] - self._last["received"]) / seconds)
            self.backlog.append(max(0, progress["acknowledged"] - progress["received"]))
        self._last = dict(progress)


def watch(load: Load, title: str, *, quiet: bool) -> Samples:
    """Runs a started load to its end and shows its progress. Ctrl-C ends the run; the report is still printed."""
    samples = Samples()
    next_sample = time.monotonic()
    before = load.progress()
    with Live(_live_table(title, before, before), auto_refresh=False, transient=True, console=Output(quiet=quiet)) as live:
        finished = False
        while not finished:
            try:
                finished = load.wait(REFRESH_S)
            except KeyboardInterrupt:
                load.stop()
            now = load.progress()
            if time.monotonic() >= next_sample:
                samples.take(now)
                next_sample += SAMPLE_S
            live.update(_live_table(title, now, before), refresh=True)
            before = now
    return samples


def _live_table(title: str, now: Mapping[str, int], before: Mapping[str, int]) -> Table:
    seconds = max(now["elapsed_ns"] - before["elapsed_ns"], 1) / 1e9
    table = Table(title=title, box=box.SIMPLE_HEAD, min_width=min(len(title) + 2, 120))
    for name in ("", "messages", "now / s", "MB / s"):
        table.add_column(name, justify="right" if name else "left")
    for name, count, size in (("sent", "acknowledged", "bytes_sent"), ("received", "received", "bytes_received")):
        rate, megabytes = (now[count] - before[count]) / seconds, (now[size] - before[size]) / seconds / 1e6
        if now[count]:
            table.add_row(name, f"{now[count]:,}", f"{rate:,.0f}", f"{megabytes:,.1f}")
    for name in ("errors", "failures"):
        table.add_row(name, f"[red]{now[name]:,}[/]" if now[name] else "0", "", "")
    table.caption = f"{now['elapsed_ns'] / 1e9:.0f} s{'' if now['measuring'] else ', warming up'}"
    return table


def is_good(result: Mapping[str, Any]) -> bool:
    """Whether nothing failed, nothing was refused, and the run went to its end."""
    return result["status"] == 0 and not result["totals"]["errors"] and not any(result[name] for name in FAILURES)


def rates(result: Mapping[str, Any]) -> tuple[float, float]:
    """(acknowledged, received) messages per second in the measured part of the run."""
    return (
        result["measured_sent"] / max(result["measured_ns"], 1) * 1e9,
        result["measured_received"] / max(result["measured_receive_ns"], 1) * 1e9,
    )


def print_result(result: Mapping[str, Any], title: str) -> None:
    """Prints one column each for sent, received and end-to-end messages, as far as the run had them."""
    console = Output()
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    columns = list(_columns(result))
    for name, _ in columns:
        table.add_column(name, justify="right")
    for number, row in enumerate(("messages", "a second", "MB/s", *PERCENTILES)):
        table.add_row(row, *(cells[number] for _, cells in columns))
    console.print(title, highlight=False, markup=False, soft_wrap=True)
    console.print(table if columns else "no message was sent or received", highlight=False)
    for name, text in _remarks(result):
        console.print(f"{name}: {text}", highlight=False, markup=False)


def _columns(result: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    sent_rate, received_rate = rates(result)
    sent_size = result["measured_bytes_sent"] / max(result["measured_ns"], 1) * 1e3
    received_size = result["measured_bytes_received"] / max(result["measured_receive_ns"], 1) * 1e3
    sent = [f"{result['measured_sent']:,}", f"{sent_rate:,.0f}", f"{sent_size:,.1f}"]
    received = [f"{result['measured_received']:,}", f"{received_rate:,.0f}", f"{received_size:,.1f}"]
    blank = ["", "", ""]
    for name, kind, cells in (
        ("sent", "publish", sent),
        ("left late by", "publish_delay", blank),
        ("received, per pull", "fetch", received),
        ("end to end", "end_to_end", blank),
    ):
        latency = result["latency"][kind]
        if latency["count"]:
            yield name, [*cells, *(f"{latency[member] / 1e6:,.3f}" for member in PERCENTILES.values())]


def _remarks(result: Mapping[str, Any]) -> list[Row]:
    messages = result["totals"]["acknowledged"] + result["totals"]["received"]
    remarks = [("generator", f"{result['cpu_ns'] / max(messages, 1):,.0f} ns of CPU a message")]
    remarks += [("error", text) for text in error_causes(result)]
    remarks += [
        (name.replace("_", " "), f"{result[name]:,} messages") for name in (*FAILURES, "unverified", "unacknowledged") if result[name]
    ]
    if result["first_offender"]:
        remarks.append(("first failure", result["first_offender"]))
    if result["status"]:
        remarks.append(("ended early", LOCAL_CODES.get(result["status"], "stopped")))
    return remarks


def error_causes(result: Mapping[str, Any]) -> list[str]:
    """One line per response code: how many requests failed with it, and the remark of the first of them."""
    causes = [(entry["count"], code_name(entry["code"]), entry["remark"]) for entry in result["error_codes"]]
    return [f"{count:,} requests: {name}{': ' + remark if remark else ''}" for count, name, remark in causes]


def refusal(result: Mapping[str, Any]) -> str:
    """The answer to the first send of a run in which no message was accepted; empty for any other run."""
    answers = [entry for entry in result["error_codes"] if entry["code"] > 0]
    if not answers or result["totals"]["acknowledged"]:
        return ""
    return f"{code_name(answers[0]['code'])}{': ' + answers[0]['remark'] if answers[0]['remark'] else ''}"


def code_name(code: int) -> str:
    return LOCAL_CODES.get(code, str(code)) if code < 0 else f"{code} {response_name(code)}"


def to_json(
    result: Mapping[str, Any], samples: Samples, percentile: Callable[[int, float], int], options: Mapping[str, Any], started: float
) -> dict[str, Any]:
    """The result as one OpenMessaging Benchmark TestResult."""
    members: dict[str, Any] = {
        "workload": options["workload"],
        "driver": "rocketpy",
        "beginTime": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(started)),
        "endTime": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "messageSize": options["message_size"],
        "topics": 1,
        "partitions": options["queue_count"],
        "producersPerTopic": options["producers"],
        "consumersPerTopic": options["consumers"],
        "publishRate": samples.publish_rate,
        "publishErrorRate": samples.publish_error_rate,
        "consumeRate": samples.consume_rate,
        "backlog": samples.backlog,
    }
    for kind, name in OMB_KINDS:
        latency = result["latency"][KIND_NAMES[kind]]
        members[f"aggregated{name}Avg"] = latency["mean_ns"] / 1e6
        members |= {f"aggregated{name}{label}": percentile(kind, percent) / 1e6 for label, percent in OMB_PERCENTS}
        members[f"aggregated{name}Max"] = latency["max_ns"] / 1e6
        members[f"aggregated{name}Quantiles"] = {str(percent): percentile(kind, percent) / 1e6 for percent in CURVE if latency["count"]}
    sent_rate, received_rate = rates(result)
    members["rocketpy"] = {"options": dict(options), "sendRate": sent_rate, "receiveRate": received_rate, "result": dict(result)}
    return members
