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
# The type of a compressed body in bits 8 to 10 of sysFlag. RocketMQ: CompressionType; 0 is a client from before there were others.
COMPRESSION_NAMES = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


@dataclass(frozen=True, slots=True)
class RowSettings:
    """What a row is to be, and how many make a batch. Picklable."""

    columns: tuple[str, ...]
    tags: tuple[str, ...] = ()
    properties_as_map: bool = False
    decompress: bool = True
    batch_rows: int = 10_000
    batch_bytes: int = 16 << 20

    def needed_columns(self) -> tuple[str, ...]:
        """The columns asked for and those the work on them looks at."""
        needed = list(self.columns)
        if self.tags:
            needed.append("tags")
        if self.decompress and "body" in needed:
            needed.append("sysFlag")
        return tuple(dict.fromkeys(needed)) or ("queueOffset",)

    def batch_options(self, broker_name: str) -> RecordBatchOptions:
        """For the native batch that is filled."""
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
    """Rows that are wanted, bodies as they were sent, columns in the order asked for; no batch without rows."""
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
    """The same rows with plain bodies, in batches that end when their bodies reach bytes_max: what is packed may be a thousand times as
    much. Rows that stand for damage have neither flags nor a body."""
    import pyarrow as pa

    index = table.schema.names.index("body")
    field, packed, flags = table.schema.field(index), table.column("body"), table.column("sysFlag").to_pylist()
    begin, size = 0, 0
    bodies: list[bytes | None] = []
    for row, flag in enumerate(flags):
        body = packed[row].as_py()
        bodies.append(decompress_body(body, flag) if flag is not None and flag & COMPRESSED else body)
        size += len(bodies[-1] or b"")
        if size >= bytes_max or row + 1 == table.num_rows:
            yield table.slice(begin, row + 1 - begin).set_column(index, field, pa.array(bodies, pa.binary()))
            begin, size, bodies = row + 1, 0, []


def decompress_body(body: bytes, sys_flag: int) -> bytes:
    import pyarrow as pa

    kind = COMPRESSION_NAMES.get(sys_flag >> 8 & 7)
    try:
        if kind == "zlib":
            return zlib.decompress(body)
        if kind in ("lz4", "zstd"):
            with pa.CompressedInputStream(pa.BufferReader(body), kind) as stream:
                return bytes(stream.read())
    except (zlib.error, OSError, pa.ArrowInvalid) as error:
        raise InvalidArgument(f"a body marked as {kind} cannot be decompressed: {error}; read with decompress=false") from None
    raise InvalidArgument(f"a body has the unknown compression type {sys_flag >> 8 & 7}; read with decompress=false")
