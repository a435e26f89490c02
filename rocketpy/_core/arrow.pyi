"""Stub of rocketpy._core.arrow: commit log records as Arrow batches, and Arrow batches as messages (csrc/arrow).

pyarrow takes a finished batch by `pyarrow.record_batch(batch)`.
"""

from collections.abc import Iterable
from typing import Any, Final, Unpack

from typing_extensions import disjoint_base

from .base import NativeObject
from .options import MessagePackerOptions as MessagePackerOptions
from .options import QueueReaderOptions as QueueReaderOptions
from .options import RecordBatchOptions as RecordBatchOptions
from .options import SegmentReaderOptions as SegmentReaderOptions

COLUMN_NAMES: Final[tuple[str, ...]]
"""In the order of rp_record_column; bit i of a column_mask is column i."""

def column_mask(names: Iterable[str]) -> int:
    """Returns the mask of these columns. Raises InvalidArgument for a name that is not a column."""

@disjoint_base
class ArrowBatch:
    """A finished batch, which can be taken once."""

    @property
    def rows(self) -> int: ...
    @property
    def sys_flags(self) -> int:
        """The sysFlags of all rows, ORed."""
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Returns (arrow_schema, arrow_array) capsules. Raises Closed the second time."""

@disjoint_base
class BufferPool:
    """Keeps the buffers of released batches for the next ones. Readers on any thread may share a pool; it keeps at most 64 MiB."""

@disjoint_base
class RecordBatch(NativeObject):
    """A batch that is being filled. Keyword names are the fields of rp_record_batch_options."""

    def __init__(self, **options: Unpack[RecordBatchOptions]) -> None: ...
    def put_records(
        self, data: bytes | bytearray | memoryview, check_crc: int = 1, first_queue_offset: int = ..., last_queue_offset: int = ...
    ) -> int:
        """Appends records and returns the bytes consumed: fewer than given if the batch is full or the rest is not a whole record.
        Raises StoreCorrupt."""
    @property
    def rows(self) -> int: ...
    def export(self) -> ArrowBatch:
        """Returns what is in the batch, which is empty afterwards."""
    def close(self) -> None: ...

@disjoint_base
class QueueReader(NativeObject):
    """Reads a range of one queue from a broker. fd is a connected socket, which belongs to the reader from the call on, even if that
    fails."""

    def __init__(
        self, fd: int, batch: RecordBatchOptions | None = None, pool: BufferPool | None = None, **options: Unpack[QueueReaderOptions]
    ) -> None: ...
    def next_batch(self, timeout_s: float) -> ArrowBatch | None:
        """Returns None at the end of the range. Raises TimedOut if nothing arrives for timeout_s, OffsetOutOfRange, NetworkError,
        ProtocolError, StoreCorrupt, NotFound, Busy. Checks for signals every 100 ms."""
    def take_partial(self) -> ArrowBatch:
        """Returns the rows before an error."""
    def progress(self) -> dict[str, int]:
        """The fields of rp_queue_reader_progress."""
    def close(self) -> None: ...

@disjoint_base
class SegmentReader(NativeObject):
    """Reads the records of one commit log file. Keyword names are the fields of rp_segment_reader_options."""

    def __init__(
        self, batch: RecordBatchOptions | None = None, pool: BufferPool | None = None, **options: Unpack[SegmentReaderOptions]
    ) -> None: ...
    def next_batch(self) -> ArrowBatch | None:
        """Returns None at the end of the range. Raises StoreCorrupt at damage, unless audit is set."""
    @property
    def offset(self) -> int: ...
    def close(self) -> None: ...

@disjoint_base
class Parcel:
    """The content of one send request (rp_message_parcel). Made only by a MessagePacker."""

    @property
    def topic(self) -> int:
        """The number that put_topic returned."""
    @property
    def queue(self) -> int | None:
        """The index of the topic's queue; None: any."""
    @property
    def rows(self) -> int: ...
    @property
    def flag(self) -> int: ...
    @property
    def is_ordered(self) -> bool: ...
    @property
    def is_delayed(self) -> bool: ...
    @property
    def first_row(self) -> int: ...
    @property
    def last_row(self) -> int: ...
    @property
    def body(self) -> memoryview:
        """A view of this object's bytes, which keeps it alive."""

@disjoint_base
class MessagePacker(NativeObject):
    """Packs rows into parcels. Keyword names are the fields of rp_message_packer_options."""

    def __init__(self, **options: Unpack[MessagePackerOptions]) -> None: ...
    def put_topic(self, topic: str, queue_ids: Iterable[int]) -> int:
        """Returns the topic's number. Raises InvalidArgument if there are no queues, Busy after 1,024 topics."""
    def begin(self, batch: Any) -> None:
        """Takes the next batch: any object with __arrow_c_array__. Raises InvalidArgument if a column has the wrong type."""
    def next(self) -> Parcel | None:
        """Returns a full parcel; None if the batch is used up, or wanted_topic must be put first. Raises InvalidArgument, NotFound or
        TooLarge, which name the row."""
    @property
    def wanted_topic(self) -> str | None: ...
    def flush(self) -> Parcel | None:
        """Returns one of the open parcels; None if none is left."""
    def close(self) -> None: ...
