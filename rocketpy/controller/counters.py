"""What a controller has counted since its start. RocketMQ: the counters and histograms of ControllerMetricsManager (5.3.3
controller/metrics/), in its classes.

Threads  one event loop. Bounds: SETS_MAX broker sets and results; those beyond count together, as "other".
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode, request_name
from ..remoting.command import Response
from .decisions import Decision
from .replicas_info import ReplicasInfo

BOUNDS_US: Final = (*(digit * 10**power for power in range(7) for digit in (1, 3, 5)), 10_000_000)
SETS_MAX: Final = 10_000
SUCCESS, FAILED, TIMEOUT = "success", "failed", "timeout"
TIMEOUT_US: Final = 5_000_000
"""RocketMQ waits no longer for what it answers."""
_RESULTS: Final[Mapping[int, str]] = {
    ResponseCode.SUCCESS: "new_master_elected",
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST: "keep_current_master",
    ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE: "no_master_elected",
    ResponseCode.CONTROLLER_ELECT_MASTER_FAILED: "no_master_elected",
}
_OTHER: Final = "other"

Handler = Callable[[Request], Response | Awaitable[Response]]


class Election(NamedTuple):
    """What elections must have in common to be counted together."""

    cluster: str
    broker_set: str
    result: str


class Times:
    """A histogram: how many took no longer than each bound but longer than the one before, and the time that all took together."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_US) + 1)
        self.sum_us = 0

    def add(self, took_us: int) -> None:
        self.counts[bisect_left(BOUNDS_US, took_us)] += 1
        self.sum_us += took_us


class Counters:
    """clock_us: monotonic microseconds."""

    def __init__(self, clock_us: Callable[[], int] = lambda: time.monotonic_ns() // 1000) -> None:
        self.now_us = clock_us
        self.requests: Counter[tuple[str, str]] = Counter()
        """By what was asked, and how that ended."""
        self.request_times: dict[str, Times] = {}
        """Of those that were answered."""
        self.appends: Counter[str] = Counter()
        """Entries of the group's log, by how that ended."""
        self.append_times = Times()
        """Of those that were committed."""
        self.elections: Counter[Election] = Counter()

    def timed(self, code: RequestCode, handler: Handler) -> Handler:
        """The same handler, with its calls counted."""
        name = request_type(code)

        def handle(request: Request) -> Response | Awaitable[Response]:
            began_us = self.now_us()
            try:
                answer = handler(request)
            except Exception:
                self.requests[name, FAILED] += 1
                raise
            if isinstance(answer, Response):
                self._answered(name, answer, began_us)
                return answer
            return self._awaited(name, answer, began_us)

        return handle

    async def _awaited(self, name: str, answer: Awaitable[Response], began_us: int) -> Response:
        try:
            response = await answer
        except Exception:
            self.requests[name, FAILED] += 1
            raise
        self._answered(name, response, began_us)
        return response

    def _answered(self, name: str, response: Response, began_us: int) -> None:
        """A refusal counts as a success, as in RocketMQ, because it is an answer."""
        took_us = self.now_us() - began_us
        if response.code == ResponseCode.SYSTEM_ERROR and took_us >= TIMEOUT_US:
            self.requests[name, TIMEOUT] += 1
            return
        self.requests[name, SUCCESS] += 1
        self.request_times.setdefault(name, Times()).add(took_us)

    def appended(self, status: str, began_us: int) -> None:
        self.appends[status] += 1
        if status == SUCCESS:
            self.append_times.add(self.now_us() - began_us)

    def elected(self, broker_name: str, tables: ReplicasInfo, decision: Decision) -> None:
        """Counts the election; does nothing if the decision contained none."""
        result, found = _RESULTS.get(decision.code), tables.get(broker_name)
        if result is None or found is None:
            return
        election = Election(found.sync.cluster_name, broker_name, result)
        if election not in self.elections and len(self.elections) >= SETS_MAX:
            election = Election(_OTHER, _OTHER, result)
        self.elections[election] += 1


def request_type(code: RequestCode) -> str:
    """The request's name in RocketMQ's metrics."""
    name = request_name(code)
    return name if name.startswith("CONTROLLER_") else f"CONTROLLER_{name}"
