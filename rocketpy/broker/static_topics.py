"""Requests about global queues of static topics. A queue that this broker leads is read piece by piece, at the broker that has the piece.
RocketMQ: rewriteRequestForStaticTopic of PullMessageProcessor, ConsumerManageProcessor, AdminBrokerProcessor (5.3.3 broker/processor/).

    pull from 2,100 ─ of a piece before the last ─► the broker that has it, lo=false ─ its answer in global offsets ─► consumer
    commit, query, max, min, time ─ the piece it is about ─► here, or that broker ─ global offset ─► client
    send, pull of the last piece, and that it is led elsewhere ─ native (csrc/broker/queue_mapping.h)

A broker that does not lead a queue says so (NOT_LEADER_FOR_QUEUE), and clients look for the new leader. A request that says lo=false is
about a queue of this broker by its own number.

Threads  one event loop. Bounds: a request asks about each piece of its queue three times at most, one after the other;
ARRIVALS_MAX of groups are remembered, then they are looked at again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .._core.remoting import Command, Request
from ..remoting.codes import RequestCode, ResponseCode, request_name
from ..remoting.command import CommandError, Response
from ..remoting.credentials import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from ..remoting.headers import (
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetResponseHeader,
    HeaderError,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from ..remoting.queue_mapping import Items, MappingItem, QueueMapping, find_item
from .parts import Parts
from .static_pulls import PULL_CODES, pull_response, remote_pull

log = logging.getLogger(__name__)

SIGNING_FIELDS: Final = (ACCESS_KEY, SIGNATURE, SECURITY_TOKEN)
"""The client's; this broker signs what it asks by itself."""
ARRIVALS_MAX: Final = 10_000
LONG_MAX: Final = (1 << 63) - 1
NOT_LED: Final = "{}-{} does not exit in request process of current broker {}"
NOT_LED_TO_BEGIN: Final = "{}-{} is not leader in broker {}, request code 31"
NOT_LED_TO_PULL: Final = "{}-{} cannot find mapping item in request process of current broker {}"
BOUNDARIES: Final = {"lower": 0, "upper": 1}


@dataclass(frozen=True, slots=True)
class GlobalQueue:
    """A global queue that is led here, and its pieces."""

    mapping: QueueMapping
    global_id: int
    items: Items

    def item_of(self, offset: int) -> MappingItem:
        """Raises CommandError: no piece has its place yet."""
        item = find_item(self.items, offset)
        if item is None:
            topic = self.mapping.topic
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"no offset of queue {self.global_id} of static topic {topic} is decided yet")
        return item

    @property
    def is_plain(self) -> bool:
        """Whether the queue was never moved, so that its offsets are those of its queue here."""
        return len(self.items) == 1 and self.items[0].logic_offset == self.items[0].start_offset == 0

    def is_here(self, item: MappingItem) -> bool:
        return item.broker_name == self.mapping.broker_name


def is_about_queue_here(request: Request) -> bool:
    """Whether a request has lo=false, as those between brokers do."""
    text = request.fields.get("lo")
    return text is not None and text.lower() != "true"


