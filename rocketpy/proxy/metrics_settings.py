"""The metrics settings in rmq-proxy.json. They stand apart from the metrics, whose library takes a tenth of a second to import."""

from __future__ import annotations

from typing import Final

from ..metrics.settings import INTERVAL_LEAST_MS, LOG, ExporterSettings, exporter_kind, parse_headers
from .settings import ProxySettings

SCOPE: Final = "broker-meter"
"""RocketMQ's proxy has that of its brokers."""


def exporter_of(settings: ProxySettings) -> ExporterSettings:
    kind = exporter_kind(settings.metrics_exporter_type, settings.metrics_grpc_exporter_target)
    pushed_ms, logged_ms = settings.metric_grpc_exporter_interval_in_mills, settings.metric_logging_exporter_interval_in_mills
    return ExporterSettings(
        kind=kind,
        scope=SCOPE,
        host=settings.metrics_prom_exporter_host or settings.local_serve_addr or "0.0.0.0",
        port=settings.metrics_prom_exporter_port,
        target=settings.metrics_grpc_exporter_target,
        headers=parse_headers(settings.metrics_grpc_exporter_header),
        timeout_ms=max(0, settings.metric_grpc_exporter_time_out_in_mills),
        interval_ms=max(INTERVAL_LEAST_MS, logged_ms if kind == LOG else pushed_ms),
        is_delta=settings.metrics_in_delta,
    )
