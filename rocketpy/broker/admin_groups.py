"""Requests about consumer groups and who is connected: create, change, delete, show, connections, request modes, queue assignment.
RocketMQ: AdminBrokerProcessor, QueryAssignmentProcessor (5.3.3 broker/processor/).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .._core.remoting import Request
from ..remoting.codes import Language, RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)
from . import names
from .attributes import AttributeFault
from .clients import Client
from .group_faults import group_config_fault
from .heartbeat import BROADCASTING, CLUSTERING
from .json_members import fits_32_bits, list_member, text_member
from .parts import HandlerTable, Parts, is_version, json_response, now_ms, queue_json, read_body, read_object
from .rebalance_locks import MessageQueue
from .request_modes import RequestMode, allocate
from .subscriptions import GroupConfig

log = logging.getLogger(__name__)


class GroupAdmin:
    """Handlers of requests about consumer groups."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._update,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._update_list,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self._delete,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._one,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self._forbid,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self._producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self._all_producers,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self._subscription,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._all_modes,
            RequestCode.QUERY_ASSIGNMENT: self._assignment,
        }

    async def _update(self, request: Request) -> Response:
        log.info("updateAndCreateSubscriptionGroup called by %s", request.remote_address)
        return await self._apply([read_body(request, GroupConfig.from_json)])

    async def _update_list(self, request: Request) -> Response:
        log.info("updateAndCreateSubscriptionGroupList called by %s", request.remote_address)
        return await self._apply(read_body(request, _read_groups))

    async def _apply(self, configs: list[GroupConfig]) -> Response:
        self._parts.check_not_slave()
        for config in configs:
            fault = group_config_fault(config)
            if fault is not None:
                return Response(ResponseCode.INVALID_PARAMETER, fault)
        try:
            for config in configs:
                self._parts.groups.update(config)
        except AttributeFault as error:
            raise CommandError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        finally:
            await self._parts.saved.groups.save()
        return Response()

    async def _delete(self, request: Request) -> Response:
        parts = self._parts
        header = DeleteSubscriptionGroupRequestHeader.decode(request.fields)
        log.info("deleteSubscriptionGroup %s, caller=%s", header.group_name, request.remote_address)
        parts.check_not_slave()
        config = parts.groups.get(header.group_name)
        is_lite = config is not None and config.lite_topic is not None
        parts.groups.delete(header.group_name)
        parts.stats.forget_group(header.group_name)
        try:
            if header.clean_offset or is_lite:
                parts.offsets.delete_group(header.group_name)
                await parts.saved.offsets.save()
        finally:  # what has left the table must not come back with the next start
            await parts.saved.groups.save()
        return Response()

    async def _all(self, request: Request) -> Response:
        """All groups or, since 5.4, a part of them: from groupSeq on, as long as the version that the client has seen is still the current
        one. Slaves ask every ten seconds, and the text of thousands is made beside the event loop."""
        groups = self._parts.groups
        header = GetAllSubscriptionGroupRequestHeader.decode(request.fields)
        asked, total = groups.snapshot(), len(groups)
        begin = max(0, header.group_seq or 0) if is_version(header.data_version, groups.version) else 0
        count = total if header.group_seq is None or header.max_group_num is None else max(0, header.max_group_num)

        def encode() -> bytes:
            listed = sorted(asked.configs, key=lambda config: config.group)
            return groups.texts.compact(replace(asked, configs=tuple(listed[begin : begin + count])))

        body = await asyncio.get_running_loop().run_in_executor(None, encode)
        return Response(fields=GetAllSubscriptionGroupResponseHeader(total_group_num=total), body=body)

    def _one(self, request: Request) -> Response:
        config = self._parts.groups.find_or_create(GetSubscriptionGroupConfigRequestHeader.decode(request.fields).group)
        if config is None:
            return Response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return json_response(config.to_json())

    async def _forbid(self, request: Request) -> Response:
        header = UpdateGroupForbiddenRequestHeader.decode(request.fields)
        groups = self._parts.groups
        if header.readable is not None:
            groups.set_readable(header.group, header.topic, header.readable)
            await self._parts.saved.groups.save()
        readable = groups.is_readable(header.group, header.topic)
        return json_response({"group": header.group, "readable": readable, "topic": header.topic})

    def _consumer_connections(self, request: Request) -> Response:
        group = GetConsumerConnectionListRequestHeader.decode(request.fields).consumer_group
        info = self._parts.consumers.get(group)
        if info is None:
            return Response(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
        return json_response(
            {
                "connectionSet": _connections(info.clients.values()),
                "consumeFromWhere": info.consume_from_where,
                "consumeType": info.consume_type,
                "messageModel": info.message_model,
                "subscriptionTable": {topic: subscription.to_json() for topic, subscription in info.subscriptions.items()},
            }
        )

    def _producer_connections(self, request: Request) -> Response:
        group = GetProducerConnectionListRequestHeader.decode(request.fields).producer_group
        clients = self._parts.producers.clients(group)
        if clients is None:
            return Response(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
        return json_response({"connectionSet": _connections(clients)})

    def _all_producers(self, request: Request) -> Response:
        ahead_ms = now_ms() - self._parts.clock()
        return json_response(
            {"data": {group: [_producer(client, ahead_ms) for client in clients] for group, clients in self._parts.producers}}
        )

    def _subscription(self, request: Request) -> Response:
        header = QuerySubscriptionByConsumerRequestHeader.decode(request.fields)
        topic = header.topic or ""
        subscription = self._parts.consumers.subscription(header.group, topic)
        return json_response(
            {
                "group": header.group,
                "subscriptionData": None if subscription is None else subscription.to_json(),
                "topic": topic,
            }
        )

    async def _set_mode(self, request: Request) -> Response:
        parts = self._parts
        mode = read_body(request, RequestMode.from_json)
        if not fits_32_bits(mode.pop_share):
            return Response(ResponseCode.INVALID_PARAMETER, f"popShareQueueNum = {mode.pop_share} is not a number of 32 bits")
        if mode.topic.startswith(names.RETRY_PREFIX):
            return Response(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if mode.topic not in parts.topics:
            return Response(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
        if parts.groups.find_or_create(mode.group) is None:
            return Response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        parts.request_modes.set(mode)
        await parts.saved.request_modes.save()
        return Response()

    def _all_modes(self, request: Request) -> Response:
        return json_response(self._parts.request_modes.to_json())

    async def _assignment(self, request: Request) -> Response:
        """The queues that a client shall read, divided here instead of in the client (push consumers of 5.x)."""
        members = read_body(request, read_object)
        try:
            topic, group, client_id, model, strategy = (
                text_member(members, name, default, "assignment")
                for name, default in (
                    ("topic", None),
                    ("consumerGroup", None),
                    ("clientId", None),
                    ("messageModel", CLUSTERING),
                    ("strategyName", ""),
                )
            )
        except ValueError as error:
            raise CommandError(ResponseCode.INVALID_PARAMETER, str(error)) from error
        mode = self._parts.request_modes.get(topic, group)
        is_light = self._parts.topics.is_light(topic)
        there = [self._parts.queue(topic, 0)] if is_light else await self._parts.routes.queues(topic)
        queues = self._assigned(topic, group, client_id, model, strategy, mode, there)
        if queues is None:
            return json_response({})
        return json_response({"messageQueueAssignments": [{"messageQueue": queue_json(queue), "mode": mode.mode} for queue in queues]})

    def _assigned(
        self, topic: str, group: str, client_id: str, model: str, strategy: str, mode: RequestMode, queues: list[MessageQueue] | None
    ) -> list[MessageQueue] | None:
        """The client's queues. None: it keeps those that it has."""
        if queues is None:
            log.warning("QueryLoad: no assignment for group[%s], the topic[%s] does not exist.", group, topic)
            return None
        if model == BROADCASTING or not self._parts.settings.server_load_balancer:
            return queues
        info = self._parts.consumers.get(group)
        if info is None:
            log.warning("QueryLoad: no assignment for group[%s] topic[%s], get consumer id list failed", group, topic)
            return None
        return allocate(mode, strategy, client_id, queues, info.client_ids)


def language_name(number: int) -> str:
    """A peer's language as RocketMQ's enum names it."""
    try:
        return Language(number).name
    except ValueError:
        return Language.OTHER.name


def _connections(clients: Iterable[Client]) -> list[dict[str, Any]]:
    return [
        {"clientAddr": client.address, "clientId": client.client_id, "language": language_name(client.language), "version": client.version}
        for client in clients
    ]


def _producer(client: Client, ahead_ms: int) -> dict[str, Any]:
    return {
        "clientId": client.client_id,
        "language": language_name(client.language),
        "lastUpdateTimestamp": client.seen_ms + ahead_ms,
        "remoteIP": "/" + client.address,
        "version": client.version,
    }


def _read_groups(value: Any) -> list[GroupConfig]:
    return [GroupConfig.from_json(member) for member in list_member(read_object(value), "groupConfigList", "groups")]