class StaticTopics:
    """Answers for handlers. `queue` first."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._arrivals: set[tuple[str, str, int, int]] = set()
        """Groups, and the pieces that they have come to."""

    def queue(self, request: Request, topic: str, queue_id: int, not_led: str = NOT_LED) -> GlobalQueue | None:
        """The global queue of a request; None if the topic is not static, or if a queue of this broker is meant. Raises CommandError if the
        queue is not led here."""
        mapping = self._parts.queue_mappings.get(topic)
        if mapping is None or is_about_queue_here(request):
            return None
        items = mapping.hosted.get(queue_id, ())
        if not mapping.leads(items):
            raise CommandError(ResponseCode.NOT_LEADER_FOR_QUEUE, not_led.format(topic, queue_id, mapping.broker_name))
        return GlobalQueue(mapping, queue_id, items)

    async def pull(self, request: Request, header: PullMessageRequestHeader) -> Response | None:
        """Answers a pull; None if the fast path answers it."""
        queue = self.queue(request, header.topic, header.queue_id, NOT_LED_TO_PULL)
        item = queue.item_of(header.queue_offset) if queue is not None else None
        if queue is None or item is None or (item is queue.items[-1] and not item.has_end):
            return None
        begin, changes = remote_pull(item, header)
        answer = await self._ask(request, item, changes)
        if answer.code not in PULL_CODES:
            raise _failed(request.code, item, answer)
        try:
            return pull_response(queue.items, item, begin, answer)
        except HeaderError as error:
            raise _unreadable(request.code, item, error) from error

    async def update_offset(self, request: Request, queue: GlobalQueue, header: UpdateConsumerOffsetRequestHeader) -> Response:
        item = queue.item_of(header.commit_offset)
        offset = item.offset(header.commit_offset)
        if not queue.is_here(item):
            answer = await self._ask(request, item, {"commitOffset": str(offset)})
            return Response(answer.code, answer.remark)
        if offset < 0:
            return Response(ResponseCode.INVALID_PARAMETER, f"offset {header.commit_offset} is before the first, topic is {header.topic}")
        self._parts.offsets.commit(header.consumer_group, header.topic, item.queue_id, offset, request.remote_address)
        if item is not queue.items[0]:
            await self._finish_before(request, queue, item, header.consumer_group)
        return Response()

    async def _finish_before(self, request: Request, queue: GlobalQueue, item: MappingItem, group: str) -> None:
        """A group that has come to a piece is done with those before it. Its last commit there may be of before their ends: their brokers
        would say for good that it is behind, and with keepUnreadMessages keep what it has read. Tried once."""
        topic = queue.mapping.topic
        arrival = (group, topic, queue.global_id, item.gen)
        if arrival in self._arrivals:
            return
        if len(self._arrivals) >= ARRIVALS_MAX:
            self._arrivals.clear()
        self._arrivals.add(arrival)
        try:
            for each in (piece for piece in reversed(queue.items) if piece.gen < item.gen):
                if queue.is_here(each):
                    committed = self._parts.offsets.query(group, topic, each.queue_id)
                else:
                    committed = await self._offset_at(request, each)
                if 0 <= committed < (end := await self._end_of(request, queue, each) if committed >= 0 else 0):
                    await self._finish(request, queue, each, group, end)
        except CommandError as error:
            log.warning("offsets of group %s in earlier pieces of queue %d of %s stay: %s", group, queue.global_id, topic, error)

    async def _finish(self, request: Request, queue: GlobalQueue, item: MappingItem, group: str, end: int) -> None:
        if queue.is_here(item):
            self._parts.offsets.commit(group, queue.mapping.topic, item.queue_id, end, request.remote_address)
        else:
            await self._ask(request, item, {"commitOffset": str(end)})

    async def query_offset(self, request: Request, queue: GlobalQueue, header: QueryConsumerOffsetRequestHeader) -> Response:
        """The group's offset, according to the latest piece that the group has reached."""
        for item in reversed(queue.items):
            if item.logic_offset < 0:
                continue
            if queue.is_here(item):
                offset = self._parts.offsets.query(header.consumer_group, header.topic, item.queue_id)
            else:
                offset = await self._offset_at(request, item)
            if offset >= 0:
                return Response(fields=QueryConsumerOffsetResponseHeader(offset=item.global_offset(offset)))
        return Response(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")

    async def max_offset(self, request: Request, queue: GlobalQueue) -> Response:
        item = queue.item_of(LONG_MAX)
        return Response(fields=GetMaxOffsetResponseHeader(offset=item.global_offset(await self._end_of(request, queue, item))))

    async def min_offset(self, request: Request, queue: GlobalQueue) -> Response:
        item = queue.item_of(0)
        if queue.is_here(item):
            offset = self._parts.store.first_offset(queue.mapping.topic, item.queue_id)
        else:
            answer = await self._ask(request, item)
            offset = self._read(request.code, item, answer, GetMinOffsetResponseHeader).offset
        return Response(fields=GetMinOffsetResponseHeader(offset=item.global_offset_within(offset)))

    async def search(self, request: Request, queue: GlobalQueue, header: SearchOffsetRequestHeader) -> Response:
        """Searches in the first piece that holds a message of that time or later, or in the last piece."""
        item = queue.item_of(LONG_MAX)
        for each in queue.items:
            if each.logic_offset >= 0 and each is not item and await self._is_at_or_behind(request, queue, each, header):
                item = each
                break
        offset = await self._offset_by_time(request, queue, item, header, header.boundary_type)
        return Response(fields=SearchOffsetResponseHeader(offset=item.global_offset(offset)))

    async def earliest_time(self, request: Request, queue: GlobalQueue) -> Response:
        item, topic = queue.item_of(0), queue.mapping.topic
        if queue.is_here(item):
            timestamp = await self._parts.reads.run(lambda store: store.earliest_time(topic, item.queue_id))
        else:
            answer = await self._ask(request, item)
            timestamp = self._read(request.code, item, answer, GetEarliestMsgStoretimeResponseHeader).timestamp
        return Response(fields=GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))

    # ---- one piece ----

    async def _is_at_or_behind(self, request: Request, queue: GlobalQueue, item: MappingItem, header: SearchOffsetRequestHeader) -> bool:
        offset = await self._offset_by_time(request, queue, item, header, "lower")
        return offset < await self._end_of(request, queue, item)

    async def _offset_by_time(
        self, request: Request, queue: GlobalQueue, item: MappingItem, header: SearchOffsetRequestHeader, boundary: str
    ) -> int:
        topic, number = queue.mapping.topic, BOUNDARIES.get(boundary.lower(), 0)
        if queue.is_here(item):
            return await self._parts.reads.run(lambda store: store.offset_by_time(topic, item.queue_id, header.timestamp, number))
        answer = await self._ask(request, item, {"boundaryType": boundary}, code=RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
        return int(self._read(request.code, item, answer, SearchOffsetResponseHeader).offset)

    async def _offset_at(self, request: Request, item: MappingItem) -> int:
        """The offset of the request's group in a piece that is elsewhere; -1 if it has none."""
        answer = await self._ask(request, item, {"setZeroIfNotFound": "false"}, code=RequestCode.QUERY_CONSUMER_OFFSET)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return -1
        return int(self._read(RequestCode.QUERY_CONSUMER_OFFSET, item, answer, QueryConsumerOffsetResponseHeader).offset)

    async def _end_of(self, request: Request, queue: GlobalQueue, item: MappingItem) -> int:
        if queue.is_here(item):
            return self._parts.store.max_offset(queue.mapping.topic, item.queue_id)
        answer = await self._ask(request, item, code=RequestCode.GET_MAX_OFFSET)
        return int(self._read(request.code, item, answer, GetMaxOffsetResponseHeader).offset)

    async def _ask(
        self, request: Request, item: MappingItem, changes: Mapping[str, str] | None = None, *, code: int | None = None
    ) -> Command:
        """Passes the request on to the broker that has the piece, about the queue that the piece is. Raises CommandError."""
        fields: Mapping[str, str] = {
            **{name: text for name, text in request.fields.items() if name not in SIGNING_FIELDS},
            "queueId": str(item.queue_id),
            "lo": "false",
            "bname": item.broker_name,
            **(changes or {}),
        }
        return await self._parts.other_brokers.ask(item.broker_name, RequestCode(code or request.code), fields)

    def _read(self, code: int, item: MappingItem, answer: Command, header: Any) -> Any:
        """The header of a response, which must be SUCCESS. Raises CommandError."""
        if answer.code != ResponseCode.SUCCESS:
            raise _failed(code, item, answer)
        try:
            return header.decode(answer.fields)
        except HeaderError as error:
            raise _unreadable(code, item, error) from error


def _failed(code: int, item: MappingItem, answer: Command) -> CommandError:
    remark = f"{request_name(code)} was passed to broker {item.broker_name}: CODE: {answer.code}  DESC: {answer.remark}"
    return CommandError(ResponseCode.SYSTEM_ERROR, remark)


def _unreadable(code: int, item: MappingItem, error: HeaderError) -> CommandError:
    return CommandError(ResponseCode.SYSTEM_ERROR, f"{request_name(code)} was passed to broker {item.broker_name}: {error}")
