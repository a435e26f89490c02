"""How far groups are behind, in messages and in time. RocketMQ: ConsumerLagCalculator (5.3.3 broker/metrics/).

On the thread of the scrape: the native tables answer any thread, of ours a group or a topic is looked up by itself, and a row for each
queue of each group is too much for the event loop (80,000 took 0.7 s of it). The time when a message was stored is in the log, possibly on
disk.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from prometheus_client.core import Metric

from .._core.store import MessageStore
from ..metrics.families import Labels, MetricFamilies
from . import names
from .parts import Parts
from .stalled_queues import StalledQueues

_PAIR = itemgetter(0, 1)


class QueueBehind(NamedTuple):
    """A queue that a group has committed an offset of, and the offsets in it. Each scrape makes one for each: a tuple costs a third."""

    group: str
    topic: str
    queue_id: int
    committed: int
    pulled: int
    end: int
    parent: str | None = None
    """Of a lite topic's queue: the topic it is told of under, with all others of it."""

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.parent or self.topic


class LagMetrics:
    """The lag of groups that have committed. What a group has pulled but not committed counts as in flight."""

    def __init__(self, parts: Parts, families: MetricFamilies, group_labels: Callable[[str, str], dict[str, str]]) -> None:
        self._parts = parts
        self._families = families
        self._group_labels = group_labels

    def behind(self) -> list[QueueBehind]:
        """The queues of all such groups, also those read to the end. On any thread."""
        parts, settings = self._parts, self._parts.settings
        is_lite_wanted, offsets = settings.lite_lag_count or settings.lite_lag_latency, parts.native.copy_offsets()
        pulled_of, end_of = parts.native.read_pull_offset, parts.store.max_offset
        behind = self._lite_behind(offsets) if is_lite_wanted else []
        for (group, topic), rows in itertools.groupby(offsets, key=_PAIR):
            if topic in parts.topics and parts.consumers.is_consumed(group, topic):
                behind += [
                    QueueBehind(
                        group, topic, queue, committed, max(committed, pulled_of(group, topic, queue)), max(committed, end_of(topic, queue))
                    )
                    for _, _, queue, committed in rows
                ]
        return behind

    def _lite_behind(self, offsets: Iterable[tuple[str, str, int, int]]) -> list[QueueBehind]:
        """Groups of lite topics have no subscriptions to their queues, and what is out is not committed."""
        store = self._parts.store
        rows = ((group, queue, committed, names.lite_parts(queue)) for group, queue, _, committed in offsets)
        return [
            QueueBehind(group, queue, 0, committed, committed, max(committed, store.max_offset(queue, 0)), lite[0])
            for group, queue, committed, lite in rows
            if lite is not None
        ]

    def stalled(self) -> Iterator[Metric]:
        """On any thread."""
        if (after_ms := self._parts.settings.queue_stalled_after_ms) > 0:
            yield self._families.gauge(
                "rocketmq_consumer_stalled_queues", "Queues with messages that a live group does not come for", self._stalled(after_ms)
            )

    def counts(self, queues: Iterable[QueueBehind]) -> Iterator[Metric]:
        """On any thread."""
        gauge, is_lite_counted = self._families.gauge, self._parts.settings.lite_lag_count
        behind: Counter[tuple[str, str]] = Counter()
        in_flight: Counter[tuple[str, str]] = Counter()
        for each in queues:
            if each.parent is None or is_lite_counted:
                key = each.key
                behind[key] += each.end - each.committed
                in_flight[key] += each.pulled - each.committed
        rows = [(self._labels(*key), count, in_flight[key]) for key, count in behind.items()]
        yield gauge("rocketmq_consumer_lag_messages", "Consumer lag messages", [(labels, count) for labels, count, _ in rows])
        yield gauge("rocketmq_consumer_inflight_messages", "Consumer inflight messages", [(labels, away) for labels, _, away in rows])
        yield gauge(
            "rocketmq_consumer_ready_messages", "Consumer ready messages", [(labels, max(0, count - away)) for labels, count, away in rows]
        )

    def times(self, queues: Iterable[QueueBehind], store: MessageStore, now_ms: int) -> Iterator[Metric]:
        """How long the first message that is not committed, or not pulled, has been stored. Reads the log, on any thread."""
        committed: dict[tuple[str, str], int] = defaultdict(int)
        pulled: dict[tuple[str, str], int] = defaultdict(int)
        for each in queues:
            key = each.key
            if each.parent is not None and (not self._parts.settings.lite_lag_latency or each.end == each.committed):
                continue
            if each.committed >= each.end:  # nothing waits: most queues, most of the time
                committed[key] = max(committed[key], 0)
                pulled[key] = max(pulled[key], 0)
                continue
            first = store.min_offset(each.topic, each.queue_id)
            waits_ms = _age_ms(store, each, max(first, each.committed), now_ms)
            committed[key] = max(committed[key], waits_ms)
            if each.pulled > each.committed:
                waits_ms = _age_ms(store, each, max(first, each.pulled), now_ms)
            pulled[key] = max(pulled[key], waits_ms)
        labels = {key: self._labels(*key) for key in committed}
        for name, help_text, ages in (
            ("rocketmq_consumer_lag_latency_milliseconds", "How long the first message that is not committed has been there", committed),
            ("rocketmq_consumer_queueing_latency_milliseconds", "How long the first message that is not pulled has been there", pulled),
        ):
            yield self._families.gauge(name, help_text, [(labels[key], age_ms) for key, age_ms in ages.items()])

    def _stalled(self, after_ms: int) -> list[tuple[Labels, float]]:
        parts = self._parts
        stalled = StalledQueues(self._live, parts.consumers.is_consumed).counts(parts.native.stalled_queues(after_ms))
        return [(self._labels(group, topic), count) for (group, topic), count in stalled.items()]

    def _live(self, group: str) -> Sequence[str]:
        """In place of the clients of a group, which nobody wants the names of here: whether there are any."""
        return (group,) if self._parts.consumers.get(group) is not None else ()

    def _labels(self, group: str, topic: str) -> dict[str, str]:
        return {**self._group_labels(group, topic), "is_retry": str(topic.startswith(names.RETRY_PREFIX)).lower()}


def _age_ms(store: MessageStore, queue: QueueBehind, offset: int, now_ms: int) -> int:
    """0 if no message waits."""
    stored_ms = store.time_at(queue.topic, queue.queue_id, offset) if offset < queue.end else -1
    return max(0, now_ms - stored_ms) if stored_ms >= 0 else 0
