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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._core.arrow import MessagePacker, RecordBatch, column_mask
from .._core.arrow import Parcel as Packed
from .._core.errors import Busy, NetworkError, NotFound, OffsetOutOfRange, RocketpyError, TimedOut
from .._core.remoting import decode_command, encode_command
from ..broker.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ..remoting.bodies import PERM_WRITE
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.route import MASTER_ID
from .cluster import TRANSIENT, Cluster, Endpoint, Queue, pause_before_retry
from .plan import QueuePartition, Range
from .queue_read import READER_GROUP, ReadSettings, connect, read_queue
from .rows import RowSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from .._core.remoting import Command

BATCH_BYTES_MAX = 1 << 20
FRAME_SIZE_MAX = 16 << 20
ROW_ID_SIZE = 32
FRAME_HEAD_MAX = 64 << 10  # header and properties of a single message: a body has the rest of a frame
# Where a broker keeps, and indexes, a delayed message until its time comes.
DELAYED_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC)
DELAYS = frozenset({"DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"})
# Answers that may be different in a moment: the broker is busy, starts, stops, or is not the master any more.
TRY_AGAIN = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY})
LOOKED_UP = frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND})
STORED = frozenset(
    {ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
)


@dataclass(frozen=True, slots=True)
class SendSettings:
    """What a task needs for sending. Picklable."""

    endpoint: Endpoint
    topic: str | None
    group: str
    batch_size: int = 256
    in_flight_max: int = 4
    idempotent: bool = True


class SendRefused(RocketpyError):
    """A broker has refused a message, and will refuse it again."""


class Connection:
    """One blocking socket: sends frames, receives commands."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self._socket = socket.socket(fileno=connect(address, timeout_s))
        self._socket.settimeout(timeout_s)

    def send(self, *pieces: bytes | memoryview) -> None:
        """Sends all pieces, one after the other."""
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
    """The messages of one request, and the queue that they go to."""

    queue: Queue
    topic: int  # the packer's number
    rows: int
    flag: int
    is_ordered: bool
    is_delayed: bool
    first_row: int
    last_row: int
    body: bytes | memoryview


def parcel_of(packed: Packed, queue: Queue) -> Parcel:
    return Parcel(
        queue, packed.topic, packed.rows, packed.flag, packed.is_ordered, packed.is_delayed, packed.first_row, packed.last_row, packed.body
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker has stored a message."""

    broker_name: str
    queue_id: int
    queue_offset: int


@dataclass(slots=True)
class TopicQueues:
    """The writable queues of a topic, taken in turn."""

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
    """Takes messages and sends them in parcels. `flush` returns when everything is stored."""

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
        """Adds rows. Their numbers continue those of the rows before."""
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
        parcel = parcel_of(packed, queue)
        if len(parcel.body) > FRAME_SIZE_MAX - FRAME_HEAD_MAX:
            raise SendRefused(f"{self._name(parcel)}: a message of {len(parcel.body):,} bytes; a broker takes frames of 16 MB at most")
        rest = self._patiently(parcel, lambda: self._not_stored(parcel)) if self._may_be_replay() else parcel
        self._is_replay = self._is_replay or rest is not parcel
        self.sent.skipped += parcel.rows - (rest.rows if rest is not None else 0)
        if rest is None:
            return
        while len(self._under_way) >= self.settings.in_flight_max or (rest.is_ordered and self._is_under_way(queue)):
            self._settle_one()
        self._send(rest)

    def _is_under_way(self, queue: Queue) -> bool:
        return any(parcel.queue == queue for _, parcel in self._under_way.values())

    def _may_be_replay(self) -> bool:
        """Whether an earlier try of this epoch may have written the next parcel. Only the first ones are looked up: none is sent past the
        window before one of them was stored, so when nothing of them is there, nothing is."""
        if not self._row_ids.can_repeat:
            return False
        self._parcels += 1
        return self._parcels <= self.settings.in_flight_max or self._is_replay

    def _not_stored(self, parcel: Parcel) -> Parcel | None:
        """What of the parcel the brokers do not have; None: they have all of it. They have a part when an earlier try made other parcels
        (batchSize was another), a broker died over one, or the rows came in another order, as they may behind a shuffle: an id alone does
        not make a row, it has to hold the same."""
        messages = list(messages_of(parcel.body))
        first = self._find(parcel, messages[0])
        last = self._find(parcel, messages[-1]) if len(messages) > 1 else first
        if first is None and last is None:
            return parcel
        if first is not None and first == last:
            return None
        if first is not None and last is not None and self._are_in_a_row(parcel.queue.topic, messages, first):
            return None
        missing = [message for message in messages if self._find(parcel, message) is None]
        return replace(parcel, rows=len(missing), body=b"".join(missing)) if missing else None

    def _are_in_a_row(self, topic: str, messages: list[bytes], first: Place) -> bool:
        """Whether these messages lie there behind each other, as one request puts them: then one pull tells of all."""
        queue, end = Queue(topic, first.broker_name, first.queue_id), first.queue_offset + len(messages)
        if self._cluster.max_offsets([queue])[queue] < end:
            return False
        settings = ReadSettings(
            self.settings.endpoint,
            RowSettings(("body", "properties"), properties_as_map=True, decompress=False),
            READER_GROUP,
            fail_on_data_loss=False,
        )
        try:
            batches = list(read_queue(settings, QueuePartition(Range(queue, first.queue_offset, end), (self._master(queue),))))
        except (NotFound, OffsetOutOfRange):  # whoever may write may not always read
            return False
        rows = [row for batch in batches for row in batch.to_pylist()]
        return len(rows) == len(messages) and all(map(is_message, rows, messages))

    def _find(self, parcel: Parcel, message: bytes) -> Place | None:
        """Where a row is stored, whoever wrote it there. Raises SendRefused where the brokers do not say. Rows whose ids are of this try
        only count as absent then: one may be there twice under its id, which is less than all of them once more under others."""
        row_id = message_id(message)
        names = (parcel.queue.topic, *(DELAYED_TOPICS if parcel.is_delayed else ()))
        for queue in {queue.broker_name: queue for queue in self._topics[parcel.topic].queues}.values():
            for name in names:
                fields = {
                    "topic": name, "key": row_id, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**63 - 1),
                    "_UNIQUE_KEY_QUERY": "true",
                }  # fmt: skip
                answer = self._ask(self._master(queue), encode_command(RequestCode.QUERY_MESSAGE, fields, opaque=next(self._opaques)))
                if answer.code in TRY_AGAIN:
                    raise Busy(f"broker {queue.broker_name!r}: CODE: {answer.code}  DESC: {answer.remark}")
                if answer.code not in LOOKED_UP and self._row_ids.can_repeat:  # it is not a word that the row is missing
                    raise SendRefused(
                        f"{self._name(parcel)}: broker {queue.broker_name!r} does not say whether an earlier try stored {row_id} in "
                        f"topic {name}: CODE: {answer.code}  DESC: {answer.remark}; idempotent=false sends without asking"
                    )
                if answer.code == ResponseCode.SUCCESS and (place := place_of(message, queue.broker_name, answer.body)) is not None:
                    return place
        return None

    def _patiently(self, parcel: Parcel, work: Callable[[], Parcel | None]) -> Parcel | None:
        """Does the work once the brokers answer."""
        give_up = time.monotonic() + self.settings.endpoint.retry_timeout_s
        while True:
            try:
                return work()
            except TRANSIENT as error:
                if time.monotonic() >= give_up:
                    raise NetworkError(f"{self._name(parcel)}: {error} [tried for {self.settings.endpoint.retry_timeout_s:g} s]") from None
            self._masters.clear()
            pause_before_retry()

    def _name(self, parcel: Parcel) -> str:
        rows = f"row {parcel.first_row}" if parcel.rows == 1 else f"rows {parcel.first_row}..{parcel.last_row}"
        return f"{rows} of task {self._task}, to {parcel.queue}"

    def _ask(self, address: str, *frame: bytes | memoryview) -> Command:
        """Sends one request over a connection of its own, where no other request is under way."""
        connection = Connection(address, self.settings.endpoint.timeout_s)
        try:
            connection.send(*frame)
            return connection.receive()
        finally:
            connection.close()

    # ---- requests ----

    def _frame(self, parcel: Parcel, opaque: int) -> tuple[bytes, bytes | memoryview]:
        """Header and body of a request."""
        is_batch = parcel.rows > 1 or has_empty_body(parcel)
        body, properties = (parcel.body, "") if is_batch else single_message(bytes(parcel.body))
        fields = {
            "a": self.settings.group, "b": parcel.queue.topic, "c": "TBW102", "d": "4", "e": str(parcel.queue.queue_id), "f": "0",
            "g": str(int(time.time() * 1000)), "h": str(parcel.flag), "i": properties, "j": "0", "k": "false",
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
            self._lose(address, [*self._take_under_way(address), parcel], error)
            return
        self._under_way[opaque] = (address, parcel)

    def _settle_one(self) -> None:
        """Waits for one answer."""
        address = next(iter(self._under_way.values()))[0]
        try:
            answer = self._connections[address].receive()
        except TRANSIENT as error:
            self._lose(address, self._take_under_way(address), error)
            return
        if answer.opaque not in self._under_way or not answer.is_response:
            return
        _, parcel = self._under_way.pop(answer.opaque)
        if answer.code in TRY_AGAIN:
            self._lose("", [parcel], self._refusal(parcel, answer))
        else:
            self._settle(parcel, answer)

    def _take_under_way(self, address: str) -> list[Parcel]:
        """The parcels whose answers would have come from there; nobody waits for them any more."""
        lost = [opaque for opaque, (where, _) in self._under_way.items() if where == address]
        return [self._under_way.pop(opaque)[1] for opaque in lost]

    def _settle(self, parcel: Parcel, answer: Command) -> None:
        if answer.code not in STORED:
            raise self._refusal(parcel, answer)
        self._note(parcel, answer)

    def _refusal(self, parcel: Parcel, answer: Command) -> SendRefused:
        return SendRefused(f"{self._name(parcel)}: CODE: {answer.code}  DESC: {answer.remark}")

    def _note(self, parcel: Parcel, answer: Command) -> None:
        self.sent.rows += parcel.rows
        self.sent.requests += 1
        first = int(answer.fields.get("queueOffset", -1))
        span = self.sent.offsets.setdefault(str(parcel.queue), [first, first])
        span[0], span[1] = min(span[0], first), max(span[1], first + parcel.rows - 1)

    def _lose(self, address: str, parcels: list[Parcel], cause: RocketpyError) -> None:
        """Sends again, one by one, what got no answer, until it is stored or time is up. A row may then be stored twice, which its id
        shows."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
        give_up = time.monotonic() + self.settings.endpoint.retry_timeout_s
        for parcel in parcels:
            while not self._send_again(parcel):
                if time.monotonic() >= give_up:
                    limit = self.settings.endpoint.retry_timeout_s
                    raise NetworkError(f"{self._name(parcel)}: {cause} [tried for {limit:g} s]")
                pause_before_retry()

    def _send_again(self, parcel: Parcel) -> bool:
        self.sent.retries += 1
        self._masters.clear()
        try:
            rest = self._not_stored(parcel)
            if rest is not None:
                answer = self._ask(self._master(parcel.queue), *self._frame(rest, next(self._opaques)))
        except TRANSIENT:
            return False
        if rest is None:
            self.sent.rows += parcel.rows
            return True
        if answer.code in TRY_AGAIN:
            return False
        self.sent.rows += parcel.rows - rest.rows
        self._settle(rest, answer)
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
    """What the ids of a task's rows (UNIQ_KEY, which brokers index) begin with: 12 hex digits of the query, 8 epoch, 4 task. 8 of the row
    follow."""

    prefix: str
    can_repeat: bool


def messages_of(body: bytes | memoryview) -> Iterator[bytes]:
    """The messages of a parcel, each preceded by its size."""
    begin, data = 0, bytes(body)
    while begin < len(data):
        size = struct.unpack_from(">I", data, begin)[0]
        yield data[begin : begin + size]
        begin += size


def message_id(message: bytes) -> str:
    """The row's id: the packer puts UNIQ_KEY before the other properties."""
    begin = 22 + struct.unpack_from(">I", message, 16)[0] + len("UNIQ_KEY\x01")
    return message[begin : begin + ROW_ID_SIZE].decode()


def is_message(row: Mapping[str, Any], message: bytes) -> bool:
    """Whether a row that was read is this message: id, body and what it was given, beside what brokers add. Of a delay nothing is left
    when it is over, and text that was no UTF-8 has been mended."""
    body_size = struct.unpack_from(">I", message, 16)[0]
    given = (pair.split("\x01", 1) for pair in message[22 + body_size :].decode(errors="replace").split("\x02") if pair)
    stored = dict(row["properties"])
    return row["body"] == message[20 : 20 + body_size] and all(
        stored.get(name) == value for name, value in given if value and name not in DELAYS and "\ufffd" not in name + value
    )


def place_of(message: bytes, broker_name: str, records: bytes) -> Place | None:
    """Where this message is among a broker's answer, which has all whose keys have the hash code of its id."""
    import pyarrow as pa

    batch = RecordBatch(column_mask=column_mask(("queueId", "queueOffset", "body", "properties")), properties_as_map=1, rows_max=1000)
    try:
        batch.put_records(records, 0)
        for row in pa.record_batch(batch.export()).to_pylist():
            if is_message(row, message):
                return Place(broker_name, row["queueId"], row["queueOffset"])
    finally:
        batch.close()
    return None


def has_empty_body(parcel: Parcel) -> bool:
    """Whether the first message has an empty body. Brokers accept it only in a batch, because they take a request without a body for one
    that has lost it."""
    return not parcel.is_delayed and parcel.body[16:20] == bytes(4)


def single_message(body: bytes) -> tuple[bytes, str]:
    """Body and properties of the one message of a parcel. Spark's texts may hold any bytes."""
    body_size = struct.unpack_from(">I", body, 16)[0]
    return body[20 : 20 + body_size], body[22 + body_size :].decode(errors="replace")
