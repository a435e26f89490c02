"""The rows of the record tables, whether a broker or a store directory gives them: which columns, and the work on whole ones."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._core.arrow import ArrowBatch, column_mask
from .._core.errors import InvalidArgument
from .._core.options import RecordBatchOptions

if TYPE_CHECKING:
    import pyarrow as pa

COMPRESSED = 0x1
BODY_BYTES_MAX = 1 << 30  # a column of a batch has less than 2 GB
READ_BYTES = 1 << 18  # pyarrow takes memory for all that a read may give
# The type of a compressed body in bits 8 to 10 of sysFlag. RocketMQ: CompressionType; 0 is a client from before there were others.
COMPRESSION_NAMES = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


@dataclass(frozen=True, slots=True)
class RowSettings:
    """What rows look like, and how many make a batch. Picklable."""

    columns: tuple[str, ...]
    tags: tuple[str, ...] = ()
    properties_as_map: bool = False
    decompress: bool = True
    batch_rows: int = 10_000
    batch_bytes: int = 16 << 20

    def needed_columns(self) -> tuple[str, ...]:
        """The columns that were asked for, and those that filtering and decompressing need."""
        needed = list(self.columns)
        if self.tags:
            needed.append("tags")
        if self.decompress and "body" in needed:
            needed += ["sysFlag", "queueOffset"]  # which one cannot be decompressed
        return tuple(dict.fromkeys(needed)) or ("queueOffset",)

    def batch_options(self, broker_name: str) -> RecordBatchOptions:
        """The options of the native batch that is filled."""
        return {
            "column_mask": column_mask(self.needed_columns()),
            "broker_name": broker_name,
            "properties_as_map": int(self.properties_as_map),
            "rows_max": self.batch_rows,
            "bytes_max": self.batch_bytes,
        }


def row_settings_of(options: Mapping[str, Any], columns: tuple[str, ...], tags: tuple[str, ...] = ()) -> RowSettings:
    return RowSettings(columns, tags, options["propertiesAsMap"], options["decompress"], options["batchRows"], options["batchBytes"])


def shape_batch(settings: RowSettings, batch: ArrowBatch) -> Iterator[pa.RecordBatch]:
    """The wanted rows, with bodies as they were sent and columns in the order asked for; no batch if there are no rows."""
    import pyarrow as pa

    table = pa.record_batch(batch)
    if settings.tags:  # the broker compares hash codes only
        import pyarrow.compute as pc

        table = table.filter(pc.is_in(table.column("tags"), pa.array(settings.tags)))
    columns = list(settings.columns)
    is_packed = settings.decompress and batch.sys_flags & COMPRESSED and "body" in table.schema.names
    for part in decompress_bodies(table, settings.batch_bytes) if is_packed else (table,):
        if part.num_rows > 0:
            yield part if part.schema.names == columns else part.select(columns)


def decompress_bodies(table: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """The same rows with plain bodies, in batches that end when their bodies reach bytes_max: what is compressed may become a thousand
    times as large. Rows that stand for damage have neither flags nor a body."""
    import pyarrow as pa

    index = table.schema.names.index("body")
    field, packed, flags = table.schema.field(index), table.column("body"), table.column("sysFlag").to_pylist()
    begin, size = 0, 0
    bodies: list[bytes | None] = []
    for row, flag in enumerate(flags):
        body = packed[row].as_py()
        if flag is not None and flag & COMPRESSED:
            try:
                body = decompress_body(body, flag)
            except InvalidArgument as error:
                raise InvalidArgument(f"offset {table.column('queueOffset')[row]}: {error}; read with decompress=false") from None
        bodies.append(body)
        size += len(bodies[-1] or b"")
        if size >= bytes_max or row + 1 == table.num_rows:
            yield table.slice(begin, row + 1 - begin).set_column(index, field, pa.array(bodies, pa.binary()))
            begin, size, bodies = row + 1, 0, []


def decompress_body(body: bytes, sys_flag: int, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Raises InvalidArgument if the body is not what its flag says, or becomes larger than a column can be: 4 MB may inflate to 4 GB."""
    import pyarrow as pa

    kind = COMPRESSION_NAMES.get(sys_flag >> 8 & 7)
    try:
        if kind == "zlib":
            stream = zlib.decompressobj()
            plain, is_whole = stream.decompress(body, bytes_max), stream.eof
            if not is_whole and not stream.unconsumed_tail and len(plain) < bytes_max:
                raise InvalidArgument(f"a body marked as {kind} cannot be decompressed: it ends too early")
        elif kind in ("lz4", "zstd"):
            with pa.CompressedInputStream(pa.BufferReader(body), kind) as packed:
                plain = _read_up_to(packed, bytes_max + 1)
            is_whole = len(plain) <= bytes_max
        else:
            raise InvalidArgument(f"a body has the unknown compression type {sys_flag >> 8 & 7}")
    except (zlib.error, OSError, pa.ArrowInvalid) as error:
        raise InvalidArgument(f"a body marked as {kind} cannot be decompressed: {error}") from None
    if not is_whole:
        raise InvalidArgument(f"a body marked as {kind} has more than {bytes_max:,} bytes when it is decompressed")
    return plain


def _read_up_to(packed: pa.CompressedInputStream, bytes_max: int) -> bytes:
    pieces, left = [], bytes_max
    while left > 0 and (piece := packed.read(min(left, READ_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
