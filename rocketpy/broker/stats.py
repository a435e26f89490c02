"""Rates and sums over time, made from samples of the native counters.
RocketMQ: StoreStatsService, BrokerStats, BrokerStatsManager, StatsItem (5.3.3 store/stats/, common/stats/).

    every second      totals of the broker            → messages a second over 10, 60, 600 s (runtime info)
    every 10 seconds  counters of each topic, group and the broker → sum and rate of the last minute, hour, day (VIEW_BROKER_STATS_DATA)
    at midnight       totals                           → yesterday and today

The counters themselves live in C; nothing here runs per message. Bounds: SERIES_MAX series, each of at most 41 samples;
of a series that stood still for a day only the last sample is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

SERIES_MAX: Final = 50_000
RATE_SAMPLES: Final = 601
REFRESH_MS: Final = 500
_DAY_MS: Final = 86_400_000

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
SENT_BACK_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"


class StatsSource(Protocol):
    """The native counters (rocketpy._core.broker.Broker)."""

    def topic_stats(self) -> Iterable[tuple[str, int, int, int, int]]: ...
    def group_stats(self) -> Iterable[tuple[str, str, int, int, int]]: ...
    def stats(self) -> Mapping[str, object]: ...


class AppendSource(Protocol):
    """The part of MessageStore that is needed here."""

    def stats(self) -> Mapping[str, int]: ...


class Sample(NamedTuple):
    """A counter at one moment: `value` is the counted amount, `times` the number of messages that made it up."""

    at_ms: int
    value: int
    times: int


_NOTHING: Final = Sample(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What happened between the first and the last sample of a window."""

    sum: int = 0
    per_second: float = 0.0
    average: float = 0.0

    def to_json(self) -> dict[str, float]:
        return {"avgpt": self.average, "sum": self.sum, "tps": self.per_second}


@dataclass(slots=True)
class _Window:
    """Samples `step_ms` apart, at most `samples` of them."""

    step_ms: int
    samples: deque[Sample]

    def add(self, sample: Sample) -> None:
        if not self.samples or sample.at_ms - self.samples[-1].at_ms >= self.step_ms:
            self.samples.append(sample)

    def snapshot(self, now: Sample) -> Snapshot:
        if not self.samples:
            return Snapshot()
        first = self.samples[0]
        elapsed_ms = now.at_ms - first.at_ms
        total = now.value - first.value
        times = now.times - first.times
        return Snapshot(total, total * 1000.0 / elapsed_ms if elapsed_ms > 0 else 0.0, total / times if times > 0 else 0.0)


def _windows() -> tuple[_Window, _Window, _Window]:
    return (
        _Window(10_000, deque(maxlen=7)),
        _Window(600_000, deque(maxlen=7)),
        _Window(3_600_000, deque(maxlen=25)),
    )


@dataclass(slots=True)
class Series:
    """One counter over the last minute, hour and day."""

    windows: tuple[_Window, _Window, _Window] = field(default_factory=_windows)
    last: Sample = _NOTHING
    changed_ms: int = 0

    def add(self, sample: Sample) -> None:
        if sample.value != self.last.value or not self.changed_ms:
            self.changed_ms = sample.at_ms
        self.last = sample
        for window in self.windows:
            window.add(sample)

    @property
    def minute(self) -> Snapshot:
        return self.windows[0].snapshot(self.last)

    @property
    def hour(self) -> Snapshot:
        return self.windows[1].snapshot(self.last)

    @property
    def day(self) -> Snapshot:
        return self.windows[2].snapshot(self.last)


