"""Families as OTLP's metrics: names, points, batches, deltas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.core import Metric

from rocketpy.metrics.families import MetricFamilies
from rocketpy.metrics.otlp_data import OtlpData, instrument, otlp_json

FAMILIES = MetricFamilies({"node_id": "a"}, 100, "the most")
BORN, NOW = 1_000, 5_000


def metrics_of(data: OtlpData, families: list[Metric], now_ns: int = NOW) -> list[dict[str, Any]]:
    """All of one round, which arrives."""
    found = []
    for batch in data.batches(families, now_ns):
        ExportMetricsServiceRequest(**batch.request)  # an unknown field raises
        found += batch.request["resource_metrics"][0]["scope_metrics"][0]["metrics"]
        data.delivered(batch)
    return found


def counted(value: float, *classes: int) -> list[Metric]:
    return [
        FAMILIES.counter("rocketmq_messages_in", "", [({"topic": "t"}, value)]),
        FAMILIES.histogram("rocketmq_message_size", "", (1, 2), [({"topic": "t"}, classes, value)] if classes else []),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rocketmq_rpc_latency_milliseconds", ("rocketmq_rpc_latency", "milliseconds")),
        ("rocketmq_finish_message_latency_milliseconds", ("rocketmq_finish_message_latency", "ms")),
        ("rocketmq_delay_message_latency_seconds", ("rocketmq_delay_message_latency", "seconds")),
        ("request_latency_microseconds", ("request_latency", "us")),
        ("rocketmq_storage_size_bytes", ("rocketmq_storage_size", "bytes")),
        ("rocketmq_storage_flush_behind_bytes", ("rocketmq_storage_flush_behind_bytes", "bytes")),
        ("rocketmq_topic_number", ("rocketmq_topic_number", "")),
    ],
)
def test_units_leave_the_names_as_rocketmq_has_them(name: str, expected: tuple[str, str]) -> None:
    assert instrument(name) == expected


def test_each_kind_has_its_points() -> None:
    data = OtlpData("scope", 100, False, BORN)
    counter, histogram, gauge = metrics_of(
        data, [*counted(7, 1, 2, 3), FAMILIES.gauge("rocketmq_storage_size_bytes", "bytes of it", [({}, 2**70)])]
    )
    labels = [{"key": "node_id", "value": {"string_value": "a"}}, {"key": "topic", "value": {"string_value": "t"}}]
    times = {"start_time_unix_nano": BORN, "time_unix_nano": NOW}
    assert (counter["name"], counter["sum"]["is_monotonic"], counter["sum"]["aggregation_temporality"]) == (
        "rocketmq_messages_in_total",
        True,
        2,
    )
    assert counter["sum"]["data_points"] == [{"attributes": labels, **times, "as_int": 7}]
    assert histogram["histogram"]["data_points"] == [
        {"attributes": labels, **times, "count": 6, "sum": 7.0, "bucket_counts": [1, 2, 3], "explicit_bounds": [1.0, 2.0]}
    ]
    assert (gauge["name"], gauge["unit"], gauge["description"]) == ("rocketmq_storage_size", "bytes", "bytes of it")
    assert gauge["gauge"]["data_points"] == [{"attributes": labels[:1], "time_unix_nano": NOW, "as_int": 2**63 - 1}]


def test_a_batch_has_so_many_points_and_all_of_them_come_once() -> None:
    families = [FAMILIES.gauge(name, "", [({"topic": str(i)}, i) for i in range(count)]) for name, count in (("a", 5), ("b", 0), ("c", 3))]
    sizes, seen = [], []
    for batch in OtlpData("scope", 2, False, BORN).batches(families, NOW):
        points = [
            (metric["name"], point["as_int"])
            for metric in batch.request["resource_metrics"][0]["scope_metrics"][0]["metrics"]
            for point in metric["gauge"]["data_points"]
        ]
        sizes.append(len(points))
        seen += points
    assert sizes == [2, 2, 2, 2]
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("c", 0), ("c", 1), ("c", 2)]


def test_deltas_are_to_what_was_delivered() -> None:
    data = OtlpData("scope", 100, True, BORN)

    def told(now_ns: int, value: float, *classes: int) -> list[Any]:
        found = metrics_of(data, counted(value, *classes), now_ns)
        return [
            (point["start_time_unix_nano"], point.get("as_int", point.get("bucket_counts")))
            for metric in found
            for point in metric.get("sum", metric.get("histogram"))["data_points"]
        ]

    assert told(2000, 7, 1, 0, 2) == [(BORN, 7), (BORN, [1, 0, 2])]
    assert told(3000, 7, 1, 0, 2) == [], "nothing was counted"
    list(data.batches(counted(9, 1, 1, 2), 4000))  # not delivered
    assert told(5000, 10, 2, 1, 2) == [(2000, 3), (2000, [1, 1, 0])]
    assert told(6000, 4, 1, 0, 0) == [(5000, 4), (5000, [1, 0, 0])], "made again, it began again"


def test_what_is_gone_is_forgotten() -> None:
    data = OtlpData("scope", 100, True, BORN)
    metrics_of(data, counted(7))
    metrics_of(data, [])
    assert [point["as_int"] for each in metrics_of(data, counted(7)) for point in each["sum"]["data_points"]] == [7]


def test_lines_are_otlps_json() -> None:
    [batch] = OtlpData("scope", 100, False, BORN).batches(counted(7, 1, 0, 0), NOW)
    [resource] = json.loads(otlp_json(batch.request))["resourceMetrics"]
    [scope] = resource["scopeMetrics"]
    point = scope["metrics"][0]["sum"]["dataPoints"][0]
    assert (scope["scope"]["name"], point["asInt"], point["timeUnixNano"]) == ("scope", "7", str(NOW))
    assert scope["metrics"][0]["sum"]["aggregationTemporality"] == 2
    assert scope["metrics"][1]["histogram"]["dataPoints"][0]["bucketCounts"] == ["1", "0", "0"]
    assert point["attributes"][0] == {"key": "node_id", "value": {"stringValue": "a"}}


def test_half_a_character_in_a_name_is_none() -> None:
    family = FAMILIES.gauge("a", "", [({"consumer_group": "g\ud800"}, 1)])
    assert [sample.labels["consumer_group"] for sample in family.samples] == ["g?"]
