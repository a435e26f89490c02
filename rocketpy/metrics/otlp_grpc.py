"""A collector of OTLP over gRPC: metricsExporterType=OTLP_GRPC. RocketMQ: OpenTelemetry's OtlpGrpcMetricExporter, with the same keys.

Needs the packages of the extra `otlp`, which nothing else uses.

Bounds   timeout_ms a push. When the collector is away, gRPC fails the push at once and goes on trying to connect.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from .._core.errors import Unsupported
from ..threads import born_without_signals
from .complaints import Complaints
from .otlp_data import Tree

try:
    import grpc
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as schema
except ImportError as error:
    _missing: ImportError | None = error
else:
    _missing = None

log = logging.getLogger(__name__)

METHOD: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
REMARK_MAX: Final = 500
CLEAR, TLS = "http://", "https://"


class OtlpCollector:
    """One connection to a collector, made when it is needed."""

    def __init__(self, target: str, headers: Sequence[tuple[str, str]], timeout_ms: int) -> None:
        """target: host:port, with TLS unless http:// precedes it. Raises Unsupported without the library."""
        if _missing is not None:
            raise Unsupported(f"metricsExporterType=OTLP_GRPC: {_missing}: pip install 'rocketpy-mq[otlp]'") from _missing
        self._headers = tuple(headers)
        self._complaints = Complaints(time.monotonic)
        self._timeout_s = timeout_ms / 1000 or None
        with born_without_signals():
            self._channel = _channel(target.strip())
            self._export: Any = self._channel.unary_unary(
                METHOD, schema.ExportMetricsServiceRequest.SerializeToString, schema.ExportMetricsServiceResponse.FromString
            )

    def deliver(self, request: Tree) -> None:
        """Raises ConnectionError if the collector did not accept the data, ValueError once closed."""
        try:
            answer = self._export(schema.ExportMetricsServiceRequest(**request), timeout=self._timeout_s, metadata=self._headers)
        except grpc.RpcError as error:
            raise ConnectionError(f"{error.code().name}: {str(error.details())[:REMARK_MAX]}") from error
        refused = answer.partial_success
        if refused.rejected_data_points and (count := self._complaints.failed()):
            text = "the collector of metrics refused %d points, %d times by now: %s"
            log.warning(text, refused.rejected_data_points, count, refused.error_message[:REMARK_MAX])

    def close(self) -> None:
        self._channel.close()


def _channel(target: str) -> Any:
    """A channel to the collector: without encryption if the target begins with http://, else with TLS."""
    if target.startswith(CLEAR):
        return grpc.insecure_channel(target.removeprefix(CLEAR).rstrip("/"))
    return grpc.secure_channel(target.removeprefix(TLS).rstrip("/"), grpc.ssl_channel_credentials())
