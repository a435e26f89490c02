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
"""By rp_record_column; bit i of a column_mask is column i."""

def column_mask(names: Iterable[str]) -> int:
    """Raises InvalidArgument for a name that is not a column."""

@disjoint_base
class ArrowBatch:
    """A finished batch, to be taken once."""

    @property
    def rows(self) -> int: ...
    @property
    def sys_flags(self) -> int:
        """The flags of all rows, or-ed."""
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """(arrow_schema, arrow_array) capsules. Raises Closed the second time."""

@disjoint_base
class BufferPool:
    """Buffers of batches, used again once a batch was released. Readers in any thread may share one; at most 64 MiB wait in it."""

@disjoint_base
class RecordBatch(NativeObject):
    """A batch being filled. Keyword names are the fields of rp_record_batch_options."""

    def __init__(self, **options: Unpack[RecordBatchOptions]) -> None: ...
    def put_records(
        self, data: bytes | bytearray | memoryview, check_crc: int = 1, first_queue_offset: int = ..., last_queue_offset: int = ...
    ) -> int:
        """Bytes consumed: fewer than given when the batch is full or the rest is not a whole record. Raises StoreCorrupt."""
    @property
    def rows(self) -> int: ...
    def export(self) -> ArrowBatch:
        """What is in it; it is empty afterwards."""
    def close(self) -> None: ...

@disjoint_base
class QueueReader(NativeObject):
    """Reads a range of one queue from a broker. fd is a connected socket; it belongs to the reader from the call on, also if that fails."""

    def __init__(
        self, fd: int, batch: RecordBatchOptions | None = None, pool: BufferPool | None = None, **options: Unpack[QueueReaderOptions]
    ) -> None: ...
    def next_batch(self, timeout_s: float) -> ArrowBatch | None:
        """None at the end of the range. Raises TimedOut when the broker says nothing for timeout_s, OutOfRange, NetworkError,
        ProtocolError, StoreCorrupt, NotFound, Busy; looks at signals every 100 ms."""
    def take_partial(self) -> ArrowBatch:
        """After an error: the rows before it."""
    def progress(self) -> dict[str, int]:
        """The fields of rp_queue_reader_progress."""
    def close(self) -> None: ...

@disjoint_base
class SegmentReader(NativeObject):
    """Reads records of one commit log file. Keyword names are the fields of rp_segment_reader_options."""

    def __init__(
        self, batch: RecordBatchOptions | None = None, pool: BufferPool | None = None, **options: Unpack[SegmentReaderOptions]
    ) -> None: ...
    def next_batch(self) -> ArrowBatch | None:
        """None at the end of the range. Raises StoreCorrupt at damage, unless audit is set."""
    @property
    def offset(self) -> int: ...
    def close(self) -> None: ...

@disjoint_base
class Parcel:
    """The content of one send request (rp_message_parcel). Made by a MessagePacker only."""

    @property
    def topic(self) -> int:
        """As put_topic returned."""
    @property
    def queue(self) -> int | None:
        """Which of the topic's queues; None: any."""
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
        """Bytes of this object, which a view keeps alive."""

@disjoint_base
class MessagePacker(NativeObject):
    """Packs rows into parcels. Keyword names are the fields of rp_message_packer_options."""

    def __init__(self, **options: Unpack[MessagePackerOptions]) -> None: ...
    def put_topic(self, topic: str, queue_ids: Iterable[int]) -> int:
        """The topic's number. Raises InvalidArgument without queues, Busy past 1,024 topics."""
    def begin(self, batch: Any) -> None:
        """The next batch: what has __arrow_c_array__. Raises InvalidArgument when a column is of the wrong type."""
    def next(self) -> Parcel | None:
        """A full parcel; None when the batch is used up, or wanted_topic has to be put first. Raises InvalidArgument, NotFound or
        TooLarge that names the row."""
    @property
    def wanted_topic(self) -> str | None: ...
    def flush(self) -> Parcel | None:
        """One of the parcels that are open; None when none is left."""
    def close(self) -> None: ...
