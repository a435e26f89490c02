"""How long requests took, whether native code or Python answered them.
RocketMQ: RemotingMetricsManager, BrokerMetricsManager's times of changes (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import Metric

from .._core.broker import Broker
from ..metrics.families import HistogramRow, MetricFamilies
from ..remoting.codes import RequestCode
from ..remoting.latencies import BOUNDS_MS, Kind, Latencies, remoting_kind

_POLLS: Final = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION}
_TOPIC_CHANGES: Final = ("update_and_create_topic", "update_and_create_topic_list")
_GROUP_CHANGES: Final = ("update_and_create_subscriptiongroup", "update_and_create_subscriptiongroup_list")


class CallMetrics:
    """Reads both counters for a scrape, on the event loop."""

    def __init__(self, native: Broker, latencies: Latencies, families: MetricFamilies) -> None:
        self._native = native
        self._latencies = latencies
        self._families = families

    def calls(self) -> Iterator[Metric]:
        merged: dict[Kind, tuple[list[int], float]] = {}
        for kind, counts, sum_ms in [*self._of_native(), *((kind, each.counts, each.sum_ms) for kind, each in self._latencies)]:
            before, before_ms = merged.get(kind, ([0] * len(counts), 0.0))
            merged[kind] = [a + b for a, b in zip(before, counts, strict=True)], before_ms + sum_ms
        rows = [(kind.labels(), counts, sum_ms) for kind, (counts, sum_ms) in merged.items()]
        yield self._families.histogram("rocketmq_rpc_latency_milliseconds", "From a request's arrival to its answer", BOUNDS_MS, rows)

    def changes(self) -> Iterator[Metric]:
        """How many requests created or changed topics and groups. No request changes a system topic."""
        for noun, requests, labels in (("topic", _TOPIC_CHANGES, {"is_system": "false"}), ("consumer_group", _GROUP_CHANGES, {})):
            rows: list[HistogramRow] = []
            for status, is_done in (("success", True), ("failure", False)):
                found = [
                    latency for kind, latency in self._latencies if kind.request in requests and (kind.response == "success") is is_done
                ]
                if found:
                    counts = [sum(each) for each in zip(*(latency.counts for latency in found), strict=True)]
                    rows.append(({**labels, "invocation_status": status}, counts, sum(latency.sum_ms for latency in found)))
            name = f"rocketmq_{noun}_create_execution_time_milliseconds"
            yield self._families.histogram(name, f"How long changes of a {noun.replace('_', ' ')} took", BOUNDS_MS, rows)

    def _of_native(self) -> Iterator[tuple[Kind, Sequence[int], float]]:
        for request_code, response_code, has_waited, total_ns, *counts in self._native.answer_stats():
            is_poll = bool(has_waited) and request_code in _POLLS
            yield remoting_kind(request_code, response_code, is_poll), counts, total_ns / 1e6
