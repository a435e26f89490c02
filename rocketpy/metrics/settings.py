"""The settings of a server's metrics exporter. They stand apart from the exporters, whose libraries take a tenth of a second to import.
RocketMQ: the init of BrokerMetricsManager, ProxyMetricsManager and ControllerMetricsManager (5.3.3), which read the same keys.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..config import Config

log = logging.getLogger(__name__)

PROM, OTLP_GRPC, LOG, DISABLE = "PROM", "OTLP_GRPC", "LOG", "DISABLE"
_BY_NUMBER: Final = {"0": DISABLE, "1": OTLP_GRPC, "2": PROM, "3": LOG}
INTERVAL_LEAST_MS: Final = 100
"""Reading all metrics takes the event loop some milliseconds."""
POINTS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """The settings of one server's exporter. Times are in ms."""

    kind: str = DISABLE
    """PROM, OTLP_GRPC, LOG or DISABLE."""
    scope: str = ""
    """What OTLP calls the source: RocketMQ's name of it."""
    host: str = ""
    port: int = 0
    target: str = ""
    """host:port of an OTLP collector, behind http:// where it takes clear text."""
    headers: tuple[tuple[str, str], ...] = ()
    timeout_ms: int = 3000
    interval_ms: int = 60_000
    """Between two times that metrics are pushed or logged."""
    points_max: int = POINTS_MAX
    """Of one push, or of one line of the log."""
    is_delta: bool = False
    """What was counted since the last push instead of since the start."""

    @property
    def is_wanted(self) -> bool:
        return self.kind != DISABLE

    def labels(self, given: str, own: Mapping[str, str]) -> dict[str, str]:
        """The labels of every series: those of metricsLabel, and the server's own."""
        aggregation = {"aggregation": "delta"} if self.is_delta and self.kind != PROM else {}
        return {**parse_labels(given), **aggregation, **own}


def exporter_settings(config: Config, scope: str, host: str, points_max: int = POINTS_MAX) -> ExporterSettings:
    """The settings of a broker or a controller. host: where Prometheus is served if metricsPromExporterHost is not set."""
    kind = exporter_kind(config.text("metricsExporterType"), config.text("metricsGrpcExporterTarget"))
    pushed_ms, logged_ms = config.integer("metricGrpcExporterIntervalInMills"), config.integer("metricLoggingExporterIntervalInMills")
    return ExporterSettings(
        kind=kind,
        scope=scope,
        host=config.text("metricsPromExporterHost") or host,
        port=config.integer("metricsPromExporterPort"),
        target=config.text("metricsGrpcExporterTarget"),
        headers=parse_headers(config.text("metricsGrpcExporterHeader")),
        timeout_ms=config.integer("metricGrpcExporterTimeOutInMills"),
        interval_ms=max(INTERVAL_LEAST_MS, logged_ms if kind == LOG else pushed_ms),
        points_max=points_max,
        is_delta=config.boolean("metricsInDelta"),
    )


def exporter_kind(given: str, target: str) -> str:
    """The kind, given by name or by number as in RocketMQ. A kind that is not supported is logged, and the server runs without an
    exporter."""
    kind = _BY_NUMBER.get(given, given)
    if kind not in _BY_NUMBER.values():
        log.warning("metricsExporterType=%s is unknown, no metrics are exported: %s", given, ", ".join(_BY_NUMBER.values()))
        return DISABLE
    if kind == OTLP_GRPC and not target.strip():
        log.warning("metricsExporterType=OTLP_GRPC without metricsGrpcExporterTarget: no metrics are exported")
        return DISABLE
    return kind


def parse_labels(text: str) -> dict[str, str]:
    """The pairs in metricsLabel, `key:value,key:value`. As in RocketMQ, what is not a pair is left out, with a warning."""
    labels = {}
    for item in filter(None, text.split(",")):
        key, separator, value = item.partition(":")
        if not separator or not (key.isidentifier() and key.isascii()) or ":" in value:
            log.warning("metricsLabel: %r is not a key:value", item)
            continue
        labels[key] = value
    return labels


def parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs in metricsGrpcExporterHeader, `key:value,key:value`; keys in lower case, as gRPC wants them. Values may be secrets, so none
    is logged."""
    headers = []
    for number, item in enumerate(filter(None, text.split(",")), start=1):
        key, separator, value = (part.strip() for part in item.partition(":"))
        if not separator or not _is_header(key) or not (value.isascii() and value.isprintable()) or ":" in value:
            log.warning("metricsGrpcExporterHeader: pair %d is not a key:value", number)
            continue
        headers.append((key.lower(), value))
    return tuple(headers)


def _is_header(key: str) -> bool:
    """Whether the key can be a header: grpc- is reserved for gRPC, and -bin would mean bytes."""
    name = key.lower()
    return re.fullmatch("[a-z0-9_.-]+", name) is not None and not name.startswith("grpc-") and not name.endswith("-bin")
