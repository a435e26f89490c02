"""Messages of other brokers that checkpoints here stand for: a slave that stands in for its master gave them out, and they stay with it.
Not acked, they go to their retry topics here.
RocketMQ: EscapeBridge.getMessageFromRemoteAsync, BrokerOuterAPI.pullMessageFromSpecificBrokerAsync (5.5.0 broker/).

    native revive thread ─ wanted ─► route of the revive topic ─ who has the name: its master, else the least slave ─ PULL_MESSAGE ─► put

What nobody can say just now is asked for again; the revive thread gives it a longer and longer time (pop_revive.h).

Threads  one event loop. Bounds: AT_ONCE messages, RP_FOREIGN_MAX are wanted at most; ROUTE_MS between looks at the name servers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from .._core.errors import Busy, NetworkError, NoMemory, NotFound, RocketpyError
from .._core.results import ForeignMessage
from .._core.store import decode_message
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError
from ..remoting.headers import GetRouteInfoRequestHeader, PullMessageRequestHeader
from ..remoting.route import TopicRoute
from . import names
from .parts import Parts, monotonic_ms

log = logging.getLogger(__name__)

AT_ONCE: Final = 32
WANTED_MAX: Final = 256
ROUTE_MS: Final = 2_000
TIMEOUT_S: Final = 3.0
WITH_SUBSCRIPTION: Final = 4
"""PullSysFlag: no commit, no waiting."""
HERE: Final = 0
GONE: Final = NotFound.status
LATER: Final = NetworkError.status


class ForeignMessages:
    """`fetch` again and again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._addresses: dict[str, str] = {}
        self._until_ms = 0

    async def fetch(self) -> None:
        """What is wanted now; each is asked for once."""
        native = self._parts.native
        for _ in range(WANTED_MAX // AT_ONCE):
            wanted = [message for message in (native.take_foreign() for _ in range(AT_ONCE)) if message is not None]
            if not wanted:
                return
            try:
                found = await asyncio.gather(*(self._fetch(message) for message in wanted))
            except asyncio.CancelledError:
                for message in wanted:
                    native.put_foreign(message.id, LATER, b"")
                raise
            if not self._put(wanted, found):
                return

    def _put(self, wanted: list[ForeignMessage], found: list[tuple[int, bytes]]) -> bool:
        """False: some of them are to be asked for again, not at once."""
        are_all_known = True
        for message, (status, record) in zip(wanted, found, strict=True):
            are_all_known &= status != LATER
            try:
                self._parts.native.put_foreign(message.id, status, record)
            except (Busy, NoMemory):  # the revive thread has others to put first
                are_all_known = False
        return are_all_known

    async def _fetch(self, wanted: ForeignMessage) -> tuple[int, bytes]:
        address = await self._address_of(wanted.broker_name)
        if address is None:
            return LATER, b""
        try:
            answer = await self._parts.client.invoke(address, RequestCode.PULL_MESSAGE, request_of(wanted), timeout_s=TIMEOUT_S)
            if answer.code == ResponseCode.PULL_OFFSET_MOVED and wanted.offset < int(answer.fields.get("minOffset", 0)):
                return GONE, b""
            if answer.code != ResponseCode.SUCCESS:
                return LATER, b""
            return record_at(wanted, answer.body)
        except (RocketpyError, CommandError, ValueError) as error:
            log.warning("message %d of topic %s cannot be had from broker %s just now: %s", wanted.offset, wanted.topic, address, error)
            return LATER, b""

    async def _address_of(self, broker_name: str) -> str | None:
        now_ms = monotonic_ms()
        if now_ms >= self._until_ms:
            self._addresses, self._until_ms = await self._known_brokers(), now_ms + ROUTE_MS
        return self._addresses.get(broker_name)

    async def _known_brokers(self) -> dict[str, str]:
        """Who answers for each name: all of the cluster have the revive topic."""
        parts = self._parts
        topic = names.REVIVE_TOPIC_PREFIX + parts.settings.cluster_name
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        for address in list(parts.registration.name_servers):
            try:
                answer = await parts.client.invoke(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_s=TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    brokers = TopicRoute.decode(answer.body).broker_datas
                    return {each.broker_name: each.broker_addrs[min(each.broker_addrs)] for each in brokers if each.broker_addrs}
            except (RocketpyError, CommandError, ValueError):
                continue
        return {}


def request_of(wanted: ForeignMessage) -> PullMessageRequestHeader:
    """That one message, by a group that every broker has."""
    return PullMessageRequestHeader(
        consumer_group=names.REVIVE_GROUP,
        topic=wanted.topic,
        queue_id=wanted.queue_id,
        queue_offset=wanted.offset,
        max_msg_nums=1,
        sys_flag=WITH_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
        bname=wanted.broker_name,
    )


def record_at(wanted: ForeignMessage, body: bytes) -> tuple[int, bytes]:
    """Of what a broker answered. A batch holds more than the one that is wanted. Raises RocketpyError, ValueError."""
    size = int.from_bytes(body[:4], "big")
    message = decode_message(body[:size])
    is_batch = message.sys_flag & 0x80
    if not is_batch and message.queue_offset != wanted.offset:
        return GONE, b""
    return HERE, body[:size]
