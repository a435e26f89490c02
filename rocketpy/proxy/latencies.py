"""How long requests took, by what they asked and how they were answered. RocketMQ: RemotingMetricsManager (5.3.3 remoting/metrics/).

Threads  one event loop. Bounds: SERIES_MAX kinds of requests and answers; those beyond count together, as "other".
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Final

BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
SERIES_MAX: Final = 512
GRPC, REMOTING = "grpc_v2", "remoting"


class Latency:
    """Of one kind: how many took up to each bound and not up to the one before, and what all took together."""

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0.0

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus has them: all that took no longer."""
        found, total = [], 0
        for bound, count in zip((*map(float, BOUNDS_MS), float("inf")), self.counts, strict=True):
            total += count
            found.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
        return found


class Latencies:
    """Counted as requests are answered, read by a scrape."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str, bool], Latency] = {}

    def add(self, protocol: str, request: str, response: str, is_long_polling: bool, took_ms: float) -> None:
        key = (protocol, request, response, is_long_polling)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= SERIES_MAX:
                key = (protocol, "other", "other", False)
            kind = self._kinds.setdefault(key, Latency())
        kind.counts[bisect.bisect_left(BOUNDS_MS, took_ms)] += 1
        kind.sum_ms += took_ms

    def __iter__(self) -> Iterator[tuple[dict[str, str], Latency]]:
        for (protocol, request, response, is_long_polling), kind in self._kinds.items():
            labels = {"protocol_type": protocol, "request_code": request, "response_code": response}
            yield {**labels, "is_long_polling": str(is_long_polling).lower()}, kind
