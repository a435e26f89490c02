"""Requests about positions: bounds of a queue, offsets by time, lag of groups, resets, copies, exports for slaves.
RocketMQ: AdminBrokerProcessor, Broker2Client.resetOffset and getConsumeStatus (5.3.3 broker/).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.errors import RocketpyError
from .._core.remoting import Request
from .._core.store import MessageStore
from ..remoting.bodies import TopicConfig
from ..remoting.codes import Language, RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import (
    CloneGroupOffsetRequestHeader,
    GetConsumerStatusRequestHeader,
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from ..remoting.json_codec import read_json, write_fastjson
from . import names
from .clients import Client, ConsumerGroup
from .log_tail import LOG_BEGIN, LOG_TAIL, LogTail
from .masters_answers import LOG_END
from .parts import HandlerTable, Parts, json_response, now_ms, queue_json, queue_key
from .rebalance_locks import MessageQueue
from .set_aside import HALVES_SET_ASIDE
from .static_topics import BOUNDARIES, NOT_LED_TO_BEGIN, StaticTopics
from .topics import has_batch_queues

log = logging.getLogger(__name__)

_LONG_MAX = (1 << 63) - 1
LONG_DIGITS = 19
CLIENT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class QueueLag:
    """One queue as a group reads it: where the log ends, what is committed, what was pulled."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_ms: int

    def to_json(self) -> dict[str, int]:
        return {
            "brokerOffset": self.broker_offset,
            "consumerOffset": self.consumer_offset,
            "lastTimestamp": self.last_ms,
            "pullOffset": self.pull_offset,
        }


