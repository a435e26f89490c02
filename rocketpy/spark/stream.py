"""The streaming reader: offsets in Spark's checkpoint, admission control, queues that come and go.

An offset is topic -> broker -> queue -> next offset to read, in one fixed order. Spark keeps it; nothing here has to survive a restart:
partitions(start, end) gives the same rows for the same two offsets, which is what makes a replayed batch equal to the first try.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from .._core.errors import NetworkError, OffsetOutOfRange, RocketpyError
from .cluster import Cluster, Queue, flatten, nest
from .plan import QueuePartition, Range, limit_bytes, limit_offsets, split_ranges
from .positions import Topics, message_bytes
from .queue_read import read_queue
from .selection import TopicSelection, place, settings_of

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query over its topics. Lives in the driver; `read` runs on executors and only uses settings."""

    def __init__(self, options: dict[str, Any], columns: tuple[str, ...]) -> None:
        self.options = options
        self.selection = TopicSelection(options)
        self.settings = settings_of(options, columns)
        self.last_trigger_s: float | None = None
        self.has_fence = False  # a run with availableNow
        self.fence: dict[Queue, int] | None = None  # where it ends
        self.has_seen_strangers = self.has_seen_closed = False
        self.away: set[str] = set()  # brokers, as the log has it

    def initialOffset(self) -> dict[str, Any]:
        cluster = Cluster(self.settings.endpoint)
        queues = self.selection.queues(cluster)
        min_offsets, max_offsets = cluster.min_offsets(queues), cluster.max_offsets(queues)
        begins = Topics(cluster, self.settings, queues, min_offsets, max_offsets).starts(self.options, "latest")
        if self.options["failOnDataLoss"]:
            for queue, begin in begins.items():
                if not min_offsets[queue] <= begin <= max_offsets[queue]:
                    raise OffsetOutOfRange(
                        f"startingOffsets: {queue} holds offsets {min_offsets[queue]} to {max_offsets[queue] - 1}, not {begin}; "
                        "set failOnDataLoss=false to start at what is there"
                    )
        return nest({queue: min(max(begin, min_offsets[queue]), max_offsets[queue]) for queue, begin in begins.items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options["maxOffsetsPerTrigger"] is not None:
            return ReadMaxRows(self.options["maxOffsetsPerTrigger"])
        if self.options["maxBytesPerTrigger"] is not None:
            return ReadMaxBytes(self.options["maxBytesPerTrigger"])
        if self.options["minOffsetsPerTrigger"] is not None:
            return ReadMinRows(self.options["minOffsetsPerTrigger"])
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.has_fence = True  # it is put up later: only then is it known whether there is a checkpoint, whose topics are waited for

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begins = flatten(start)
        latest = self._latest() if self.fence is None else dict(self.fence)
        if self.has_fence and self.fence is None:
            self.fence = dict(latest)
        fresh = [queue for queue in latest if queue not in begins]
        if fresh:
            begins |= Cluster(self.settings.endpoint, topics_exist=True).min_offsets(fresh)
        self._refuse_other_topics(begins)
        self._refuse_closed(begins, latest)
        cut = self._ends_of_cut([queue for queue, begin in begins.items() if latest.get(queue, begin) < begin], begins)
        for queue, begin in begins.items():
            latest[queue] = max(begin, latest.get(queue, begin))  # a queue that is gone, or a replica behind, stands still
        if cut:
            return nest({**begins, **cut})  # nothing is read on the way back
        if not isinstance(limit, ReadAllAvailable):
            waiting = sum(latest[queue] - begins[queue] for queue in latest)
            if self.fence is None and self._should_wait(waiting):
                return start
            if self.options["maxOffsetsPerTrigger"] is not None:
                latest = limit_offsets(begins, latest, self.options["maxOffsetsPerTrigger"])
            if self.options["maxBytesPerTrigger"] is not None:
                latest = self._limit_bytes(begins, latest, self.options["maxBytesPerTrigger"])
        self.last_trigger_s = time.monotonic()
        return nest(latest)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        try:
            return nest(self._latest())
        except RocketpyError as error:
            log.warning("latest offsets for the progress report: %s", error)
            return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begins, ends = flatten(start), flatten(end)
        cluster = Cluster(self.settings.endpoint, topics_exist=True)
        moved = [queue for queue, stop in ends.items() if begins.get(queue, -1) < stop]
        if not moved:
            return []
        min_offsets, max_offsets = cluster.min_offsets(moved), cluster.max_offsets(moved)
        cut = self._ends_of_cut([queue for queue in moved if max_offsets[queue] < ends[queue]], ends)
        ranges = []
        for queue in moved:
            begin = begins.get(queue, min_offsets[queue])
            if begin < min_offsets[queue]:
                last = min(min_offsets[queue], ends[queue]) - 1
                self._lost(
                    f"offsets {begin} to {last} of {queue} were deleted before they were read: the broker keeps {min_offsets[queue]} on"
                )
                begin = min(min_offsets[queue], ends[queue])
            ranges.append(Range(queue, begin, max(begin, cut.get(queue, ends[queue]))))
        parts = split_ranges(ranges, self.options["minPartitions"], self.options["maxRecordsPerPartition"])
        return place(cluster, parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark runs a table without partitions as one task without a partition.
        return read_queue(self.settings, partition) if isinstance(partition, QueuePartition) else iter(())

    def commit(self, end: dict[str, Any]) -> None:
        if self.options["commitOffsets"]:
            try:
                Cluster(self.settings.endpoint, topics_exist=True).commit_offsets(self.options["consumerGroup"], flatten(end))
            except RocketpyError as error:  # the checkpoint is what counts; the next batch tries again
                log.warning("offsets of group %s were not committed: %s", self.options["consumerGroup"], error)

    def _latest(self) -> dict[Queue, int]:
        cluster = Cluster(self.settings.endpoint, topics_exist=True)
        return cluster.max_offsets(self.selection.queues(cluster))

    def _refuse_other_topics(self, begins: dict[Queue, int]) -> None:
        strangers = sorted({queue.topic for queue in begins if not self.selection.names_topic(queue.topic)})
        if strangers and not self.has_seen_strangers:
            self.has_seen_strangers = True
            self._lost(
                f"the checkpoint is of a query that read topic {strangers[0]}, which this one does not: it needs a checkpoint of its own"
            )

    def _refuse_closed(self, begins: dict[Queue, int], latest: dict[Queue, int]) -> None:
        """Queues that their broker does not offer any more while it offers others: what was not read of them cannot be. Those of a broker
        that is away come back."""
        offered = {(queue.topic, queue.broker_name) for queue in latest}
        closed = [queue for queue in begins if queue not in latest and (queue.topic, queue.broker_name) in offered]
        away = {queue.broker_name for queue in begins if self.selection.names_topic(queue.topic)} - {name for _, name in offered}
        if away != self.away:
            self.away = away
            log.warning("brokers that are away, whose queues stand still: %s", ", ".join(sorted(away)) or "none any more")
        if closed and not self.has_seen_closed:
            self.has_seen_closed = True
            self._lost(
                f"{closed[0]} is closed, what it has from offset {begins[closed[0]]} on cannot be read: the topic has fewer read queues "
                "than it had; give it as many again"
            )

    def _ends_of_cut(self, short: list[Queue], reached: dict[Queue, int]) -> dict[Queue, int]:
        """Where queues end now that had reached more, by their masters' word: a slave may just be behind."""
        if not short:
            return {}
        endpoint = replace(self.settings.endpoint, retry_timeout_s=0.0)
        try:
            ends = Cluster(endpoint, topics_exist=True, masters_only=True).max_offsets(short)
        except NetworkError as error:
            log.warning("%s ends before offset %d, and its master does not answer: %s", short[0], reached[short[0]], error)
            return {}
        cut = {queue: end for queue, end in ends.items() if end < reached[queue]}
        for queue, end in cut.items():
            self._lost(f"{queue} ends at offset {end}, before {reached[queue]}, which it had reached: it was cut or made again")
        return cut

    def _limit_bytes(self, begins: dict[Queue, int], latest: dict[Queue, int], limit: int) -> dict[Queue, int]:
        moving = [Range(queue, begins[queue], end) for queue, end in latest.items() if begins[queue] < end]
        if not moving:
            return latest
        cluster = Cluster(self.settings.endpoint, topics_exist=True)
        addresses = cluster.addresses_of(part.queue for part in moving)
        sizes = {part.queue: message_bytes(self.settings, addresses[part.queue], part) for part in moving}
        return limit_bytes(begins, latest, sizes, limit)

    def _should_wait(self, waiting: int) -> bool:
        """minOffsetsPerTrigger: whether to wait for more messages, but not beyond maxTriggerDelay. The first batch does not wait, as in
        Spark's Kafka source."""
        wanted: int | None = self.options["minOffsetsPerTrigger"]
        if wanted is None or waiting >= wanted or self.last_trigger_s is None:
            return False
        delay_ms: int = self.options["maxTriggerDelay"]
        return time.monotonic() - self.last_trigger_s < delay_ms / 1000

    def _lost(self, text: str) -> None:
        if self.options["failOnDataLoss"]:
            raise OffsetOutOfRange(f"{text}; set failOnDataLoss=false to go on with what there is")
        log.warning("%s", text)


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query that cannot begin, and the reason. Spark (4.3, too) replaces an error raised while a reader is made by one of its own, but
    shows the errors that a reader's methods raise."""

    def __init__(self, cause: RocketpyError) -> None:
        self.cause = cause

    def initialOffset(self) -> dict[str, Any]:
        raise self.cause

    def getDefaultReadLimit(self) -> ReadLimit:
        raise self.cause

    def prepareForTriggerAvailableNow(self) -> None:
        raise self.cause

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        raise self.cause

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self.cause

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self.cause
