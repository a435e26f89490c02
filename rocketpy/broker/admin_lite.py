"""What operators ask of lite topics. RocketMQ: LiteManagerProcessor, LiteConsumerLagCalculator (5.5.0 broker/).

Offsets are counted on the event loop. The time when a message was stored has to be read from the log, which is done in another thread.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .._core.remoting import Request
from .._core.store import MessageStore
from ..remoting.bodies import TopicConfig
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import (
    GetLiteClientInfoRequestHeader,
    GetLiteGroupInfoRequestHeader,
    GetLiteTopicInfoRequestHeader,
    GetParentTopicInfoRequestHeader,
    TriggerLiteDispatchRequestHeader,
)
from . import names
from .lite_lifecycle import lite_queues
from .lite_sharding import LiteSharding
from .parts import HandlerTable, Parts, json_response, now_ms
from .subscriptions import GroupConfig
from .topics import is_lite_parent, lite_minutes

log = logging.getLogger(__name__)

CLIENT_TOPICS_MAX: Final = 10_000
TIMES_MAX: Final = 10_000
"""Lite topics of a group whose messages' times are read, those with the most messages first."""


@dataclass(frozen=True, slots=True)
class Lag:
    """A lite topic with messages that a group has not consumed."""

    lite_topic: str
    queue: str
    committed: int
    count: int

    def row(self, stored_ms: int) -> dict[str, Any]:
        return {"earliestUnconsumedTimestamp": stored_ms, "lagCount": self.count, "liteTopic": self.lite_topic}


