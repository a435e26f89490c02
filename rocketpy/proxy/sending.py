"""Producers: SendMessage, EndTransaction, RecallMessage.
RocketMQ: SendMessageActivity, ProducerProcessor, RecallMessageActivity (5.3.3 proxy/).
"""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Mapping
from typing import Any, Final

from .._core.errors import ProtocolError, RocketpyError, TooLarge
from .._core.remoting import Command
from ..broker.names import NAME_BYTES_MAX, RETRY_PREFIX, consistent_hash, java_hash
from ..remoting.client import FRAME_SIZE_MAX
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, check_success
from ..remoting.headers import RecallMessageRequestHeader
from . import schema
from .brokers import Brokers, Queue
from .context import Context, now_ms
from .encoding import COMPRESSED, PREPARED, write_batch, write_properties
from .messages import body_of, check_type, is_type_checked, properties_of
from .native_calls import NativeCalls
from .settings import ProxySettings
from .status import OK, ProxyError, joined, status
from .transactions import Prepared, Transactions
from .validation import is_blank, topic_of

_SENT: Final[Mapping[int, str]] = {
    ResponseCode.SUCCESS: OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: "MASTER_PERSISTENCE_TIMEOUT",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "SLAVE_PERSISTENCE_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "HA_NOT_AVAILABLE",
}
"""A broker's answer to a send that is stored; any other is an error of the whole request."""
DEFAULT_QUEUES: Final = 4
MESSAGES_MAX: Final = 65_536
"""Of one request: more than go into the 4 MB that brokers take at once, unless they are told to take more."""
REQUEST_BYTES_MAX: Final = FRAME_SIZE_MAX + (1 << 20)
"""Of a request: what it says of its messages beside what brokers are told has the rest."""


def refusal(data: bytes) -> Any:
    """The answer to a request that is refused unread: no broker would accept it, and parsed it would take dozens of times its size in
    memory. None for any other."""
    if len(data) > REQUEST_BYTES_MAX:
        refused = status("MESSAGE_BODY_TOO_LARGE", f"messages of more than {REQUEST_BYTES_MAX} bytes")
    elif has_more_fields(data, MESSAGES_MAX):
        refused = status("BAD_REQUEST", f"more than {MESSAGES_MAX} messages are sent at once")
    else:
        return None
    return schema.message("SendMessageResponse")(status=refused)


