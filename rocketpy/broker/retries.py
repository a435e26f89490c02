"""Messages that a consumer could not process: another try later, or a dead letter after the last.
RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack (5.3.3 broker/processor/).

    CONSUMER_SEND_MSG_BACK ─ group, permission ─ retry topic made ─ native copy of the message ─┬─ its delay level ─ later ─ retry topic
                                                                      └─ had its last try ──────┴─ dead letters, topic made first

Python never touches the message itself. A message that may have another try, and is in memory, does not come here at all
(csrc/broker/send_back.h).
Threads  one event loop; copies are made in threads, as an old message may have to be read from the disk.
"""

from __future__ import annotations

import functools
import logging
import random
import time
from collections.abc import Mapping
from typing import Final

from .._core.errors import (
    AlreadyExists,
    Busy,
    Closed,
    DiskFull,
    InvalidArgument,
    NoMemory,
    NotFound,
    RocketpyError,
    StoreIOError,
    StoreReadOnly,
    TimedOut,
    TooLarge,
)
from .._core.remoting import Request
from .._core.results import Message
from ..remoting.codes import RequestCode, ResponseCode, see_faq
from ..remoting.command import CommandError, Response
from ..remoting.headers import ConsumerSendMsgBackRequestHeader
from . import names
from .message_rights import Look, check_right, message_at
from .parts import HandlerTable, Parts
from .subscriptions import GroupConfig

log = logging.getLogger(__name__)

DEAD_LETTER_QUEUES: Final = 1
"""DLQ_NUMS_PER_GROUP"""
VERSION_3_4_9: Final = 121
"""From then on clients say how many tries there are; what older ones say is not looked at."""

PATIENCE_S: Final = 2.0
"""For its turns. A client waits for 5 s, and then sends the message itself: a copy made after that comes besides."""

OVERLOADED: Final = "[OVERLOAD]system busy, start flow control for a while"
NOT_COMMITTED: Final = "IN_SYNC_REPLICAS_NOT_ENOUGH"
"""RocketMQ's PutMessageStatus of a DLedger group without a majority."""
_REFUSED: Final = "[REJECTREQUEST]system busy, start flow control for a while"
_STATUSES: Final[Mapping[type[RocketpyError], str]] = {
    TooLarge: "MESSAGE_ILLEGAL",
    InvalidArgument: "MESSAGE_ILLEGAL",
    DiskFull: "SERVICE_NOT_AVAILABLE",
    Closed: "SERVICE_NOT_AVAILABLE",
    StoreReadOnly: "SERVICE_NOT_AVAILABLE",
    Busy: "OS_PAGE_CACHE_BUSY",
    StoreIOError: "CREATE_MAPPED_FILE_FAILED",
    NoMemory: "CREATE_MAPPED_FILE_FAILED",
}
"""RocketMQ's PutMessageStatus, which is the remark."""


class ConsumerRetries:
    """The handler of CONSUMER_SEND_MSG_BACK, and what sends to retry topics need as well."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> HandlerTable:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back}

    def group(self, name: str) -> GroupConfig:
        """The group's configuration. Raises CommandError if there is no such group and it is not created by being used."""
        config = self._parts.groups.find_or_create(name)
        if config is None:
            raise CommandError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, see_faq(f"subscription group not exist, {name}"))
        return config

    def tries_max(self, group: str, asked: int | None, version: int) -> int:
        """How often a message of the group is tried again; what the client asks for counts. Raises CommandError."""
        known = self.group(group).retry_times_max
        return known if asked is None or version < VERSION_3_4_9 else asked

    async def make_dead_letter_topic(self, group: str) -> str:
        """Makes the dead letter topic. Returns its name when it is in its file. Raises CommandError."""
        return await self._parts.make_topic(names.dead_letter_topic(group), DEAD_LETTER_QUEUES)

    async def _send_back(self, request: Request) -> Response:
        parts, settings = self._parts, self._parts.settings
        if settings.is_slave:
            return Response(ResponseCode.SYSTEM_BUSY, _REFUSED)
        header = ConsumerSendMsgBackRequestHeader.decode(request.fields)
        config = self.group(header.group)
        if not settings.permission & names.PERM_WRITE:
            return Response(ResponseCode.NO_PERMISSION, f"the broker[{settings.broker_ip}] sending message is forbidden")
        if config.retry_queues <= 0:
            return Response()
        turn_by = time.monotonic() + PATIENCE_S
        if parts.auth.asks_rights(request.code):
            message = await found(parts, message_at, header.offset, turn_by)
            if message is None:  # by the time of the copy there might be one
                return Response(ResponseCode.SYSTEM_ERROR, _not_found(header.offset))
            check_right(parts.auth, request, message, "Sub", header.group)
        unit_flag = names.unit_flag(unit=False, has_unit_sub=True) if header.unit_mode else 0
        topic = await parts.make_topic(names.retry_topic(header.group), config.retry_queues, unit_flag)
        known = parts.topics.get(topic)
        if known is not None and not known.perm & names.PERM_WRITE:
            return Response(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        copy = functools.partial(
            parts.native.send_back,
            header.offset,
            header.group,
            topic,
            random.randrange(config.retry_queues),
            names.dead_letter_topic(header.group),
            random.randrange(DEAD_LETTER_QUEUES),
            delay_level=header.delay_level,
            reconsume_times_max=self.tries_max(header.group, header.max_reconsume_times, request.version),
            unique_key=header.origin_msg_id or "",
        )
        try:
            await self._store(copy, header, turn_by)
        except TimedOut:
            return Response(ResponseCode.SYSTEM_ERROR, NOT_COMMITTED)
        except TimeoutError:
            return Response(ResponseCode.SYSTEM_BUSY, OVERLOADED)
        except NotFound:
            return Response(ResponseCode.SYSTEM_ERROR, _not_found(header.offset))
        except RocketpyError as error:
            log.warning("message at %d sent back by %s is not stored: %s", header.offset, request.remote_address, error)
            return Response(ResponseCode.SYSTEM_ERROR, _STATUSES.get(type(error), "UNKNOWN_ERROR"))
        return Response()

    async def _store(self, copy: functools.partial[bool], header: ConsumerSendMsgBackRequestHeader, turn_by: float) -> None:
        """Raises as Broker.send_back; TimeoutError if its turn has not come by then."""
        try:
            is_dead = await self._parts.copies.run(lambda _: copy(), turn_by - time.monotonic())
        except AlreadyExists:
            await self.make_dead_letter_topic(header.group)
            is_dead = await self._parts.copies.run(lambda _: copy(), turn_by - time.monotonic())
        if is_dead:
            log.info("a message of topic %s is a dead letter of group %s: log offset %d", header.origin_topic, header.group, header.offset)


async def found(parts: Parts, look: Look, offset: int, turn_by: float) -> Message | None:
    """The message there, before something is done with it; None if there is none. Raises CommandError if its turn has not come by then."""
    try:
        return await parts.copies.run(functools.partial(look, offset), turn_by - time.monotonic())
    except TimeoutError:
        raise CommandError(ResponseCode.SYSTEM_BUSY, OVERLOADED) from None


def _not_found(offset: int) -> str:
    return f"look message by offset failed, {offset}"
