"""A collector of OTLP over gRPC that keeps what it is sent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as schema

from rocketpy.metrics.otlp_grpc import METHOD

Labels = frozenset[tuple[str, str]]


class Collector:
    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.headers: list[tuple[str, str]] = []
        self.refuses = 0

    @contextlib.contextmanager
    def started(self, port: int = 0) -> Iterator[int]:
        server = grpc.server(ThreadPoolExecutor(1))
        service, _, method = METHOD.removeprefix("/").partition("/")
        handler = grpc.unary_unary_rpc_method_handler(
            self._export, schema.ExportMetricsServiceRequest.FromString, schema.ExportMetricsServiceResponse.SerializeToString
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        try:
            yield bound
        finally:
            server.stop(None).wait()

    def _export(self, request: Any, context: Any) -> Any:
        self.headers = list(context.invocation_metadata())
        self.requests.append(request)
        return schema.ExportMetricsServiceResponse(partial_success={"rejected_data_points": self.refuses, "error_message": "odd"})

    def metrics(self) -> list[Any]:
        return [
            metric
            for request in list(self.requests)
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def points(self, name: str) -> list[Any]:
        """In the order they came."""
        return [
            point for metric in self.metrics() if metric.name == name for point in getattr(metric, metric.WhichOneof("data")).data_points
        ]


def labels_of(point: Any) -> Labels:
    return frozenset((each.key, each.value.string_value) for each in point.attributes)
