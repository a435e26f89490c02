"""Requests about topics: create, change, delete, show, export, who consumes them.
RocketMQ: AdminBrokerProcessor (5.3.3 broker/processor/).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core.errors import RocketpyError
from .._core.remoting import Request
from .._core.store import MessageStore
from ..remoting.bodies import TopicConfig
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from ..remoting.json_codec import write_fastjson
from ..remoting.queue_mapping import MappingFault, QueueMapping, StaticTopic
from . import names
from .attributes import MESSAGE_TYPE, AttributeFault, parse_attributes
from .json_members import list_member
from .lite_lifecycle import delete_lite_queues_of
from .parts import HandlerTable, Parts, is_version, json_response, queue_key, read_body, read_object
from .queue_mappings import check_queues_here, sends_settled
from .topics import is_lite_parent, topic_config_fault

log = logging.getLogger(__name__)


class TopicAdmin:
    """Handlers of requests about topics."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._update,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self._update_list,
            RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: self._update_static,
            RequestCode.DELETE_TOPIC_IN_BROKER: self._delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._all,
            RequestCode.GET_TOPIC_CONFIG: self._one,
            RequestCode.GET_TOPIC_STATS_INFO: self._stats,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._system,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self._consumers,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self._of_group,
        }

    async def _update(self, request: Request) -> Response:
        header = CreateTopicRequestHeader.decode(request.fields)
        log.info("Broker receive request to update or create topic=%s, caller address=%s", header.topic, request.remote_address)
        config = _asked_config(header)
        try:
            changes = parse_attributes(header.attributes)
        except AttributeFault as error:
            raise CommandError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        self._check(config, changes)
        return await self._apply([(config, changes)])

    async def _update_static(self, request: Request) -> Response:
        """Creates or changes a topic and the places of its global queues. The mapping is checked first: a refused request changes
        nothing."""
        parts = self._parts
        header = CreateTopicRequestHeader.decode(request.fields)
        log.info("Broker receive request to update or create static topic=%s, caller address=%s", header.topic, request.remote_address)
        config, mapping = _asked_config(header), read_body(request, QueueMapping.from_json)
        self._check(config, {})
        if parts.topics.is_light(config.topic_name):
            raise CommandError(ResponseCode.INVALID_PARAMETER, f"{config.topic_name} is a light queue: it has one queue, which stays here")
        await parts.deletion.over(config.topic_name)
        try:
            if mapping.topic != config.topic_name:
                raise MappingFault(f"The mapping is of topic {mapping.topic}, the request of {config.topic_name}")
            mapping = parts.queue_mappings.successor(mapping, is_forced=header.force is True)
            check_queues_here(config, mapping)
        except MappingFault as error:
            log.error("Update static topic failed for [%s]: %s", config.topic_name, error)
            raise CommandError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        is_mapped = parts.queue_mappings.update(mapping)
        if not parts.topics.update(config) and is_mapped:
            parts.topics.next_version()  # name servers and slaves look at it alone
        await parts.saved.queue_mappings.save()
        await parts.topics_changed([config.topic_name])
        await sends_settled(parts.native)
        return Response()

    async def _update_list(self, request: Request) -> Response:
        configs = read_body(request, _read_topics)
        log.info("Broker receive request to update or create %d topics, caller address=%s", len(configs), request.remote_address)
        changes = [(replace(config, attributes={}), config.attributes) for config in configs]
        for config, change in changes:
            self._check(config, change)
        return await self._apply(changes)

    def _check(self, config: TopicConfig, changes: Mapping[str, str]) -> None:
        """Raises CommandError for a topic that an operator may not create in this way."""
        parts = self._parts
        parts.check_not_slave()
        self._check_name(config.topic_name)
        fault = topic_config_fault(config)
        if fault is None and not parts.settings.mixed_message_type and changes.get("+" + MESSAGE_TYPE) == "MIXED":
            fault = "MIXED message type is not supported."
        if fault is not None:
            raise CommandError(ResponseCode.INVALID_PARAMETER, fault)

    def _check_name(self, topic: str) -> None:
        fault = names.topic_fault(topic)
        if fault is None and self._parts.settings.validate_system_topic and self._parts.topics.is_system_topic(topic):
            fault = f"The topic[{topic}] is conflict with system topic."
        if fault is not None:
            raise CommandError(ResponseCode.INVALID_PARAMETER, fault)

    async def _apply(self, changes: list[tuple[TopicConfig, Mapping[str, str]]]) -> Response:
        changed = []
        is_unsaved = self._parts.saved.topics.is_dirty  # what failed before and is asked for again is on disk when this is answered
        try:
            for config, attributes in changes:
                await self._parts.deletion.over(config.topic_name)
                if self._parts.topics.update(config, attributes) or is_unsaved:
                    changed.append(config.topic_name)
        except AttributeFault as error:
            raise CommandError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        finally:
            if changed:
                await self._parts.topics_changed(changed)
        return Response()

    async def _delete(self, request: Request) -> Response:
        parts = self._parts
        topic = DeleteTopicRequestHeader.decode(request.fields).topic
        log.info("broker receive request to delete topic=%s, caller=%s", topic, request.remote_address)
        if not topic.strip():
            return Response(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        if parts.settings.validate_system_topic and parts.topics.is_system_topic(topic):
            return Response(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")
        if parts.settings.is_slave:  # mqadmin sends it to every broker of a cluster, and gives up at the first that refuses
            log.info("a slave deletes topic=%s when its master's tables have it no more", topic)
            return Response()
        is_lite = is_lite_parent(parts.topics.get(topic))
        doomed = [topic]
        if parts.settings.clear_retry_topics:
            doomed += [
                retry for group in parts.offsets.groups_of(topic) for retry in names.pop_retry_topics(topic, group) if retry in parts.topics
            ]
        try:
            for name in doomed:
                await self._delete_one(name)
            if is_lite:
                await self._delete_lite_queues(topic)
        finally:  # what has left the tables must not come back with the next start
            await parts.saved.queue_mappings.save()
            await parts.saved.topics.save()
            await parts.saved.offsets.save()
        return Response()

    async def _delete_one(self, topic: str) -> None:
        parts = self._parts
        parts.topics.delete(topic)
        parts.queue_mappings.delete(topic)
        parts.offsets.delete_topic(topic)
        parts.stats.forget_topic(topic)
        await parts.deletion.delete_queues(topic, self._save_tables)

    async def _delete_lite_queues(self, topic: str) -> None:
        """What a kill in between leaves has no topic: it goes when that is made and deleted again, or with what it points at."""
        try:
            await delete_lite_queues_of(self._parts, topic)
        except RocketpyError as error:
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"lite topics of {topic} could not be deleted: {error}") from error

    async def _save_tables(self) -> None:
        """What cannot be saved now is tried again, and answered, when the queues are gone. Mappings go first: one that a kill leaves behind
        would be that of the next topic of the name."""
        await self._parts.saved.queue_mappings.save_or_log()
        await self._parts.saved.topics.save_or_log()
        await self._parts.saved.offsets.save_or_log()

    def _all(self, request: Request) -> Response:
        """All topics or, since 5.4, a part of them: from topicSeq on, as long as the version that the client has seen is still the current
        one."""
        topics = self._parts.topics
        header = GetAllTopicConfigRequestHeader.decode(request.fields)
        asked = topics.snapshot()
        if header.topic_seq is not None:
            begin = max(0, header.topic_seq) if is_version(header.data_version, topics.version) else 0
            count = header.max_topic_num if header.max_topic_num is not None else len(topics)
            listed = sorted(asked.configs, key=lambda config: config.topic_name)
            asked = replace(asked, configs=tuple(listed[begin : begin + max(0, count)]))
        fields = GetAllTopicConfigResponseHeader(total_topic_num=len(topics))
        mappings = self._parts.queue_mappings
        body = topics.texts.compact(asked, mappings.details_text(), write_fastjson(mappings.version.to_json()).decode())
        return Response(fields=fields, body=body)

    def _one(self, request: Request) -> Response:
        header = GetTopicConfigRequestHeader.decode(request.fields)
        topic = header.topic
        config = self._parts.topics.get(topic)
        if config is None:
            return Response(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
        return json_response(StaticTopic(config, self._parts.queue_mappings.get(topic) if header.lo is True else None).to_json())

    async def _stats(self, request: Request) -> Response:
        parts = self._parts
        topic = GetTopicStatsInfoRequestHeader.decode(request.fields).topic
        config = parts.topics.get(topic)
        if config is None:
            return Response(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        parts.stats.refresh_series()
        queues = range(max(config.read_queue_nums, config.write_queue_nums))
        bounds = await parts.reads.run(lambda store: [_queue_bounds(store, topic, queue_id) for queue_id in queues])
        table = {queue_key(parts.queue(topic, queue_id)): each for queue_id, each in zip(queues, bounds, strict=True)}
        return json_response({"offsetTable": table, "topicPutTps": parts.stats.topic_put_rate(topic)})

    def _system(self, request: Request) -> Response:
        return json_response({"topicList": sorted(self._parts.topics.system_topics)})

    def _consumers(self, request: Request) -> Response:
        topic = QueryTopicConsumeByWhoRequestHeader.decode(request.fields).topic
        groups = self._parts.consumers.subscribers(topic) | self._parts.offsets.groups_of(topic)
        return json_response({"groupList": sorted(groups)})

    def _of_group(self, request: Request) -> Response:
        group = QueryTopicsByConsumerRequestHeader.decode(request.fields).group
        return json_response({"brokerAddr": self._parts.address, "topicList": sorted(self._parts.offsets.topics_of(group))})


def _read_topics(value: Any) -> list[TopicConfig]:
    return [TopicConfig.from_json(read_object(member)) for member in list_member(read_object(value), "topicConfigList", "topics")]


def _queue_bounds(store: MessageStore, topic: str, queue_id: int) -> dict[str, int]:
    max_offset = store.max_offset(topic, queue_id)
    return {
        "lastUpdateTimestamp": store.time_at(topic, queue_id, max_offset - 1) if max_offset > 0 else 0,
        "maxOffset": max_offset,
        "minOffset": store.first_offset(topic, queue_id),
    }


def _asked_config(header: CreateTopicRequestHeader) -> TopicConfig:
    return TopicConfig(
        header.topic,
        header.read_queue_nums,
        header.write_queue_nums,
        header.perm,
        header.topic_filter_type,
        header.topic_sys_flag or 0,
        header.order,
    )