def has_more_fields(data: bytes, most: int) -> bool:
    """Whether a protobuf message has more than `most` fields. Repetitions count, fields of nested messages do not. Of a group, which
    protobuf 3 does not have but skips, both marks and everything in between count. Counting ends where the data is damaged."""
    if len(data) <= 2 * most:  # what counts has a tag and a length at least, marks of groups a tag only
        return False
    at = count = 0
    try:
        while at < len(data) and count <= most:
            tag, at = _varint(data, at)
            match tag & 7:
                case 0:
                    _, at = _varint(data, at)
                case 1:
                    at += 8
                case 2:
                    size, at = _varint(data, at)
                    at += size
                case 3 | 4:
                    pass
                case 5:
                    at += 4
                case _:
                    return False
            count += 1
    except IndexError:
        return False
    return count > most


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(the value, the offset after it). Raises IndexError if the data ends within the number."""
    value = shift = 0
    while (byte := data[at]) >= 0x80 and shift < 63:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | (byte & 0x7F) << shift, at + 1


class Sending:
    """The methods that producers call. `native` sends ordinary messages by itself, to topics that have been sent to from here before."""

    def __init__(self, settings: ProxySettings, brokers: Brokers, transactions: Transactions, native: NativeCalls | None = None) -> None:
        self._settings = settings
        self._brokers = brokers
        self._transactions = transactions
        self._native = native
        self._turns = itertools.count()

    async def send_message(self, context: Context, request: Any) -> Any:
        """Sends one message, or several of one topic as a batch, whose answer has one entry. As with RocketMQ's proxy the batch has the
        type of its first message."""
        if not request.messages:
            raise ProxyError("MESSAGE_CORRUPTED", "no message to send")
        topic = topic_of(request.messages[0].topic)
        if any(message.topic != request.messages[0].topic for message in request.messages):
            raise ProxyError("MESSAGE_CORRUPTED", "topic in message is not same")
        at_ms = now_ms()
        parts = [
            (body_of(message, self._settings), properties_of(message, self._settings, topic, context.host, at_ms))
            for message in request.messages
        ]
        if len(parts) > 1 and any("__LITE_TOPIC" in properties for _, properties in parts):
            raise ProxyError("BAD_REQUEST", "messages of lite topics are sent one by one: brokers store those of a batch in no lite topic")
        topic_type, queues = await self._look_up(topic)
        if is_type_checked(self._settings, topic):
            check_type(topic_type, parts[0][1])
        if len(parts) > 1 and any("TIMER_DELIVER_MS" in properties for _, properties in parts):
            raise ProxyError("BAD_REQUEST", "messages with a delivery time are sent one by one: brokers know of one time for a whole batch")
        queue = self._queue_for(queues, request.messages)
        sys_flag = _sys_flag(request.messages[0])
        header = {
            "a": topic, "b": topic, "c": "TBW102", "d": str(DEFAULT_QUEUES), "e": str(queue.queue_id), "f": str(sys_flag),
            "g": parts[0][1]["BORN_TIMESTAMP"], "h": "0", "i": write_properties(parts[0][1]), "j": _attempt(topic, parts[0][1]),
            "k": "false", "m": str(len(parts) > 1).lower(), "n": queue.broker,
        }  # fmt: skip
        is_batch = len(parts) > 1
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        body = write_batch(parts) if is_batch else parts[0][0]
        try:
            answer = await self._brokers.call(queue.broker, code, header, body, timeout_s=context.remaining_ms() / 1000)
        except TooLarge as error:
            raise ProxyError("MESSAGE_BODY_TOO_LARGE", str(error)) from error
        return self._sent(answer, queue, request.messages[0], [properties["UNIQ_KEY"] for _, properties in parts], sys_flag)

    def _sent(self, answer: Command, queue: Queue, first: Any, message_ids: list[str], sys_flag: int) -> Any:
        label = _SENT.get(answer.code)
        if label is None:
            raise CommandError(answer.code, answer.remark)
        response = schema.message("SendMessageResponse")()
        entry = response.entries.add()
        if label == OK:
            fields = answer.fields
            entry.status.CopyFrom(status(OK))
            entry.message_id = ",".join(message_ids)
            entry.offset = int(fields.get("queueOffset", 0))
            entry.recall_handle = fields.get("recallHandle", "")
            entry.transaction_id = fields.get("transactionId", "") or (message_ids[0] if sys_flag & PREPARED else "")
            if sys_flag & PREPARED:
                prepared = Prepared(queue.broker, entry.offset, log_offset_of(fields.get("msgId", "")))
                self._transactions.add(str(first.topic.name), entry.transaction_id, prepared)
        else:
            entry.status.CopyFrom(status(label, f"send message failed, sendStatus={ResponseCode(answer.code).name}"))
        response.status.CopyFrom(joined({label}))
        return response

    async def _look_up(self, topic: str) -> tuple[str, list[Queue]]:
        """(the topic's type, if types are checked; its queues). The native side is told both, or that they are not known any more."""
        try:
            topic_type = await self._brokers.message_type(topic) if is_type_checked(self._settings, topic) else ""
            queues = await self._brokers.writable_queues(topic)
        except (ProxyError, RocketpyError):
            if self._native is not None:
                self._native.forget(topic)
            raise
        if self._native is not None:
            self._native.learn(topic)
        return topic_type, queues

    def _queue_for(self, queues: list[Queue], messages: Any) -> Queue:
        if not queues:
            raise ProxyError("FORBIDDEN", "no writable queue")
        system = messages[0].system_properties
        group = (system.message_group or system.lite_topic) if len(messages) == 1 else ""
        if group:
            return queues[consistent_hash(java_hash(group), len(queues))]
        return queues[next(self._turns) % len(queues)]

    async def end_transaction(self, context: Context, request: Any) -> Any:
        topic = topic_of(request.topic)
        if is_blank(request.transaction_id):
            raise ProxyError("INVALID_TRANSACTION_ID", "transaction id cannot be empty")
        resolution = schema.label("TransactionResolution", request.resolution)
        is_check = request.source == schema.number("TransactionSource", "SOURCE_SERVER_CHECK")
        await self._transactions.end(topic, request.transaction_id, request.message_id, resolution, is_check=is_check)
        return schema.message("EndTransactionResponse")(status=status(OK))

    async def recall_message(self, context: Context, request: Any) -> Any:
        topic = topic_of(request.topic)
        if self._settings.enable_topic_message_type_check and (kind := await self._brokers.message_type(topic)) not in ("DELAY", "MIXED"):
            text = f"TopicMessageType validate failed, the expected type is {kind}, but actual type is DELAY"
            raise ProxyError("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", text)
        header = RecallMessageRequestHeader(producer_group="", topic=topic, recall_handle=request.recall_handle)
        broker = broker_of_recall(request.recall_handle)
        answer = check_success(await self._brokers.call(broker, RequestCode.RECALL_MESSAGE, header))
        return schema.message("RecallMessageResponse")(status=status(OK), message_id=answer.fields.get("msgId", ""))


def _attempt(topic: str, properties: Mapping[str, str]) -> str:
    """The number of attempts to write into the header, by which brokers count those at a message to be consumed again: one too many makes
    it a dead letter."""
    return properties["RECONSUME_TIME"] if topic.startswith(RETRY_PREFIX) else "0"


def _sys_flag(message: Any) -> int:
    system = message.system_properties
    compressed = COMPRESSED if system.body_encoding == schema.number("Encoding", "GZIP") else 0
    return compressed | (PREPARED if system.message_type == schema.number("MessageType", "TRANSACTION") else 0)


def log_offset_of(offset_id: str) -> int:
    """The log offset in a message id as brokers make them: address and port, then the offset. Raises ProtocolError."""
    try:
        return int(offset_id[-16:], 16)
    except ValueError:
        raise ProtocolError(f"a broker answered a send with the message id {offset_id!r}") from None


def broker_of_recall(handle: str) -> str:
    """The broker that a recall handle names. Raises ProxyError."""
    try:
        parts = base64.urlsafe_b64decode(handle.encode()).decode().split(" ")
    except (binascii.Error, ValueError):
        parts = []
    if len(parts) < 5 or parts[0] != "v1" or len(parts[2]) > NAME_BYTES_MAX:
        raise ProxyError("INTERNAL_SERVER_ERROR", "recall handle is invalid")
    return parts[2]
