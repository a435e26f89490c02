"""format("rocketmq"): the data source and its batch reader.

options ──► RocketMQDataSource ──► QueueTableReader.partitions (driver: routes, offsets) ──► read (executor: queue_read)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
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
from pyspark.sql.types import StructType

from .._core.errors import InvalidArgument, NotFound, RocketpyError
from .cluster import Cluster, Endpoint, Queue, flatten
from .columns import check_columns, record_schema
from .options import AS_VIEW, READS, Use, options_of, parse_options, refuse_contradictions, refuse_unused, whole_ms
from .plan import QueuePartition, Range, check_range, split_ranges
from .positions import Topics
from .queue_read import EXPRESSION_BYTES_MAX, READER_GROUP, ReadSettings, is_plain_tag, parse_tags, read_queue
from .rows import row_settings_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .stream import QueueStreamReader, RefusedStream
    from .writer import BatchTopicWriter, StreamTopicWriter


def endpoint_of(options: dict[str, Any]) -> Endpoint:
    if options["nameServer"] is None:
        raise InvalidArgument("option 'nameServer' is required: HOST:PORT of a name server")
    return Endpoint(
        options["nameServer"], options["timeoutMs"] / 1000, options["retryTimeoutMs"] / 1000, options.get("readFrom") == "slave"
    )


def settings_of(options: dict[str, Any], columns: tuple[str, ...]) -> ReadSettings:
    return ReadSettings(
        endpoint=endpoint_of(options),
        rows=row_settings_of(options, columns, parse_tags(options["subExpression"])),
        group=options["consumerGroup"] or READER_GROUP,
        sub_expression=options["subExpression"].strip() or "*",
        fail_on_data_loss=options["failOnDataLoss"],
        pull_batch=options["pullBatchSize"],
        pull_timeout_s=options["pullTimeoutMs"] / 1000,
        check_crc=options["checkCrc"],
    )


def place(cluster: Cluster, parts: list[Range]) -> list[QueuePartition]:
    """The tasks that read these ranges, each with where its broker is now."""
    addresses = cluster.addresses_of(part.queue for part in parts)
    return [QueuePartition(part, addresses[part.queue]) for part in parts]


class TopicSelection:
    """Which topics: topic, topics or topicPattern."""

    def __init__(self, options: dict[str, Any]) -> None:
        given = [name for name in ("topic", "topics", "topicPattern") if options[name] is not None]
        if len(given) != 1:
            hint = "" if given or options["nameServer"] else f"; a table of CREATE TABLE comes without its options: {AS_VIEW}"
            raise InvalidArgument(f"give one of the options topic, topics, topicPattern{f', not {given}' if given else hint}")
        self.names: tuple[str, ...] = (options["topic"],) if options["topic"] else options["topics"] or ()
        self.pattern: str | None = options["topicPattern"]

    def queues(self, cluster: Cluster) -> list[Queue]:
        """What is read. Of a pattern the topics that may be read; there is one at least, unless cluster.topics_exist."""
        if self.pattern is None:
            return cluster.queues(self.names)
        found = cluster.queues(cluster.matching_topics(self.pattern), readable_only=True)
        if not found and not cluster.topics_exist:
            raise NotFound(f"no topic matches topicPattern {self.pattern!r}")
        return found

    def names_topic(self, topic: str) -> bool:
        return topic in self.names if self.pattern is None else re.fullmatch(self.pattern, topic) is not None


class RocketMQDataSource(DataSource):
    """Topics of a RocketMQ cluster as tables."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.given = options_of(options)

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        options = parse_options(self.given, READS | {Use.WRITE})
        return record_schema(properties_as_map=options["propertiesAsMap"])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_options(Use.BATCH)
        kind = FilteredTableReader if options["filterPushdown"] else QueueTableReader
        return kind(options, self._columns(schema))

    def streamReader(self, schema: StructType) -> QueueStreamReader | RefusedStream:
        from .stream import QueueStreamReader, RefusedStream

        try:
            return QueueStreamReader(self._read_options(Use.STREAM), self._columns(schema))
        except RocketpyError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchTopicWriter:
        from .writer import BatchTopicWriter

        if overwrite:
            raise InvalidArgument("a topic cannot be overwritten: use mode('append')")
        return BatchTopicWriter(parse_options(self.given, frozenset({Use.WRITE})), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamTopicWriter:
        from .writer import StreamTopicWriter

        return StreamTopicWriter(parse_options(self.given, frozenset({Use.WRITE})), schema)

    def _read_options(self, use: Use) -> dict[str, Any]:
        parse_options(self.given, READS)
        refuse_unused(self.given, use)
        options = parse_options(self.given, frozenset({use}))
        refuse_contradictions(options, use)
        return options

    def _columns(self, schema: StructType) -> tuple[str, ...]:
        return check_columns(schema, self.schema())


def refuse_backwards(options: dict[str, Any], ends: dict[Queue, int]) -> None:
    """Raises InvalidArgument where the JSON of startingOffsets lies behind that of endingOffsets."""
    starts, stops = options["startingOffsets"], options["endingOffsets"]
    if isinstance(starts, dict) and isinstance(stops, dict):
        named = flatten(stops)
        for queue, begin in flatten(starts).items():
            if queue in named and begin > ends[queue] and options["startingTimestamp"] is options["endingTimestamp"] is None:
                raise InvalidArgument(f"startingOffsets {begin} of {queue} lies behind endingOffsets {ends[queue]}")


class Pushed:
    """What filters that Spark handed over say about queues and offsets."""

    def __init__(self) -> None:
        self.topics: set[str] | None = None
        self.queue_ids: set[int] | None = None
        self.queue_id_bounds = (0, 2**31)
        self.offset_bounds = (0, 2**63 - 1)
        self.stored_ms_bounds: tuple[int | None, int | None] = (None, None)
        self.tags: set[str] | None = None

    def take(self, filter_: Filter) -> bool:
        """True when rows that do not match cannot come any more, so that Spark need not look again."""
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
            ms = whole_ms(filter_.value)
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
    """A batch: every queue from its start to where it ended when the batch was planned."""

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
        """What filters on offsets and times leave."""
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
    """A batch of what the filters of its query leave. Spark (4.3 as well) keeps what it planned with them for the loaded table and takes it
    for the table's later queries without a filter, and for the other half of a union: so this is for who asks for it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for filter_ in filters:
            if not self.pushed.take(filter_):
                yield filter_
        # A tag filter of the query narrows what the broker sends; Spark looks at the rows again.
        rows = self.settings.rows
        tags = tuple(sorted(self.pushed.tags or ()))
        expression = " || ".join(tags)
        if tags and not rows.tags and all(map(is_plain_tag, tags)) and len(expression.encode()) <= EXPRESSION_BYTES_MAX:
            self.settings = replace(self.settings, rows=replace(rows, tags=tags), sub_expression=expression)