class OffsetAdmin:
    """Handlers of requests about offsets."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._static = StaticTopics(parts)

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_MAX_OFFSET: self._max_offset,
            RequestCode.GET_MIN_OFFSET: self._min_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self._earliest_time,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._all_offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self._all_delay_offsets,
            RequestCode.GET_CONSUME_STATS: self._consume_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self._broker_consume_stats,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self._time_span,
            RequestCode.CLONE_GROUP_OFFSET: self._clone,
            RequestCode.QUERY_CORRECTION_OFFSET: self._correction,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self._reset,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self._consumer_status,
        }

    # ---- queues ----

    async def _max_offset(self, request: Request) -> Response:
        header = GetMaxOffsetRequestHeader.decode(request.fields)
        if (queue := self._static.queue(request, header.topic, header.queue_id)) is not None:
            return await self._static.max_offset(request, queue)
        return Response(fields=GetMaxOffsetResponseHeader(offset=self._parts.store.max_offset(header.topic, header.queue_id)))

    async def _min_offset(self, request: Request) -> Response:
        header = GetMinOffsetRequestHeader.decode(request.fields)
        if (queue := self._static.queue(request, header.topic, header.queue_id, NOT_LED_TO_BEGIN)) is not None:
            return await self._static.min_offset(request, queue)
        offset, config = self._parts.store.first_offset(header.topic, header.queue_id), self._parts.topics.get(header.topic)
        if config is not None and has_batch_queues(config) and self._parts.store.max_offset(header.topic, header.queue_id) == 0:
            offset = -1  # as the reactor says of those that it knows
        return Response(fields=GetMinOffsetResponseHeader(offset=offset))

    async def _search(self, request: Request) -> Response:
        """What the reactor has left: all that may wait for the disk, and what is not so plain."""
        header = SearchOffsetRequestHeader.decode(request.fields)
        if (queue := self._static.queue(request, header.topic, header.queue_id)) is not None:
            return await self._static.search(request, queue, header)
        boundary, topic = BOUNDARIES.get(header.boundary_type.lower(), 0), header.topic
        if (header.lite_topic or "").strip():  # of a topic's lite topic, which may have no queue
            topic = names.lite_queue(topic, header.lite_topic or "") or ""
            if header.queue_id != 0 or not topic or self._parts.store.max_offset(topic, 0) <= 0:
                return Response(fields=SearchOffsetResponseHeader(offset=0))
        offset = await self._parts.reads.run(lambda store: store.offset_by_time(topic, header.queue_id, header.timestamp, boundary))
        return Response(fields=SearchOffsetResponseHeader(offset=offset))

    async def _earliest_time(self, request: Request) -> Response:
        header = GetEarliestMsgStoretimeRequestHeader.decode(request.fields)
        if (queue := self._static.queue(request, header.topic, header.queue_id)) is not None:
            return await self._static.earliest_time(request, queue)
        timestamp = await self._parts.reads.run(lambda store: store.earliest_time(header.topic, header.queue_id))
        return Response(fields=GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))

    # ---- exports for slaves ----

    async def _all_offsets(self, request: Request) -> Response:
        """With the log's end behind them: what a transaction check's position says was copied lies below it, and checkpoints of what was
        popped. The text is made beside the event loop: 80,000 offsets take 200 ms."""
        snapshot = self._parts.offsets.snapshot()
        log_end, is_light = self._parts.ha.durable_log.mark().end, self._parts.config.boolean("enableLmq")
        encode = functools.partial(snapshot.text, light=is_light, log_end=log_end)
        return Response(body=(await asyncio.get_running_loop().run_in_executor(None, encode)).encode())

    async def _all_delay_offsets(self, request: Request) -> Response:
        """For slaves, which ours take over once their own logs go as far, and for a master that returns to this slave."""
        tail = await self._tail(request)
        snapshot, halves = self._parts.delay_offsets.snapshot(), self._parts.acting.halves
        of_acting = {HALVES_SET_ASIDE: halves.to_json()} if halves is not None else {}
        return json_response({**snapshot.to_json(), LOG_END: snapshot.mark.end, **of_acting, **tail})

    async def _tail(self, request: Request) -> dict[str, dict[str, int]]:
        """Of this slave's log, within the bounds of the log of who asks."""
        asked_begin, asked_end = (_log_offset(request.fields.get(name, "")) for name in (LOG_BEGIN, LOG_END))
        if not self._parts.settings.is_slave or asked_end is None:
            return {}
        stats, file_size = self._parts.store.stats(), self._parts.config.integer("mappedFileSizeCommitLog")
        begin, end = max(asked_begin or 0, stats["commit_log_min_offset"]), min(asked_end, stats["commit_log_max_offset"])
        return {LOG_TAIL: (await self._parts.reads.run(lambda log: LogTail.of(log, begin, end, file_size))).to_json()}

    # ---- lag ----

    async def _consume_stats(self, request: Request) -> Response:
        parts = self._parts
        parts.stats.refresh_series()
        header = GetConsumeStatsRequestHeader.decode(request.fields)
        group = header.consumer_group
        named = [topic for topic in (header.topic_list or "").split(";") if topic]
        if named:
            topics: Iterable[str] = named
        else:
            wanted = {header.topic} if header.topic and header.topic.strip() else parts.offsets.topics_of(group)
            topics = [topic for topic in sorted(wanted) if self._parts.consumers.is_consumed(group, topic)]
        table: dict[Any, Any] = {}
        rate = 0.0
        for topic in topics:
            config = parts.topics.get(topic)
            if config is None:
                log.warning("getConsumeStats: topic config does not exist, topic=%s", topic)
                continue
            for queue, lag in await self._lags(group, config, config.read_queue_nums):
                table[queue_key(queue)] = lag.to_json()
            rate += parts.stats.group_get_rate(group, topic)
        return json_response({"consumeTps": rate, "offsetTable": table})

    async def _broker_consume_stats(self, request: Request) -> Response:
        parts = self._parts
        parts.stats.refresh_series()
        only_order = GetConsumeStatsInBrokerHeader.decode(request.fields).is_order
        groups: list[dict[str, Any]] = []
        behind = in_flight = 0
        by_group = parts.offsets.topics_by_group()
        for group in list(parts.groups):
            stats = []
            for topic in sorted(by_group.get(group.group, ())):
                config = parts.topics.get(topic)
                if config is None or (only_order and not config.order) or not parts.consumers.is_consumed(group.group, topic):
                    continue
                lags = await self._lags(group.group, config, config.write_queue_nums)
                behind += sum(lag.broker_offset - lag.consumer_offset for _, lag in lags)
                in_flight += sum(lag.pull_offset - lag.consumer_offset for _, lag in lags)
                rate = parts.stats.group_get_rate(group.group, topic)
                stats.append({"consumeTps": rate, "offsetTable": {queue_key(queue): lag.to_json() for queue, lag in lags}})
            groups.append({group.group: stats})
        answer = {"brokerAddr": parts.address, "consumeStatsList": groups, "totalDiff": behind, "totalInflightDiff": in_flight}
        return await asyncio.get_running_loop().run_in_executor(None, json_response, answer)  # of 80,000 queues 1.4 s

    async def _lags(self, group: str, config: TopicConfig, queues: int) -> list[tuple[MessageQueue, QueueLag]]:
        parts, topic = self._parts, config.topic_name
        lowest = -1 if topic in parts.queue_mappings else 0  # of a static topic: the group may stand in another piece of the global queue
        committed = [max(lowest, parts.offsets.query(group, topic, queue_id)) for queue_id in range(queues)]
        last_ms = await parts.reads.run(lambda store: [_consumed_ms(store, topic, *each) for each in enumerate(committed)])
        return [
            (
                parts.queue(topic, queue_id),
                QueueLag(
                    parts.store.max_offset(topic, queue_id),
                    committed[queue_id],
                    max(committed[queue_id], parts.offsets.query_pull(group, topic, queue_id)),
                    max(0, last_ms[queue_id]),
                ),
            )
            for queue_id in range(queues)
        ]

    async def _time_span(self, request: Request) -> Response:
        parts = self._parts
        header = QueryConsumeTimeSpanRequestHeader.decode(request.fields)
        topic = header.topic
        config = parts.topics.get(topic)
        if config is None:
            return Response(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        committed = [parts.offsets.query(header.group, topic, queue_id) for queue_id in range(config.write_queue_nums)]
        spans = await parts.reads.run(lambda store: [_queue_span(store, topic, *each) for each in enumerate(committed)])
        named = [{**span, "messageQueue": queue_json(parts.queue(topic, queue_id))} for queue_id, span in enumerate(spans)]
        return json_response({"consumeTimeSpanSet": named})

    # ---- copies and corrections ----

    async def _clone(self, request: Request) -> Response:
        parts = self._parts
        header = CloneGroupOffsetRequestHeader.decode(request.fields)
        if fault := names.group_fault(header.dest_group):
            return Response(ResponseCode.INVALID_PARAMETER, fault)
        topics = {header.topic} if header.topic and header.topic.strip() else parts.offsets.topics_of(header.src_group)
        for topic in sorted(topics):
            if topic not in parts.topics:
                log.warning("[cloneGroupOffset], topic config not exist, %s", topic)
            elif not header.offline and not parts.consumers.is_consumed(header.src_group, topic):
                log.warning("cloneGroupOffset: topic %s is not in the subscription of group %s", topic, header.src_group)
            else:
                parts.offsets.clone(header.src_group, header.dest_group, topic)
        await parts.saved.offsets.save()
        return Response()

    def _correction(self, request: Request) -> Response:
        parts = self._parts
        header = QueryCorrectionOffsetHeader.decode(request.fields)
        ignored = {group for group in (header.filter_groups or "").split(",") if group}
        offsets = parts.offsets.lowest(header.topic, ignored, lambda queue_id: parts.store.first_offset(header.topic, queue_id))
        for queue_id, offset in parts.offsets.of(header.compare_group, header.topic).items():
            if offsets.get(queue_id, _LONG_MAX) > offset:
                offsets[queue_id] = _LONG_MAX
        return json_response({"correctionOffsets": offsets})

    # ---- resets ----

    async def _reset(self, request: Request) -> Response:
        header = ResetOffsetRequestHeader.decode(request.fields)
        log.info(
            "[reset-offset] reset offset started by %s. topic=%s, group=%s, timestamp=%d, isForce=%s",
            request.remote_address,
            header.topic,
            header.group,
            header.timestamp,
            header.is_force,
        )
        if self._parts.settings.server_side_reset:
            return await self._reset_here(header)
        return await self._reset_clients(header, for_cpp=request.language == Language.CPP)

    async def _reset_here(self, header: ResetOffsetRequestHeader) -> Response:
        """Sends each queue's next pull to its new position. Works for clients of any release, connected or not."""
        parts, topic, group = self._parts, header.topic, header.group
        if parts.settings.is_slave:
            return Response(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
        config = parts.topics.get(topic)
        if config is None:
            return Response(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if group not in parts.groups:
            return Response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
        if header.queue_id >= 0 and header.offset is not None and header.offset != -1:
            low, high = parts.store.first_offset(topic, header.queue_id), parts.store.max_offset(topic, header.queue_id)
            if not low <= header.offset <= high + 1:
                return Response(ResponseCode.SYSTEM_ERROR, f"Target offset {header.offset} not in consume queue range [{low}-{high}]")
            targets = {header.queue_id: header.offset}
        else:
            queue_ids = [header.queue_id] if header.queue_id >= 0 else range(config.read_queue_nums)
            targets = await self._offsets_at(topic, queue_ids, header.timestamp)
        if not targets:
            return Response(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        for queue_id, offset in targets.items():
            parts.offsets.reset(group, topic, queue_id, offset)
        await parts.saved.offsets.save()
        log.info("Reset offset, topic=%s, group=%s, queues=%s", topic, group, targets)
        return json_response({"offsetTable": {queue_key(parts.queue(topic, queue_id)): offset for queue_id, offset in targets.items()}})

    async def _offsets_at(self, topic: str, queue_ids: Iterable[int], timestamp: int) -> dict[int, int]:
        """The positions by queue; a negative timestamp asks for the ends of the queues."""

        def look_up(store: MessageStore) -> dict[int, int]:
            end = timestamp < 0
            return {each: store.max_offset(topic, each) if end else store.offset_by_time(topic, each, timestamp) for each in queue_ids}

        return await self._parts.reads.run(look_up)

    async def _reset_clients(self, header: ResetOffsetRequestHeader, *, for_cpp: bool) -> Response:
        """Tells every client of the group its new positions (useServerSideResetOffset=false, as before 5.0)."""
        parts, topic, group = self._parts, header.topic, header.group
        config = parts.topics.get(topic)
        if config is None:
            return Response(ResponseCode.TOPIC_NOT_EXIST, f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}")
        found = await self._offsets_at(topic, range(config.write_queue_nums), header.timestamp)
        targets: dict[MessageQueue, int] = {}
        for queue_id in found:
            committed = parts.offsets.query(group, topic, queue_id)
            if committed == -1:
                return Response(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
            offset = max(0, found[queue_id])
            targets[parts.queue(topic, queue_id)] = offset if header.is_force or offset < committed else committed
        info = parts.consumers.get(group)
        if info is None or not info.clients:
            return Response(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {header.timestamp}",
            )
        body = _reset_body(targets, for_cpp=for_cpp)
        fields = {"topic": topic, "group": group, "timestamp": str(header.timestamp), "isForce": str(header.is_force).lower()}
        for client in info.clients.values():
            is_told = parts.link.notify(client.channel, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
            what = "told" if is_told else "cannot be told"
            log.info("[reset-offset] topic=%s, group=%s, clientId=%s %s", topic, group, client.client_id, what)
        return json_response({"offsetTable": {queue_key(queue): offset for queue, offset in targets.items()}})

    # ---- what clients say ----

    async def _consumer_status(self, request: Request) -> Response:
        header = GetConsumerStatusRequestHeader.decode(request.fields)
        info = self._parts.consumers.get(header.group)
        if info is None or not info.clients:
            return Response(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]")
        clients = _chosen(info, header.client_addr)
        tables = await asyncio.gather(*(self._status_of(client, header) for client in clients))
        found = {client.client_id: table for client, table in zip(clients, tables, strict=True) if table is not None}
        return json_response({"consumerTable": found, "messageQueueTable": {}})

    async def _status_of(self, client: Client, header: GetConsumerStatusRequestHeader) -> Mapping[Any, Any] | None:
        """The queues and positions of one client; None if it does not answer."""
        fields = {"topic": header.topic, "group": header.group}
        try:
            answer = await self._parts.link.call(
                client.channel, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields, timeout_s=CLIENT_TIMEOUT_S
            )
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return None
            value = read_json(answer.body)
        except (RocketpyError, CommandError, ValueError) as error:
            log.error("[get-consumer-status] client %s, topic=%s, group=%s: %s", client.client_id, header.topic, header.group, error)
            return None
        table = value.get("messageQueueTable") if isinstance(value, Mapping) else None
        return table if isinstance(table, Mapping) else None


def _log_offset(text: str) -> int | None:
    """An offset of the log; None if the text is none."""
    return int(text) if text.isdecimal() and len(text) <= LONG_DIGITS else None


def _consumed_ms(store: MessageStore, topic: str, queue_id: int, committed: int) -> int:
    """When the last consumed message was stored; 0 if there is none."""
    return store.time_at(topic, queue_id, committed - 1) if committed > 0 else 0


def _queue_span(store: MessageStore, topic: str, queue_id: int, committed: int) -> dict[str, Any]:
    max_offset = store.max_offset(topic, queue_id)
    min_ms = store.earliest_time(topic, queue_id)
    max_ms = store.time_at(topic, queue_id, max_offset - 1)
    consumed_ms = store.time_at(topic, queue_id, committed - 1) if committed > 0 else min_ms
    waiting_ms = now_ms() - store.time_at(topic, queue_id, max(0, committed)) if committed < max_offset else 0
    return {
        "consumeTimeStamp": consumed_ms,
        "consumeTimeStampStr": _time_text(consumed_ms),
        "delayTime": waiting_ms,
        "maxTimeStamp": max_ms,
        "maxTimeStampStr": _time_text(max_ms),
        "minTimeStamp": min_ms,
        "minTimeStampStr": _time_text(min_ms),
    }


def _chosen(info: ConsumerGroup, client_id: str | None) -> list[Client]:
    clients = list(info.clients.values())
    return clients if not client_id or not client_id.strip() else [client for client in clients if client.client_id == client_id]


def _reset_body(targets: Mapping[MessageQueue, int], *, for_cpp: bool) -> bytes:
    """The positions as a list for C++ clients, whose JSON parser does not accept objects as keys; as a map for others."""
    if for_cpp:
        return write_fastjson({"offsetTable": [{**queue_json(queue), "offset": offset} for queue, offset in targets.items()]})
    return write_fastjson({"offsetTable": {queue_key(queue): offset for queue, offset in targets.items()}})


def _time_text(timestamp_ms: int) -> str:
    """ "2026-11-21#07:39:46:064" in the machine's time zone, as UtilAll.timeMillisToHumanString2 writes it."""
    moment = time.localtime(timestamp_ms // 1000)
    return time.strftime("%Y-%m-%d#%H:%M:%S", moment) + f":{timestamp_ms % 1000:03d}"
