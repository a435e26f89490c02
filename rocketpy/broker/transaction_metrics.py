"""Transactions as metrics: those that wait for a decision, and those that have one.
RocketMQ: BrokerMetricsManager.initTransactionMetrics, TransactionMetrics (5.3.3 broker/), which counts waiting transactions up and down in
a file of its own; every decision that comes twice, every kill and every change of masters makes that count wrong.

Here waiting transactions are looked up in the log at the scrape: everything that was prepared and decided since the last round of
transaction checks is read, on the thread of the scrape. While a round copies messages, some of them count twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from prometheus_client.core import Metric

from .._core.broker_counters import END_SECONDS
from .._core.errors import RocketpyError
from ..metrics.families import MetricFamilies
from .parts import Parts
from .transaction_checks import positions

log = logging.getLogger(__name__)


class TransactionMetrics:
    """The metrics of one broker's transactions."""

    def __init__(self, parts: Parts, families: MetricFamilies) -> None:
        self._parts = parts
        self._families = families

    def ends(self) -> Iterator[Metric]:
        """On any thread."""
        counter = self._families.counter
        ends = [({"topic": topic}, *rest) for topic, *rest in self._parts.native.transaction_ends()]
        yield counter("rocketmq_commit_messages", "Transactions committed", [(labels, commits) for labels, commits, *_ in ends])
        yield counter("rocketmq_rollback_messages", "Transactions rolled back", [(labels, rollbacks) for labels, _, rollbacks, *_ in ends])
        yield self._families.histogram(
            "rocketmq_finish_message_latency_milliseconds",
            "Seconds, whatever its name says, from a message's birth to its commit",
            END_SECONDS,
            [(labels, counts, seconds) for labels, _, _, seconds, *counts in ends],
        )

    def positions(self) -> tuple[int, int]:
        """As transaction_checks.positions, on the event loop."""
        return positions(self._parts.offsets)

    def halves(self, positions: tuple[int, int]) -> Iterator[Metric]:
        """Reads the log, on any thread. Topics in which everything is decided have 0."""
        native = self._parts.native
        try:
            waiting = dict(native.half_counts(*positions))
        except RocketpyError as error:
            log.warning("how many prepared messages wait is not known: %s", error)
            return
        counts = {**dict.fromkeys((topic for topic, *_ in native.transaction_ends()), 0), **waiting}
        rows = [({"topic": topic}, count) for topic, count in counts.items()]
        yield self._families.gauge("rocketmq_half_messages", "Prepared messages that nobody has decided", rows)
