"""What a broker tells Prometheus: its tables and native counters as they are at the moment of a scrape, under RocketMQ's names.
RocketMQ: BrokerMetricsManager, DefaultStoreMetricsManager (5.3.3 broker/metrics/, store/metrics/); units stand in names as its exporter
writes them. RocketMQ has none for replication and refusals: those begin with rocketmq_ha_ and rocketmq_auth_.

The counters live in C; nothing here runs per message. Bounds: metricsOtelCardinalityLimit series of one metric.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..remoting.codes import Language
from . import names
from .metrics_settings import MetricsSettings
from .parts import Parts, now_ms
from .stalled_queues import StalledQueues

log = logging.getLogger(__name__)

Labels = Mapping[str, str]
Row = tuple[Labels, float]

_LOCAL_DISK: Final = {"storage_type": "local", "storage_medium": "disk"}
_TIMER_BOUNDS_S: Final = (5, 60, 300, 900, 3600, 14400, 28800, 86400)
_CONSUME_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}


class BrokerMetrics:
    """Reads the broker for a scrape."""

    def __init__(self, parts: Parts, settings: MetricsSettings) -> None:
        self._parts = parts
        self._common = settings.labels
        self._limit = settings.series_max
        self._is_cut = False
        sections = {
            "enableStatsMetrics": self._tables,
            "enableConnectionMetrics": self._connections,
            "enableRequestMetrics": self._messages,
            "enableLagAndDlqMetrics": self._lags,
            "enableMessageStoreMetrics": self._store_and_timers,
            "enablePopMetrics": self._pop,
        }
        self._sections = [section for key, section in sections.items() if key in settings.sections]
        self._sections += [self._replication, self._refusals]

    def read(self) -> list[Metric]:
        """Every metric with its series. On the event loop."""
        return list(chain.from_iterable(section() for section in self._sections))

    def _refusals(self) -> Iterator[Metric]:
        """Nothing without authenticationEnabled and authorizationEnabled."""
        if stats := self._parts.auth_stats():
            checks = (("authentication", stats["unauthenticated"]), ("authorization", stats["unauthorized"]))
            yield self._counter("rocketmq_auth_refused", "Requests refused", [({"check": check}, count) for check, count in checks])

    def _tables(self) -> Iterator[Metric]:
        parts = self._parts
        yield self._gauge("rocketmq_broker_permission", "Broker permission", [({}, parts.settings.permission)])
        yield self._gauge("rocketmq_topic_number", "Active topic number", [({}, len(parts.topics))])
        yield self._gauge("rocketmq_consumer_group_number", "Active subscription group number", [({}, len(parts.groups))])

    def _connections(self) -> Iterator[Metric]:
        producers = Counter((each.language, each.version) for _, clients in self._parts.producers for each in clients)
        yield self._gauge(
            "rocketmq_producer_connections",
            "Producer connections",
            [(_client_labels(language, version), count) for (language, version), count in producers.items()],
        )
        consumers = Counter(
            (group.group, _CONSUME_MODES.get(group.consume_type, "push"), each.language, each.version)
            for group in self._parts.consumers
            for each in group.clients.values()
        )
        yield self._gauge(
            "rocketmq_consumer_connections",
            "Consumer connections",
            [
                (
                    {
                        "consumer_group": group,
                        "consume_mode": mode,
                        "is_system": _bool(_is_system_group(group)),
                        **_client_labels(language, version),
                    },
                    count,
                )
                for (group, mode, language, version), count in consumers.items()
            ],
        )

    def _messages(self) -> Iterator[Metric]:
        taken = [
            (self._topic_labels(topic, message_type="normal"), count, size) for topic, count, size, *_ in self._parts.native.topic_stats()
        ]
        given = [(self._group_labels(group, topic), count, size) for group, topic, count, size in self._parts.native.group_stats()]
        yield self._counter("rocketmq_messages_in", "Total number of incoming messages", [(labels, count) for labels, count, _ in taken])
        yield self._counter("rocketmq_throughput_in", "Total traffic of incoming messages", [(labels, size) for labels, _, size in taken])
        yield self._counter("rocketmq_messages_out", "Total number of outgoing messages", [(labels, count) for labels, count, _ in given])
        yield self._counter("rocketmq_throughput_out", "Total traffic of outgoing messages", [(labels, size) for labels, _, size in given])

    def _lags(self) -> Iterator[Metric]:
        """Of groups that have committed; what a group has pulled and not committed is in flight."""
        parts = self._parts
        behind: Counter[tuple[str, str]] = Counter()
        in_flight: Counter[tuple[str, str]] = Counter()
        for group, topic, queue, committed in parts.native.offsets():
            if topic in parts.topics and parts.consumers.is_consumed(group, topic):
                behind[group, topic] += max(0, parts.store.max_offset(topic, queue) - committed)
                in_flight[group, topic] += max(0, parts.offsets.query_pull(group, topic, queue) - committed)
        if (after_ms := parts.settings.queue_stalled_after_ms) > 0:
            stalled = StalledQueues(parts.consumers.client_ids, parts.consumers.is_consumed).counts(parts.native.stalled_queues(after_ms))
            queues = [(self._lag_labels(group, topic), count) for (group, topic), count in stalled.items()]
            yield self._gauge("rocketmq_consumer_stalled_queues", "Queues with messages that a live group does not come for", queues)
        rows = [(self._lag_labels(group, topic), count, in_flight[group, topic]) for (group, topic), count in behind.items()]
        yield self._gauge("rocketmq_consumer_lag_messages", "Consumer lag messages", [(labels, count) for labels, count, _ in rows])
        yield self._gauge("rocketmq_consumer_inflight_messages", "Consumer inflight messages", [(labels, away) for labels, _, away in rows])
        yield self._gauge(
            "rocketmq_consumer_ready_messages",
            "Consumer ready messages",
            [(labels, max(0, count - away)) for labels, count, away in rows],
        )

    def _store_and_timers(self) -> Iterator[Metric]:
        yield from self._store()
        if self._parts.config.boolean("timerWheelEnable"):
            yield from self._timers()

    def _store(self) -> Iterator[Metric]:
        store = self._parts.store.stats()
        size = store["commit_log_max_offset"] - store["commit_log_min_offset"]
        behind = max(0, store["commit_log_max_offset"] - store["dispatched_offset"])
        unsynced = max(0, store["appended_not_synced_bytes"])
        for name, help_text, value in (
            ("rocketmq_storage_size_bytes", "Bytes of the commit log", size),
            ("rocketmq_storage_flush_behind_bytes", "Bytes appended, and acknowledged with ASYNC_FLUSH, but not synced yet", unsynced),
            ("rocketmq_storage_dispatch_behind_bytes", "Bytes of the commit log without their queue entries", behind),
        ):
            yield self._gauge(name, help_text, [(_LOCAL_DISK, value)])
        plan = self._parts.retention.plan
        if plan is not None:
            yield self._gauge(
                "rocketmq_storage_next_deletion_timestamp_milliseconds",
                "When the oldest commit log file goes, while the disk has room",
                [(_LOCAL_DISK, plan[1].timestamp() * 1000)],
            )

    def _timers(self) -> Iterator[Metric]:
        native = self._parts.native
        stats = native.timer_stats()
        for name, help_text, value in (
            (
                "rocketmq_timer_enqueue_lag",
                "Timed messages that are not in the wheel yet",
                stats["queue_max_offset"] - stats["queue_offset"],
            ),
            ("rocketmq_timer_enqueue_latency_milliseconds", "How long the next of them has waited", stats["enqueue_behind_ms"]),
            ("rocketmq_timer_dequeue_lag", "Timed messages in the wheel", stats["messages_waiting"]),
            ("rocketmq_timer_dequeue_latency_milliseconds", "How long the next slot has been due", stats["dequeue_behind_ms"]),
        ):
            yield self._gauge(name, help_text, [(_LOCAL_DISK, max(0, value))])
        yield self._counter("rocketmq_timer_enqueue", "Timed messages entered", [(_LOCAL_DISK, stats["entered"])])
        yield self._counter("rocketmq_timer_dequeue", "Timed messages delivered", [(_LOCAL_DISK, stats["delivered"])])
        yield self._gauge(
            "rocketmq_timing_messages",
            "Timed messages that wait",
            [({**_LOCAL_DISK, "topic": topic}, count) for topic, count, _ in native.timer_counts()],
        )
        yield self._gauge(
            "rocketmq_timer_message_snapshot",
            "Timed messages due within a bound, and not within the one before",
            [
                ({**_LOCAL_DISK, "timer_bound_s": str(bound_s)}, native.timers_between(begin_s, bound_s))
                for begin_s, bound_s in itertools.pairwise((0, *_TIMER_BOUNDS_S))
            ],
        )

    def _pop(self) -> Iterator[Metric]:
        parts = self._parts
        stats = parts.native.pop_stats()
        topic = names.REVIVE_TOPIC_PREFIX + parts.settings.cluster_name
        config = parts.topics.get(topic)
        rows = []
        for queue in range(config.read_queue_nums if config is not None else 0):
            last = parts.offsets.query(names.REVIVE_GROUP, topic, queue)  # of what is over; -1: nothing is
            rows.append(({"queue_id": str(queue)}, max(0, parts.store.max_offset(topic, queue) - 1 - last)))
        late_ms = max(0, now_ms() - stats["oldest_due_ms"]) if stats["oldest_due_ms"] else 0
        yield self._gauge("rocketmq_pop_revive_lag", "Records of the revive topic that are not over", rows)
        yield self._gauge("rocketmq_pop_revive_latency_milliseconds", "How long a message has been due", [({}, late_ms)])
        yield self._gauge("rocketmq_pop_checkpoint_buffer_size", "Checkpoints that wait", [({}, stats["checkpoints_kept"])])
        yield self._counter("rocketmq_pop_revive_retry_messages", "Messages that came again", [({}, stats["revived"])])

    def _replication(self) -> Iterator[Metric]:
        for name, (meaning, value) in self._parts.ha.gauges().items():
            yield self._gauge(name, meaning, [({}, value)])
        ha = self._parts.ha.runtime_info()
        slaves = [({"slave": each["addr"]}, each) for each in ha["haConnectionInfo"]]
        if not ha["master"]:
            client = ha["haClientRuntimeInfo"]
            yield self._gauge(
                "rocketmq_ha_read_timestamp_milliseconds", "When the master was last heard", [({}, client["lastReadTimestamp"])]
            )
            yield self._gauge("rocketmq_ha_transferred_bytes_per_second", "From the master", [({}, client["transferredByteInSecond"])])
            return
        yield self._gauge("rocketmq_ha_slaves", "Connected slaves", [({}, len(slaves))])
        yield self._gauge("rocketmq_ha_slaves_in_sync", "Slaves within haMaxGapNotInSync", [({}, ha["inSyncSlaveNums"])])
        yield self._gauge("rocketmq_ha_slave_lag_bytes", "How far a slave is behind", [(labels, each["diff"]) for labels, each in slaves])
        yield self._gauge(
            "rocketmq_ha_transferred_bytes_per_second",
            "To a slave",
            [(labels, each["transferredByteInSecond"]) for labels, each in slaves],
        )
        dropped = self._parts.ha.counters().get("haDroppedBadAck", "0")
        yield self._counter("rocketmq_ha_dropped_bad_ack", "Connections dropped for an impossible ack", [({}, int(dropped))])

    # ---- series ----

    def _topic_labels(self, topic: str, **more: str) -> dict[str, str]:
        return {"topic": topic, "is_system": _bool(self._parts.topics.is_system_topic(topic)), **more}

    def _group_labels(self, group: str, topic: str) -> dict[str, str]:
        is_system = self._parts.topics.is_system_topic(topic) or _is_system_group(group)
        return {"topic": topic, "consumer_group": group, "is_system": _bool(is_system)}

    def _lag_labels(self, group: str, topic: str) -> dict[str, str]:
        return {**self._group_labels(group, topic), "is_retry": _bool(topic.startswith(names.RETRY_PREFIX))}

    def _gauge(self, name: str, help_text: str, rows: Iterable[Row]) -> Metric:
        return self._fill(GaugeMetricFamily, name, help_text, rows)

    def _counter(self, name: str, help_text: str, rows: Iterable[Row]) -> Metric:
        return self._fill(CounterMetricFamily, name, help_text, rows)

    def _fill(self, kind: type[GaugeMetricFamily] | type[CounterMetricFamily], name: str, help_text: str, rows: Iterable[Row]) -> Metric:
        all_rows = list(rows)
        if len(all_rows) > self._limit and not self._is_cut:
            self._is_cut = True
            log.warning("%s has %d series, metricsOtelCardinalityLimit is %d: the rest is left out", name, len(all_rows), self._limit)
        own = list(all_rows[0][0]) if all_rows else []
        family = kind(name, help_text, labels=[*self._common, *own])
        for labels, value in all_rows[: self._limit]:
            family.add_metric([*self._common.values(), *(labels[label] for label in own)], value)
        return family


def _client_labels(language: int, version: int) -> dict[str, str]:
    known = language in Language.__members__.values()
    return {
        "language": Language(language).name.lower() if known else str(language),
        "version": str(version),
        "protocol_type": "remoting",
    }


def _is_system_group(group: str) -> bool:
    return group.lower().startswith(names.SYSTEM_GROUP_PREFIX.lower())  # whatever its case, as RocketMQ's metrics have it


def _bool(value: bool) -> str:
    return str(value).lower()
