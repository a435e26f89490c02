"""Sends that need more than an append, because the topic does not exist yet or the message is a special one.
RocketMQ: AbstractSendMessageProcessor.msgCheck, SendMessageProcessor (5.3.3 broker/processor/).

    punted send ─ name, permission ─┬─ special (lite topic, level) ─► the error it deserves
                                    ├─ retry topic ─ another try, or a dead letter ─────────────┐
                                    ├─ unknown topic ─ create from its default topic ─ persist ─┤
                                    └─ a topic made meanwhile ──────────────────────────────────┴─► back to the fast path
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Final

from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode, see_faq
from ..remoting.command import CommandError, Response
from ..remoting.headers import SendMessageRequestHeader, SendMessageRequestHeaderV2
from . import names
from .parts import HandlerTable, Parts
from .retries import ConsumerRetries
from .topics import is_checked_send, is_native_send, topic_config_text

log = logging.getLogger(__name__)

REJECTED: Final = "[REJECTREQUEST]system busy, start flow control for a while"

TOO_MANY_LIGHT_QUEUES: Final = "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded."

_REPLIES: Final = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
PLAIN_SYS_FLAGS: Final = 0x703
"""Compressed, several tags, and how it is compressed: what the fast path keeps as it comes."""

TRANSACTION_SYS_FLAGS: Final = 0xC
"""What a prepared message says besides, and the broker takes away."""

HOST_SYS_FLAGS: Final = 0x30
"""How long the hosts of a stored record are: of one that somebody passes on, which the fast path takes away."""

BATCH_SYS_FLAGS: Final = 0xC0
"""What the record of a topic with queue.type=BatchCQ says, which the broker makes of sends and batches."""

Decode = Callable[[Mapping[str, str]], SendMessageRequestHeader]

_TIMERS: Final = ("TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS")
_INT_DIGITS_MAX: Final = 10
CAN_BE_STORED: Final = 1
IS_DEAD_LETTER: Final = 2
"""What is found out about a send that goes back to the fast path (rp_send_found)."""


def read_properties(text: str | None) -> dict[str, str]:
    """The properties of a message: name \\x01 value \\x02, pairs without a value are dropped as RocketMQ does."""
    pairs = (pair.partition("\x01") for pair in (text or "").split("\x02"))
    return {name: value for name, _, value in pairs if name and value}


def is_prepared(properties: Mapping[str, str]) -> bool:
    """Whether the message waits for the end of a transaction."""
    return properties.get("TRAN_MSG", "").lower() == "true"


def special_fault(
    topic: str, properties: dict[str, str], *, reject_transaction: bool, broker_ip: str, light_queues: bool = False
) -> Response | None:
    """Why a message that is not a plain one is refused; None for a plain one."""
    if is_prepared(properties) and reject_transaction:
        return Response(ResponseCode.NO_PERMISSION, f"the broker[{broker_ip}] sending transaction message is forbidden")
    if _is_set(properties, "DELAY") and not _is_level(properties["DELAY"]):
        return Response(ResponseCode.SYSTEM_ERROR, f'java.lang.NumberFormatException: For input string: "{properties["DELAY"]}"')
    if topic.startswith(names.LIGHT_QUEUE_PREFIX) and not light_queues:
        return _not_yet("light message queues without enableLmq and enableMultiDispatch")
    return None


def lite_fault(topic: str, properties: Mapping[str, str], *, light_queues: bool, is_alone: bool) -> Response | None:
    """Why a message of a lite topic is refused: stored as a plain one, no lite consumer would ever get it. is_alone: neither in a batch nor
    a reply."""
    if "__LITE_TOPIC" not in properties or topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)):  # which keep what they were made of
        return None
    if not light_queues:
        return _not_yet("lite topics without enableLmq and enableMultiDispatch")
    return None if is_alone else _not_yet("lite topics of batches and of replies")


def _is_level(text: str) -> bool:
    """Whether Java's Integer.parseInt accepts the text."""
    digits = text.removeprefix("+")
    significant = digits.lstrip("0") or "0"
    return digits.isdecimal() and digits.isascii() and len(significant) <= _INT_DIGITS_MAX and int(significant) < 1 << 31


def _is_set(properties: Mapping[str, str], name: str) -> bool:
    """Whether a property is set: 0 and negative values mean no, as on the fast path. If the two differed, a message that the fast path
    passes on and we pass back would never be answered."""
    value = properties.get(name, "0")
    return value != "0" and not value.startswith("-")


def _not_yet(what: str) -> Response:
    return Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"this broker does not support {what} yet")


