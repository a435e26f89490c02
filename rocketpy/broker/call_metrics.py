"""How long requests took, whoever answered them. RocketMQ: RemotingMetricsManager, BrokerMetricsManager's times of changes (5.3.3).

RocketMQ's `result` says whether the answer could be written: here success, as others are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import Metric

from .._core.broker import Broker
from ..remoting.call_times import CLASSES_MS, CallTimes
from ..remoting.codes import RequestCode, ResponseCode, request_name, response_name
from .metric_families import HistogramRow, MetricFamilies

_POLLS: Final = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION}
_TOPIC_CHANGES: Final = (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
_GROUP_CHANGES: Final = (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
_Key = tuple[int, int, bool]
"""Request code, response code, whether it was a long poll."""


class CallMetrics:
    """Reads both counters for a scrape. On the event loop."""

    def __init__(self, native: Broker, times: CallTimes, families: MetricFamilies) -> None:
        self._native = native
        self._times = times
        self._families = families

    def latencies(self) -> Iterator[Metric]:
        merged: dict[_Key, tuple[list[int], float]] = {}
        for key, classes, total_ms in [*self._of_native(), *self._of_python()]:
            before, before_ms = merged.get(key, ([0] * len(classes), 0.0))
            merged[key] = [a + b for a, b in zip(before, classes, strict=True)], before_ms + total_ms
        rows: list[HistogramRow] = [
            (
                {
                    "protocol_type": "remoting",
                    "request_code": request_name(request_code).lower(),
                    "response_code": response_name(response_code).lower(),
                    "is_long_polling": str(is_poll).lower(),
                    "result": "success",
                },
                classes,
                total_ms,
            )
            for (request_code, response_code, is_poll), (classes, total_ms) in merged.items()
        ]
        yield self._families.histogram("rocketmq_rpc_latency_milliseconds", "From a request's arrival to its answer", CLASSES_MS, rows)

    def changes(self) -> Iterator[Metric]:
        """Requests that make or change topics and groups. No request changes a topic of the system."""
        for noun, codes, labels in (("topic", _TOPIC_CHANGES, {"is_system": "false"}), ("consumer_group", _GROUP_CHANGES, {})):
            rows: list[HistogramRow] = []
            for status, is_done in (("success", True), ("failure", False)):
                found = [
                    time
                    for (code, response), time in self._times.by_codes.items()
                    if code in codes and (response == ResponseCode.SUCCESS) is is_done
                ]
                if found:
                    classes = [sum(counts) for counts in zip(*(time.classes for time in found), strict=True)]
                    rows.append(({**labels, "invocation_status": status}, classes, sum(time.total_ms for time in found)))
            name = f"rocketmq_{noun}_create_execution_time_milliseconds"
            yield self._families.histogram(name, f"How long changes of a {noun.replace('_', ' ')} took", CLASSES_MS, rows)

    def _of_native(self) -> Iterator[tuple[_Key, Sequence[int], float]]:
        for request_code, response_code, has_waited, total_ns, *classes in self._native.answer_stats():
            yield (request_code, response_code, bool(has_waited) and request_code in _POLLS), classes, total_ns / 1e6

    def _of_python(self) -> Iterator[tuple[_Key, Sequence[int], float]]:
        for (request_code, response_code), time in self._times.by_codes.items():
            yield (request_code, response_code, False), time.classes, time.total_ms
