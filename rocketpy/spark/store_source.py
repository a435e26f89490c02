"""format("rocketmq-store"): tables straight from the files of a store directory, ours or RocketMQ's, live or copied. No broker is needed.

commitlog      records, one partition a stretch of a segment; with audit=true also every damage
consumequeue   entries of every queue file
index          entries of every index file
"""

from __future__ import annotations

import difflib
import struct
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, MutableMapping, Sequence
from enum import IntEnum
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from .._core.arrow import RecordBatch, SegmentReader
from .._core.errors import InvalidArgument, NotFound, OffsetOutOfRange, RocketpyError, StoreCorrupt
from ..store.directory import StoreDirectory, file_size, is_numbered, listed
from .columns import CONSUME_QUEUE_SCHEMA, INDEX_SCHEMA, check_columns, record_schema
from .options import AS_VIEW, TIME_MAX_MS, Use, options_of, parse_options
from .plan import share_out
from .rows import row_settings_of, shape_batch
from .worker import buffers, freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa

    from .stream import RefusedStream

WRITTEN_BY_BROKER = "the files of a store are written by its broker; format('rocketmq') sends to one"
CHUNK_ENTRIES = 50_000
QUEUE_ENTRY = struct.Struct(">qiq")
INDEX_HEADER_SIZE = 40
INDEX_SLOTS = 5_000_000
INDEX_ENTRY = struct.Struct(">iqii")
BLANK_SIZE = 2**31 - 1
"""No record's: of the entries that RocketMQ fills the first file of a queue with that begins in its middle, and of those that stand for
records that are missing (csrc/store/dispatcher.c)."""


class Tail(IntEnum):
    """What is known about the end of a stretch (rp_scan_tail)."""

    UNKNOWN = 0
    FOLLOWED = 1
    LIVE = 2


class FilePartition(InputPartition):
    """A stretch of one file."""

    def __init__(self, path: str, begin: int, end: int, topic: str = "", queue_id: int = 0, tail: Tail = Tail.UNKNOWN) -> None:
        super().__init__(f"{path}[{begin},{end})")
        self.path, self.begin, self.end = path, begin, end
        self.topic, self.queue_id, self.tail = topic, queue_id, tail


class LogPartition(InputPartition):
    """Consecutive stretches of the commit log."""

    def __init__(self, pieces: Sequence[FilePartition]) -> None:
        super().__init__(" ".join(piece.value for piece in pieces))
        self.pieces = pieces


class MissingPartition(InputPartition):
    """A stretch of the log that no file has."""

    def __init__(self, directory: str, begin: int, end: int) -> None:
        super().__init__(f"{directory}[{begin},{end})")
        self.directory, self.begin, self.end = directory, begin, end


