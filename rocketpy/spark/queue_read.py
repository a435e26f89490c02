"""What an executor does: one range of one queue from a broker, as Arrow batches; goes on at another address when a broker is lost.

The native reader (csrc/arrow/queue_reader.h) pulls and decodes without the GIL; here are connections, retries and whole-column work.
"""

from __future__ import annotations

import gc
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._core.arrow import ArrowBatch, QueueReader, column_mask
from .._core.errors import InvalidArgument, NetworkError, RocketpyError
from ..remoting.client import split_address
from .cluster import RETRY_PAUSE_S, TRANSIENT, Cluster, Endpoint
from .plan import QueuePartition

if TYPE_CHECKING:
    import pyarrow as pa

COMPRESSED = 0x1
# The type of a compressed body in bits 8 to 10 of sysFlag. RocketMQ: CompressionType; 0 is a client from before there were others.
COMPRESSION_NAMES = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Everything a task needs besides its partition. Picklable."""

    endpoint: Endpoint
    columns: tuple[str, ...]
    group: str
    sub_expression: str = "*"
    tags: tuple[str, ...] = ()
    fail_on_data_loss: bool = True
    pull_batch: int = 1024
    pull_timeout_s: float = 30.0
    batch_rows: int = 10_000
    batch_bytes: int = 16 << 20
    properties_as_map: bool = False
    decompress: bool = True
    check_crc: bool = False


def parse_tags(expression: str) -> tuple[str, ...]:
    """The tags of `red || blue`; nothing for `*`."""
    if expression.strip() in ("", "*"):
        return ()
    tags = tuple(part.strip() for part in expression.split("||"))
    if any(not tag for tag in tags):
        raise InvalidArgument(f"subExpression {expression!r}: an empty tag between ||")
    return tags


def connect(address: str, timeout_s: float) -> int:
    """A connected socket's descriptor, which the caller owns."""
    host, port = split_address(address)
    try:
        connection = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise NetworkError(f"connect to {address} failed: {error.strerror or error}", os_errno=error.errno or 0) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(None)
    return connection.detach()


def needed_columns(settings: ReadSettings) -> tuple[str, ...]:
    """The columns asked for and those the work on them looks at."""
    needed = list(settings.columns)
    if settings.tags:
        needed.append("tags")
    if settings.decompress and "body" in needed:
        needed.append("sysFlag")
    return tuple(dict.fromkeys(needed)) or ("queueOffset",)


def freeze_imports() -> None:
    """A worker's first task takes what is imported by now out of garbage collection: PySpark collects after every task, and
    would look at each object of PySpark, pyarrow and their kin each time."""
    if gc.get_freeze_count() == 0:
        gc.freeze()


def read_queue(settings: ReadSettings, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition. Raises one RocketpyError that names the queue."""
    freeze_imports()
    try:
        for batch in _read_range(settings, partition):
            shaped = shape_batch(settings, batch)
            if shaped.num_rows > 0:
                yield shaped
    except RocketpyError as error:
        raise type(error)(f"reading {partition.part.queue}: {error}") from None


def _read_range(settings: ReadSettings, partition: QueuePartition) -> Iterator[ArrowBatch]:
    part = partition.part
    begin = part.begin
    addresses = partition.addresses
    give_up: float | None = None
    pause = threading.Event()
    turn = 0
    while True:
        try:
            address = addresses[turn % len(addresses)] if addresses else ""
            if not address:
                raise NetworkError(f"broker {part.queue.broker_name!r} is not registered")
            reader = _open(settings, partition, address, begin)
            with reader:
                try:
                    while (batch := reader.next_batch(settings.pull_timeout_s)) is not None:
                        give_up = None
                        yield batch
                    return
                except TRANSIENT:
                    begin = reader.progress()["next_offset"]
                    partial = reader.take_partial()
                    if partial.rows > 0:
                        give_up = None
                        yield partial
                    raise
        except TRANSIENT as error:
            now = time.monotonic()
            give_up = give_up or now + settings.endpoint.retry_timeout_s
            if now >= give_up:
                limit = settings.endpoint.retry_timeout_s
                raise NetworkError(
                    f"offset {begin}: {error} [no broker answered for {limit:g} s; read offsets {part.begin}..{begin - 1}]"
                ) from None
            pause.wait(RETRY_PAUSE_S)
            turn += 1
            addresses = _addresses_now(settings, partition) or addresses


def _addresses_now(settings: ReadSettings, partition: QueuePartition) -> tuple[str, ...]:
    """Where the broker is now; nothing when the name server does not say."""
    endpoint = settings.endpoint
    once = Endpoint(endpoint.name_servers, endpoint.timeout_s, 0, endpoint.prefer_slave)
    try:
        return Cluster(once).addresses(partition.part.queue.topic).get(partition.part.queue.broker_name, ())
    except RocketpyError:
        return ()


def _open(settings: ReadSettings, partition: QueuePartition, address: str, begin: int) -> QueueReader:
    queue = partition.part.queue
    return QueueReader(
        connect(address, settings.endpoint.timeout_s),
        {
            "column_mask": column_mask(needed_columns(settings)),
            "broker_name": queue.broker_name,
            "properties_as_map": int(settings.properties_as_map),
            "rows_max": settings.batch_rows,
            "bytes_max": settings.batch_bytes,
        },
        consumer_group=settings.group,
        topic=queue.topic,
        subscription=settings.sub_expression,
        queue_id=queue.queue_id,
        begin_offset=begin,
        end_offset=partition.part.end,
        pull_batch=settings.pull_batch,
        fail_on_data_loss=int(settings.fail_on_data_loss),
        check_crc=int(settings.check_crc),
    )


# ---- whole-column work ----


def shape_batch(settings: ReadSettings, batch: ArrowBatch) -> pa.RecordBatch:
    """Rows that are wanted, bodies as they were sent, columns in the order asked for."""
    import pyarrow as pa

    table = pa.record_batch(batch)
    if settings.tags:  # the broker compares hash codes only
        import pyarrow.compute as pc

        table = table.filter(pc.is_in(table.column("tags"), pa.array(settings.tags)))
    if settings.decompress and batch.sys_flags & COMPRESSED and "body" in table.schema.names:
        table = decompress_bodies(table)
    return table if table.schema.names == list(settings.columns) else table.select(list(settings.columns))


def decompress_bodies(table: pa.RecordBatch) -> pa.RecordBatch:
    """Replaces compressed bodies. Rows that stand for damage have neither flags nor a body."""
    import pyarrow as pa

    bodies = table.column("body").to_pylist()
    for row, flag in enumerate(table.column("sysFlag").to_pylist()):
        if flag is not None and flag & COMPRESSED:
            bodies[row] = decompress_body(bodies[row], flag)
    index = table.schema.names.index("body")
    return table.set_column(index, table.schema.field(index), pa.array(bodies, pa.binary()))


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
