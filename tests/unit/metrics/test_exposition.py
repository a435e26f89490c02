"""Metrics as text: byte for byte what prometheus_client writes, in both formats, and who gets which."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client import exposition as plain_exposition
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as open_exposition
from prometheus_client.registry import Collector

from rocketpy.metrics.exposition import metrics_app, open_text, plain_text
from rocketpy.metrics.families import MetricFamilies

ODD = 'back\\slash "quoted" two\nlines %s ü \ud800'
VALUES = (0, 1, -1, 0.5, 1e6, 12345678, 123456789.25, 1e21, 2**53, math.inf, -math.inf, math.nan, 1e-7)


class Given(Collector):
    """Some metrics of each kind."""

    def collect(self) -> Iterable[Metric]:
        families = MetricFamilies({"cluster": "c", "node_id": "n-1"}, 1000, "nothing")
        yield families.gauge(
            "gauge_bytes", ODD.removesuffix(" \ud800"), [({"topic": f"t{i}", "z": ODD}, value) for i, value in enumerate(VALUES)]
        )
        yield families.counter("calls", "Calls", [({"b": "1", "a": ODD}, 3.0), ({"b": "2", "a": ""}, 4)])
        yield families.counter("never", "Nobody has", [])
        yield families.gauge("alone", "Without labels of its own", [({}, 7)])
        yield MetricFamilies({}, 1000, "nothing").gauge("bare", "Without any", [({}, -0.25)])
        yield families.histogram(
            "took_seconds", "Times", (0.1, 1, 1e6), [({"code": "x"}, (1, 2, 3, 4), 12.5), ({"code": "y"}, (0,) * 4, 0)]
        )


def test_both_texts_are_those_of_prometheus_client() -> None:
    given = Given()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(given)
    assert plain_text(given.collect()) == generate_latest(registry)
    assert open_text(given.collect()) == open_exposition.generate_latest(registry)  # type: ignore[no-untyped-call]
    assert plain_text([]) == b"" and open_text([]) == b"# EOF\n"


OPEN = "application/openmetrics-text"


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"HTTP_ACCEPT": "text/plain;version=0.0.4"},
        {"HTTP_ACCEPT": f"{OPEN};version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"},
        {"HTTP_ACCEPT": f"{OPEN};version=1.0.0;escaping=allow-utf-8"},
        {"HTTP_ACCEPT": f"{OPEN};version=1.0.0;escaping=dots"},
        {"HTTP_ACCEPT": f"{OPEN};version=1.0.0;escaping=values"},
        {"HTTP_ACCEPT": "text/plain;version=1.0.0;escaping=dots"},
        {"HTTP_ACCEPT_ENCODING": "deflate, gzip"},
        {"HTTP_ACCEPT": OPEN, "HTTP_ACCEPT_ENCODING": "gzip"},
        {"QUERY_STRING": "name[]=calls_total"},
        {"QUERY_STRING": "other=1", "PATH_INFO": "/anything"},
        {"PATH_INFO": "/favicon.ico"},
        {"REQUEST_METHOD": "OPTIONS"},
        {"REQUEST_METHOD": "OPTIONS", "HTTP_ACCEPT": f"{OPEN};version=x"},
        {"PATH_INFO": "/favicon.ico", "HTTP_ACCEPT": f"{OPEN};version=x"},
        {"REQUEST_METHOD": "POST"},
    ],
)
def test_who_asks_gets_what_prometheus_client_answers(asked: dict[str, str]) -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given())

    def answer(app: Any) -> tuple[Any, ...]:
        told: list[Any] = []
        body = b"".join(app({"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", **asked}, lambda *line: told.append(line)))
        return told, gzip.decompress(body) if ("Content-Encoding", "gzip") in told[0][1] else body

    assert answer(metrics_app(registry)) == answer(make_wsgi_app(registry))


def test_usual_scrapes_are_not_written_by_prometheus_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at the characters of each sample's names anew: 1.1 s of 100,000 series, where Prometheus asks as it does."""

    def write(*given: Any, **how: Any) -> bytes:
        raise AssertionError("prometheus_client wrote the metrics")

    for module in (plain_exposition, open_exposition):  # before choose_encoder, which takes them from there
        monkeypatch.setattr(module, "generate_latest", write)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given())
    for accept in ("", f"{OPEN};version=1.0.0;escaping=allow-utf-8,{OPEN};version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3"):
        asked: dict[str, Any] = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "HTTP_ACCEPT": accept}
        assert list(metrics_app(registry)(asked, lambda status, headers: None))  # type: ignore[arg-type]
