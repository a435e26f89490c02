"""Requests about single messages and raw queue entries, and questions that only a client can answer.
RocketMQ: QueryMessageProcessor.viewMessageById, AdminBrokerProcessor.queryConsumeQueue and callConsumer (5.3.3 broker/processor/).
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Awaitable
from typing import Final

from .._core.errors import RocketpyError, TimedOut
from .._core.remoting import Request
from .._core.results import KeyQuery
from .._core.store import MessageStore
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    QueryConsumeQueueRequestHeader,
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from .heartbeat import Subscription
from .message_rights import check_right, record_at, topic_of
from .parts import HandlerTable, Parts, json_response

log = logging.getLogger(__name__)

CALL_TIMEOUT_S: Final = 10.0
ENTRIES_MAX: Final = 10_000
UNIQUE_KEY_FLAG: Final = "_UNIQUE_KEY_QUERY"
TAGS_INDEX: Final = "T"
"""The indexType of a query by tags (5.5), and how they are told from other keys in the index."""
RESULT_BYTES_MAX: Final = 8 * 1024 * 1024
VERSION_3_1_8: Final = 62
"""Clients before this release cannot be asked for their running info."""


class MessageAdmin:
    """Handlers of requests about single messages."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.VIEW_MESSAGE_BY_ID: self._view,
            RequestCode.QUERY_MESSAGE: self._query,
            RequestCode.QUERY_CONSUME_QUEUE: self._queue_entries,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def _view(self, request: Request) -> Response | Awaitable[Response]:
        offset = ViewMessageRequestHeader.decode(request.fields).offset
        if self._parts.auth.asks_rights(request.code):
            return self._view_for_user(request, offset)
        record = None
        with contextlib.suppress(RocketpyError):  # who asks the disk is told what is wrong
            record = self._parts.store.read_in_memory(offset)
        return Response(body=record) if record is not None else self._view_from_disk(offset)

    async def _view_from_disk(self, offset: int) -> Response:
        record = await self._parts.reads.run(functools.partial(_record, offset))
        return Response(body=record) if record is not None else _not_found(offset)

    async def _view_for_user(self, request: Request, offset: int) -> Response:
        found = await self._parts.reads.run(functools.partial(record_at, offset))
        if found is None:
            return _not_found(offset)
        record, message = found
        check_right(self._parts.auth, request, message, "Get")
        return Response(body=record)

    async def _query(self, request: Request) -> Response:
        """Records of a topic by key, oldest first: at most as many as were asked for, and RESULT_BYTES_MAX bytes. The client drops those
        whose key only has the same hash."""
        header = QueryMessageRequestHeader.decode(request.fields)
        settings = self._parts.settings
        asked = settings.unique_query_max if request.fields.get(UNIQUE_KEY_FLAG) == "true" else header.max_num
        wanted = max(0, min(asked, settings.query_max))
        key = f"{TAGS_INDEX}#{header.key}" if header.index_type == TAGS_INDEX else header.key
        look_up = functools.partial(_look_up, header.topic, key, header.begin_timestamp, header.end_timestamp, wanted)
        found, body = await self._parts.reads.run(look_up)
        fields = QueryMessageResponseHeader(
            index_last_update_timestamp=found.last_update_time_ms, index_last_update_phyoffset=found.last_update_offset
        ).encode()
        if not body:
            return Response(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", fields)
        return Response(fields=fields, body=body)

    async def _queue_entries(self, request: Request) -> Response:
        parts = self._parts
        header = QueryConsumeQueueRequestHeader.decode(request.fields)
        topic = header.topic or ""
        low, high = parts.store.min_offset(topic, header.queue_id), parts.store.max_offset(topic, header.queue_id)
        if header.queue_id < 0 or (low >= high and (topic, header.queue_id) not in parts.store.queues()):
            return Response(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{topic} is not exist!")
        subscription: Subscription | None = None
        filter_data = None
        if header.consumer_group is not None:
            subscription = parts.consumers.subscription(header.consumer_group, topic)
            filter_data = "null" if subscription is not None else f"{header.consumer_group}@{topic} is not online!"
        if not low <= header.index < high:
            return Response(remark=f"Index {header.index} of {header.queue_id}@{topic} is not exist!")
        count = max(0, min(header.count, ENTRIES_MAX))
        entries = await parts.reads.run(lambda store: store.entries(topic, header.queue_id, header.index, count))
        return json_response(
            {
                "filterData": filter_data,
                "maxQueueIndex": high,
                "minQueueIndex": low,
                "queueData": [
                    {"eval": False, "physicOffset": offset, "physicSize": size, "tagsCode": code} for offset, size, code in entries
                ],
                "subscriptionData": None if subscription is None else subscription.to_json(),
            }
        )

    async def _running_info(self, request: Request) -> Response:
        header = GetConsumerRunningInfoRequestHeader.decode(request.fields)
        return await self._ask_client(request, header.consumer_group, header.client_id, dict(request.fields), request.body)

    async def _consume_directly(self, request: Request) -> Response:
        """Makes a client of the group consume one message now. Its verdict is the answer."""
        parts = self._parts
        header = ConsumeMessageDirectlyResultRequestHeader.decode(request.fields)
        fields = {**request.fields, "brokerName": parts.settings.broker_name}
        topic = parts.topics.get(header.topic or "")
        if topic is not None:
            fields["topicSysFlag"] = str(topic.topic_sys_flag)
        group = parts.groups.find_or_create(header.consumer_group)
        if group is not None:
            fields["groupSysFlag"] = str(group.system_flag)
        offset, record = message_offset(header.msg_id or ""), None
        if not parts.auth.asks_rights(request.code):
            record = await parts.reads.run(functools.partial(_record, offset))
        elif found := await parts.reads.run(functools.partial(record_at, offset)):
            record, message = found
            check_right(parts.auth, request, message, "Sub", header.consumer_group)
        if record is None:
            return Response(ResponseCode.SYSTEM_ERROR, f"can not find message by the id, {header.msg_id}")
        return await self._ask_client(request, header.consumer_group, header.client_id or "", fields, record)

    async def _ask_client(self, request: Request, group: str, client_id: str, fields: dict[str, str], body: bytes) -> Response:
        client = self._parts.consumers.find(group, client_id)
        if client is None:
            return Response(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        if client.version < VERSION_3_1_8:
            return Response(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{client.version}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
            )
        try:
            answer = await self._parts.link.call(client.channel, request.code, fields, body, timeout_s=CALL_TIMEOUT_S)
        except TimedOut as error:
            return Response(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> Timeout: {error}")
        except RocketpyError as error:
            return Response(ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{client_id}> Exception: {error}")
        return Response(answer.code, answer.remark, answer.fields, answer.body)


def _not_found(offset: int) -> Response:
    return Response(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")


def message_offset(message_id: str) -> int:
    """The commit log offset in a message id: hexadecimal [4 or 16 address][4 port][8 offset]. Raises CommandError."""
    try:
        data = bytes.fromhex(message_id)
    except ValueError:
        data = b""
    if len(data) not in (16, 28):
        raise CommandError(ResponseCode.INVALID_PARAMETER, f"{message_id!r} is not a message id of a broker")
    return int.from_bytes(data[-8:], "big", signed=True)


def _look_up(topic: str, key: str, begin_ms: int, end_ms: int, wanted: int, store: MessageStore) -> tuple[KeyQuery, bytes]:
    """Topic and key are one hash, of 31 bits: who may read one topic would find the messages of any other by keys that fit."""
    found = store.query(topic, key, begin_ms, end_ms, wanted)
    body = bytearray()
    for offset in reversed(found.offsets):
        record = _record(offset, store)
        if record is not None and len(body) + len(record) <= RESULT_BYTES_MAX and topic_of(record) == topic:
            body += record
    return found, bytes(body)


def _record(offset: int, store: MessageStore) -> bytes | None:
    if offset < 0:
        return None
    try:
        return store.read(offset)
    except RocketpyError as error:
        log.info("no message at offset %d: %s", offset, error)
        return None
