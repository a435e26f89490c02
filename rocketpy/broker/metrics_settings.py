"""What the configuration says about metrics. Apart from the exporter, whose library takes a tenth of a second to import."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..config import Config

log = logging.getLogger(__name__)

SECTIONS: Final = (
    "enableStatsMetrics",
    "enableConnectionMetrics",
    "enableRequestMetrics",
    "enableLagAndDlqMetrics",
    "enableMessageStoreMetrics",
    "enablePopMetrics",
)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Where metrics are served, and which."""

    is_served: bool
    host: str
    port: int
    labels: Mapping[str, str]
    """Of every series, besides its own."""
    series_max: int
    """Of one metric."""
    sections: frozenset[str]
    """Those of SECTIONS that are wanted."""


def metrics_settings(config: Config) -> MetricsSettings:
    """Types go by name or by number, as in RocketMQ; one that is not there is told."""
    kind = config.text("metricsExporterType")
    if kind not in ("DISABLE", "0", "PROM", "2"):
        log.warning("metricsExporterType=%s is not supported, no metrics are exported: set it to PROM", kind)
    return MetricsSettings(
        is_served=kind in ("PROM", "2"),
        host=config.text("metricsPromExporterHost") or config.text("bindAddress"),
        port=config.integer("metricsPromExporterPort"),
        labels={
            **parse_labels(config.text("metricsLabel")),
            "cluster": config.text("brokerClusterName"),
            "node_type": "broker",
            "node_id": config.text("brokerName"),
        },
        series_max=config.integer("metricsOtelCardinalityLimit"),
        sections=frozenset(key for key in SECTIONS if config.boolean(key)),
    )


def parse_labels(text: str) -> dict[str, str]:
    """`key:value,key:value` of metricsLabel; what is no pair is left out, loudly, as RocketMQ does."""
    labels = {}
    for item in filter(None, text.split(",")):
        key, separator, value = item.partition(":")
        if not separator or not (key.isidentifier() and key.isascii()) or ":" in value:
            log.warning("metricsLabel: %r is no key:value", item)
            continue
        labels[key] = value
    return labels