class RocketMQStoreDataSource(DataSource):
    """The data source for the files of a store directory."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.chosen = parse_options(options_of(options), frozenset({Use.STORE}))
        if self.chosen["storePath"] is None:
            hint = "" if list(options) else f"; a table of CREATE TABLE comes without its options: {AS_VIEW}"
            raise InvalidArgument(f"option 'storePath' is required: the broker's storePathRootDir{hint}")

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        table = self.chosen["table"]
        if table == "consumequeue":
            return CONSUME_QUEUE_SCHEMA
        if table == "index":
            return INDEX_SCHEMA
        return record_schema(properties_as_map=self.chosen["propertiesAsMap"], audit=self.chosen["audit"])

    def reader(self, schema: StructType) -> DataSourceReader:
        readers: dict[str, type[LogTableReader | ConsumeQueueTableReader | IndexTableReader]] = {
            "commitlog": LogTableReader,
            "consumequeue": ConsumeQueueTableReader,
            "index": IndexTableReader,
        }
        return readers[self.chosen["table"]](self.chosen, check_columns(schema, self.schema()))

    def streamReader(self, schema: StructType) -> RefusedStream:
        from .stream import RefusedStream

        return RefusedStream(InvalidArgument("files are read by batch queries; format('rocketmq') streams from a broker"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise InvalidArgument(WRITTEN_BY_BROKER)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        raise InvalidArgument(WRITTEN_BY_BROKER)


def _directory(options: dict[str, Any]) -> StoreDirectory:
    root = Path(options["storePath"])
    if not root.is_dir():
        raise NotFound(f"storePath {root} is not a directory")
    return StoreDirectory(root, options["commitLogPath"])


class StoreTableReader(DataSourceReader):
    """The common part of the three readers."""

    def __init__(self, options: dict[str, Any], columns: tuple[str, ...]) -> None:
        self.options = options
        self.columns = columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark runs a table without partitions as one task without a partition.
        return self.read_kept(partition) if isinstance(partition, FilePartition) else iter(())

    def read_kept(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        """The rows of a stretch; none, with failOnDataLoss=false, if the broker has deleted the file since the read was planned."""
        try:
            yield from self.read_file(partition)
        except (NotFound, FileNotFoundError):  # when it is opened; what is open can be read to its end
            if self.options["failOnDataLoss"]:
                raise OffsetOutOfRange(
                    "the broker has deleted this file since the query was planned, as fileReservedTime and the disk's fill say; run the "
                    "query again, or set failOnDataLoss=false to leave out what is gone",
                    file=partition.path,
                ) from None

    @abstractmethod
    def read_file(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        """The rows of a stretch."""


class LogTableReader(StoreTableReader):
    """Records of the commit log."""

    def partitions(self) -> Sequence[InputPartition]:
        store = _directory(self.options)
        files = [(int(path.name), size, path) for path in store.log_files() if (size := file_size(path)) is not None]
        if not files:
            raise NotFound(f"{store.commit_log_path} has no commit log files; option 'commitLogPath' says where they are")
        _refuse_unknown_topic(store, self.options["topic"])
        while len(files) > 1 and _is_unwritten(files[-1][2]):  # made ahead
            files.pop()
        known_end = end_by_queues(store)
        filled = [(start, start + size) for start, size, _ in files]
        start, end = filled[-1]
        filled[-1] = (start, min(end, known_end) if known_end > start else end)
        last_tail = Tail.LIVE if (store.root / "abort").exists() else Tail.UNKNOWN

        def piece(begin: int, end: int) -> FilePartition:
            """A record starts behind every cut. The last piece goes to the end of the file: behind the known end lies what has no queue
            entry yet, mostly nothing."""
            start, size, path = files[bisect_right(files, begin, key=itemgetter(0)) - 1]
            if end < filled[-1][1]:
                return FilePartition(str(path), begin, end, tail=Tail.FOLLOWED)
            return FilePartition(str(path), begin, start + size, tail=last_tail)

        shares = share_out(filled, self.options["splitBytes"])
        parts: list[InputPartition] = [LogPartition([piece(begin, end) for begin, end in share]) for share in shares]
        for (start, size, _), (following, _, _) in pairwise(files):
            if following > start + size:
                parts.append(MissingPartition(str(store.commit_log_path), start + size, following))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, LogPartition):
            return chain.from_iterable(map(self.read_kept, partition.pieces))
        return self._tell_missing(partition) if isinstance(partition, MissingPartition) else super().read(partition)

    def read_kept(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        """A broker deletes the oldest files first, so a file that is missing while an older one exists is damage."""
        path = Path(partition.path)
        if not path.exists() and any(int(other.name) < int(path.name) for other in _directory(self.options).log_files()):
            return self._tell_missing(MissingPartition(str(path.parent), partition.begin, partition.end))
        return super().read_kept(partition)

    def _tell_missing(self, partition: MissingPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        damage = f"{partition.end - partition.begin} bytes are missing: no file has them"
        if not self.options["audit"]:
            raise StoreCorrupt(
                f"{damage}; read with audit=true to see every damage as a row", file=partition.directory, offset=partition.begin
            )
        settings = row_settings_of(self.options, self.columns)
        with RecordBatch(**settings.batch_options("")) as batch:
            schema = pa.record_batch(batch.export()).schema
        values = {"commitLogOffset": partition.begin, "valid": False, "damage": damage}
        row = pa.record_batch([pa.array([values.get(field.name)], field.type) for field in schema], schema=schema)
        yield row.select(list(self.columns))

    def read_file(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        options = self.options
        settings = row_settings_of(options, self.columns)
        with SegmentReader(
            settings.batch_options(options["brokerName"]),
            buffers(),
            path=partition.path,
            topic=options["topic"],
            begin_offset=partition.begin,
            end_offset=partition.end,
            check_crc=1,
            audit=int(options["audit"]),
            tail=partition.tail,
        ) as reader:
            while (batch := reader.next_batch()) is not None:
                yield from shape_batch(settings, batch)


def _is_unwritten(path: Path) -> bool:
    """Whether nothing was written to the file, or it has gone since it was listed."""
    try:
        with path.open("rb") as file:
            return not any(file.read(8))
    except FileNotFoundError:
        return True


def _refuse_unknown_topic(store: StoreDirectory, topic: str | None) -> None:
    """Raises NotFound for a topic without any queue if other topics have some: an empty table would hide a misspelt name."""
    known = [path.name for path in listed(store.root / "consumequeue")]
    if topic is not None and known and topic not in known:
        near = difflib.get_close_matches(topic, known, 1)
        raise NotFound(f"no queue of topic {topic!r} is in {store.root}{f'; did you mean {near[0]!r}?' if near else ''}")


def end_by_queues(store: StoreDirectory) -> int:
    """One byte behind the beginning of the last record that a queue entry points at; 0 without queues. The log of a running broker is
    allocated far beyond what is written."""
    end = 0
    for queue in store.queues():
        last = (queue.max_offset - 1) * QUEUE_ENTRY.size
        for path in reversed(store.queue_files(queue.topic, queue.queue_id)):
            if int(path.name) <= last:
                data = _entry_at(path, last - int(path.name))
                if len(data) == QUEUE_ENTRY.size:
                    end = max(end, QUEUE_ENTRY.unpack(data)[0] + 1)
                break
    return end


def _entry_at(path: Path, place: int) -> bytes:
    """Nothing of a file that has gone with its topic since it was listed."""
    try:
        with path.open("rb") as file:
            file.seek(place)
            return file.read(QUEUE_ENTRY.size)
    except FileNotFoundError:
        return b""


class ConsumeQueueTableReader(StoreTableReader):
    """The entries of the consume queues, 20 bytes each: place and size of a record, and the hash code of its tag."""

    def partitions(self) -> Sequence[InputPartition]:
        store = _directory(self.options)
        wanted = self.options["topic"]
        _refuse_unknown_topic(store, wanted)
        return [
            FilePartition(str(path), 0, size, queue.topic, queue.queue_id)
            for queue in store.queues()
            if wanted is None or queue.topic == wanted
            for path in store.queue_files(queue.topic, queue.queue_id)
            if (size := file_size(path)) is not None
        ]

    def read_file(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        first = int(Path(partition.path).name) // QUEUE_ENTRY.size
        with Path(partition.path).open("rb") as file:
            while data := file.read(CHUNK_ENTRIES * QUEUE_ENTRY.size):
                entries = list(QUEUE_ENTRY.iter_unpack(data[: len(data) // QUEUE_ENTRY.size * QUEUE_ENTRY.size]))
                rows = [(first + row, *entry) for row, entry in enumerate(entries) if 0 < entry[1] < BLANK_SIZE]
                first += len(entries)
                if not rows:
                    continue
                offsets, places, sizes, codes = zip(*rows, strict=True)
                arrays = {
                    "topic": pa.array([partition.topic] * len(rows)),
                    "queueId": pa.array([partition.queue_id] * len(rows), pa.int32()),
                    "queueOffset": pa.array(offsets, pa.int64()),
                    "commitLogOffset": pa.array(places, pa.int64()),
                    "size": pa.array(sizes, pa.int32()),
                    "tagsCode": pa.array(codes, pa.int64()),
                }
                yield pa.record_batch({name: arrays[name] for name in self.columns})


class IndexTableReader(StoreTableReader):
    """The entries of the index files: the hash code of topic#key, the place of the record, and seconds since the file's first record."""

    def partitions(self) -> Sequence[InputPartition]:
        if self.options["topic"] is not None:
            raise InvalidArgument("an index has no topics: leave option 'topic' out of table=index")
        root = _directory(self.options).root / "index"
        files = sorted(path for path in listed(root) if is_numbered(path))
        return [FilePartition(str(path), 0, size) for path in files if (size := file_size(path)) is not None]

    def read_file(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        path = Path(partition.path)
        with path.open("rb") as file:
            header = file.read(INDEX_HEADER_SIZE)
            if len(header) < INDEX_HEADER_SIZE:
                raise RocketpyError(f"{path} is shorter than an index file's header")
            first_ms, _, _, _, _, count = struct.unpack(">qqqqii", header)
            slots = index_slots(partition.end, count)
            file.seek(INDEX_HEADER_SIZE + 4 * slots)
            number = 0
            while number < count and (data := file.read(min(CHUNK_ENTRIES, count - number) * INDEX_ENTRY.size)):
                entries = list(INDEX_ENTRY.iter_unpack(data[: len(data) // INDEX_ENTRY.size * INDEX_ENTRY.size]))
                rows = [(number + row, *entry) for row, entry in enumerate(entries) if number + row > 0]
                number += len(entries)
                if not rows:
                    continue
                numbers, hashes, places, seconds, previous = zip(*rows, strict=True)
                arrays = {
                    "file": pa.array([path.name] * len(rows)),
                    "entry": pa.array(numbers, pa.int32()),
                    "keyHash": pa.array(hashes, pa.int32()),
                    "commitLogOffset": pa.array(places, pa.int64()),
                    "storeTimestamp": pa.array([stored_us(first_ms + 1000 * late) for late in seconds], pa.timestamp("us", "UTC")),
                    "previousEntry": pa.array(previous, pa.int32()),
                }
                yield pa.record_batch({name: arrays[name] for name in self.columns})


def stored_us(ms: int) -> int | None:
    """Milliseconds of a queue entry as microseconds; None for what no store wrote: before 1970, or beyond any calendar."""
    return ms * 1000 if 0 <= ms <= TIME_MAX_MS else None


def index_slots(size: int, count: int) -> int:
    """How many slots a file has: the standard number, or what fits a file of another size (with four entries per slot, as in the
    standard)."""
    if size >= INDEX_HEADER_SIZE + 4 * INDEX_SLOTS + INDEX_ENTRY.size * count and size > 4 * INDEX_SLOTS:
        return INDEX_SLOTS
    return (size - INDEX_HEADER_SIZE) // (4 + 4 * INDEX_ENTRY.size)
