"""The part of POP consumption that the fast path does not answer: pops by groups that do not exist yet, of unknown topics, or with filters
that this broker does not have. It also makes retry topics, which must exist before the first message is popped.
RocketMQ: PopMessageProcessor, PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor, PopReviveService (5.3.3
broker/processor/): their checks, in their order, for what is left to us.

    punted ─ topic, group made and saved ─ a pop's: filter, retry topic made and saved ─► back to the fast path
    native revive thread ─ a retry topic that is missing ─► made here, which it waits for
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Mapping
from typing import Final

from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode, see_faq
from ..remoting.command import CommandError, Response
from ..remoting.headers import (
    NotificationRequestHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PopMessageRequestHeader,
)
from . import names
from .consumer_orders import MESSAGES_MAX
from .escaping_messages import popped_topics
from .heartbeat import SQL92, TAG
from .parts import HandlerTable, Parts
from .pull import expression_fault, make_group, not_supported

log = logging.getLogger(__name__)

RETRY_QUEUES: Final = 1
"""PopAckConstants.retryQueueNum, while useSeparateRetryQueue is off."""

RETRY_TOPICS_AT_ONCE: Final = 64
"""As many as the revive thread names."""
REFUSED_MAX: Final = 1000

PopHeader = PopMessageRequestHeader | PeekMessageRequestHeader | NotificationRequestHeader | PollingInfoRequestHeader

_HEADERS: Final[Mapping[RequestCode, type[PopHeader]]] = {
    RequestCode.POP_MESSAGE: PopMessageRequestHeader,
    RequestCode.PEEK_MESSAGE: PeekMessageRequestHeader,
    RequestCode.NOTIFICATION: NotificationRequestHeader,
    RequestCode.POLLING_INFO: PollingInfoRequestHeader,
}


class PopRequests:
    """Handlers of punted pops and questions about them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self, listener: int) -> HandlerTable:
        return {code: functools.partial(self._answer, listener, header) for code, header in _HEADERS.items()}

    async def _answer(self, listener: int, header_type: type[PopHeader], request: Request) -> Response | None:
        header = header_type.decode(request.fields)
        refusal = self._refusal(header, request)
        if refusal is None:
            refusal = await self._group_fault(header.consumer_group)
        if refusal is None and isinstance(header, PopMessageRequestHeader):
            refusal = self._filter_fault(header)
            if refusal is None and self._may_be_popped(header):
                refusal = await self._retry_topic_fault(header)
        if refusal is None:
            self._parts.server_of(listener).resubmit(request)
        return refusal

    def _refusal(self, header: PopHeader, request: Request) -> Response | None:
        settings = self._parts.settings
        if settings.is_slave and not self._parts.acting.is_acting:
            return Response(ResponseCode.SYSTEM_ERROR, f"the broker[{settings.broker_ip}] is a slave: its master answers this")
        if not settings.permission & names.PERM_READ:
            what = "pop" if isinstance(header, PopMessageRequestHeader) else "peeking"
            return Response(ResponseCode.NO_PERMISSION, f"the broker[{settings.broker_ip}] {what} message is forbidden")
        if not self._parts.serves(header.topic):
            log.error("The topic %s not exist, consumer: %s", header.topic, request.remote_address)
            return Response(ResponseCode.TOPIC_NOT_EXIST, see_faq(f"topic[{header.topic}] not exist, apply first please! "))
        return None

    async def _group_fault(self, group: str) -> Response | None:
        if not await make_group(self._parts, group):
            return Response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, see_faq(f"subscription group [{group}] does not exist, "))
        return None

    def _filter_fault(self, header: PopMessageRequestHeader) -> Response | None:
        """What is wrong with a pop's filter; None when the fast path can answer it after all."""
        if not header.exp or (header.exp_type or TAG) == TAG:
            return None
        if header.exp_type != SQL92 or expression_fault(header.exp) is not None:
            return Response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
        return None if self._parts.settings.property_filter else not_supported(SQL92)

    def _may_be_popped(self, header: PopMessageRequestHeader) -> bool:
        """False where the fast path will refuse it, which could not look while there was no group: for that no retry topic is made."""
        topic, group = self._parts.topics.get(header.topic), self._parts.groups.get(header.consumer_group)
        is_queue = topic is None or (header.queue_id < topic.read_queue_nums and topic.perm & names.PERM_READ)
        return bool(is_queue) and 1 <= header.max_msg_nums <= MESSAGES_MAX and (group is None or group.consume_enable)

    async def _retry_topic_fault(self, header: PopMessageRequestHeader) -> Response | None:
        if header.order or self._parts.settings.is_slave:  # what a slave gives out comes again by another master
            return None
        newer, older = names.pop_retry_topics(header.topic, header.consumer_group)
        topic = newer if self._parts.settings.retry_topic_v2 else older
        try:
            await make_retry_topic(self._parts, topic, self._retry_queues(header.topic))
        except CommandError:
            return Response(
                ResponseCode.INVALID_PARAMETER,
                f"topic[{header.topic}] cannot be popped by group[{header.consumer_group}]: the name of their retry topic is too long",
            )
        return None

    def _retry_queues(self, topic: str) -> int:
        """How many queues the retry topic of this topic's is to have: the same as rp_pop_retry_queues."""
        config = self._parts.topics.get(topic)
        if config is None or not self._parts.settings.separate_retry_queues:
            return RETRY_QUEUES
        return max(RETRY_QUEUES, config.write_queue_nums)


async def make_retry_topic(parts: Parts, topic: str, queues: int) -> None:
    """Makes it, or gives it more queues; never fewer, as RocketMQ does: what is in the others would not be popped. Raises CommandError."""
    await parts.make_topic(topic, queues)
    await parts.widen_topic(topic, queues)


class RetryTopics:
    """Retry topics that are missing in a store that another broker wrote, or have too few queues since their topic has more, or since a
    broker was killed that had not written down how many there are; what is due there waits for them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._refused: set[str] = set()
        """Those of which the log has a line."""
        self._knows_store = False

    async def make_wanted(self) -> None:
        """Some; the revive thread names others when it has them, and again what is missing still."""
        if len(self._refused) > REFUSED_MAX:
            self._refused.clear()
        named = (self._parts.native.wanted_retry_topic() for _ in range(RETRY_TOPICS_AT_ONCE))
        wanted = [each for each in named if each is not None]
        if self._parts.settings.is_slave:
            self._knows_store = False  # what its master wrote down may come late
        elif not self._knows_store:
            self._knows_store = True
            wanted += self._stored().items()
        await asyncio.gather(*(self._make(*each) for each in wanted))  # together: the file is not written for each

    def _stored(self) -> dict[str, int]:
        """How many queues the retry topics that there are must have for all their messages to be popped."""
        parts, queues = self._parts, dict[str, int]()
        for topic, queue_id in parts.store.queues():
            is_one = topic in parts.topics and popped_topics(topic, parts.groups.__contains__, parts.topics.__contains__)
            if is_one and parts.store.min_offset(topic, queue_id) < parts.store.max_offset(topic, queue_id):
                queues[topic] = max(queues.get(topic, 0), queue_id + 1)
        return queues

    async def _make(self, topic: str, queues: int) -> None:
        try:
            await make_retry_topic(self._parts, topic, queues)
        except CommandError as error:
            if topic not in self._refused:
                log.error("the retry topic %s of popped messages cannot be made, they stay where they are: %s", topic, error)
            self._refused.add(topic)