class LiteAdmin:
    """Handlers of questions about lite topics, and of TRIGGER_LITE_DISPATCH."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._subscriptions = parts.lite
        self._sharding = LiteSharding(parts.routes, parts.settings.broker_name)

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_BROKER_LITE_INFO: self._broker,
            RequestCode.GET_PARENT_TOPIC_INFO: self._parent,
            RequestCode.GET_LITE_TOPIC_INFO: self._topic,
            RequestCode.GET_LITE_CLIENT_INFO: self._client,
            RequestCode.GET_LITE_GROUP_INFO: self._group,
            RequestCode.TRIGGER_LITE_DISPATCH: self._dispatch,
        }

    async def _broker(self, request: Request) -> Response:
        parts, counts = self._parts, self._parts.native.lite_stats()
        light, tables = await parts.reads.run(lambda store: (_light_queues(store), len({topic for topic, _ in store.queues()})))
        body = {
            "cqTableSize": tables,
            "currentLmqNum": light,
            "eventMapSize": counts["readers"],
            "groupMeta": self._groups_by_topic(),
            "liteSubscriptionCount": self._subscriptions.count,
            "maxLmqNum": parts.settings.light_queues_wanted,
            "offsetTableSize": len({(group, topic) for group, topic, _, _ in parts.native.offsets()}),
            "orderInfoCount": counts["held"],
            "storeType": "default",
            "topicMeta": {config.topic_name: lite_minutes(config) for config in parts.topics if is_lite_parent(config)},
        }
        return json_response(body)

    async def _parent(self, request: Request) -> Response:
        topic = GetParentTopicInfoRequestHeader.decode(request.fields).topic
        config = self._lite_parent(topic)
        light, lite = await self._parts.reads.run(lambda store: (_light_queues(store), len(lite_queues(store, (topic,)))))
        groups = self._groups_by_topic().get(topic)
        body = {"liteTopicCount": lite, "lmqNum": light, "topic": topic, "ttl": lite_minutes(config)}
        return json_response(body if groups is None else {**body, "groups": groups})

    async def _topic(self, request: Request) -> Response:
        header = GetLiteTopicInfoRequestHeader.decode(request.fields)
        parent, lite = header.parent_topic or "", header.lite_topic or ""
        self._lite_parent(parent)
        queue = names.lite_queue(parent, lite) or ""
        offsets = await self._parts.reads.run(lambda store: _bounds(store, queue))
        readers = sorted(self._subscriptions.readers(queue))
        body = {
            "liteTopic": lite,
            "parentTopic": parent,
            "shardingToBroker": self._sharding.is_own(lite, await self._sharding.senders(parent)),
            "subscriber": [{"clientId": client_id, "group": group} for client_id, group in readers],
            "topicOffset": offsets,
        }
        return json_response(body)

    def _client(self, request: Request) -> Response:
        header = GetLiteClientInfoRequestHeader.decode(request.fields)
        parent, group, client_id = header.parent_topic or "", header.group or "", header.client_id or ""
        self._lite_parent(parent)
        if self._known_group(group).lite_topic != parent:
            raise CommandError(ResponseCode.INVALID_PARAMETER, f"Subscription [{group}]-[{parent}] not match.")
        client = self._subscriptions.get(group, client_id)
        ago_ms = self._parts.native.lite_last_pop_ms(group, "" if client is not None and client.is_wildcard else client_id)
        body: dict[str, Any] = {
            "clientId": client_id,
            "group": group,
            "lastAccessTime": now_ms() - ago_ms if ago_ms >= 0 else -1,
            "lastConsumeTime": 0,
            "liteTopicCount": -1,
            "parentTopic": parent,
        }
        if client is not None:
            queues = {f"{client.topic}@{group}"} if client.is_wildcard else client.queues
            body["liteTopicCount"] = len(queues)
            body["liteTopicSet"] = sorted(queues)[: max(0, min(header.max_count, CLIENT_TOPICS_MAX))]
        return json_response(body)

    async def _group(self, request: Request) -> Response:
        header = GetLiteGroupInfoRequestHeader.decode(request.fields)
        group, lite = header.group, header.lite_topic or ""
        parent = self._lite_group(group)
        body: dict[str, Any] = {"earliestUnconsumedTimestamp": -1, "group": group, "parentTopic": parent, "totalLagCount": 0}
        if lite:
            return json_response({**body, "liteTopic": lite, **await self._of_lite_topic(group, names.lite_queue(parent, lite))})
        lags = self._lags(group)
        top = max(0, header.top_k)
        timed = await self._parts.reads.run(lambda store: _timed(store, heapq.nlargest(TIMES_MAX, lags, key=lambda lag: lag.count)))
        oldest = sorted(((stored_ms, lag) for lag, stored_ms in timed if stored_ms > 0), key=lambda row: row[0])
        if oldest:
            body["earliestUnconsumedTimestamp"] = oldest[0][0]
        body["totalLagCount"] = sum(lag.count for lag in lags)
        body["lagCountTopK"] = [lag.row(stored_ms) for lag, stored_ms in timed[:top]]
        body["lagTimestampTopK"] = [lag.row(stored_ms) for stored_ms, lag in oldest[:top]]
        return json_response(body)

    async def _of_lite_topic(self, group: str, queue: str | None) -> Mapping[str, Any]:
        end = self._parts.store.max_offset(queue, 0) if queue else 0
        if not queue or end <= 0:
            return {"totalLagCount": -1}
        committed = self._parts.offsets.query(group, queue, 0)
        if committed < 0:
            return {}
        first_ms, before_ms = await self._parts.reads.run(
            lambda store: (store.time_at(queue, 0, committed), store.time_at(queue, 0, committed - 1) if committed > 0 else 0)
        )
        offsets = {"brokerOffset": end, "consumerOffset": committed, "lastTimestamp": before_ms, "pullOffset": 0}
        return {"earliestUnconsumedTimestamp": first_ms, "liteTopicOffsetWrapper": offsets, "totalLagCount": end - committed}

    def _dispatch(self, request: Request) -> Response:
        header = TriggerLiteDispatchRequestHeader.decode(request.fields)
        group, client_id = header.group, header.client_id or ""
        parent = self._lite_group(group)
        config = self._known_group(group)
        log.info("lite topics of group %s, client %s are looked at, caller=%s", group, client_id or "all", request.remote_address)
        if config.is_lite_wildcard:
            if any(client.is_wildcard for client in self._subscriptions if client.group == group):
                self._parts.native.put_lite_wildcard(group, parent)
        else:
            self._parts.native.look_at_lite_queues(group, client_id)
        return Response()

    # ---- what is asked about ----

    def _lite_parent(self, topic: str) -> TopicConfig:
        config = self._parts.topics.get(topic)
        if config is None:
            raise CommandError(ResponseCode.TOPIC_NOT_EXIST, f"Topic [{topic}] not exist.")
        if not is_lite_parent(config):
            raise CommandError(ResponseCode.INVALID_PARAMETER, f"Topic [{topic}] type not match.")
        return config

    def _known_group(self, group: str) -> GroupConfig:
        config = self._parts.groups.get(group)
        if config is None:
            raise CommandError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group [{group}] not exist.")
        return config

    def _lite_group(self, group: str) -> str:
        topic = self._known_group(group).lite_topic
        if not topic:
            raise CommandError(ResponseCode.INVALID_PARAMETER, f"Group [{group}] is not a LITE group.")
        return topic

    def _groups_by_topic(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for config in self._parts.groups:
            if config.lite_topic is not None:
                groups.setdefault(config.lite_topic, []).append(config.group)
        return {topic: sorted(members) for topic, members in groups.items()}

    def _lags(self, group: str) -> list[Lag]:
        store = self._parts.store
        lags = []
        for _, queue, _, committed in self._parts.native.offsets(group):
            parts = names.lite_parts(queue)
            count = store.max_offset(queue, 0) - committed if parts is not None else 0
            if parts is not None and count > 0:
                lags.append(Lag(parts[1], queue, committed, count))
        return lags


def _light_queues(store: MessageStore) -> int:
    return sum(topic.startswith(names.LIGHT_QUEUE_PREFIX) and store.max_offset(topic, 0) > 0 for topic, _ in store.queues())


def _bounds(store: MessageStore, queue: str) -> dict[str, int]:
    end = store.max_offset(queue, 0) if queue else 0
    begin, last_ms = (store.min_offset(queue, 0), store.time_at(queue, 0, end - 1)) if end > 0 else (0, 0)
    return {"lastUpdateTimestamp": last_ms, "maxOffset": end, "minOffset": max(0, begin)}


def _timed(store: MessageStore, lags: list[Lag]) -> list[tuple[Lag, int]]:
    return [(lag, store.time_at(lag.queue, 0, max(lag.committed, store.min_offset(lag.queue, 0)))) for lag in lags]
