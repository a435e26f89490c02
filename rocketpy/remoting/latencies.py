"""How long requests took that Python answered, by what they asked and how they were answered. RocketMQ: RemotingMetricsManager (5.3.3
remoting/metrics/). What the native broker answers is counted in csrc/broker/answer_times.c, in the same classes.

Threads  one event loop. Bounds: SERIES_MAX kinds of requests and answers; those beyond count together, as "other".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from .codes import request_name, response_name

BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
SERIES_MAX: Final = 512
GRPC, REMOTING = "grpc_v2", "remoting"


class Kind(NamedTuple):
    """A kind of request. Requests that agree in the names of their codes are counted together."""

    protocol: str
    request: str
    response: str
    is_long_polling: bool = False

    def labels(self) -> dict[str, str]:
        """The labels of RocketMQ's metric. RocketMQ's `result` says whether the answer could be written; only those that could are counted
        here."""
        return {
            "protocol_type": self.protocol,
            "request_code": self.request,
            "response_code": self.response,
            "is_long_polling": str(self.is_long_polling).lower(),
            "result": "success",
        }


@lru_cache(SERIES_MAX)
def remoting_kind(request_code: int, response_code: int, is_long_polling: bool = False) -> Kind:
    """The kind of a remoting request, with the names that RocketMQ's metrics use."""
    return Kind(REMOTING, request_name(request_code).lower(), response_name(response_code).lower(), is_long_polling)


class Latency:
    """The histogram of one kind: how many requests took no longer than each bound but longer than the one before, and the time that all of
    them took together."""

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0.0


class Latencies:
    """Counts requests as they are answered; a scrape reads the counts."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, Latency] = {}

    def add(self, kind: Kind, took_ms: float) -> None:
        latency = self._kinds.get(kind)
        if latency is None:
            if len(self._kinds) >= SERIES_MAX:
                kind = Kind(kind.protocol, "other", "other")
            latency = self._kinds.setdefault(kind, Latency())
        latency.counts[bisect_left(BOUNDS_MS, took_ms)] += 1
        latency.sum_ms += max(0.0, took_ms)

    def __iter__(self) -> Iterator[tuple[Kind, Latency]]:
        return iter(self._kinds.items())
