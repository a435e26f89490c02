"""format("rocketmq"): the data source. Spark asks it for a reader or writer of a batch or of a stream.

options ──► RocketMQDataSource ─┬─► table.py, stream.py   read, by batches and by streams
                                └─► writer.py             written, by both
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from .._core.errors import InvalidArgument, RocketpyError
from .columns import check_columns, record_schema
from .options import READS, Use, options_of, parse_options, refuse_contradictions, refuse_unused
from .table import FilteredTableReader, QueueTableReader

if TYPE_CHECKING:
    from .stream import QueueStreamReader, RefusedStream
    from .writer import BatchTopicWriter, StreamTopicWriter


class RocketMQDataSource(DataSource):
    """The data source for topics of a RocketMQ cluster."""

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
