"""Messages between the two protocols: what a producer sends becomes properties, what a broker stored becomes a gRPC message.
RocketMQ: SendMessageActivity.buildMessageProperty, GrpcConverter (5.3.3 proxy/grpc/v2/).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from .._core.results import Message
from ..broker.names import DLQ_PREFIX, RETRY_PREFIX
from . import schema
from .encoding import COMPRESSED
from .handles import Popped, message_id_of
from .settings import ProxySettings, delay_levels
from .status import ProxyError
from .validation import check_text, has_control, is_blank, lite_topic_of, millis, set_millis

_SYSTEM: Final = """TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
    ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK
    POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL
    ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS
    TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP
    DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# _SYS_MSG_PRIORITY_ __LITE_TOPIC"""
SYSTEM_PROPERTIES: Final = frozenset(_SYSTEM.split())
"""Names that a producer may not give a property of its own, and that no consumer is shown among them."""
ATTEMPTS_MAX: Final = (1 << 31) - 2
DIGITS_MAX: Final = 19
PRIORITY_MAX: Final = (1 << 31) - 1
_DELAYS: Final = ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")


def delay_level(settings: ProxySettings, delay_ms: int) -> int:
    """The level with the shortest delay that is longer than this one, as RocketMQ chooses it; without such a level the one with the longest
    delay."""
    levels = [(level_ms, place) for place, level_ms in enumerate(delay_levels(settings.message_delay_level), start=1)]
    return min((level for level in levels if delay_ms < level[0]), default=max(levels))[1]


def _user_properties(given: Mapping[str, str], settings: ProxySettings) -> int:
    """Checks the user's properties. Returns their size in bytes."""
    if len(given) > settings.user_property_max_num:
        raise ProxyError("MESSAGE_PROPERTIES_TOO_LARGE", f"too many user properties, max is {settings.user_property_max_num}")
    for name, value in given.items():
        if name in SYSTEM_PROPERTIES:
            raise ProxyError("ILLEGAL_MESSAGE_PROPERTY_KEY", f"property is used by system: {name}")
        if has_control(name) or has_control(value):
            part = "key" if has_control(name) else "value"
            raise ProxyError("ILLEGAL_MESSAGE_PROPERTY_KEY", f"the {part} of property cannot contain control character")
    return sum(len(name.encode()) + len(value.encode()) for name, value in given.items())


def _delivery(system: Any, settings: ProxySettings, now_ms: int) -> dict[str, str]:
    if not system.HasField("delivery_timestamp"):
        return {}
    deliver_ms = millis(system.delivery_timestamp)
    if 0 < settings.max_delay_time_mills < deliver_ms - now_ms:
        raise ProxyError("ILLEGAL_DELIVERY_TIME", f"the max delay time of message is too large, max is {settings.max_delay_time_mills}")
    level = {"DELAY": str(delay_level(settings, deliver_ms - now_ms))} if settings.use_delay_level else {}
    return {**level, "TIMER_DELIVER_MS": str(deliver_ms)}


def _transaction(system: Any, settings: ProxySettings) -> dict[str, str]:
    if system.message_type != schema.number("MessageType", "TRANSACTION"):
        return {}
    if not system.HasField("orphaned_transaction_recovery_duration"):
        return {"TRAN_MSG": "true"}
    seconds = system.orphaned_transaction_recovery_duration.seconds
    if 0 < settings.max_transaction_recovery_second < seconds:
        most = settings.max_transaction_recovery_second
        raise ProxyError("BAD_REQUEST", f"the max transaction recovery time of message is too large, max is {most}")
    return {"TRAN_MSG": "true", "CHECK_IMMUNITY_TIME_IN_SECONDS": str(seconds)}


def properties_of(message: Any, settings: ProxySettings, group: str, peer_host: str, now_ms: int) -> dict[str, str]:
    """A message's properties in the form that brokers take. Raises ProxyError that says what is wrong with the message."""
    system, properties = message.system_properties, dict(message.user_properties)
    size = _user_properties(properties, settings)
    check_text("ILLEGAL_MESSAGE_TAG", "tag", system.tag, forbidden="|")
    if system.tag:
        properties["TAGS"] = system.tag
    if len(system.keys) > settings.max_user_property_size:  # each has a byte, and is looked at character by character
        most = settings.max_user_property_size
        raise ProxyError("MESSAGE_PROPERTIES_TOO_LARGE", f"more keys than the total size of user property may be, which is {most}")
    for key in system.keys:
        check_text("ILLEGAL_MESSAGE_KEY", "key", key)
    if system.keys:
        properties["KEYS"] = " ".join(system.keys)
    size += len(system.tag.encode()) + sum(len(key.encode()) for key in system.keys)
    if size > settings.max_user_property_size:
        most = settings.max_user_property_size
        raise ProxyError("MESSAGE_PROPERTIES_TOO_LARGE", f"the total size of user property is too large, max is {most}")
    if is_blank(system.message_id):
        raise ProxyError("ILLEGAL_MESSAGE_ID", "message id cannot be empty")
    for code, what, text in (
        ("ILLEGAL_MESSAGE_ID", "message id", system.message_id),
        ("BAD_REQUEST", "trace context", system.trace_context),
        ("BAD_REQUEST", "born host", system.born_host),
    ):
        if has_control(text):
            raise ProxyError(code, f"{what} cannot contain control character")
    properties["UNIQ_KEY"] = system.message_id
    properties |= _transaction(system, settings) | _delivery(system, settings, now_ms)
    if system.HasField("priority"):
        if system.priority < 0:
            raise ProxyError("BAD_REQUEST", "The priority must be greater than or equal to 0")
        properties["_SYS_MSG_PRIORITY_"] = str(system.priority)
    properties["RECONSUME_TIME"] = str(system.delivery_attempt)
    properties["PGROUP"] = group
    if system.message_group:
        check_text("ILLEGAL_MESSAGE_GROUP", "message group", system.message_group)
        if 0 < settings.max_message_group_size <= len(system.message_group.encode()):
            raise ProxyError("ILLEGAL_MESSAGE_GROUP", f"message group exceed the max size {settings.max_message_group_size}")
        properties["__SHARDINGKEY"] = system.message_group
    if system.lite_topic:
        properties["__LITE_TOPIC"] = lite_topic_of(system.lite_topic, settings.max_lite_topic_size)
    if system.trace_context:
        properties["TRACE_CONTEXT"] = system.trace_context
    if host := peer_host if is_blank(system.born_host) else system.born_host:
        properties["__BORNHOST"] = host
    properties["BORN_TIMESTAMP"] = str(millis(system.born_timestamp))
    return properties