class SendRequests:
    """Handlers of sends and replies that the fast path passes on."""

    def __init__(self, parts: Parts, retries: ConsumerRetries) -> None:
        self._parts = parts
        self._retries = retries

    def handlers(self, listener: int) -> HandlerTable:
        v1 = functools.partial(self._send, listener, SendMessageRequestHeader.decode)
        v2 = functools.partial(self._send, listener, lambda fields: SendMessageRequestHeaderV2.decode(fields).to_v1())
        return {
            RequestCode.SEND_MESSAGE: v1,
            RequestCode.SEND_MESSAGE_V2: v2,
            RequestCode.SEND_BATCH_MESSAGE: v2,
            RequestCode.SEND_REPLY_MESSAGE: v1,
            RequestCode.SEND_REPLY_MESSAGE_V2: v2,
        }

    async def _send(self, listener: int, decode: Decode, request: Request) -> Response | None:
        header = decode(request.fields)
        settings = self._parts.settings
        if settings.is_slave:
            return Response(ResponseCode.SYSTEM_BUSY, REJECTED)
        refusal, found = await self._refusal(header, request), CAN_BE_STORED
        if refusal is None and header.topic.startswith(names.RETRY_PREFIX):
            try:
                found = await self._retry(header, request)
            except CommandError as error:
                refusal = Response(error.code, error.remark)
        if refusal is None:
            self._parts.server_of(listener).resubmit(request, found)
            return None
        fields = {"MSG_REGION": settings.region_id, "TRACE_ON": str(settings.trace_on).lower()}
        return dataclasses.replace(refusal, fields=fields)

    async def _refusal(self, header: SendMessageRequestHeader, request: Request) -> Response | None:
        """Why the fast path cannot have the message; None if it can, now that its topic is there."""
        parts, settings = self._parts, self._parts.settings
        fault = names.topic_fault(header.topic)
        if fault is not None:
            return Response(ResponseCode.INVALID_PARAMETER, fault)
        if header.topic in names.SEND_FORBIDDEN_TOPICS:
            return Response(ResponseCode.NO_PERMISSION, f"Sending message to topic[{header.topic}] is forbidden.")
        properties = read_properties(header.properties)
        special = special_fault(
            header.topic,
            properties,
            reject_transaction=settings.reject_transaction,
            broker_ip=settings.broker_ip,
            light_queues=parts.topics.is_light(header.topic),
        )
        if special is None:
            is_alone = not header.batch and request.code not in _REPLIES
            special = lite_fault(header.topic, properties, light_queues=settings.light_queues, is_alone=is_alone)
        if special is None and request.code in _REPLIES and any(_is_set(properties, name) for name in ("DELAY", *_TIMERS)):
            special = _not_yet("delayed replies")
        if special is not None:
            log.warning("send of %s to topic %s refused: %s", request.remote_address, header.topic, special.remark)
            return special
        if header.sys_flag & BATCH_SYS_FLAGS:
            return Response(ResponseCode.MESSAGE_ILLEGAL, "the message is illegal: sys flags of batches are the broker's to set")
        if header.sys_flag & ~(PLAIN_SYS_FLAGS | HOST_SYS_FLAGS | (TRANSACTION_SYS_FLAGS if is_prepared(properties) else 0)):
            return _not_yet(f"messages with sys flag {header.sys_flag:#x}")
        if parts.topics.is_light(header.topic):
            return None if parts.serves(header.topic) else Response(ResponseCode.SYSTEM_ERROR, TOO_MANY_LIGHT_QUEUES)
        if header.topic not in parts.topics:  # last: what is refused makes no topic
            try:
                await self._create_topic(header, request)
            except CommandError as error:
                return Response(error.code, error.remark)
        if header.topic in parts.topics.withheld:
            await parts.release_new(header.topic)
        config = parts.topics.get(header.topic)
        if config is not None and not (is_native_send(config) or is_checked_send(config)):
            return _not_yet(f"sends to {topic_config_text(config)}")
        return None

    async def _retry(self, header: SendMessageRequestHeader, request: Request) -> int:
        """Whether a message that a consumer could not process may be tried again (SendMessageProcessor.handleRetryAndDLQ)."""
        if header.batch:
            raise CommandError(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {header.topic}")
        group = names.group_of_retry_topic(header.topic)
        tries_max = self._retries.tries_max(group, header.max_reconsume_times, request.version)
        if not (is_locked := self._parts.locks.is_locked(group)):
            self._parts.native.set_locked(group, False)  # the next one needs nobody to look
        if (header.reconsume_times or 0) <= tries_max and not is_locked:
            return CAN_BE_STORED
        await self._retries.make_dead_letter_topic(group)
        return IS_DEAD_LETTER

    async def _create_topic(self, header: SendMessageRequestHeader, request: Request) -> None:
        parts = self._parts
        await parts.deletion.over(header.topic)
        is_unit = bool(header.unit_mode)
        log.warning("the topic %s not exist, producer: %s", header.topic, request.remote_address)
        config = parts.topics.create_for_send(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            request.remote_address,
            names.unit_flag(unit=is_unit, has_unit_sub=False),
        )
        if config is None and header.topic.startswith(names.RETRY_PREFIX):
            config, _ = parts.topics.create_plain(header.topic, 1, names.PERM_READ | names.PERM_WRITE)
        if config is None:
            raise CommandError(ResponseCode.TOPIC_NOT_EXIST, see_faq(f"topic[{header.topic}] not exist, apply first please!"))
        parts.registration.announce([header.topic])
