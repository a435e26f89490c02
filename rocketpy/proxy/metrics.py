"""What a proxy tells Prometheus. RocketMQ: ProxyMetricsManager (5.3.3 proxy/metrics/), which tells that the proxy is up and nothing else:
the other names are those of RocketMQ's brokers. Units stand in names as its exporter writes them.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric

from ..broker.metric_families import HistogramRow, MetricFamilies
from ..broker.metrics_settings import MetricsSettings, parse_labels
from ..remoting.call_times import CLASSES_MS, CallTimes
from ..remoting.codes import CURRENT_VERSION, request_name, response_name
from . import schema
from .clients import Clients
from .relay_rules import POLLS
from .settings import ProxySettings

SERIES_MAX: Final = 50_000
RECEIVE: Final = "ReceiveMessage"
GRPC, REMOTING = "grpc_v2", "remoting"
_MODES: Final = {"PUSH_CONSUMER": "push", "LITE_PUSH_CONSUMER": "push"}


class ProxyMetrics:
    """Reads the proxy for a scrape. calls: of gRPC, by the method's place in `methods` and gRPC's code; requests: of 4.x clients."""

    def __init__(
        self,
        settings: ProxySettings,
        clients: Clients,
        calls: CallTimes,
        requests: CallTimes,
        methods: tuple[str, ...],
        guests: Callable[[], int],
        refusals: Callable[[], Mapping[str, int]],
    ) -> None:
        self._clients = clients
        self._calls, self._requests = calls, requests
        self._methods = methods
        self._guests, self._refusals = guests, refusals
        self._families = MetricFamilies(families_of(settings))

    def read(self) -> tuple[list[Metric], None]:
        """On the event loop."""
        return list(self._metrics()), None

    def times(self, behind: None) -> Iterable[Metric]:
        return ()

    def _metrics(self) -> Iterator[Metric]:
        gauge = self._families.gauge
        yield gauge("rocketmq_proxy_up", "proxy status", [({}, 1)])
        yield gauge("rocketmq_proxy_remoting_connections", "Connections of 4.x clients", [({}, self._guests())])
        yield from self._connections()
        yield self._families.histogram(
            "rocketmq_rpc_latency_milliseconds", "Rpc latency", CLASSES_MS, [*self._of_grpc(), *self._of_remoting()]
        )
        if refusals := self._refusals():
            refused = [({"check": check}, count) for check, count in refusals.items()]
            yield self._families.counter("rocketmq_auth_refused", "Requests refused", refused)

    def _connections(self) -> Iterator[Metric]:
        """Of gRPC clients, by their telemetry; those of 4.x are the brokers' to tell."""
        producers: Counter[str] = Counter()
        consumers: Counter[tuple[str, str, str]] = Counter()
        for client in self._clients:
            language = client.language.lower()
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

    def _of_grpc(self) -> Iterator[HistogramRow]:
        for (at, code), time in self._calls.by_codes.items():
            method = self._methods[at]
            labels = _rpc_labels(GRPC, method, schema.label("Code", code), is_poll=method == RECEIVE)
            yield labels, time.classes, time.total_ms

    def _of_remoting(self) -> Iterator[HistogramRow]:
        for (request, response), time in self._requests.by_codes.items():
            labels = _rpc_labels(REMOTING, request_name(request), response_name(response), is_poll=request in POLLS)
            yield labels, time.classes, time.total_ms


def families_of(settings: ProxySettings) -> MetricsSettings:
    """Labels and bounds of all series."""
    return MetricsSettings(
        is_served=settings.serves_metrics,
        host=settings.metrics_prom_exporter_host or settings.local_serve_addr or "0.0.0.0",
        port=settings.metrics_prom_exporter_port,
        labels={
            **parse_labels(settings.metrics_label),
            "cluster": settings.proxy_cluster_name,
            "node_type": "proxy",
            "node_id": settings.proxy_name or socket.gethostname(),
            "proxy_mode": settings.proxy_mode,
        },
        series_max=SERIES_MAX,
        sections=frozenset(),
    )


def _rpc_labels(protocol: str, request: str, response: str, *, is_poll: bool) -> dict[str, str]:
    codes = {"request_code": request.lower(), "response_code": response.lower()}
    return {"protocol_type": protocol, **codes, "is_long_polling": str(is_poll).lower(), "result": "success"}


def _client_labels(language: str) -> dict[str, str]:
    return {"language": language, "version": str(CURRENT_VERSION), "protocol_type": GRPC}
