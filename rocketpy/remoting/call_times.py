"""How long requests took that Python answered, by request code and response code. RocketMQ: RemotingMetricsManager.rpcLatency
(5.3.3 remoting/metrics/); those that the native broker answers are counted in csrc/broker/answer_times.c, in the same classes.

Bounds: KINDS_MAX pairs of codes; of more than those nothing is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

CLASSES_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
KINDS_MAX: Final = 1024


@dataclass(slots=True)
class CallTime:
    """Of one pair of codes."""

    total_ms: float = 0.0
    classes: list[int] = field(default_factory=lambda: [0] * (len(CLASSES_MS) + 1))
    """Answers within each of CLASSES_MS, and above the last."""


class CallTimes:
    """Use from one event loop."""

    def __init__(self) -> None:
        self.by_codes: dict[tuple[int, int], CallTime] = {}

    def note(self, request_code: int, response_code: int, took_s: float) -> None:
        key = request_code, response_code
        time = self.by_codes.get(key)
        if time is None:
            if len(self.by_codes) == KINDS_MAX:
                return
            time = self.by_codes[key] = CallTime()
        took_ms = max(0.0, took_s * 1000)
        time.total_ms += took_ms
        time.classes[bisect_left(CLASSES_MS, took_ms)] += 1