def message_type_of(properties: Mapping[str, str]) -> str:
    if properties.get("TRAN_MSG") == "true":
        return "TRANSACTION"
    if any(name in properties for name in _DELAYS):
        return "DELAY"
    kinds = {"__SHARDINGKEY": "FIFO", "_SYS_MSG_PRIORITY_": "PRIORITY", "__LITE_TOPIC": "LITE"}
    return next((kind for name, kind in kinds.items() if name in properties), "NORMAL")


def is_type_checked(settings: ProxySettings, topic: str) -> bool:
    """Whether the topic accepts only messages of its type. Retry and dead letter topics accept any."""
    return settings.enable_topic_message_type_check and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def check_type(topic_type: str, properties: Mapping[str, str]) -> None:
    """Raises ProxyError if the topic does not accept messages of this type."""
    actual = message_type_of(properties)
    if topic_type not in (actual, "MIXED"):
        text = f"TopicMessageType validate failed, the expected type is {topic_type}, but actual type is {actual}"
        raise ProxyError("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", text)


def body_of(message: Any, settings: ProxySettings) -> bytes:
    """The message's body. Raises ProxyError if it is empty or too large."""
    body = bytes(message.body)
    if not body and settings.enable_message_body_empty_check:
        raise ProxyError("MESSAGE_BODY_EMPTY", "message body cannot be empty")
    if 0 < settings.max_message_size < len(body):
        raise ProxyError("MESSAGE_BODY_TOO_LARGE", f"message body cannot exceed the max {settings.max_message_size}")
    return body


def _whole(text: str) -> int | None:
    """The number in a property; None if it is not a number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None


def grpc_message(stored: Message, handle: str = "", now_ms: int = 0, lite_topic: str = "") -> Any:
    """The message as a client gets it. `handle` is that of a popped message, `lite_topic` the one it was popped from."""
    properties = stored.properties
    user = {name: value for name, value in properties.items() if name not in SYSTEM_PROPERTIES}
    message = schema.message("Message")(topic={"name": stored.topic}, user_properties=user, body=stored.body)
    system = message.system_properties
    if "TAGS" in properties:
        system.tag = properties["TAGS"]
    if "KEYS" in properties:
        system.keys.extend(key for key in properties["KEYS"].split(" ") if key)
    system.message_id = message_id_of(stored)
    system.body_digest.type = schema.number("DigestType", "MD5")
    system.body_digest.checksum = hashlib.md5(stored.body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = schema.number("Encoding", "GZIP" if stored.sys_flag & COMPRESSED else "IDENTITY")
    system.message_type = schema.number("MessageType", message_type_of(properties))
    set_millis(system.born_timestamp, stored.born_timestamp_ms)
    system.born_host = properties.get("__BORNHOST", "") or stored.born_host.rpartition(":")[0]
    set_millis(system.store_timestamp, stored.store_timestamp_ms)
    system.store_host = stored.store_host
    if (seconds := _whole(properties.get("TIMER_DELAY_SEC", ""))) is not None:
        set_millis(system.delivery_timestamp, now_ms + seconds * 1000)
    elif (deliver_ms := _whole(properties.get("TIMER_DELIVER_MS", ""))) is not None:
        set_millis(system.delivery_timestamp, deliver_ms)
    if "__SHARDINGKEY" in properties:
        system.message_group = properties["__SHARDINGKEY"]
    if (priority := _whole(properties.get("_SYS_MSG_PRIORITY_", ""))) is not None and priority <= PRIORITY_MAX:
        system.priority = priority
    if lite_topic or "__LITE_TOPIC" in properties:
        system.lite_topic = lite_topic or properties["__LITE_TOPIC"]
    if handle:
        system.receipt_handle = handle
    system.queue_id = stored.queue_id
    system.queue_offset = stored.queue_offset
    system.delivery_attempt = min(max(stored.reconsume_times, 0), ATTEMPTS_MAX) + 1
    if "TRACE_CONTEXT" in properties:
        system.trace_context = properties["TRACE_CONTEXT"]
    if "DLQ_ORIGIN_TOPIC" in properties and "DLQ_ORIGIN_MESSAGE_ID" in properties:
        system.dead_letter_queue.topic = properties["DLQ_ORIGIN_TOPIC"]
        system.dead_letter_queue.message_id = properties["DLQ_ORIGIN_MESSAGE_ID"]
    return message


def received_message(popped: Popped, now_ms: int) -> Any:
    return grpc_message(popped.message, popped.handle.text, now_ms, popped.lite_topic)
