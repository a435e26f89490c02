"""Metrics in a log, as lines of OTLP's JSON: metricsExporterType=LOG. RocketMQ: OtlpJsonLoggingMetricExporter, into broker_metrics.log.

With logPath they stand in a file of their own (logs.py), a line a batch, which the collector of OpenTelemetry reads (otlpjsonfile).
"""

from __future__ import annotations

import logging

from ..logs import METRICS_LOGGER
from .otlp_data import Tree, otlp_json


class MetricsLog:
    """Writes metrics to the log. Never fails: a log that cannot be written reports that by itself."""

    def __init__(self) -> None:
        self._log = logging.getLogger(METRICS_LOGGER)

    def deliver(self, request: Tree) -> None:
        self._log.info("%s", otlp_json(request))

    def close(self) -> None:
        """Does nothing, because nothing is open."""