class BrokerStats:
    """Samples of one broker. `sample_rates` is called every second, `sample_series` every ten; `now_ms` is monotonic: only spans count.

    messages_put and bytes_put are what was stored: on a slave what its master sent, which mqadmin clusterList shows as InTPS, as for
    RocketMQ's. All else counts what clients sent. The whole broker's series are kept under the name of its cluster, as RocketMQ's exporter
    for Prometheus asks for them.
    """

    def __init__(
        self,
        source: StatsSource,
        now_ms: Callable[[], int],
        cluster: str,
        *,
        replicated: Callable[[], tuple[int, int]] | None = None,
        timers: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """`replicated`: on a slave, the messages and bytes so far. `timers`: how many timed messages were entered and delivered so far."""
        self._source = source
        self._replicated = replicated
        self._timers = timers
        self._cluster = cluster
        self._now_ms = now_ms
        self._rates: deque[tuple[int, dict[str, int]]] = deque(maxlen=RATE_SAMPLES)
        self._series: dict[tuple[str, str], Series] = {}
        self._still: dict[tuple[str, str], Sample] = {}
        """The last samples of series that were dropped: a counter that moves again goes on from there."""
        self._of_topic: dict[str, set[tuple[str, str]]] = {}
        self._of_group: dict[str, set[tuple[str, str]]] = {}
        """The entries of both tables, so that the end of a topic or a group costs what it has."""
        self._mornings: dict[str, tuple[int, int]] = {"messages_in": (0, 0), "messages_out": (0, 0)}
        self._sampled_ms = now_ms()
        self._fresh_until_ms = 0
        self.sample_rates()

    def sample_rates(self) -> None:
        self._rates.append((self._now_ms(), self.totals()))

    def counters(self) -> Mapping[str, object]:
        """The broker's native counters, and how much was stored."""
        counters = self._source.stats()
        put = self._replicated() if self._replicated is not None else (counters.get("messages_in", 0), counters.get("bytes_in", 0))
        timers = self._timers() if self._timers is not None else {}
        timed = {f"timers_{name}": timers.get(name, 0) for name in ("entered", "delivered")}
        return {**counters, **timed, "messages_put": put[0], "bytes_put": put[1]}

    def totals(self) -> dict[str, int]:
        """Those counters that are numbers."""
        return {name: value for name, value in self.counters().items() if isinstance(value, int)}

    def rate(self, counter: str, seconds: int) -> float | None:
        """Counts per second over the last `seconds`; None until there are samples over that span."""
        if len(self._rates) <= seconds:
            return None
        first_ms, first = self._rates[-1 - seconds]
        last_ms, last = self._rates[-1]
        elapsed_ms = last_ms - first_ms
        return (last.get(counter, 0) - first.get(counter, 0)) * 1000.0 / elapsed_ms if elapsed_ms > 0 else 0.0

    def refresh_series(self) -> None:
        """Takes samples before a question is answered, so that the answer has what was counted a moment ago."""
        if self._now_ms() >= self._fresh_until_ms:
            self.sample_series()
            self._fresh_until_ms = self._now_ms() + REFRESH_MS

    def sample_series(self) -> None:
        now = self._now_ms()
        for topic, messages_in, bytes_in, _, _ in self._source.topic_stats():
            if messages_in:
                self._add(TOPIC_PUT_NUMS, topic, Sample(now, messages_in, messages_in), topic)
                self._add(TOPIC_PUT_SIZE, topic, Sample(now, bytes_in, messages_in), topic)
        for group, topic, messages_out, bytes_out, sent_back in self._source.group_stats():
            key = f"{topic}@{group}"
            if messages_out:
                self._add(GROUP_GET_NUMS, key, Sample(now, messages_out, messages_out), topic, group)
                self._add(GROUP_GET_SIZE, key, Sample(now, bytes_out, messages_out), topic, group)
            if sent_back:
                self._add(SENT_BACK_NUMS, key, Sample(now, sent_back, sent_back), topic, group)
        totals = self.totals()
        puts = totals.get("messages_in", 0) + totals.get("puts_inside", 0)
        for name, count in ((BROKER_PUT_NUMS, puts), (BROKER_GET_NUMS, totals.get("messages_out", 0))):
            if count:
                self._add(name, self._cluster, Sample(now, count, count))
        self._forget_still(now)
        self._sampled_ms = now

    def series(self, name: str, key: str) -> Series | None:
        return self._series.get((name, key))

    def topic_put_rate(self, topic: str) -> float:
        """Messages a second sent to a topic over the last minute."""
        series = self.series(TOPIC_PUT_NUMS, topic)
        return 0.0 if series is None else series.minute.per_second

    def group_get_rate(self, group: str, topic: str) -> float:
        """Messages a second pulled by a group from a topic over the last minute."""
        series = self.series(GROUP_GET_NUMS, f"{topic}@{group}")
        return 0.0 if series is None else series.minute.per_second

    def record_morning(self) -> None:
        """Called at midnight: what is counted so far becomes this morning's mark, and the former one yesterday's."""
        totals = self.totals()
        self._mornings = {counter: (today, totals.get(counter, 0)) for counter, (_, today) in self._mornings.items()}

    def mornings(self, counter: str) -> tuple[int, int]:
        """(yesterday's mark, today's mark) of a counter."""
        return self._mornings[counter]

    def forget_topic(self, topic: str) -> None:
        for entry in self._of_topic.pop(topic, ()):
            self._forget(entry)
            _leave(self._of_group, entry[1][len(topic) + 1 :], entry)

    def forget_group(self, group: str) -> None:
        for entry in self._of_group.pop(group, ()):
            self._forget(entry)
            _leave(self._of_topic, entry[1][: -len(group) - 1], entry)

    def _add(self, name: str, key: str, sample: Sample, topic: str | None = None, group: str | None = None) -> None:
        series = self._series.get((name, key))
        if series is None:
            before = self._still.get((name, key), _NOTHING)
            if len(self._series) >= SERIES_MAX or before.value == sample.value:
                return
            self._still.pop((name, key), None)
            series = self._series[(name, key)] = Series()
            series.add(Sample(min(self._sampled_ms, sample.at_ms - 1), before.value, before.times))
            for table, owner in ((self._of_topic, topic), (self._of_group, group)):
                if owner is not None:
                    table.setdefault(owner, set()).add((name, key))
        series.add(sample)

    def _forget(self, entry: tuple[str, str]) -> None:
        self._series.pop(entry, None)
        self._still.pop(entry, None)

    def _forget_still(self, now_ms: int) -> None:
        for entry in [entry for entry, series in self._series.items() if now_ms - series.changed_ms > _DAY_MS]:
            if len(self._still) < SERIES_MAX:
                self._still[entry] = self._series.pop(entry).last


def _leave(table: dict[str, set[tuple[str, str]]], owner: str, entry: tuple[str, str]) -> None:
    entries = table.get(owner, set())
    entries.discard(entry)
    if not entries:
        table.pop(owner, None)


def appended(store: AppendSource) -> tuple[int, int]:
    """Messages and bytes since the start."""
    stats = store.stats()
    return stats["messages_appended"], stats["bytes_appended"]
