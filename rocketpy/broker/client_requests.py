"""Requests of producers and consumers about themselves: heartbeats, goodbyes, who else is in the group, offsets, queue locks.
RocketMQ: ClientManageProcessor, ConsumerManageProcessor, AdminBrokerProcessor.lockBatchMQ (5.3.3 broker/processor/).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import (
    GetConsumerListByGroupRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UnregisterClientRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from ..remoting.json_codec import json_text
from . import names
from .clients import Channel, Client
from .group_locks import LockRequest, lock_by_majority, unlock_in_group
from .group_members import group_members
from .heartbeat import CONSUME_ACTIVELY, ConsumerData, Heartbeat, Subscription
from .json_members import boolean_member, list_member, text_member
from .parts import HandlerTable, Parts, read_body, read_object, read_queue
from .pull import subscription_fault
from .rebalance_locks import MessageQueue
from .repeated_heartbeats import RepeatedHeartbeats
from .static_topics import StaticTopics
from .subscriptions import GroupConfig
from .topics import QUEUES_MAX

log = logging.getLogger(__name__)

LOCK_QUEUES_MAX = 100_000
QUEUES_ANYWAY = 256
"""Whose offsets are kept for any topic (RP_OFFSET_QUEUES_ANYWAY): it may have had more queues than it has now."""


_HEARD = Response(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})
_UNCHANGED = Response(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"})
"""Of version 2 alone: the client need not say again what it subscribed to."""


class ClientRequests:
    """Handlers of what clients say about themselves. A client's connection belongs to one listener, so each listener has its own
    handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._static = StaticTopics(parts)
        self._repeated = RepeatedHeartbeats(parts)

    def handlers(self, listener: int) -> HandlerTable:
        return {
            RequestCode.HEART_BEAT: functools.partial(self._heartbeat, listener),
            RequestCode.UNREGISTER_CLIENT: functools.partial(self._unregister, listener),
            RequestCode.CHECK_CLIENT_CONFIG: self._check_config,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._consumer_list,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
        }

    def _heartbeat(self, listener: int, request: Request) -> Response:
        channel = Channel(listener, request.connection_id)
        if self._repeated.renew(channel, request):
            return _HEARD
        heartbeat = read_body(request, Heartbeat.from_json)
        before = self._repeated.standing(channel, heartbeat)
        client = Client(
            channel,
            heartbeat.client_id,
            request.remote_address,
            request.language,
            request.version,
            self._parts.clock(),
        )
        changed = [self._consume(heartbeat, data, client) for data in heartbeat.consumers]
        for group in heartbeat.producer_groups:
            self._parts.producers.register(group, _copy(client))
        self._repeated.keep(channel, request, heartbeat, before)
        return _UNCHANGED if heartbeat.fingerprint and not any(changed) else _HEARD

    def _consume(self, heartbeat: Heartbeat, data: ConsumerData, client: Client) -> bool:
        """Takes one group of a heartbeat. True if the client has to send its subscriptions again."""
        parts = self._parts
        if parts.settings.reject_pull_consumer and data.consume_type == CONSUME_ACTIVELY:
            return False
        config = parts.groups.find_or_create(data.group)
        if config is None:
            return False
        self._make_retry_topic(config, data)
        known = parts.consumers.get(data.group)
        other_print = known is not None and known.fingerprint != heartbeat.fingerprint  # 0: a client of version 1 was the last one
        unknown_subscriptions = heartbeat.without_sub and (known is None or not known.subscriptions)
        parts.act(parts.consumers.register(data, _copy(client), update_subscriptions=not heartbeat.without_sub))
        group = parts.consumers.get(data.group)
        if group is not None and group.fingerprint != heartbeat.fingerprint:
            group.fingerprint = heartbeat.fingerprint
            group.changes += 1
        return other_print or unknown_subscriptions

    def _make_retry_topic(self, config: GroupConfig, data: ConsumerData) -> None:
        parts = self._parts
        order = any(parts.topics.is_order_topic(subscription.topic) for subscription in data.subscriptions)
        topic = names.retry_topic(data.group)
        if not names.is_possible(topic):  # its group reads nevertheless
            return
        known = parts.topics.get(topic)
        if known is not None and (known.order == order or not data.subscriptions):
            return
        if parts.deletion.is_under_way(topic):  # its next heartbeat makes it
            return
        parts.topics.create_plain(
            topic,
            min(max(config.retry_queues, 0), QUEUES_MAX),  # a file of RocketMQ's may hold any number
            names.PERM_READ | names.PERM_WRITE,
            order=order,
            system_flag=names.unit_flag(unit=False, has_unit_sub=True) if data.unit_mode else 0,
        )
        parts.registration.announce([topic])

    def _unregister(self, listener: int, request: Request) -> Response:
        header = UnregisterClientRequestHeader.decode(request.fields)
        channel = Channel(listener, request.connection_id)
        if header.producer_group is not None:
            self._parts.producers.unregister(header.producer_group, channel)
        if header.consumer_group is not None:
            self._parts.act(self._parts.consumers.unregister(header.consumer_group, channel))
        return Response()

    def _check_config(self, request: Request) -> Response:
        """Checks whether a subscription of the client would work here, which a consumer asks before it starts."""
        value = read_body(request, read_object).get("subscriptionData")
        if value is None:
            return Response()
        try:
            subscription = Subscription.from_json(value)
        except ValueError as error:
            raise CommandError(ResponseCode.INVALID_PARAMETER, str(error)) from error
        return subscription_fault(subscription, property_filter=self._parts.settings.property_filter) or Response()

    def _consumer_list(self, request: Request) -> Response:
        group = GetConsumerListByGroupRequestHeader.decode(request.fields).consumer_group
        info = self._parts.consumers.get(group)
        if info is None or not info.clients:
            log.warning("no consumer for this group, %s %s", group, request.remote_address)
            return Response(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        return Response(body=info.encoded_ids())

    async def _update_offset(self, request: Request) -> Response:
        parts = self._parts
        header = UpdateConsumerOffsetRequestHeader.decode(request.fields)
        queue = self._static.queue(request, header.topic, header.queue_id)
        if not parts.groups.serves(header.consumer_group):
            return Response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.consumer_group} not exist!")
        if not parts.serves(header.topic):
            return Response(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} not exist!")
        if header.queue_id < 0 or header.commit_offset < 0:
            return Response(
                ResponseCode.INVALID_PARAMETER,
                f"queueId {header.queue_id} or offset {header.commit_offset} is negative, topic is {header.topic}",
            )
        if queue is not None:
            return await self._static.update_offset(request, queue, header)
        if (
            not self._may_be_made(header.topic, header.queue_id)
            and parts.offsets.query(header.consumer_group, header.topic, header.queue_id) < 0
        ):
            return Response(ResponseCode.INVALID_PARAMETER, f"queueId {header.queue_id} is illegal, topic is {header.topic}")
        parts.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset, request.remote_address)
        return Response()

    def _may_be_made(self, topic: str, queue_id: int) -> bool:
        """An offset's place, and those of all queues before it (csrc/broker/offset_requests.c)."""
        config = self._parts.topics.get(topic)
        return queue_id < QUEUES_ANYWAY or (config is not None and queue_id < max(config.read_queue_nums, config.write_queue_nums))

    async def _query_offset(self, request: Request) -> Response:
        parts = self._parts
        header = QueryConsumerOffsetRequestHeader.decode(request.fields)
        queue = self._static.queue(request, header.topic, header.queue_id)
        if queue is not None and not queue.is_plain:
            return await self._static.query_offset(request, queue, header)
        if queue is not None:
            header = replace(header, queue_id=queue.items[-1].queue_id)
        offset = parts.offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset < 0:
            if header.set_zero_if_not_found is False:
                return Response(ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")
            if not self._begins_at_zero(header.topic, header.queue_id):
                return Response(ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
            offset = 0
        return Response(fields=QueryConsumerOffsetResponseHeader(offset=offset))

    def _begins_at_zero(self, topic: str, queue_id: int) -> bool:
        """Whether a new group begins with the queue's first message: the queue is empty, or its first message is still there and recent
        enough.

        RocketMQ 5 answers QUERY_NOT_FOUND for an empty queue; messages that are sent before the client then asks for the end are never
        read.
        """
        parts = self._parts
        config = parts.topics.get(topic)
        if config is None or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            return False
        if parts.store.min_offset(topic, queue_id) > 0:
            return False
        first = parts.store.entries(topic, queue_id, 0, 1)
        if not first:
            return parts.store.max_offset(topic, queue_id) == 0
        (offset, size, _), log_max = first[0], parts.store.stats().get("commit_log_max_offset", 0)
        if size <= 0 or not 0 <= offset <= log_max:  # damaged: what is behind it shall not be missed
            return True
        return log_max - offset <= parts.memory_bytes * parts.settings.memory_ratio_max // 100

    def _lock(self, request: Request) -> Response | Awaitable[Response]:
        parts, lock = self._parts, read_body(request, _read_lock)
        granted = parts.locks.lock(lock.group, lock.queues, lock.client_id)
        if granted and parts.settings.lock_majority > 1 and not lock.only_this_broker:
            return self._lock_by_majority(lock, granted)
        return _granted(granted)

    async def _lock_by_majority(self, lock: LockRequest, own: list[MessageQueue]) -> Response:
        parts = self._parts
        return _granted(await lock_by_majority(parts.client, await self._members(), lock, own, parts.settings.lock_majority))

    def _unlock(self, request: Request) -> Response | Awaitable[Response]:
        parts, lock = self._parts, read_body(request, _read_lock)
        parts.locks.unlock(lock.group, lock.queues, lock.client_id)
        if parts.settings.lock_majority > 1 and not lock.only_this_broker:
            return self._unlock_in_group(lock)
        return Response()

    async def _unlock_in_group(self, lock: LockRequest) -> Response:
        await unlock_in_group(self._parts.client, await self._members(), lock)
        return Response()

    async def _members(self) -> list[str]:
        """The addresses of the other members of this broker's group, one for each."""
        registration = self._parts.registration
        members = dict(await group_members(self._parts.client, registration.name_servers, registration.identity))
        members.pop(self._parts.settings.broker_id, None)
        return list(members.values())


def _granted(queues: Iterable[MessageQueue]) -> Response:
    """Written here: most of an answer to who renews is this list."""
    texts = [f'{{"brokerName":{json_text(broker)},"queueId":{number:d},"topic":{json_text(topic)}}}' for topic, broker, number in queues]
    return Response(body=f'{{"lockOKMQSet":[{",".join(texts)}]}}'.encode())


def _copy(client: Client) -> Client:
    """A copy of the client's record for each group, because their last heartbeats may differ."""
    return Client(client.channel, client.client_id, client.address, client.language, client.version, client.seen_ms)


def _read_lock(value: Any) -> LockRequest:
    members: Mapping[Any, Any] = read_object(value)
    queues = list_member(members, "mqSet", "lock")
    if len(queues) > LOCK_QUEUES_MAX:
        raise ValueError(f"{len(queues)} queues, more than {LOCK_QUEUES_MAX}")
    return LockRequest(
        group=text_member(members, "consumerGroup", None, "lock"),
        client_id=text_member(members, "clientId", None, "lock"),
        queues=[read_queue(queue) for queue in queues],
        only_this_broker=boolean_member(members, "onlyThisBroker", False, "lock"),
    )
