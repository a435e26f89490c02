"""Sends the rows of one task: parcels per queue, a window of requests under way, retries with a fresh route.

Rows become parcels in C (csrc/arrow/message_packer.h); what is done here is done once a parcel. Blocking sockets: a task has nothing else
to do. Requests of one connection may be answered in any order. Messages of one group go to one queue and wait for each other; all others
take the queues in turn.
RocketMQ: DefaultMQProducerImpl, MessageBatch, QueryMessageProcessor (5.3.3).
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._core.arrow import MessagePacker
from .._core.arrow import Parcel as Packed
from .._core.errors import NetworkError, NotFound, RocketpyError, TimedOut
from .._core.remoting import decode_command, encode_command
from ..remoting.bodies import PERM_WRITE
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.route import MASTER_ID
from .cluster import TRANSIENT, Cluster, Endpoint, Queue, pause_before_retry
from .queue_read import connect

if TYPE_CHECKING:
    import pyarrow as pa

    from .._core.remoting import Command

BATCH_BYTES_MAX = 1 << 20
FRAME_SIZE_MAX = 16 << 20
# Answers that may be different in a moment: the broker is busy, starts, stops, or is not the master any more.
TRY_AGAIN = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY})
STORED = frozenset(
    {ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
)


@dataclass(frozen=True, slots=True)
class SendSettings:
    """What a task needs to send. Picklable."""

    endpoint: Endpoint
    topic: str | None
    group: str
    batch_size: int = 256
    in_flight_max: int = 4
    idempotent: bool = True


class SendRefused(RocketpyError):
    """A broker did not take a message and will not."""


class Connection:
    """One blocking socket: frames out, commands in."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self._socket = socket.socket(fileno=connect(address, timeout_s))
        self._socket.settimeout(timeout_s)

    def send(self, *pieces: bytes | memoryview) -> None:
        """All of it, piece behind piece."""
        views = [memoryview(piece) for piece in pieces if piece]
        try:
            while views:
                sent = self._socket.sendmsg(views)
                while views and sent >= len(views[0]):
                    sent -= len(views.pop(0))
                if sent:
                    views[0] = views[0][sent:]
        except OSError as error:
            raise NetworkError(f"the connection to {self.address} was lost: {error}") from None

    def receive(self) -> Command:
        head = self._read(4)
        size = struct.unpack(">I", head)[0]
        if size > FRAME_SIZE_MAX:
            raise NetworkError(f"{self.address} sent a frame of {size} bytes")
        return decode_command(head + self._read(size))

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._socket.recv(size - len(parts))
            except TimeoutError:
                raise TimedOut(f"{self.address} did not answer in time") from None
            except OSError as error:
                raise NetworkError(f"the connection to {self.address} was lost: {error}") from None
            if not part:
                raise NetworkError(f"{self.address} closed the connection")
            parts += part
        return bytes(parts)


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one request carries, and to which queue."""

    queue: Queue
    packed: Packed
    first_id: str


@dataclass(slots=True)
class TopicQueues:
    """The writable queues of a topic and whose turn it is."""

    queues: list[Queue]
    turn: int = 0

    def next_queue(self) -> Queue:
        self.turn += 1
        return self.queues[self.turn % len(self.queues)]


@dataclass(slots=True)
class Sent:
    """What a task reports."""

    rows: int = 0
    requests: int = 0
    skipped: int = 0
    retries: int = 0
    offsets: dict[str, list[int]] = field(default_factory=dict)  # queue -> first and last offset written


class Sender:
    """Takes messages, sends parcels. `flush` returns when everything is stored."""

    def __init__(self, settings: SendSettings, task: int, row_ids: RowIds) -> None:
        self.settings = settings
        self.sent = Sent()
        self._cluster = Cluster(settings.endpoint)
        self._task = task
        self._row_ids = row_ids
        self._packer = MessagePacker(
            topic=settings.topic, id_prefix=row_ids.prefix, rows_max=settings.batch_size, bytes_max=BATCH_BYTES_MAX
        )
        self._topics: list[TopicQueues] = []  # by the packer's number
        self._masters: dict[tuple[str, str], str] = {}
        self._connections: dict[str, Connection] = {}
        self._under_way: dict[int, tuple[str, Parcel]] = {}
        self._opaques = itertools.count(1)
        self._parcels = 0
        self._is_replay = False

    def close(self) -> None:
        self._packer.close()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def add(self, batch: pa.RecordBatch) -> None:
        """The next rows. They are numbered on from those before."""
        self._packer.begin(batch)
        while True:
            while (packed := self._packer.next()) is not None:
                self._dispatch(packed)
            topic = self._packer.wanted_topic
            if topic is None:
                return
            queues = self._writable_queues(topic)
            self._packer.put_topic(topic, [queue.queue_id for queue in queues])
            self._topics.append(TopicQueues(queues, self._task))

    def flush(self) -> None:
        while (packed := self._packer.flush()) is not None:
            self._dispatch(packed)
        while self._under_way:
            self._settle_one()

    # ---- parcels ----

    def _dispatch(self, packed: Packed) -> None:
        topic = self._topics[packed.topic]
        queue = topic.queues[packed.queue] if packed.queue is not None else topic.next_queue()
        parcel = Parcel(queue, packed, self._row_ids.of(packed.first_row))
        if self._was_stored(parcel):
            self.sent.skipped += packed.rows
            return
        while len(self._under_way) >= self.settings.in_flight_max or (packed.is_ordered and self._is_under_way(queue)):
            self._settle_one()
        self._send(parcel)

    def _is_under_way(self, queue: Queue) -> bool:
        return any(parcel.queue == queue for _, parcel in self._under_way.values())

    def _was_stored(self, parcel: Parcel) -> bool:
        """Whether an earlier try of this epoch has written the parcel. Only the first parcels are looked up: none is sent past the window
        before one of them was stored, so when they are not there, nothing is."""
        if not self._row_ids.can_repeat:
            return False
        self._parcels += 1
        if self._parcels > self.settings.in_flight_max and not self._is_replay:
            return False
        found = self._find(parcel)
        self._is_replay = self._is_replay or found
        return found

    def _find(self, parcel: Parcel) -> bool:
        fields = {
            "topic": parcel.queue.topic, "key": parcel.first_id, "maxNum": "1", "beginTimestamp": "0", "endTimestamp": str(2**63 - 1),
            "_UNIQUE_KEY_QUERY": "true",
        }  # fmt: skip
        for queue in {queue.broker_name: queue for queue in self._topics[parcel.packed.topic].queues}.values():
            answer = self._ask(self._master(queue), encode_command(RequestCode.QUERY_MESSAGE, fields, opaque=next(self._opaques)))
            if answer.code == ResponseCode.SUCCESS:
                return True
        return False

    def _ask(self, address: str, *frame: bytes | memoryview) -> Command:
        """One request on a connection of its own, so that it meets no others."""
        connection = Connection(address, self.settings.endpoint.timeout_s)
        try:
            connection.send(*frame)
            return connection.receive()
        finally:
            connection.close()

    # ---- requests ----

    def _frame(self, parcel: Parcel, opaque: int) -> tuple[bytes, bytes | memoryview]:
        """Header and body of a request."""
        packed = parcel.packed
        is_batch = packed.rows > 1
        body, properties = (packed.body, "") if is_batch else single_message(bytes(packed.body))
        fields = {
            "a": self.settings.group, "b": parcel.queue.topic, "c": "TBW102", "d": "4", "e": str(parcel.queue.queue_id), "f": "0",
            "g": str(int(time.time() * 1000)), "h": str(packed.flag), "i": properties, "j": "0", "k": "false",
            "m": "true" if is_batch else "false", "n": parcel.queue.broker_name,
        }  # fmt: skip
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        head = encode_command(code, fields, opaque=opaque)
        return struct.pack(">I", len(head) - 4 + len(body)) + head[4:], body

    def _send(self, parcel: Parcel) -> None:
        opaque = next(self._opaques)
        address = ""
        try:
            address = self._master(parcel.queue)
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = Connection(address, self.settings.endpoint.timeout_s)
            connection.send(*self._frame(parcel, opaque))
        except TRANSIENT as error:
            self._lose(address, [parcel], error)
            return
        self._under_way[opaque] = (address, parcel)

    def _settle_one(self) -> None:
        """Waits for one answer."""
        address = next(iter(self._under_way.values()))[0]
        try:
            answer = self._connections[address].receive()
        except TRANSIENT as error:
            lost = {opaque: parcel for opaque, (where, parcel) in self._under_way.items() if where == address}
            for opaque in lost:
                del self._under_way[opaque]
            self._lose(address, list(lost.values()), error)
            return
        if answer.opaque not in self._under_way or not answer.is_response:
            return
        _, parcel = self._under_way.pop(answer.opaque)
        if answer.code in TRY_AGAIN:
            self._lose("", [parcel], self._refusal(parcel, answer))
        else:
            self._settle(parcel, answer)

    def _settle(self, parcel: Parcel, answer: Command) -> None:
        if answer.code not in STORED:
            raise self._refusal(parcel, answer)
        self._note(parcel, answer)

    def _refusal(self, parcel: Parcel, answer: Command) -> SendRefused:
        first, last = parcel.packed.first_row, parcel.packed.last_row
        rows = f"row {first}" if first == last else f"rows {first}..{last}"
        return SendRefused(f"{rows} of task {self._task}, to {parcel.queue}: CODE: {answer.code}  DESC: {answer.remark}")

    def _note(self, parcel: Parcel, answer: Command) -> None:
        self.sent.rows += parcel.packed.rows
        self.sent.requests += 1
        first = int(answer.fields.get("queueOffset", -1))
        span = self.sent.offsets.setdefault(str(parcel.queue), [first, first])
        span[0], span[1] = min(span[0], first), max(span[1], first + parcel.packed.rows - 1)

    def _lose(self, address: str, parcels: list[Parcel], cause: RocketpyError) -> None:
        """Sends again what got no answer, one by one, until it is stored or time is up. A row may then be there twice: its id tells."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
        give_up = time.monotonic() + self.settings.endpoint.retry_timeout_s
        for parcel in parcels:
            while not self._send_again(parcel):
                if time.monotonic() >= give_up:
                    limit = self.settings.endpoint.retry_timeout_s
                    raise NetworkError(
                        f"row {parcel.packed.first_row} of task {self._task}, to {parcel.queue}: {cause} [tried for {limit:g} s]"
                    )
                pause_before_retry()

    def _send_again(self, parcel: Parcel) -> bool:
        self.sent.retries += 1
        self._masters.clear()
        try:
            if self._find(parcel):
                self.sent.rows += parcel.packed.rows
                return True
            answer = self._ask(self._master(parcel.queue), *self._frame(parcel, next(self._opaques)))
        except TRANSIENT:
            return False
        if answer.code in TRY_AGAIN:
            return False
        self._settle(parcel, answer)
        return True

    # ---- queues ----

    def _writable_queues(self, topic: str) -> list[Queue]:
        queues = self._cluster.queues([topic], PERM_WRITE)
        if not queues:
            raise NotFound(f"topic {topic!r} has no writable queue")
        return queues

    def _master(self, queue: Queue) -> str:
        address = self._masters.get((queue.topic, queue.broker_name))
        if address is None:
            self._cluster.topics_exist = True  # its queues were found before
            for data in self._cluster.route(queue.topic).broker_datas:
                if MASTER_ID in data.broker_addrs:
                    self._masters[(queue.topic, data.broker_name)] = data.broker_addrs[MASTER_ID]
            address = self._masters.get((queue.topic, queue.broker_name))
        if address is None:
            raise NetworkError(f"broker {queue.broker_name!r} has no master now")
        return address


@dataclass(frozen=True, slots=True)
class RowIds:
    """The id of a row as message id (UNIQ_KEY, which brokers index): 12 hex digits of the query, 8 epoch, 4 task, 8 row."""

    prefix: str
    can_repeat: bool

    def of(self, row: int) -> str:
        return f"{self.prefix}{row & 0xFFFFFFFF:08X}"


def single_message(body: bytes) -> tuple[bytes, str]:
    """Body and properties of the one message of a parcel."""
    body_size = struct.unpack_from(">I", body, 16)[0]
    return body[20 : 20 + body_size], body[22 + body_size :].decode()
