"""Pulls that the fast path does not answer: by groups that do not exist yet, of unknown topics, or with filters that this broker does not
have or does not allow.
RocketMQ: PullMessageProcessor (5.3.3 broker/processor/): its checks, in its order, for what is left to us.
"""

from __future__ import annotations

import functools
import logging
from typing import Final

from .._core.broker import check_sql
from .._core.errors import InvalidArgument
from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode, see_faq
from ..remoting.command import Response
from ..remoting.headers import PullMessageRequestHeader
from . import names
from .heartbeat import SQL92, TAG, TAGS_MAX, Subscription
from .parts import HandlerTable, Parts
from .static_topics import StaticTopics

log = logging.getLogger(__name__)

FLAG_SUBSCRIPTION: Final = 4
FLAG_CLASS_FILTER: Final = 8
BROKER_FORBIDDEN: Final = "1"
GROUP_FORBIDDEN: Final = "2"
TOPIC_FORBIDDEN: Final = "3"
SUBSCRIPTION_FORBIDDEN: Final = "5"
"""forbiddenType of an answer."""


class PullRequests:
    """Handlers of punted pulls."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._static = StaticTopics(parts)

    def handlers(self, listener: int) -> HandlerTable:
        pull = functools.partial(self._pull, listener)
        return {RequestCode.PULL_MESSAGE: pull, RequestCode.LITE_PULL_MESSAGE: pull}

    async def _pull(self, listener: int, request: Request) -> Response | None:
        header = PullMessageRequestHeader.decode(request.fields)
        parts = self._parts
        if not await make_group(parts, header.consumer_group):
            return Response(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                see_faq(f"subscription group [{header.consumer_group}] does not exist, "),
            )
        if not parts.serves(header.topic):
            log.error("the topic %s not exist, consumer: %s", header.topic, request.remote_address)
            return Response(ResponseCode.TOPIC_NOT_EXIST, see_faq(f"topic[{header.topic}] not exist, apply first please! "))
        fault = self._filter_fault(header) or self._permission_fault(header)
        if fault is not None:
            return fault
        if any(character > " " for character in header.lite_topic or ""):  # as natively: else it would come back without end
            return self._resubmit_of_lite_topic(listener, request, header)
        if (answer := await self._static.pull(request, header)) is not None:
            return answer
        parts.server_of(listener).resubmit(request)
        return None

    def _resubmit_of_lite_topic(self, listener: int, request: Request, header: PullMessageRequestHeader) -> Response | None:
        """The fast path has the lite topic from now on, or not at all."""
        queue = names.lite_queue(header.topic, header.lite_topic or "")
        if queue is None or not self._parts.serves(queue):
            return Response(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] has no lite topic of that name that could be read")
        self._parts.server_of(listener).resubmit(request)
        return None

    def _filter_fault(self, header: PullMessageRequestHeader) -> Response | None:
        """What is wrong with the filter of a pull, None when the fast path can answer it after all."""
        parts = self._parts
        if header.sys_flag & FLAG_CLASS_FILTER:
            return not_supported("a filter class")
        if header.sys_flag & FLAG_SUBSCRIPTION:
            return self._type_fault(header.expression_type or TAG)
        if not parts.groups.is_readable(header.consumer_group, header.topic):
            return _forbidden(SUBSCRIPTION_FORBIDDEN, f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]")
        subscription = parts.consumers.subscription(header.consumer_group, header.topic)
        if subscription is None:
            return None
        if subscription.class_filter:
            return not_supported("a filter class")
        if subscription.is_sql and (fault := expression_fault(subscription.expression)) is not None:
            return Response(ResponseCode.FILTER_DATA_NOT_EXIST, f"The broker's consumer filter data is not exist! {fault}")
        if subscription.has_too_many_tags:
            return too_many_tags(subscription)
        return self._type_fault(subscription.expression_type or TAG)

    def _permission_fault(self, header: PullMessageRequestHeader) -> Response | None:
        """What the fast path would say: a pull that is passed on to another broker is refused here first."""
        parts, topic, group = self._parts, self._parts.topics.get(header.topic), self._parts.groups.get(header.consumer_group)
        if not parts.settings.permission & names.PERM_READ:
            return _forbidden(BROKER_FORBIDDEN, f"the broker[{parts.settings.broker_ip}] pulling message is forbidden")
        if group is not None and not group.consume_enable:
            return _forbidden(GROUP_FORBIDDEN, f"subscription group no permission, {header.consumer_group}")
        if topic is not None and not topic.perm & names.PERM_READ:
            return _forbidden(TOPIC_FORBIDDEN, f"the topic[{header.topic}] pulling message is forbidden")
        return None

    def _type_fault(self, expression_type: str) -> Response | None:
        is_allowed = expression_type == TAG or (expression_type == SQL92 and self._parts.settings.property_filter)
        return None if is_allowed else not_supported(expression_type)


def _forbidden(forbidden_type: str, remark: str) -> Response:
    return Response(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": forbidden_type})


async def make_group(parts: Parts, group: str) -> bool:
    """Makes a group that reads here for the first time; returns when it is in its file. False: it is not made by being used."""
    is_new = group not in parts.groups
    if parts.groups.find_or_create(group) is None:
        return False
    if is_new:
        await parts.saved.groups.save_or_log()  # a full disk must not keep readers away
        parts.groups.find_or_create(group)  # a slave may have copied its master's groups over it meanwhile
    return True


def subscription_fault(subscription: Subscription, *, property_filter: bool) -> Response | None:
    """Why a subscription would not work here, which a consumer asks before it starts; None: it would."""
    if subscription.has_too_many_tags:
        return too_many_tags(subscription)
    if subscription.is_by_tag:
        return None
    if not subscription.is_sql or not property_filter:
        return not_supported(subscription.expression_type)
    fault = expression_fault(subscription.expression)
    return None if fault is None else Response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, fault)


def expression_fault(expression: str) -> str | None:
    """What is wrong with a SQL92 expression, None when nothing is."""
    try:
        check_sql(expression)
    except InvalidArgument as error:
        return str(error)
    return None


def too_many_tags(subscription: Subscription) -> Response:
    count = len(subscription.codes)
    return Response(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        f"the consumer's subscription of topic[{subscription.topic}] has {count} tags, this broker filters by at most {TAGS_MAX}",
    )


def not_supported(expression_type: str) -> Response:
    return Response(ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {expression_type}")
