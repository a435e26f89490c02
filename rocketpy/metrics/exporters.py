"""Makes the exporter that a server's settings ask for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from .families import Scrape
from .logged import MetricsLog
from .otlp_data import OtlpData
from .prometheus import PrometheusExporter
from .push import PushExporter, Target
from .scraper import Scraper
from .settings import LOG, PROM, ExporterSettings


class Exporter(Protocol):
    """Lets metrics out of a server, from start to stop, on one event loop."""

    @property
    def port(self) -> int:
        """The port that it listens on; 0 if it does not listen."""
        ...

    def start(self) -> None:
        """Raises NetworkError."""

    async def stop(self) -> None:
        """Idempotent."""


def make_exporter(settings: ExporterSettings, read: Callable[[], Scrape], why_not_ready: Callable[[], str] = str) -> Exporter:
    """The exporter, not started yet. Both functions are called on the running event loop. Raises Unsupported if a library is missing."""
    scraper = Scraper(read)
    if settings.kind == PROM:
        return PrometheusExporter(scraper, settings.host, settings.port, why_not_ready)
    target = MetricsLog() if settings.kind == LOG else _collector(settings)
    data = OtlpData(settings.scope, settings.points_max, settings.is_delta, time.time_ns())
    return PushExporter(scraper, data, target, settings.interval_ms)


def _collector(settings: ExporterSettings) -> Target:
    from .otlp_grpc import OtlpCollector  # here: gRPC, which the other kinds need not have

    return OtlpCollector(settings.target, settings.headers, settings.timeout_ms)
