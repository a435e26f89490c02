"""Queues of a topic on all brokers, asked from the name servers and kept for a while: what QUERY_ASSIGNMENT divides among clients.
RocketMQ: TopicRouteInfoManager (5.3.3 broker/topic/).

Bounds: TOPICS_MAX topics, the one looked at longest ago goes first. A topic is asked for again after REFRESH_MS; the old answer stays valid
until the new one is here, and while no name server answers. An unknown topic is asked for every time, because it may just have been made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.bodies import PERM_READ, PERM_WRITE
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import Fields
from ..remoting.headers import GetRouteInfoRequestHeader
from ..remoting.json_codec import read_json
from .json_members import integer_member, list_member, text_member
from .rebalance_locks import MessageQueue
from .topics import TopicTable

log = logging.getLogger(__name__)

TOPICS_MAX = 10_000
REFRESH_MS = 30_000
TIMEOUT_S = 3.0
MASTER_ID = "0"


@dataclass(frozen=True, slots=True)
class Route:
    """What a name server says about a topic: its readable queues, and the brokers that accept sends."""

    queues: list[MessageQueue]
    senders: list[str]


class Caller(Protocol):
    """The part of RemotingClient that is needed here."""

    async def invoke(self, address: str, code: int, fields: Fields = ..., body: bytes = ..., *, timeout_s: float = ...) -> Command: ...


class TopicRoutes:
    """The routes of the topics that somebody has asked about."""

    def __init__(
        self,
        client: Caller,
        name_servers: Callable[[], Iterable[str]],
        own_queues: Callable[[str], list[MessageQueue] | None],
        now_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._name_servers = name_servers
        self._own_queues = own_queues
        self._now_ms = now_ms
        self._known: dict[str, tuple[int, Route]] = {}
        self._asking: dict[str, asyncio.Task[Route | None]] = {}

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        """Every readable queue of the topic; None if no name server knows it. Without name servers: this broker's queues."""
        if not list(self._name_servers()):
            return self._own_queues(topic)
        route = await self._route(topic)
        return None if route is None else route.queues

    async def senders(self, topic: str) -> list[str]:
        """The broker of each writable queue, in the order in which producers number them; empty if no name server knows the topic, or it
        has no such queue."""
        route = await self._route(topic) if list(self._name_servers()) else None
        return [] if route is None else route.senders

    async def _route(self, topic: str) -> Route | None:
        known = self._known.pop(topic, None)
        if known is None:
            return await asyncio.shield(self._ask(topic))
        self._known[topic] = known
        if self._now_ms() - known[0] > REFRESH_MS:
            self._ask(topic)
        return known[1]

    async def stop(self) -> None:
        for task in list(self._asking.values()):
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    def _ask(self, topic: str) -> asyncio.Task[Route | None]:
        task = self._asking.get(topic)
        if task is None:
            task = self._asking[topic] = asyncio.create_task(self._fetch(topic), name=f"route of {topic}")
            task.add_done_callback(lambda done: self._asking.pop(topic, None))
        return task

    async def _fetch(self, topic: str) -> Route | None:
        known = self._known.get(topic)
        route = None if known is None else known[1]
        for address in list(self._name_servers()):
            try:
                answer = await self._client.invoke(
                    address, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic), timeout_s=TIMEOUT_S
                )
                if answer.code == ResponseCode.SUCCESS:
                    value = read_json(answer.body)
                    route = Route(read_route(topic, value), read_senders(value))
                elif answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    route = None
                else:
                    continue
            except (RocketpyError, ValueError) as error:
                log.warning("route of topic %s from name server %s failed: %s", topic, address, error)
                continue
            break
        if route is None:
            self._known.pop(topic, None)
            return None
        self._known[topic] = (self._now_ms(), route)
        while len(self._known) > TOPICS_MAX:
            del self._known[next(iter(self._known))]
        return route


def read_senders(value: Mapping[str, Any]) -> list[str]:
    """As MQClientInstance.topicRouteData2TopicPublishInfo. Raises ValueError."""
    masters = set()
    for data in list_member(value, "brokerDatas", "route"):
        addresses = data.get("brokerAddrs") if isinstance(data, dict) else None
        if isinstance(addresses, dict) and any(str(broker_id) == MASTER_ID for broker_id in addresses):
            masters.add(text_member(data, "brokerName", None, "route"))
    rows = sorted(list_member(value, "queueDatas", "route"), key=lambda data: text_member(data, "brokerName", None, "route"))
    senders: list[str] = []
    for data in rows:
        broker, count = text_member(data, "brokerName", None, "route"), integer_member(data, "writeQueueNums", 0, "route")
        if broker in masters and integer_member(data, "perm", 0, "route") & PERM_WRITE and 0 < count <= 1 << 16:
            senders += [broker] * count
    return senders


def read_route(topic: str, value: Any) -> list[MessageQueue]:
    """The readable queues of a TopicRouteData. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"route is {type(value).__name__}, expected an object")
    queues: list[MessageQueue] = []
    for data in list_member(value, "queueDatas", "route"):
        if not isinstance(data, dict):
            raise ValueError("queueDatas holds something that is not an object")
        count = integer_member(data, "readQueueNums", 0, "route")
        if not integer_member(data, "perm", 0, "route") & PERM_READ or not 0 < count <= 1 << 16:
            continue
        broker = text_member(data, "brokerName", None, "route")
        queues += [MessageQueue(topic, broker, queue_id) for queue_id in range(count)]
    return queues


def own_queues(topics: TopicTable, broker_name: str, topic: str) -> list[MessageQueue] | None:
    """The queues of one of our topics; None for other topics."""
    config = topics.get(topic)
    return None if config is None else [MessageQueue(topic, broker_name, queue_id) for queue_id in range(config.read_queue_nums)]
