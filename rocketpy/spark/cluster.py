"""What the sources ask name servers and brokers: topics, queues, addresses, offsets. Blocking calls over rocketpy.remoting.client.
RocketMQ: MQAdminImpl, OffsetStore (5.3.3 client/).

Every question is tried again until retry_timeout_s has passed, with a fresh route each time, so that a broker that restarts or a slave
that takes over is waited for. An answer that will not change (no such topic) is an error at once.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from .._core.errors import Busy, InvalidArgument, NetworkError, NotFound, TimedOut
from ..broker.names import DLQ_PREFIX, LIGHT_QUEUE_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from ..remoting.bodies import PERM_READ
from ..remoting.client import RemotingClient
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import check_success
from ..remoting.headers import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    GetRouteInfoRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from ..remoting.json_codec import read_object
from ..remoting.route import MASTER_ID, TopicRoute

Result = TypeVar("Result")
RETRY_PAUSE_S = 0.2
TRANSIENT = (NetworkError, TimedOut, Busy)
# RMQ_SYS_ begins the topics of traces and transactions, which broker.names has by name.
SYSTEM_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX, LIGHT_QUEUE_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPIC_PREFIX.upper())


@dataclass(frozen=True, slots=True, order=True)
class Queue:
    """One queue of a topic on one broker name. Of a static topic it is the broker's own queue where it is read (lo=false), because each
    message stays there wherever its global queue moves to; where it is written, it is the global queue that the broker leads."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}@{self.queue_id}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach a cluster. Picklable: executors make their own Cluster from it."""

    name_servers: tuple[str, ...]
    timeout_s: float = 3.0
    retry_timeout_s: float = 30.0
    prefer_slave: bool = False


