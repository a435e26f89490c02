"""Removes pieces of queue mappings that nobody needs any more, in the hours of deleteWhen.
RocketMQ: TopicQueueMappingCleanService (5.3.3 broker/topic/).

    of a queue led here          its first piece, when the broker that has it holds no message of it
    of one that was led here     the whole row, when the broker behind us in it does not lead it any more either

What cannot be asked now is left for the next round. Threads  one event loop. Bounds: one question at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from .._core.errors import RocketpyError
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import check_success
from ..remoting.headers import GetRouteInfoRequestHeader, GetTopicConfigRequestHeader, GetTopicStatsInfoRequestHeader
from ..remoting.json_codec import read_json
from ..remoting.queue_mapping import Items, MappingItem, QueueMapping, StaticTopic
from ..remoting.route import TopicRoute
from .parts import Parts, queue_key
from .rebalance_locks import MessageQueue
from .retention import parse_hours

log = logging.getLogger(__name__)

ROUTE_TIMEOUT_S: Final = 3.0

Changes = dict[int, tuple[Items, Items]]
"""As QueueMappings.clean takes them."""


def first_pieces(mapping: QueueMapping) -> dict[int, MappingItem]:
    """Of the queues led here those that consumers can do without: there is another behind them that has its place."""
    return {
        global_id: items[0]
        for global_id, items in mapping.hosted.items()
        if mapping.leads(items) and len(items) > 1 and items[1].logic_offset >= 0
    }


def without_first(mapping: QueueMapping, emptied: Mapping[int, MappingItem]) -> Changes:
    return {global_id: (items := mapping.hosted[global_id], items[1:]) for global_id in emptied}


def rows_left(mapping: QueueMapping, leaders: Mapping[int, str], remote: Mapping[str, QueueMapping]) -> Changes:
    """Of the queues that were led here once those that have been moved on since. leaders: by the name servers; remote: what these say."""
    changes: Changes = {}
    for global_id, items in mapping.hosted.items():
        leader = leaders.get(global_id)
        known = remote.get(leader or "")
        if mapping.leads(items) or leader == items[-1].broker_name or known is None:
            continue
        if (known.total_queues, known.epoch) == (mapping.total_queues, mapping.epoch) and known.leads(known.hosted.get(global_id, ())):
            changes[global_id] = (items, ())
    return changes


def leaders_of(infos: Mapping[str, Any], scope: str) -> dict[int, str]:
    """Who leads each global queue, by the mappings of a route (topicQueueMappingByBroker): the newest that says so. Raises ValueError."""
    leaders: dict[int, tuple[int, str]] = {}
    for name, value in infos.items():
        info = QueueMapping.from_json(value)
        led = value.get("currIdMap")
        if info.scope != scope or not isinstance(led, Mapping):
            continue
        for global_id in map(int, led):
            if global_id not in leaders or leaders[global_id][0] <= info.epoch:
                leaders[global_id] = (info.epoch, name)
    return {global_id: name for global_id, (_, name) in leaders.items()}


def is_empty(stats: Any, queue: MessageQueue) -> bool:
    """By a TopicStatsTable: whether there is no message of that queue; one it does not know is left alone."""
    table = stats.get("offsetTable") if isinstance(stats, Mapping) else None
    bounds = table.get(queue_key(queue)) if isinstance(table, Mapping) else None
    if not isinstance(bounds, Mapping):
        return False
    low, high = bounds.get("minOffset"), bounds.get("maxOffset")
    return isinstance(low, int) and isinstance(high, int) and (high == low or high == 0)


class MappingCleaner:
    """Cleans the queue mappings of one broker."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_if_due(self) -> None:
        parts = self._parts
        is_due = time.localtime().tm_hour in parse_hours(parts.config.text("deleteWhen"))
        if is_due and not parts.ha.is_slave:
            await self.run()

    async def run(self) -> None:
        """Checks every static topic once."""
        is_changed = False
        for topic in [mapping.topic for mapping in self._parts.queue_mappings]:
            for look in (self._emptied, self._moved_on):
                mapping = self._parts.queue_mappings.get(topic)
                if mapping is not None and (changes := await look(mapping)):
                    is_changed |= self._parts.queue_mappings.clean(topic, mapping.epoch, changes)
        if is_changed:
            await self._parts.saved.queue_mappings.save_or_log()

    async def _emptied(self, mapping: QueueMapping) -> Changes:
        firsts = first_pieces(mapping)
        stats = {name: await self._stats(mapping.topic, name) for name in sorted({item.broker_name for item in firsts.values()})}
        emptied = {
            global_id: item
            for global_id, item in firsts.items()
            if is_empty(stats[item.broker_name], MessageQueue(mapping.topic, item.broker_name, item.queue_id))
        }
        return without_first(mapping, emptied)

    async def _moved_on(self, mapping: QueueMapping) -> Changes:
        if all(mapping.leads(items) for items in mapping.hosted.values()):
            return {}
        leaders = await self._leaders(mapping)
        wanted = {leaders[each] for each, items in mapping.hosted.items() if each in leaders and not mapping.leads(items)}
        remote = {name: found for name in sorted(wanted) if (found := await self._mapping_of(mapping.topic, name)) is not None}
        return rows_left(mapping, leaders, remote)

    async def _stats(self, topic: str, broker_name: str) -> Any:
        header = GetTopicStatsInfoRequestHeader(topic=topic, lo=False, bname=broker_name)
        return await self._asked(broker_name, RequestCode.GET_TOPIC_STATS_INFO, header)

    async def _mapping_of(self, topic: str, broker_name: str) -> QueueMapping | None:
        header = GetTopicConfigRequestHeader(topic=topic, lo=True, bname=broker_name)
        value = await self._asked(broker_name, RequestCode.GET_TOPIC_CONFIG, header)
        try:
            mapping = None if value is None else StaticTopic.from_json(value).mapping
        except ValueError as error:
            log.warning("the queue mapping of topic %s at broker %s cannot be read: %s", topic, broker_name, error)
            return None
        return mapping if mapping is not None and mapping.broker_name == broker_name else None

    async def _asked(self, broker_name: str, code: RequestCode, header: Any) -> Any:
        """The body of the broker's answer; None if there is none."""
        try:
            answer = check_success(await self._parts.other_brokers.ask(broker_name, code, header), broker_name)
            return read_json(answer.body)
        except (RocketpyError, ValueError) as error:
            log.warning("cleaning of queue mappings: broker %s: %s", broker_name, error)
            return None

    async def _leaders(self, mapping: QueueMapping) -> dict[int, str]:
        """The leader of each global queue; empty if no name server tells them."""
        parts, header = self._parts, GetRouteInfoRequestHeader(topic=mapping.topic)
        for address in list(parts.registration.name_servers):
            try:
                answer = await parts.client.invoke(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_s=ROUTE_TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    return leaders_of(TopicRoute.decode(answer.body).queue_mappings or {}, mapping.scope)
            except (RocketpyError, ValueError) as error:
                log.warning("cleaning of queue mappings: route of topic %s from name server %s: %s", mapping.topic, address, error)
        return {}
