"""The metrics of a proxy. RocketMQ: ProxyMetricsManager (5.3.3 proxy/metrics/), which shows that the proxy is up and nothing else; the
other names are those of RocketMQ's brokers. The units are part of the names, as its exporter writes them.

Bounds   the clients' and the latencies' own; SERIES_MAX series of clients.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric

from ..metrics.families import MetricFamilies, Scrape
from ..metrics.settings import ExporterSettings
from ..remoting.codes import CURRENT_VERSION
from ..remoting.latencies import BOUNDS_MS, GRPC, Kind, Latencies, Latency
from . import schema
from .clients import Clients
from .settings import ProxySettings

SERIES_MAX: Final = 50_000
_NONE: Final = Latency()
_MODES: Final = {"PUSH_CONSUMER": "push", "LITE_PUSH_CONSUMER": "push"}


class ProxyMetrics:
    """Reads the proxy for a scrape. `refusals`: how many calls and requests were refused, by check; empty if nothing is checked."""

    def __init__(self, settings: ProxySettings, exporter: ExporterSettings, clients: Clients, latencies: Latencies) -> None:
        self._clients = clients
        self._latencies = latencies
        self.refusals: Mapping[str, int] = {}
        self.guests = 0
        self.native: Callable[[], Iterable[tuple[Kind, Latency]]] = tuple
        """What was answered without Python."""
        own = {
            "cluster": settings.proxy_cluster_name,
            "node_type": "proxy",
            "node_id": settings.proxy_name or socket.gethostname(),
            "proxy_mode": settings.proxy_mode,
        }
        self._families = MetricFamilies(exporter.labels(settings.metrics_label, own), SERIES_MAX, "the most")

    def read(self) -> Scrape:
        """On the event loop."""
        return Scrape(list(self._metrics()))

    def _metrics(self) -> Iterator[Metric]:
        yield self._families.gauge("rocketmq_proxy_up", "proxy status", [({}, 1)])
        yield self._families.gauge("rocketmq_proxy_remoting_connections", "Connections of 4.x clients", [({}, self.guests)])
        yield from self._connections()
        yield self._rpc_latency()
        if self.refusals:
            rows = [({"check": check}, count) for check, count in self.refusals.items()]
            yield self._families.counter("rocketmq_auth_refused", "Requests refused", rows)

    def _connections(self) -> Iterator[Metric]:
        """How many gRPC clients have a telemetry stream. 4.x clients are counted by the brokers."""
        producers: Counter[str] = Counter()
        consumers: Counter[tuple[str, str, str]] = Counter()
        for client in self._clients:
            language = client.language.lower() or "other"
            if client.group:
                mode = _MODES.get(schema.label("ClientType", client.settings.client_type), "pull")
                consumers[client.group, mode, language] += 1
            else:
                producers[language] += 1
        rows = [(_client_labels(language), count) for language, count in producers.items()]
        yield self._families.gauge("rocketmq_producer_connections", "Producer connections", rows)
        of_groups = [
            ({"consumer_group": group, "consume_mode": mode, "is_system": "false", **_client_labels(language)}, count)
            for (group, mode, language), count in consumers.items()
        ]
        yield self._families.gauge("rocketmq_consumer_connections", "Consumer connections", of_groups)

    def _rpc_latency(self) -> Metric:
        native = dict(self.native())
        rows = []
        for kind, latency in self._latencies:
            more = native.pop(kind, _NONE)
            counts = [ours + theirs for ours, theirs in zip(latency.counts, more.counts, strict=True)]
            rows.append((kind.labels(), counts, latency.sum_ms + more.sum_ms))
        rows += [(kind.labels(), latency.counts, latency.sum_ms) for kind, latency in native.items()]
        return self._families.histogram("rocketmq_rpc_latency_milliseconds", "From a request's arrival to its answer", BOUNDS_MS, rows)


def _client_labels(language: str) -> dict[str, str]:
    return {"language": language, "version": str(CURRENT_VERSION), "protocol_type": GRPC}
