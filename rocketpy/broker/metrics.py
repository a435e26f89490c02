"""The metrics of a broker: its tables and native counters at the moment of a scrape, under RocketMQ's names.
RocketMQ: BrokerMetricsManager, DefaultStoreMetricsManager (5.3.3 broker/metrics/, store/metrics/); the units are part of the names, as its
exporter writes them. RocketMQ has no metrics for replication and refusals: here these begin with rocketmq_ha_ and rocketmq_auth_.

The counters live in C; nothing here runs per message.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from prometheus_client.core import Metric

from .._core.broker_counters import DELAY_SECONDS, INTAKE_SIZES
from .._core.errors import RocketpyError
from .._core.store import decode_message
from ..metrics.exporters import Exporter, make_exporter
from ..metrics.families import MetricFamilies, Scrape
from ..remoting.codes import Language
from . import names
from .call_metrics import CallMetrics
from .lag_metrics import LagMetrics
from .metrics_settings import MetricsSettings
from .parts import Parts, now_ms
from .transaction_metrics import TransactionMetrics

_LOCAL_DISK: Final = {"storage_type": "local", "storage_medium": "disk"}
_TIMER_BOUNDS_S: Final = (5, 60, 300, 900, 3600, 14400, 28800, 86400)
_MESSAGE_TYPES: Final = ("normal", "fifo", "delay", "transaction")  # rp_message_type of csrc/broker/broker.h
_CONSUME_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}


class _Clients(NamedTuple):
    """How many connections there are, by what their series are labelled with."""

    producers: Counter[tuple[int, int]]
    consumers: Counter[tuple[str, str, int, int]]


class BrokerMetrics:
    """Reads the broker's metrics for a scrape."""

    def __init__(self, parts: Parts, settings: MetricsSettings) -> None:
        self._parts = parts
        self._families = families = MetricFamilies(settings.labels, settings.series_max, "metricsOtelCardinalityLimit")
        self._gauge, self._counter = families.gauge, families.counter
        self._calls = CallMetrics(parts.native, parts.latencies, families)
        self._lag_metrics = LagMetrics(parts, families, self._group_labels)
        self._transactions = TransactionMetrics(parts, families)
        self._wanted = settings.sections
        sections: dict[str, Callable[[], Iterable[Metric]]] = {
            "enableStatsMetrics": self._tables,
            "enableRequestMetrics": self._calls.changes,
            "enableRemotingMetrics": self._calls.calls,
            "enableMessageStoreMetrics": self._store_and_timers,
            "enablePopMetrics": self._pop,
        }
        self._sections = [section for key, section in sections.items() if key in settings.sections]
        self._sections += [self._replication, self._refusals]

    def read(self) -> Scrape:
        """On the event loop: what other requests change there. All else has a row for each topic, group or queue of tens of thousands."""
        metrics = list(chain.from_iterable(section() for section in self._sections))
        clients = self._clients() if "enableConnectionMetrics" in self._wanted else None
        return Scrape(metrics, functools.partial(self._looked_up, clients, self._transactions.positions()))

    def _looked_up(self, clients: _Clients | None, positions: tuple[int, int]) -> Iterator[Metric]:
        """The metrics that need reads of the log, which may wait for the disk, or rows of large tables. On any thread but the event
        loop's."""
        if clients is not None:
            yield from self._connections(clients)
        if "enableRequestMetrics" in self._wanted:
            yield from self._messages()
        if "enableTransactionMetrics" in self._wanted:
            yield from self._transactions.ends()
            yield from self._transactions.halves(positions)
        if "enableLagAndDlqMetrics" in self._wanted:
            yield from self._dead_letters()
            yield from self._lag_metrics.stalled()
            behind = self._lag_metrics.behind()
            yield from self._lag_metrics.counts(behind)
            yield from self._lag_metrics.times(behind, self._parts.store, now_ms())
        if "enableMessageStoreMetrics" in self._wanted:
            age_ms = self._oldest_age_ms()
            yield self._gauge("rocketmq_storage_message_reserve_time_milliseconds", "Age of the oldest message", [(_LOCAL_DISK, age_ms)])

    def _oldest_age_ms(self) -> int:
        """0 if the log is empty, or if its first record has just been deleted."""
        store = self._parts.store
        bounds = store.stats()
        if bounds["commit_log_min_offset"] >= bounds["commit_log_max_offset"]:
            return 0
        try:
            oldest = decode_message(store.read(bounds["commit_log_min_offset"]), check_crc=False)
        except RocketpyError:
            return 0
        return max(0, now_ms() - oldest.store_timestamp_ms)

    def _refusals(self) -> Iterator[Metric]:
        """Empty while neither authenticationEnabled nor authorizationEnabled is set."""
        if stats := self._parts.auth.stats():
            checks = (("authentication", stats["unauthenticated"]), ("authorization", stats["unauthorized"]))
            yield self._counter("rocketmq_auth_refused", "Requests refused", [({"check": check}, count) for check, count in checks])

    def _tables(self) -> Iterator[Metric]:
        parts = self._parts
        yield self._gauge("rocketmq_broker_permission", "Broker permission", [({}, parts.settings.permission)])
        yield self._gauge("rocketmq_topic_number", "Active topic number", [({}, len(parts.topics))])
        yield self._gauge("rocketmq_consumer_group_number", "Active subscription group number", [({}, len(parts.groups))])

    def _clients(self) -> _Clients:
        return _Clients(
            Counter((each.language, each.version) for _, clients in self._parts.producers for each in clients),
            Counter(
                (group.group, group.consume_type, each.language, each.version)
                for group in self._parts.consumers
                for each in group.clients.values()
            ),
        )

    def _connections(self, clients: _Clients) -> Iterator[Metric]:
        yield self._gauge(
            "rocketmq_producer_connections",
            "Producer connections",
            [(_client_labels(language, version), count) for (language, version), count in clients.producers.items()],
        )
        yield self._gauge(
            "rocketmq_consumer_connections",
            "Consumer connections",
            [
                (
                    {
                        "consumer_group": group,
                        "consume_mode": _CONSUME_MODES.get(consume_type, "push"),
                        "is_system": _bool(_is_system_group(group)),
                        **_client_labels(language, version),
                    },
                    count,
                )
                for (group, consume_type, language, version), count in clients.consumers.items()
            ],
        )

    def _messages(self) -> Iterator[Metric]:
        taken = [
            (self._topic_labels(topic, message_type=_MESSAGE_TYPES[kind]), size, counts)
            for topic, kind, size, *counts in self._parts.native.topic_intakes()
        ]
        given = [
            (self._group_labels(group, topic), count, size) for group, topic, count, size, _ in self._parts.native.group_stats() if count
        ]
        yield self._counter("rocketmq_messages_in", "Incoming messages", [(labels, sum(counts)) for labels, _, counts in taken])
        yield self._counter("rocketmq_throughput_in", "Bytes of incoming messages", [(labels, size) for labels, size, _ in taken])
        yield self._families.histogram(
            "rocketmq_message_size", "Bytes of stored messages", INTAKE_SIZES, [(labels, counts, size) for labels, size, counts in taken]
        )
        yield self._counter("rocketmq_messages_out", "Outgoing messages", [(labels, count) for labels, count, _ in given])
        yield self._counter("rocketmq_throughput_out", "Bytes of outgoing messages", [(labels, size) for labels, _, size in given])

    def _dead_letters(self) -> Iterator[Metric]:
        """How many messages the dead letter topics received."""
        counts = {topic: count for topic, count, *_ in self._parts.native.topic_stats() if topic.startswith(names.DLQ_PREFIX) and count}
        yield self._counter(
            "rocketmq_send_to_dlq_messages",
            "Dead letters",
            [(self._group_labels(topic.removeprefix(names.DLQ_PREFIX), topic), count) for topic, count in counts.items()],
        )

    def _store_and_timers(self) -> Iterator[Metric]:
        yield from self._store()
        yield from self._compaction()
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

    def _compaction(self) -> Iterator[Metric]:
        stats = self._parts.store.compaction_stats()
        if not stats["queues"]:
            return
        for name, help_text, value in (
            ("rocketmq_compaction_size_bytes", "Bytes of the files of compacted queues", stats["bytes"]),
            ("rocketmq_compaction_behind_messages", "Messages of compacted queues that are in the commit log only", stats["behind"]),
        ):
            yield self._gauge(name, help_text, [(_LOCAL_DISK, value)])
        yield self._counter("rocketmq_compaction_failures", "Compactions that failed", [(_LOCAL_DISK, stats["failures"])])

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
        rows = [({**_LOCAL_DISK, "topic": topic}, *numbers) for topic, *numbers in native.timer_delays()]
        yield self._counter("rocketmq_timer_enqueue", "Timed messages taken", [(labels, sum(counts)) for labels, _, _, *counts in rows])
        yield self._counter("rocketmq_timer_dequeue", "Timed messages delivered", [(labels, delivered) for labels, delivered, *_ in rows])
        yield self._families.histogram(
            "rocketmq_delay_message_latency_seconds",
            "From a timed message's birth to its time",
            DELAY_SECONDS,
            [(labels, counts, seconds) for labels, _, seconds, *counts in rows],
        )
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
        lags, ages = [], []
        late_ms = max(0, now_ms() - stats["oldest_due_ms"]) if stats["oldest_due_ms"] else 0
        for queue in range(config.read_queue_nums if config is not None else 0):
            last = parts.offsets.query(names.REVIVE_GROUP, topic, queue)  # of what is over; -1: nothing is
            count = max(0, parts.store.max_offset(topic, queue) - 1 - last)
            lags.append(({"queue_id": str(queue)}, count))
            ages.append(({"queue_id": str(queue)}, late_ms if count > 0 else 0))
        yield self._gauge("rocketmq_pop_revive_lag_milliseconds", "Records, not milliseconds, of the revive topic that are not over", lags)
        yield self._gauge("rocketmq_pop_revive_latency_milliseconds", "How long a message has been due", ages)
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


def exporter_of(parts: Parts, settings: MetricsSettings) -> Exporter:
    """The exporter, which is not started yet. A broker is ready once a name server has it. Raises as make_exporter."""
    return make_exporter(settings.exporter, BrokerMetrics(parts, settings).read, parts.registration.why_nowhere)


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
