"""The sinks: rows of a batch or a streaming query become messages, sent in batches by the tasks.

A streaming sink gives each row the message id of (query, epoch, partition, row). A task that runs an epoch again finds by these ids
what is stored already with the same content and skips it: all of it when the partition has the same rows in the same order, as it has from
a checkpointed source without a shuffle in between. A batch query, in foreachBatch too, is at least once.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from .columns import check_sink_schema
from .selection import endpoint_of
from .sender import RowIds, Sender, SendSettings
from .worker import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
QUERY_ID = "sql.streaming.queryId"
EPOCH = "streaming.sql.batchId"
PARTITION_MAX = 0xFFFF  # what an id has room for


@dataclass
class TaskReport(WriterCommitMessage):
    """What a task has written."""

    partition: int
    sent: dict[str, Any]


def send_settings_of(options: dict[str, Any]) -> SendSettings:
    return SendSettings(
        endpoint_of(options),
        options["topic"],
        options["producerGroup"],
        options["batchSize"],
        options["maxInFlight"],
        options["idempotent"],
    )


def row_ids(partition: int, query_id: str | None, epoch: str | None, idempotent: bool) -> RowIds:
    """The ids of a task's rows. With an epoch a second attempt makes the same ones; otherwise they are unique."""
    can_repeat = idempotent and query_id is not None and epoch is not None and partition <= PARTITION_MAX
    if can_repeat:
        query = hashlib.sha1(str(query_id).encode(), usedforsecurity=False).hexdigest()[:12].upper()
        return RowIds(f"{query}{int(str(epoch)) & 0xFFFFFFFF:08X}{partition:04X}", True)
    return RowIds(uuid.uuid4().hex[:24].upper(), False)


def write_rows(settings: SendSettings, batches: Iterator[pa.RecordBatch]) -> TaskReport:
    """Writes the rows of one task."""
    freeze_imports()
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    query_id = context.getLocalProperty(QUERY_ID) if context is not None else None
    epoch = context.getLocalProperty(EPOCH) if context is not None else None
    sender = Sender(settings, partition, row_ids(partition, query_id, epoch, settings.idempotent))
    try:
        for batch in batches:
            sender.add(batch)
        sender.flush()
    finally:
        sender.close()
    return TaskReport(partition, asdict(sender.sent))


def _rows(messages: list[WriterCommitMessage | None]) -> int:
    return sum(message.sent["rows"] for message in messages if isinstance(message, TaskReport))


class BatchTopicWriter(DataSourceArrowWriter):
    """df.write.format("rocketmq")."""

    def __init__(self, options: dict[str, Any], schema: StructType) -> None:
        check_sink_schema(schema, options["topic"])
        # In foreachBatch there is an epoch, but several writes may have it.
        self.settings = replace(send_settings_of(options), idempotent=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskReport:
        return write_rows(self.settings, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log.info("%d rows written", _rows(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.warning("the write failed; %d rows of the tasks that ended are in the topic", _rows(messages))


class StreamTopicWriter(DataSourceStreamArrowWriter):
    """df.writeStream.format("rocketmq")."""

    def __init__(self, options: dict[str, Any], schema: StructType) -> None:
        check_sink_schema(schema, options["topic"])
        self.settings = send_settings_of(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskReport:
        return write_rows(self.settings, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.info("epoch %d: %d rows written", batchId, _rows(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.warning("epoch %d failed; %d rows are in the topic and will be recognised", batchId, _rows(messages))
