"""Metrics that are pushed: what arrives, and what a collector that is away costs."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import Unsupported
from rocketpy.broker.metrics import BrokerMetrics
from rocketpy.broker.metrics_settings import metrics_settings
from rocketpy.config import load_config
from rocketpy.logs import METRICS_LOGGER, start_logging
from rocketpy.metrics import complaints, otlp_grpc, push
from rocketpy.metrics.complaints import Complaints
from rocketpy.metrics.exporters import Exporter, make_exporter
from rocketpy.metrics.families import MetricFamilies, Scrape
from rocketpy.metrics.otlp_data import OtlpData, instrument
from rocketpy.metrics.push import PushExporter
from rocketpy.metrics.scraper import Scraper
from rocketpy.metrics.settings import LOG, OTLP_GRPC, ExporterSettings, exporter_kind, parse_headers
from rocketpy.proxy.metrics_settings import exporter_of
from rocketpy.proxy.settings import load_settings
from tests.processes import PATIENCE_S, free_port
from tests.unit.broker.running import eventually, run, running
from tests.unit.metrics.collector import Collector, labels_of

FAST_MS = 20


def read_one() -> Scrape:
    return Scrape([MetricFamilies({"node_id": "a"}, 9, "the most").counter("rocketmq_messages_in", "", [({"topic": "t"}, 7)])])


def settings(kind: str, **more: Any) -> ExporterSettings:
    return ExporterSettings(kind=kind, scope="scope", interval_ms=FAST_MS, **more)


async def with_exporter(exporter: Exporter, is_done: Callable[[], bool]) -> None:
    exporter.start()
    try:
        await eventually(is_done)
    finally:
        await exporter.stop()


def test_a_collector_gets_what_prometheus_would(tmp_path: Path) -> None:
    collector = Collector()

    async def test(port: int) -> None:
        otlp = {
            "metricsExporterType": "OTLP_GRPC",
            "metricsGrpcExporterTarget": f"http://127.0.0.1:{port}",
            "metricsGrpcExporterHeader": "Api-Key:secret",
            "metricGrpcExporterIntervalInMills": "100",
            "metricsExportBatchMaxDataPoints": "7",
            "metricsLabel": "room:b",
        }
        async with running(tmp_path, **otlp) as at:
            assert (await at.peer().send("t")).code == 0
            await eventually(lambda: any(("topic", "t") in labels_of(each) for each in collector.points("rocketmq_messages_in_total")))
            parts = at.broker.parts
            assert parts is not None
            scrape = BrokerMetrics(parts, metrics_settings(at.broker.config)).read()
            shown = [*scrape.metrics, *scrape.rest()]
        expected = {
            instrument(family.name)[0] + ("_total" if family.type == "counter" else ""): {
                frozenset((key, value) for key, value in sample.labels.items() if key != "le") for sample in family.samples
            }
            for family in shown
            if family.samples
        }
        got = {name: {labels_of(point) for point in collector.points(name)} for name in expected}
        assert {name: got[name] & labels for name, labels in expected.items() if name != "rocketmq_rpc_latency"} == {
            name: labels for name, labels in expected.items() if name != "rocketmq_rpc_latency"
        }
        common = {("cluster", "DefaultCluster"), ("node_type", "broker"), ("node_id", "broker-a"), ("room", "b")}
        [sent] = {point for point in map(labels_of, collector.points("rocketmq_messages_in_total")) if ("topic", "t") in point}
        assert common <= sent
        assert ("api-key", "secret") in collector.headers
        scopes = {scope.scope.name for each in collector.requests for it in each.resource_metrics for scope in it.scope_metrics}
        assert scopes == {"broker-meter"}
        assert any(point.as_int == 1 and ("topic", "t") in labels_of(point) for point in collector.points("rocketmq_messages_in_total"))

    with collector.started() as port:
        run(lambda: test(port))


def test_a_collector_that_comes_late_gets_what_there_is_and_its_refusals_are_told(caplog: pytest.LogCaptureFixture) -> None:
    collector, port = Collector(), free_port()
    collector.refuses = 3

    async def test() -> None:
        exporter = make_exporter(settings(OTLP_GRPC, target=f"http://127.0.0.1:{port}", is_delta=True), read_one)
        exporter.start()
        try:
            await eventually(lambda: any("metrics were not exported" in each for each in caplog.messages))
            with collector.started(port):
                # the answer, not the request: a server that ends takes back what it has not answered
                await eventually(lambda: any("refused 3 points, 1 times by now: odd" in each for each in caplog.messages))
        finally:
            await exporter.stop()

    with caplog.at_level(logging.INFO):
        run(test)
    [point] = collector.points("rocketmq_messages_in_total")
    assert point.as_int == 7, "of all the time it was away"
    assert sum("metrics were not exported" in each for each in caplog.messages) <= 2, "each time it began"


def test_the_stop_pushes_what_is_left_and_ends_a_push_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging:
        """Until it is closed."""

        def __init__(self, hangs: bool) -> None:
            self.got: list[Any] = []
            self.hangs = hangs
            self.closed = threading.Event()

        def deliver(self, request: Any) -> None:
            self.got.append(request)
            if self.hangs and self.closed.wait(PATIENCE_S):
                raise ConnectionError("closed")

        def close(self) -> None:
            self.closed.set()

    monkeypatch.setattr(push, "LAST_WITHIN_S", 0.1)

    async def test() -> None:
        for hangs in (False, True):
            target = Hanging(hangs)
            exporter = PushExporter(Scraper(read_one), OtlpData("scope", 9, False, 0), target, 3_600_000)
            exporter.start()
            await exporter.stop()
            await exporter.stop()
            assert len(target.got) == 1

    run(test)


def test_failures_are_told_now_and_then() -> None:
    now_s = 0.0
    told = Complaints(lambda: now_s)
    assert [told.failed() for _ in range(3)] == [1, 0, 0]
    now_s = complaints.PAUSE_S
    assert (told.failed(), told.failed(), told.worked(), told.worked()) == (4, 0, 5, 0)
    assert told.failed() == 1, "anew"


def test_a_missing_library_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(otlp_grpc, "_missing", ImportError("No module named 'opentelemetry'"))
        with pytest.raises(Unsupported, match=r"No module named 'opentelemetry'.*pip install 'rocketpy-mq\[otlp\]'"):
            make_exporter(settings(OTLP_GRPC, target="a:1"), read_one)

    run(test)


def test_logged_metrics_have_a_file_of_their_own(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.getLogger("rocketpy").level
    lines = tmp_path / "broker_metrics.log"
    try:
        start_logging("broker", load_config("broker", None, {"logPath": str(tmp_path), "logLevel": "WARNING"}))

        async def test() -> None:
            await with_exporter(make_exporter(settings(LOG), read_one), lambda: lines.exists() and lines.read_text().count("\n") > 1)

        run(test)
    finally:
        start_logging("broker", load_config("broker", None, {}))
        for handler in root.handlers[:]:
            root.removeHandler(handler)
        root.handlers[:], root.level = before[0], before[1]
        logging.getLogger("rocketpy").setLevel(before[2])
        logging.getLogger(METRICS_LOGGER).setLevel(logging.NOTSET)
    first = json.loads(lines.read_text().splitlines()[0])
    assert first["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["name"] == "rocketmq_messages_in_total"
    assert not (tmp_path / "broker.log").exists(), "nothing else was said"


def test_what_cannot_be_exported_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert [exporter_kind(given, "") for given in ("0", "1", "2", "3", "SMOKE")] == ["DISABLE", "DISABLE", "PROM", "LOG", "DISABLE"]
    assert exporter_kind("1", "collector:4317") == OTLP_GRPC
    assert any("without metricsGrpcExporterTarget" in each for each in caplog.messages)
    assert any("SMOKE is unknown" in each for each in caplog.messages)


def test_headers_that_are_none_are_left_out_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    text = "Authorization:Basic abc, x-tenant: 1 ,grpc-timeout:1,x-bin:1,a b:1,:1,nothing,k:v:hidden,u:\x00"
    assert parse_headers(text) == (("authorization", "Basic abc"), ("x-tenant", "1"))
    assert len(caplog.messages) == 7
    assert not any("hidden" in each for each in caplog.messages)


def test_a_proxy_reads_the_same_keys(tmp_path: Path) -> None:
    file = tmp_path / "rmq-proxy.json"
    given = {
        "namesrvAddr": "a:1",
        "metricsExporterType": 1,
        "metricsGrpcExporterTarget": "b:2",
        "metricsGrpcExporterHeader": "k:v",
        "metricGrpcExporterTimeOutInMills": 5,
        "metricGrpcExporterIntervalInMills": 6,
        "metricsInDelta": True,
    }
    file.write_text(json.dumps(given))
    read, idle = load_settings(file, {}, {})
    exporter = exporter_of(read)
    assert idle == {}
    assert (exporter.kind, exporter.target, exporter.headers, exporter.timeout_ms) == (OTLP_GRPC, "b:2", (("k", "v"),), 5)
    assert (exporter.interval_ms, exporter.is_delta) == (100, True), "no more often than that"
    assert exporter.labels("a:b", {"node_type": "proxy"}) == {"a": "b", "aggregation": "delta", "node_type": "proxy"}
