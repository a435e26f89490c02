"""Prometheus' families as OTLP's metrics, in batches. RocketMQ: what OpenTelemetry's SDK makes of its instruments, which have the same
names without the units that its exporter for Prometheus writes into them.

A batch is a tree with the field names of ExportMetricsServiceRequest (opentelemetry.proto.collector.metrics.v1). The message's constructor
makes a message of it, otlp_json a line of JSON.

A delta is what a series has counted since it was last delivered, so the next push includes what a failed push lost. A series that did not
change has no delta; one that counts less than before has started again from zero.

Threads  one at a time. Bounds: points_max points a batch; the last delivered value of each series of the last round.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import sub
from typing import Any, Final

from prometheus_client.core import Metric

CUMULATIVE, DELTA = 2, 1  # AggregationTemporality
_UNITS: Final = {"_milliseconds": "milliseconds", "_microseconds": "us", "_seconds": "seconds"}
_MORE_UNITS: Final = {
    "rocketmq_finish_message_latency_milliseconds": ("rocketmq_finish_message_latency", "ms"),
    "rocketmq_storage_size_bytes": ("rocketmq_storage_size", "bytes"),
    "dledger_disk_usage_bytes": ("dledger_disk_usage", "bytes"),
}
"""RocketMQ's; its other names that end in _bytes say so themselves."""
_FIELDS_OF_32_BITS: Final = {"aggregation_temporality"}

Tree = dict[str, Any]
Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Counted:
    """What a series had counted at a certain time."""

    at_ns: int
    total: float
    classes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """One series. For a histogram: the sum, how many values are in each bucket, and the upper bounds of all buckets but the last."""

    labels: Mapping[str, str]
    total: float
    classes: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()


@dataclass(slots=True)
class Batch:
    """The data of one push."""

    request: Tree
    counted: dict[Key, Counted] = field(default_factory=dict)


class OtlpData:
    """The metrics of one server. scope: the name of what they come from."""

    def __init__(self, scope: str, points_max: int, is_delta: bool, started_ns: int) -> None:
        self._scope = scope
        self._points_max = points_max
        self._is_delta = is_delta
        self._started_ns = started_ns
        self._delivered: dict[Key, Counted] = {}

    def batches(self, families: Iterable[Metric], now_ns: int) -> Iterator[Batch]:
        """All that there is to report, in order. Each batch has to be confirmed by delivered() before the next is taken."""
        seen: set[Key] = set()
        metrics: list[Tree] = []
        counted: dict[Key, Counted] = {}
        room = self._points_max
        for family in families:
            points: list[Tree] | None = None
            for point in _points(family):
                key = family.name, tuple(point.labels.items())
                seen.add(key)
                told = self._told(family.type, key, point, now_ns)
                if told is None:
                    continue
                if room == 0:
                    yield Batch(self._request(metrics), counted)
                    metrics, counted, points, room = [], {}, None, self._points_max
                if points is None:
                    points = []
                    metrics.append(self._metric(family, points))
                points.append(told)
                room -= 1
                if self._is_delta and family.type != "gauge":
                    counted[key] = Counted(now_ns, point.total, point.classes)
        if metrics:
            yield Batch(self._request(metrics), counted)
        self._delivered = {key: value for key, value in self._delivered.items() if key in seen}

    def delivered(self, batch: Batch) -> None:
        """The batch has arrived: the next deltas are relative to it."""
        self._delivered.update(batch.counted)

    def _told(self, kind: str, key: Key, point: Point, now_ns: int) -> Tree | None:
        """The data of a metric; None if there is nothing to report."""
        tree: Tree = {"attributes": [{"key": label, "value": {"string_value": text}} for label, text in point.labels.items()]}
        if kind == "gauge":
            return {**tree, "time_unix_nano": now_ns, "as_int": _whole(point.total)}
        since = self._delivered.get(key, Counted(self._started_ns, 0, (0,) * len(point.classes)))
        if self._is_delta:
            point = _difference(point, since)
            if not point.total and not any(point.classes):
                return None
        tree |= {"start_time_unix_nano": min(since.at_ns, now_ns), "time_unix_nano": now_ns}
        if kind == "counter":
            return {**tree, "as_int": _whole(point.total)}
        counts = {"count": sum(point.classes), "sum": float(point.total), "bucket_counts": list(point.classes)}
        return {**tree, **counts, "explicit_bounds": list(point.bounds)}

    def _metric(self, family: Metric, points: list[Tree]) -> Tree:
        name, unit = instrument(family.name)
        temporality = {"aggregation_temporality": DELTA if self._is_delta else CUMULATIVE}
        tree: Tree = {"name": name, "description": family.documentation, "unit": unit}
        if family.type == "counter":
            return {**tree, "name": f"{name}_total", "sum": {"data_points": points, **temporality, "is_monotonic": True}}
        if family.type == "histogram":
            return {**tree, "histogram": {"data_points": points, **temporality}}
        return {**tree, "gauge": {"data_points": points}}

    def _request(self, metrics: list[Tree]) -> Tree:
        return {"resource_metrics": [{"resource": {}, "scope_metrics": [{"scope": {"name": self._scope}, "metrics": metrics}]}]}


def instrument(name: str) -> tuple[str, str]:
    """Name and unit of a metric in systems where the unit is not part of the name."""
    if name in _MORE_UNITS:
        return _MORE_UNITS[name]
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), unit
    return name, "bytes" if name.endswith("_bytes") else ""


def otlp_json(tree: Tree) -> str:
    """One line of OTLP's JSON: lowerCamelCase, 64-bit numbers as texts."""
    return json.dumps(_json_value("", tree), ensure_ascii=False, separators=(",", ":"))


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {re.sub("_(.)", lambda found: found.group(1).upper(), each): _json_value(each, it) for each, it in value.items()}
    if isinstance(value, list):
        return [_json_value(name, each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and name not in _FIELDS_OF_32_BITS:
        return str(value)
    return value


def _points(family: Metric) -> Iterator[Point]:
    """The points of a histogram. Its samples are its cumulative buckets, then the number of values, then their sum."""
    if family.type != "histogram":
        yield from (Point(sample.labels, sample.value) for sample in family.samples)
        return
    ends: list[tuple[float, int]] = []
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            ends.append((float(sample.labels["le"]), int(sample.value)))
        elif sample.name.endswith("_sum"):
            counts = [count for _, count in ends]
            yield Point(sample.labels, sample.value, tuple(map(sub, counts, [0, *counts])), tuple(end for end, _ in ends[:-1]))
            ends = []


def _difference(point: Point, before: Counted) -> Point:
    """The increase of a count. A count never falls; if it has, it is a new one, and all of it is the increase."""
    classes = tuple(map(sub, point.classes, before.classes))
    if len(before.classes) != len(point.classes) or point.total < before.total or any(each < 0 for each in classes):
        return point
    return Point(point.labels, point.total - before.total, classes, point.bounds)


def _whole(value: float) -> int:
    """The value limited to 64 bits: a stranger at the HA port may claim to have any log offset."""
    return max(-(2**63), min(2**63 - 1, int(value)))
