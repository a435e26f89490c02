"""How many timed messages wait, by topic: config/timermetrics, request GET_TIMER_METRICS.
RocketMQ: TimerMetrics (5.3.3 store/timer/), which goes on from its file. Here each start counts them from the timer log; the file is for
people, and for a RocketMQ that is started on the store.

    native counts (csrc/broker/timed_messages.h) ─┬─► file, every few seconds and at the stop
                                                  └─► slaves of RocketMQ, operators
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from ..remoting.bodies import DataVersion
from ..remoting.json_codec import write_fastjson

TIMER_METRICS_FILE: Final = "timermetrics"


class TimerCounts(Protocol):
    """The native counts."""

    @property
    def timer_count_version(self) -> int: ...
    def timer_counts(self) -> list[tuple[str, int, int]]: ...


class TimerMetrics:
    """The table of counts; the numbers themselves are native."""

    def __init__(self, counts: TimerCounts, boot_ms: int) -> None:
        self._counts = counts
        self._boot_ms = boot_ms

    def version(self) -> int:
        """A value that differs when a count does."""
        return self._counts.timer_count_version

    def to_json(self) -> dict[str, Any]:
        version = self.version()  # first: what changes meanwhile is written with the next one
        counts = self._counts.timer_counts()
        changed_ms = max((changed_ms for _, _, changed_ms in counts), default=self._boot_ms)
        return {
            "dataVersion": DataVersion(changed_ms, version).to_json(),
            "timingCount": {topic: {"count": count, "timeStamp": changed_ms} for topic, count, changed_ms in counts},
        }

    @staticmethod
    def text(value: dict[str, Any]) -> str:
        """The contents of the file."""
        return write_fastjson(value).decode()
