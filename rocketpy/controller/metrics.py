"""The metrics of a controller, under RocketMQ's names, which have no product name in front. RocketMQ: ControllerMetricsManager (5.3.3
controller/metrics/); the units are part of the names, as its Prometheus exporter writes them.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client.core import Metric

from ..config import Config
from ..dledger import DLedgerNode
from ..dledger.member import Role
from ..metrics.families import MetricFamilies, Scrape
from ..metrics.settings import ExporterSettings
from .broker_lives import LIVES_MAX, BrokerLives
from .counters import BOUNDS_US, SUCCESS, Counters

log = logging.getLogger(__name__)

SERIES_MAX: Final = LIVES_MAX
_ROLES: Final = {Role.CANDIDATE: 1, Role.FOLLOWER: 2, Role.LEADER: 3}


class ControllerMetrics:
    """Reads a controller for a scrape."""

    def __init__(self, config: Config, exporter: ExporterSettings, node: DLedgerNode, lives: BrokerLives, counters: Counters) -> None:
        own = {
            "address": node.peers[node.settings.self_id],
            "group": node.settings.group,
            "peer_id": node.settings.self_id,
        }
        self._node = node
        self._lives = lives
        self._counters = counters
        self._families = MetricFamilies(exporter.labels(config.text("metricsLabel"), own), SERIES_MAX, "the most")

    def read(self) -> Scrape:
        """On the event loop."""
        return Scrape([*self._state(), *self._requests(), *self._log()], functools.partial(self._disk, self._node.settings.directory))

    def _state(self) -> Iterator[Metric]:
        gauge = self._families.gauge
        yield gauge("role", "Candidate 1, follower 2, leader 3", [({}, _ROLES[self._node.role])])
        active = [({"cluster": cluster, "broker_set": name}, count) for (cluster, name), count in self._lives.active_counts().items()]
        yield gauge("active_broker_num", "Brokers that live", active)
        elections = [
            ({"cluster": each.cluster, "broker_set": each.broker_set, "election_result": each.result}, count)
            for each, count in self._counters.elections.items()
        ]
        yield self._families.counter("election", "Elections held", elections)

    def _requests(self) -> Iterator[Metric]:
        counts = [
            ({"request_type": name, "request_handle_status": status}, count) for (name, status), count in self._counters.requests.items()
        ]
        times = [({"request_type": name}, times.counts, times.sum_us) for name, times in self._counters.request_times.items()]
        yield self._families.counter("request", "Requests of brokers and operators", counts)
        yield self._families.histogram("request_latency_microseconds", "From a request to its answer", BOUNDS_US, times)

    def _log(self) -> Iterator[Metric]:
        counts = [(_append_labels(status), count) for status, count in self._counters.appends.items()]
        times = self._counters.append_times
        yield self._families.counter("dledger_op", "Entries of the group's log", counts)
        rows = [(_append_labels(SUCCESS), times.counts, times.sum_us)] if any(times.counts) else []
        yield self._families.histogram("dledger_op_latency_microseconds", "Until an entry is committed", BOUNDS_US, rows)

    def _disk(self, directory: Path) -> Iterator[Metric]:
        """The use of the disk. On any thread but the event loop's, because it may wait for the disk."""
        try:
            size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
        except OSError as error:  # a file that has just gone, or a disk that fails
            log.info("the size of %s is not known: %s", directory, error)
            return
        yield self._families.gauge("dledger_disk_usage_bytes", "Files of the group's log", [({}, size)])


def _append_labels(status: str) -> dict[str, str]:
    return {"dledger_operation": "append", "dLedger_operation_status": status}
