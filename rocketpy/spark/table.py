"""The batch reader: topics as a table, and what the filters of a query leave of it.

options ──► QueueTableReader.partitions (driver: routes, offsets) ──► read (executor: queue_read)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from .._core.errors import InvalidArgument
from .cluster import Cluster, Queue, flatten
from .options import whole_ms
from .plan import QueuePartition, Range, check_range, split_ranges
from .positions import Topics
from .queue_read import EXPRESSION_BYTES_MAX, is_plain_tag, read_queue
from .selection import TopicSelection, place, settings_of

if TYPE_CHECKING:
    import pyarrow as pa


def refuse_backwards(options: dict[str, Any], ends: dict[Queue, int]) -> None:
    """Raises InvalidArgument if the JSON of startingOffsets lies behind that of endingOffsets."""
    starts, stops = options["startingOffsets"], options["endingOffsets"]
    if isinstance(starts, dict) and isinstance(stops, dict):
        named = flatten(stops)
        for queue, begin in flatten(starts).items():
            if queue in named and begin > ends[queue] and options["startingTimestamp"] is options["endingTimestamp"] is None:
                raise InvalidArgument(f"startingOffsets {begin} of {queue} lies behind endingOffsets {ends[queue]}")


class Pushed:
    """What the filters that Spark handed over say about queues and offsets."""

    def __init__(self) -> None:
        self.topics: set[str] | None = None
        self.queue_ids: set[int] | None = None
        self.queue_id_bounds = (0, 2**31)
        self.offset_bounds = (0, 2**63 - 1)
        self.stored_ms_bounds: tuple[int | None, int | None] = (None, None)
        self.tags: set[str] | None = None

    def take(self, filter_: Filter) -> bool:
        """Takes a filter. True if rows that do not match it cannot occur any more, so that Spark need not check."""
        attribute: tuple[str, ...] = getattr(filter_, "attribute", ())
        column = attribute[0] if len(attribute) == 1 else ""
        if isinstance(filter_, EqualTo | In):
            values = set(filter_.value if isinstance(filter_, In) else (filter_.value,)) - {None}
            return self._take_values(column, values)
        if isinstance(filter_, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
            return self._take_bound(column, filter_)
        return False

    def _take_values(self, column: str, values: set[Any]) -> bool:
        if column == "topic":
            self.topics = values if self.topics is None else self.topics & values
            return True
        if column == "queueId":
            self.queue_ids = values if self.queue_ids is None else self.queue_ids & values
            return True
        if column == "queueOffset" and values:
            low, high = self.offset_bounds
            self.offset_bounds = max(low, min(values)), min(high, max(values) + 1)
            return len(values) == 1
        if column == "tags" and values:
            self.tags = values if self.tags is None else self.tags & values
        return False

    def _take_bound(self, column: str, filter_: Any) -> bool:
        is_low = isinstance(filter_, GreaterThan | GreaterThanOrEqual)
        is_open = isinstance(filter_, GreaterThan | LessThanOrEqual)  # the bound lies one further
        if column in ("queueId", "queueOffset"):
            bound = filter_.value + (1 if is_open else 0)
            low, high = self.queue_id_bounds if column == "queueId" else self.offset_bounds
            bounds = (max(low, bound), high) if is_low else (low, min(high, bound))
            if column == "queueId":
                self.queue_id_bounds = bounds
            else:
                self.offset_bounds = bounds
            return True
        if column == "storeTimestamp" and isinstance(filter_.value, datetime):
            try:
                ms = whole_ms(filter_.value)
            except (OverflowError, ValueError):  # its zone leads out of the years 1 to 9999
                return False
            first, last = self.stored_ms_bounds
            if is_low:
                self.stored_ms_bounds = (ms if first is None else max(first, ms)), last
            else:
                self.stored_ms_bounds = first, (ms + 1 if last is None else min(last, ms + 1))
        return False

    def wants(self, queue: Queue) -> bool:
        return (
            (self.topics is None or queue.topic in self.topics)
            and (self.queue_ids is None or queue.queue_id in self.queue_ids)
            and self.queue_id_bounds[0] <= queue.queue_id < self.queue_id_bounds[1]
        )


class QueueTableReader(DataSourceReader):
    """A batch that reads every queue from its start to where it ended when the batch was planned."""

    def __init__(self, options: dict[str, Any], columns: tuple[str, ...]) -> None:
        self.options = options
        self.selection = TopicSelection(options)
        self.settings = settings_of(options, columns)
        self.pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        cluster = Cluster(self.settings.endpoint)
        queues = self.selection.queues(cluster)
        known = Topics(cluster, self.settings, queues, cluster.min_offsets(queues), cluster.max_offsets(queues))
        begins, ends = known.starts(self.options, "earliest"), known.ends(self.options)
        refuse_backwards(self.options, ends)
        fail = self.options["failOnDataLoss"]
        ranges = [
            check_range(queue, begins[queue], ends[queue], known.min_offsets[queue], known.max_offsets[queue], fail) for queue in queues
        ]
        ranges = self._narrow([part for part in ranges if self.pushed.wants(part.queue) and part.size > 0], known)
        parts = split_ranges(ranges, self.options["minPartitions"], self.options["maxRecordsPerPartition"])
        return place(cluster, parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark runs a table without partitions as one task without a partition.
        return read_queue(self.settings, partition) if isinstance(partition, QueuePartition) else iter(())

    def _narrow(self, ranges: list[Range], known: Topics) -> list[Range]:
        """The ranges that are left by filters on offsets and times."""
        low, high = self.pushed.offset_bounds
        bounds = {part.queue: (max(part.begin, low), min(part.end, high)) for part in ranges}
        first_ms, last_ms = self.pushed.stored_ms_bounds
        if first_ms is not None:
            found = known.at_times(dict.fromkeys(bounds, first_ms))
            bounds = {queue: (max(begin, found[queue]), end) for queue, (begin, end) in bounds.items()}
        if last_ms is not None:
            found = known.at_times(dict.fromkeys(bounds, last_ms))
            bounds = {queue: (begin, min(end, found[queue])) for queue, (begin, end) in bounds.items()}
        return [Range(queue, begin, max(begin, end)) for queue, (begin, end) in bounds.items()]


class FilteredTableReader(QueueTableReader):
    """A batch that reads only what the filters of its query leave. Not the default: Spark, 4.3 too, keeps the plan it made with the filters
    of one query and uses it for other queries of the loaded table, and for the other half of a union."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for filter_ in filters:
            if not self.pushed.take(filter_):
                yield filter_
        # A tag filter of the query narrows what the broker sends; Spark looks at the rows again.
        if self.settings.is_sql:  # a pull carries one expression
            return
        rows = self.settings.rows
        tags = tuple(sorted(self.pushed.tags or ()))
        expression = " || ".join(tags)
        if tags and not rows.tags and all(map(is_plain_tag, tags)) and len(expression.encode()) <= EXPRESSION_BYTES_MAX:
            self.settings = replace(self.settings, rows=replace(rows, tags=tags), sub_expression=expression)
