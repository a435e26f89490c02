"""What an executor does: one range of one queue from a broker, as Arrow batches; goes on at another address when a broker is lost or
behind.

The native reader (csrc/arrow/queue_reader.h) pulls and decodes without the GIL; here are connections, retries and whole-column work.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._core.arrow import ArrowBatch, QueueReader
from .._core.broker import check_sql
from .._core.errors import InvalidArgument, NetworkError, OffsetOutOfRange, RocketpyError
from ..broker.names import java_trim
from ..remoting.client import split_address
from .cluster import TRANSIENT, Cluster, Endpoint, pause_before_retry
from .plan import QueuePartition
from .rows import RowSettings, shape_batch
from .worker import buffers, freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """Everything that a task needs besides its partition. Picklable."""

    endpoint: Endpoint
    rows: RowSettings
    group: str
    sub_expression: str = "*"
    is_sql: bool = False
    fail_on_data_loss: bool = True
    pull_batch: int = 1024
    pull_timeout_s: float = 30.0
    check_crc: bool = False


READER_GROUP = "spark-rocketmq-source"
EXPRESSION_BYTES_MAX = 1023  # of the native reader
REPLICA_PATIENCE_S = 3.0
"""How long a replica that is behind is waited for while another one may have the messages."""


def is_plain_tag(tag: str) -> bool:
    """Whether a tag expression can contain the tag: brokers split at ||, trim the parts and take * for everything."""
    return bool(tag) and tag != "*" and "|" not in tag and tag == java_trim(tag)


def parse_tags(expression: str) -> tuple[str, ...]:
    """The tags in `red || blue`; empty for `*`."""
    if java_trim(expression) in ("", "*"):
        return ()
    tags = tuple(java_trim(part) for part in expression.split("||"))
    if any(not tag for tag in tags):
        raise InvalidArgument(f"subExpression {expression!r}: an empty tag between ||")
    _check_size(expression)
    return tags


def check_sql_expression(expression: str) -> None:
    """Checks an expression as brokers would, before any of them is asked. Raises InvalidArgument."""
    _check_size(expression)
    try:
        unread = check_sql(expression)
    except InvalidArgument as error:
        raise InvalidArgument(f"subExpression {expression!r}: {error}") from None
    if unread:
        raise InvalidArgument(f"subExpression {expression!r}: brokers would not look at what follows the expression, {unread!r}")


def _check_size(expression: str) -> None:
    if len(expression.encode()) > EXPRESSION_BYTES_MAX:
        raise InvalidArgument(f"subExpression has {len(expression.encode())} bytes, a pull takes {EXPRESSION_BYTES_MAX}")


def connect(address: str, timeout_s: float) -> int:
    """The descriptor of a connected socket, which belongs to the caller."""
    host, port = split_address(address)
    try:
        connection = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        raise NetworkError(f"connect to {address} failed: {error.strerror or error}", os_errno=error.errno or 0) from error
    except UnicodeError as error:  # a part of the name that is empty or has no end
        raise NetworkError(f"connect to {address} failed: {host!r} cannot be a host's name") from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(None)
    return connection.detach()


def read_queue(settings: ReadSettings, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition. Any RocketpyError that it raises names the queue."""
    freeze_imports()
    try:
        for batch in _read_range(settings, partition):
            yield from shape_batch(settings.rows, batch)
    except RocketpyError as error:
        raise type(error)(f"reading {partition.part.queue}: {error}") from None


@dataclass
class _Reached:
    """How far a range has been read, and why the rest cannot be."""

    next_offset: int
    is_behind: bool = False
    """The replica that was asked last ended before next_offset."""
    behind: dict[str, OffsetOutOfRange] = field(default_factory=dict)
    """The replicas that do not have next_offset yet, by address, with their words."""
    give_up: float | None = None
    """When nobody has answered for retry_timeout_s; None: somebody has since."""

    def got_rows(self) -> None:
        self.give_up = None
        self.behind.clear()


def _read_range(settings: ReadSettings, partition: QueuePartition) -> Iterator[ArrowBatch]:
    """Reads the range from one replica after another, until it is complete or none has answered for retry_timeout_s."""
    addresses = partition.addresses
    reached = _Reached(partition.part.begin)
    turn = 0
    while True:
        asked = [address for address in addresses if address not in reached.behind]
        address = asked[turn % len(asked)] if asked else ""
        try:
            if not address:
                raise NetworkError(f"broker {partition.part.queue.broker_name!r} is not registered")
            patience_s = settings.endpoint.retry_timeout_s if len(asked) == 1 else REPLICA_PATIENCE_S
            with _open(settings, partition, address, reached.next_offset, patience_s) as reader:
                yield from _read_replica(reader, reached, settings.pull_timeout_s)
            return
        except OffsetOutOfRange as error:
            reached.behind[address] = error
            if not reached.is_behind or reached.behind.keys() >= set(addresses):
                raise
            turn = 0
        except TRANSIENT as error:
            _check_patience(settings, partition.part.begin, reached, error)
            pause_before_retry()
            turn += 1
            addresses = _addresses_now(settings, partition) or addresses


def _read_replica(reader: QueueReader, reached: _Reached, pull_timeout_s: float) -> Iterator[ArrowBatch]:
    """What one replica has of the range. If it fails, the rows that had already arrived are yielded before the error is raised."""
    try:
        while (batch := reader.next_batch(pull_timeout_s)) is not None:
            reached.got_rows()
            yield batch
    except (*TRANSIENT, OffsetOutOfRange):
        progress = reader.progress()
        reached.next_offset, reached.is_behind = progress["next_offset"], progress["is_behind"] == 1
        partial = reader.take_partial()
        if partial.rows > 0:
            reached.got_rows()
            yield partial
        raise


def _check_patience(settings: ReadSettings, begin: int, reached: _Reached, error: RocketpyError) -> None:
    """Raises the last error if no replica has answered for retry_timeout_s."""
    limit_s = settings.endpoint.retry_timeout_s
    now = time.monotonic()
    reached.give_up = reached.give_up or now + limit_s
    if now < reached.give_up:
        return
    if reached.behind:
        raise next(iter(reached.behind.values())) from None
    offset = reached.next_offset
    done = f"read offsets {begin}..{offset - 1}" if offset > begin else f"nothing read from offset {begin} on"
    raise NetworkError(f"offset {offset}: {error} [no broker answered for {limit_s:g} s; {done}]") from None


def _addresses_now(settings: ReadSettings, partition: QueuePartition) -> tuple[str, ...]:
    """The broker's present addresses; empty if the name server does not tell."""
    endpoint = settings.endpoint
    once = Endpoint(endpoint.name_servers, endpoint.timeout_s, 0, endpoint.prefer_slave)
    try:
        return Cluster(once).addresses(partition.part.queue.topic).get(partition.part.queue.broker_name, ())
    except RocketpyError:
        return ()


def _open(settings: ReadSettings, partition: QueuePartition, address: str, begin: int, patience_s: float) -> QueueReader:
    queue = partition.part.queue
    return QueueReader(
        connect(address, settings.endpoint.timeout_s),
        settings.rows.batch_options(queue.broker_name),
        buffers(),
        consumer_group=settings.group,
        topic=queue.topic,
        subscription=settings.sub_expression,
        is_sql=int(settings.is_sql),
        queue_id=queue.queue_id,
        begin_offset=begin,
        end_offset=partition.part.end,
        pull_batch=settings.pull_batch,
        fail_on_data_loss=int(settings.fail_on_data_loss),
        check_crc=int(settings.check_crc),
        patience_ms=min(int(patience_s * 1000), 2**31 - 1),
    )
