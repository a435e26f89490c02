"""Sends messages of one task: batches per queue, a window of requests under way, retries with a fresh route.

Blocking sockets: a task has nothing else to do. Requests of one connection may be answered in any order. Messages of one group go to one
queue and wait for each other; all others take the queues in turn.
RocketMQ: DefaultMQProducerImpl, MessageBatch, QueryMessageProcessor (5.3.3).
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._core.base import hash_java
from .._core.errors import NetworkError, NotFound, RocketpyError, TimedOut
from .._core.remoting import decode_command, encode_command
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.route import MASTER_ID
from .cluster import PERM_WRITE, RETRY_PAUSE_S, TRANSIENT, Cluster, Endpoint, Queue
from .messages import Message
from .queue_read import connect

if TYPE_CHECKING:
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

    def send(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
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


@dataclass(slots=True)
class Parcel:
    """What one request carries."""

    queue: Queue
    messages: list[Message]
    size: int = 0


@dataclass(slots=True)
class TopicQueues:
    """The writable queues of a topic and whose turn it is."""

    queues: list[Queue]
    turn: int = 0


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

    def __init__(self, settings: SendSettings, task: int, row_ids: RowIds | None) -> None:
        self.settings = settings
        self.sent = Sent()
        self._cluster = Cluster(settings.endpoint)
        self._task = task
        self._row_ids = row_ids
        self._topics: dict[str, TopicQueues] = {}
        self._masters: dict[tuple[str, str], str] = {}
        self._connections: dict[str, Connection] = {}
        self._open: dict[Queue, Parcel] = {}
        self._free: dict[str, Parcel] = {}  # by topic: rows that may go to any queue
        self._under_way: dict[int, tuple[str, Parcel]] = {}
        self._opaques = itertools.count(1)
        self._parcels = 0
        self._is_replay = False

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def add(self, message: Message) -> None:
        if self._row_ids is not None:
            message.properties["UNIQ_KEY"] = self._row_ids.of(message.row)
        queue = self._queue_of(message)
        if message.is_alone:
            self._dispatch(Parcel(queue or self._next_queue(message.topic), [message]))
            return
        if queue is None:
            parcel = self._free.setdefault(message.topic, Parcel(Queue(message.topic, "", 0), []))
        else:
            parcel = self._open.setdefault(queue, Parcel(queue, []))
        parcel.messages.append(message)
        parcel.size += len(message.body) + 64
        if len(parcel.messages) >= self.settings.batch_size or parcel.size >= BATCH_BYTES_MAX:
            self._close_parcel(parcel)

    def flush(self) -> None:
        for parcel in [*self._free.values(), *self._open.values()]:
            self._close_parcel(parcel)
        while self._under_way:
            self._settle_one()

    # ---- parcels ----

    def _close_parcel(self, parcel: Parcel) -> None:
        if self._free.get(parcel.queue.topic) is parcel:
            del self._free[parcel.queue.topic]
            parcel.queue = self._next_queue(parcel.queue.topic)
        else:
            del self._open[parcel.queue]
        self._dispatch(parcel)

    def _dispatch(self, parcel: Parcel) -> None:
        if self._was_stored(parcel):
            self.sent.skipped += len(parcel.messages)
            return
        in_order = parcel.messages[0].group is not None
        while len(self._under_way) >= self.settings.in_flight_max or (in_order and self._is_under_way(parcel.queue)):
            self._settle_one()
        self._send(parcel)

    def _is_under_way(self, queue: Queue) -> bool:
        return any(parcel.queue == queue for _, parcel in self._under_way.values())

    def _was_stored(self, parcel: Parcel) -> bool:
        """Whether an earlier try of this epoch has written the parcel. Only the first parcels are looked up: none is sent past the window
        before one of them was stored, so when they are not there, nothing is."""
        if self._row_ids is None or not self._row_ids.can_repeat:
            return False
        self._parcels += 1
        if self._parcels > self.settings.in_flight_max and not self._is_replay:
            return False
        found = self._find(parcel.queue.topic, parcel.messages[0].properties["UNIQ_KEY"])
        self._is_replay = self._is_replay or found
        return found

    def _find(self, topic: str, message_id: str) -> bool:
        fields = {
            "topic": topic, "key": message_id, "maxNum": "1", "beginTimestamp": "0", "endTimestamp": str(2**63 - 1),
            "_UNIQUE_KEY_QUERY": "true",
        }  # fmt: skip
        for queue in {queue.broker_name: queue for queue in self._topic(topic).queues}.values():
            answer = self._ask(self._master(queue), encode_command(RequestCode.QUERY_MESSAGE, fields, opaque=next(self._opaques)))
            if answer.code == ResponseCode.SUCCESS:
                return True
        return False

    def _ask(self, address: str, frame: bytes) -> Command:
        """One request on a connection of its own, so that it meets no others."""
        connection = Connection(address, self.settings.endpoint.timeout_s)
        try:
            connection.send(frame)
            return connection.receive()
        finally:
            connection.close()

    # ---- requests ----

    def _frame(self, parcel: Parcel, opaque: int) -> bytes:
        first = parcel.messages[0]
        is_batch = len(parcel.messages) > 1
        fields = {
            "a": self.settings.group, "b": parcel.queue.topic, "c": "TBW102", "d": "4", "e": str(parcel.queue.queue_id), "f": "0",
            "g": str(int(time.time() * 1000)), "h": str(first.flag), "j": "0", "k": "false", "m": "true" if is_batch else "false",
            "n": parcel.queue.broker_name,
        }  # fmt: skip
        if is_batch:
            body = b"".join(message.encode() for message in parcel.messages)
            return encode_command(RequestCode.SEND_BATCH_MESSAGE, {**fields, "i": ""}, body, opaque=opaque)
        fields["i"] = first.encode_properties().decode()
        return encode_command(RequestCode.SEND_MESSAGE_V2, fields, first.body, opaque=opaque)

    def _send(self, parcel: Parcel) -> None:
        opaque = next(self._opaques)
        address = ""
        try:
            address = self._master(parcel.queue)
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = Connection(address, self.settings.endpoint.timeout_s)
            connection.send(self._frame(parcel, opaque))
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
        first, last = parcel.messages[0].row, parcel.messages[-1].row
        rows = f"row {first}" if first == last else f"rows {first}..{last}"
        return SendRefused(f"{rows} of task {self._task}, to {parcel.queue}: CODE: {answer.code}  DESC: {answer.remark}")

    def _note(self, parcel: Parcel, answer: Command) -> None:
        self.sent.rows += len(parcel.messages)
        self.sent.requests += 1
        first = int(answer.fields.get("queueOffset", -1))
        span = self.sent.offsets.setdefault(str(parcel.queue), [first, first])
        span[0], span[1] = min(span[0], first), max(span[1], first + len(parcel.messages) - 1)

    def _lose(self, address: str, parcels: list[Parcel], cause: RocketpyError) -> None:
        """Sends again what got no answer, one by one, until it is stored or time is up. A row may then be there twice: its id tells."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
        give_up = time.monotonic() + self.settings.endpoint.retry_timeout_s
        pause = threading.Event()
        for parcel in parcels:
            while not self._send_again(parcel):
                if time.monotonic() >= give_up:
                    limit = self.settings.endpoint.retry_timeout_s
                    raise NetworkError(
                        f"row {parcel.messages[0].row} of task {self._task}, to {parcel.queue}: {cause} [tried for {limit:g} s]"
                    )
                pause.wait(RETRY_PAUSE_S)

    def _send_again(self, parcel: Parcel) -> bool:
        self.sent.retries += 1
        self._masters.clear()
        try:
            if self._row_ids is not None and self._find(parcel.queue.topic, parcel.messages[0].properties["UNIQ_KEY"]):
                self.sent.rows += len(parcel.messages)
                return True
            answer = self._ask(self._master(parcel.queue), self._frame(parcel, next(self._opaques)))
        except TRANSIENT:
            return False
        if answer.code in TRY_AGAIN:
            return False
        self._settle(parcel, answer)
        return True

    # ---- queues ----

    def _topic(self, topic: str) -> TopicQueues:
        known = self._topics.get(topic)
        if known is None:
            queues = self._cluster.queues([topic], PERM_WRITE)
            if not queues:
                raise NotFound(f"topic {topic!r} has no writable queue")
            known = self._topics[topic] = TopicQueues(queues, self._task)
        return known

    def _next_queue(self, topic: str) -> Queue:
        known = self._topic(topic)
        known.turn += 1
        return known.queues[known.turn % len(known.queues)]

    def _queue_of(self, message: Message) -> Queue | None:
        """The queue a row names or its group belongs to; None: any."""
        queues = self._topic(message.topic).queues
        if message.queue_id is not None:
            wanted = [queue for queue in queues if queue.queue_id == message.queue_id]
            if not wanted:
                raise NotFound(f"row {message.row}: topic {message.topic!r} has no writable queue {message.queue_id}")
            return wanted[message.row % len(wanted)]
        if message.group is not None:
            return queues[abs(hash_java(message.group)) % len(queues)]
        return None

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
