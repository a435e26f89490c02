"""Pulls that the fast path does not answer: of groups nobody made yet, of unknown topics, with filters this broker does not have.
RocketMQ: PullMessageProcessor (5.3.3 broker/processor/): its checks, in its order, for what is left to us.
"""

from __future__ import annotations

import functools
import logging
from typing import Final

from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode, see_faq
from ..remoting.command import Response
from ..remoting.headers import PullMessageRequestHeader
from .heartbeat import TAG, TAGS_MAX, Subscription
from .parts import HandlerTable, Parts

log = logging.getLogger(__name__)

FLAG_SUBSCRIPTION: Final = 4
FLAG_CLASS_FILTER: Final = 8
SUBSCRIPTION_FORBIDDEN: Final = "5"


class PullRequests:
    """Handlers of punted pulls."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self, listener: int) -> HandlerTable:
        pull = functools.partial(self._pull, listener)
        return {RequestCode.PULL_MESSAGE: pull, RequestCode.LITE_PULL_MESSAGE: pull}

    async def _pull(self, listener: int, request: Request) -> Response | None:
        header = PullMessageRequestHeader.decode(request.fields)
        parts = self._parts
        is_new = header.consumer_group not in parts.groups
        if parts.groups.find_or_create(header.consumer_group) is None:
            return Response(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                see_faq(f"subscription group [{header.consumer_group}] does not exist, "),
            )
        if is_new:
            await parts.saved.groups.save_or_log()  # a full disk must not keep readers away
            parts.groups.find_or_create(header.consumer_group)  # a slave may have copied its master's groups over it meanwhile
        if header.topic not in parts.topics:
            log.error("the topic %s not exist, consumer: %s", header.topic, request.remote_address)
            return Response(ResponseCode.TOPIC_NOT_EXIST, see_faq(f"topic[{header.topic}] not exist, apply first please! "))
        fault = self._filter_fault(header)
        if fault is not None:
            return fault
        parts.server_of(listener).resubmit(request)
        return None

    def _filter_fault(self, header: PullMessageRequestHeader) -> Response | None:
        """What is wrong with the filter of a pull, None when the fast path can answer it after all."""
        parts = self._parts
        if header.sys_flag & FLAG_CLASS_FILTER:
            return _not_supported("a filter class")
        if header.sys_flag & FLAG_SUBSCRIPTION:
            return None if header.expression_type in (None, "", TAG) else _not_supported(header.expression_type)
        if not parts.groups.is_readable(header.consumer_group, header.topic):
            return Response(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]",
                {"forbiddenType": SUBSCRIPTION_FORBIDDEN},
            )
        subscription = parts.consumers.subscription(header.consumer_group, header.topic)
        if subscription is not None and not subscription.is_by_tag:
            return _not_supported("a filter class" if subscription.class_filter else subscription.expression_type)
        return too_many_tags(subscription) if subscription is not None and subscription.has_too_many_tags else None


def too_many_tags(subscription: Subscription) -> Response:
    count = len(subscription.codes)
    return Response(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        f"the consumer's subscription of topic[{subscription.topic}] has {count} tags, this broker filters by at most {TAGS_MAX}",
    )


def _not_supported(expression_type: str) -> Response:
    return Response(ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {expression_type}")
