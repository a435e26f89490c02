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
from ..awake_clock import monotonic_ms
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError
from ..remoting.headers import GetRouteInfoRequestHeader, PullMessageRequestHeader
from ..remoting.route import TopicRoute
from . import names
from .parts import Parts

log = logging.getLogger(__name__)

AT_ONCE: Final = 32
WANTED_MAX: Final = 256
ROUTE_MS: Final = 2_000
TIMEOUT_S: Final = 3.0
WITH_SUBSCRIPTION: Final = 4
"""PullSysFlag: no commit, no waiting."""
NOT_THERE: Final = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)
"""Below the first that is kept it is gone. What lies past the end may come: from a slave that is behind, or a broker that just started."""
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
        """What is wanted now; each is asked for once, and a broker that does not answer by no more than come with the first of them."""
        asked, silent = set[int](), set[str]()
        for _ in range(WANTED_MAX // AT_ONCE):
            wanted = self._take(asked)
            if not wanted:
                return
            try:
                have_room = await asyncio.gather(*(self._bring(message, silent) for message in wanted))
            except asyncio.CancelledError:
                for message in wanted:
                    self._parts.native.put_foreign(message.id, LATER, b"")
                raise
            if not all(have_room):
                return

    def _take(self, asked: set[int]) -> list[ForeignMessage]:
        """The next ones, up to the first that was asked for already: they come in turn."""
        wanted: list[ForeignMessage] = []
        while len(wanted) < AT_ONCE and (message := self._parts.native.take_foreign()) is not None:
            if message.id in asked:
                self._parts.native.put_foreign(message.id, LATER, b"")
                break
            asked.add(message.id)
            wanted.append(message)
        return wanted

    async def _bring(self, wanted: ForeignMessage, silent: set[str]) -> bool:
        """False: the revive thread has others to put first."""
        status, record = await self._fetch(wanted, silent)
        try:
            self._parts.native.put_foreign(wanted.id, status, record)
        except (Busy, NoMemory):
            return False
        return True

    async def _fetch(self, wanted: ForeignMessage, silent: set[str]) -> tuple[int, bytes]:
        address = await self._address_of(wanted.broker_name)
        if address is None or address in silent:
            return LATER, b""
        try:
            answer = await self._parts.client.invoke(address, RequestCode.PULL_MESSAGE, request_of(wanted), timeout_s=TIMEOUT_S)
            if answer.code in NOT_THERE and wanted.offset < int(answer.fields.get("minOffset", 0)):
                return GONE, b""
            if answer.code != ResponseCode.SUCCESS:
                return LATER, b""
            return record_at(wanted, answer.body)
        except (RocketpyError, CommandError, ValueError) as error:
            if isinstance(error, NetworkError):
                silent.add(address)
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