def run_blocking(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine to its end. Within a running loop (a notebook) it runs in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def pause_before_retry() -> None:
    """Waits before a broker is asked again, because nobody tells when it is back. For tasks, which have nothing else to do."""
    time.sleep(RETRY_PAUSE_S)


def name_server_addresses(text: str) -> tuple[str, ...]:
    """The name servers in a list of addresses that are separated by ; or ,"""
    return tuple(part.strip() for part in re.split("[;,]", text) if part.strip())


def order_addresses(addresses: Mapping[int, str], prefer_slave: bool) -> tuple[str, ...]:
    """The addresses with the wanted role first, the others after it."""
    ids = sorted(addresses, key=lambda broker_id: ((broker_id == MASTER_ID) == prefer_slave, broker_id))
    return tuple(addresses[broker_id] for broker_id in ids)


class Cluster:
    """A view of a cluster whose methods block."""

    def __init__(self, endpoint: Endpoint, *, topics_exist: bool = False, masters_only: bool = False) -> None:
        """topics_exist: a topic without a route is one whose brokers are away at the moment, so it is waited for. masters_only: slaves are
        not asked."""
        if not endpoint.name_servers:
            raise InvalidArgument("option 'nameServer' is required: HOST:PORT of a name server")
        self.endpoint = endpoint
        self.topics_exist = topics_exist
        self.masters_only = masters_only

    # ---- name server ----

    def topics(self) -> list[str]:
        """Every topic the name server knows, sorted."""

        async def work(client: RemotingClient) -> list[str]:
            response = await self._ask_name_server(client, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None)
            return sorted(str(topic) for topic in read_object(response.body).get("topicList", []))

        return self._call("the list of topics", work)

    def matching_topics(self, pattern: str) -> list[str]:
        """The topics whose whole name matches. Retry, dead letter and system topics only match if the pattern begins like them."""
        compiled = re.compile(pattern)
        found = [topic for topic in self.topics() if compiled.fullmatch(topic)]
        hidden = SYSTEM_TOPICS | self._topics_of_servers() if found else SYSTEM_TOPICS

        def is_shown(topic: str) -> bool:
            start = next((start for start in SYSTEM_PREFIXES if topic.startswith(start)), topic if topic in hidden else "")
            return pattern.startswith(start)

        return [topic for topic in found if is_shown(topic)]

    def route(self, topic: str) -> TopicRoute:
        return self._call(f"the route of topic {topic}", lambda client: self._route(client, topic))

    def queues(self, topics: Iterable[str], perm: int = PERM_READ, *, readable_only: bool = False) -> list[Queue]:
        """Readable (or writable) queues. Raises NotFound for a topic without a route, and for one without such queues unless topics_exist;
        readable_only leaves such topics out."""
        wanted = list(topics)

        async def work(client: RemotingClient) -> list[Queue]:
            found: list[Queue] = []
            for topic in wanted:
                known = len(found)
                try:
                    route = await self._route(client, topic)
                except NotFound:
                    if readable_only:
                        continue
                    raise
                for data in route.queue_datas:
                    numbers = range(data.read_queue_nums) if perm == PERM_READ else route.writable_numbers(data)
                    if data.perm & perm:
                        found += [Queue(topic, data.broker_name, queue_id) for queue_id in numbers]
                if len(found) == known and not self.topics_exist and not readable_only:
                    verb = "readable" if perm == PERM_READ else "writable"
                    raise NotFound(f"topic {topic!r} has no {verb} queue; mqadmin updateTopicPerm -p 6 makes it so")
            return sorted(found)

        return self._call("the queues", work)

    def addresses(self, topic: str) -> dict[str, tuple[str, ...]]:
        """Addresses by broker name, those of the wanted replica first."""
        route = self.route(topic)
        return {data.broker_name: order_addresses(data.broker_addrs, self.endpoint.prefer_slave) for data in route.broker_datas}

    def addresses_of(self, queues: Iterable[Queue]) -> dict[Queue, tuple[str, ...]]:
        """Where each queue's broker is, the wanted replica first; empty if the broker is not registered."""
        wanted = list(queues)
        known = {topic: self.addresses(topic) for topic in sorted({queue.topic for queue in wanted})}
        return {queue: known[queue.topic].get(queue.broker_name, ()) for queue in wanted}

    # ---- brokers ----

    def min_offsets(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        def header(queue: Queue) -> GetMinOffsetRequestHeader:
            return GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, lo=False)

        found = self._offsets(queues, RequestCode.GET_MIN_OFFSET, header)
        return {queue: max(0, offset) for queue, offset in found.items()}  # -1 of a batch queue that has had no message

    def max_offsets(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        def header(queue: Queue) -> GetMaxOffsetRequestHeader:
            return GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, lo=False)

        return self._offsets(queues, RequestCode.GET_MAX_OFFSET, header)

    def offsets_at(self, queues: Iterable[Queue], timestamp_ms: int) -> dict[Queue, int]:
        """By queue, the first message stored at or after timestamp_ms, or one next to it."""

        def header(queue: Queue) -> SearchOffsetRequestHeader:
            return SearchOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, lo=False)

        return self._offsets(queues, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    def group_offsets(self, queues: Iterable[Queue], group: str) -> dict[Queue, int]:
        """What a group has committed; queues without an offset are left out."""

        def header(queue: Queue) -> QueryConsumerOffsetRequestHeader:
            return QueryConsumerOffsetRequestHeader(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False, lo=False
            )

        return self._offsets(queues, RequestCode.QUERY_CONSUMER_OFFSET, header, missing_code=ResponseCode.QUERY_NOT_FOUND)

    def commit_offsets(self, group: str, offsets: Mapping[Queue, int]) -> None:
        """Writes consumer offsets to the masters."""

        async def work(client: RemotingClient) -> None:
            for topic in sorted({queue.topic for queue in offsets}):
                route = await self._route(client, topic, is_known=True)
                for queue, offset in offsets.items():
                    if queue.topic != topic:
                        continue
                    header = UpdateConsumerOffsetRequestHeader(
                        consumer_group=group, topic=topic, queue_id=queue.queue_id, commit_offset=offset, lo=False
                    )
                    code = RequestCode.UPDATE_CONSUMER_OFFSET
                    check_success(await self._ask_broker(client, route, queue.broker_name, code, header, False))

        self._call(f"committing offsets of group {group}", work)

    # ---- inside ----

    def _topics_of_servers(self) -> set[str]:
        """Every cluster and every broker has topics of its name."""

        async def work(client: RemotingClient) -> set[str]:
            tables = read_object((await self._ask_name_server(client, RequestCode.GET_BROKER_CLUSTER_INFO, None)).body)
            clusters = set(tables.get("clusterAddrTable") or {})
            return clusters | {f"{name}_REPLY_TOPIC" for name in clusters} | set(tables.get("brokerAddrTable") or {})

        return self._call("the brokers", work)

    def _offsets(
        self, queues: Iterable[Queue], code: int, header: Callable[[Queue], Any], missing_code: int | None = None
    ) -> dict[Queue, int]:
        wanted = sorted(queues)

        async def one(client: RemotingClient, route: TopicRoute, queue: Queue) -> int | None:
            response = await self._ask_broker(client, route, queue.broker_name, code, header(queue), self.endpoint.prefer_slave)
            if missing_code is not None and response.code == missing_code:
                return None
            return int(check_success(response).fields["offset"])

        async def work(client: RemotingClient) -> dict[Queue, int]:
            routes = {topic: await self._route(client, topic, is_known=True) for topic in sorted({queue.topic for queue in wanted})}
            values = await asyncio.gather(*(one(client, routes[queue.topic], queue) for queue in wanted))
            return {queue: value for queue, value in zip(wanted, values, strict=True) if value is not None}

        return self._call("offsets", work)

    async def _route(self, client: RemotingClient, topic: str, *, is_known: bool = False) -> TopicRoute:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        response = await self._ask_name_server(client, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        if response.code == ResponseCode.TOPIC_NOT_EXIST:
            servers = ";".join(self.endpoint.name_servers)
            if self.topics_exist or is_known:
                raise NetworkError(f"no broker of topic {topic!r} is registered at name server {servers}: check its name and its brokers")
            raise NotFound(f"topic {topic!r} is not known at name server {servers}: check its spelling, or create it")
        return TopicRoute.decode(check_success(response).body)

    async def _ask_name_server(self, client: RemotingClient, code: int, header: Any) -> Any:
        causes = []
        for address in self.endpoint.name_servers:
            try:
                return await client.invoke(address, code, header, timeout_s=self.endpoint.timeout_s)
            except TRANSIENT as error:
                causes.append(f"{address}: {error}")
        raise NetworkError(f"no name server answers ({'; '.join(causes)}); check option 'nameServer' and that it is running")

    async def _ask_broker(
        self, client: RemotingClient, route: TopicRoute, broker_name: str, code: int, header: Any, prefer_slave: bool
    ) -> Any:
        causes = []
        for data in route.broker_datas:
            if data.broker_name != broker_name or (self.masters_only and MASTER_ID not in data.broker_addrs):
                continue
            replicas = {MASTER_ID: data.broker_addrs[MASTER_ID]} if self.masters_only else data.broker_addrs
            for address in order_addresses(replicas, prefer_slave):
                try:
                    return await client.invoke(address, code, header, timeout_s=self.endpoint.timeout_s)
                except TRANSIENT as error:
                    causes.append(f"{address}: {error}")
        raise NetworkError(f"broker {broker_name!r} does not answer ({'; '.join(causes) or 'it is not registered'})")

    def _call(self, what: str, work: Callable[[RemotingClient], Awaitable[Result]]) -> Result:
        async def attempts() -> Result:
            give_up = time.monotonic() + self.endpoint.retry_timeout_s
            while True:
                try:
                    async with RemotingClient(connect_timeout_s=self.endpoint.timeout_s) as client:
                        return await work(client)
                except TRANSIENT as error:
                    if time.monotonic() + RETRY_PAUSE_S >= give_up:
                        raise NetworkError(f"{what}: {error} [tried for {self.endpoint.retry_timeout_s:g} s]") from None
                await asyncio.sleep(RETRY_PAUSE_S)

        return run_blocking(attempts())


def nest(offsets: Mapping[Queue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """topic -> broker -> queue -> offset, in one order so that equal offsets are equal texts."""
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets):
        nested.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def flatten(nested: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[Queue, int]:
    return {
        Queue(topic, broker, int(queue)): int(offset)
        for topic, brokers in nested.items()
        for broker, queues in brokers.items()
        for queue, offset in queues.items()
    }
