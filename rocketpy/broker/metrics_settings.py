"""A broker's metrics settings. They stand apart from the metrics, whose library takes a tenth of a second to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..config import Config
from ..metrics.settings import ExporterSettings, exporter_settings

SCOPE: Final = "broker-meter"

SECTIONS: Final = (
    "enableStatsMetrics",
    "enableConnectionMetrics",
    "enableRequestMetrics",
    "enableRemotingMetrics",
    "enableTransactionMetrics",
    "enableLagAndDlqMetrics",
    "enableMessageStoreMetrics",
    "enablePopMetrics",
)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Which metrics leave the broker, and how."""

    exporter: ExporterSettings
    labels: Mapping[str, str]
    """Of every series, besides its own."""
    series_max: int
    """Of one metric."""
    sections: frozenset[str]
    """Those of SECTIONS that are wanted."""


def metrics_settings(config: Config) -> MetricsSettings:
    exporter = exporter_settings(config, SCOPE, config.text("bindAddress"), config.integer("metricsExportBatchMaxDataPoints"))
    own = {"cluster": config.text("brokerClusterName"), "node_type": "broker", "node_id": config.text("brokerName")}
    return MetricsSettings(
        exporter=exporter,
        labels=exporter.labels(config.text("metricsLabel"), own),
        series_max=config.integer("metricsOtelCardinalityLimit"),
        sections=frozenset(key for key in SECTIONS if config.boolean(key)),
    )
