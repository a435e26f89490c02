"""The cluster behind the proxy: routes from name servers, the configuration of topics and groups from brokers, and calls to brokers.
RocketMQ: TopicRouteService, ClusterMetadataService, ClusterMessageService (5.3.3 proxy/service/).

Threads  one event loop. Bounds: topic_route_service_cache_max_num entries in each cache, the oldest go first; the bounds of the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from .._core.errors import Busy, NetworkError, ProtocolError, RocketpyError
from .._core.remoting import Command
from ..remoting.bodies import PERM_READ, PERM_WRITE
from ..remoting.client import RemotingClient, RequestCallback
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Fields
from ..remoting.headers import GetRouteInfoRequestHeader, GetSubscriptionGroupConfigRequestHeader, GetTopicConfigRequestHeader
from ..remoting.json_codec import JsonError, read_object
from ..remoting.route import MASTER_ID, TopicRoute
from .cached import Cached
from .group_config import GroupConfig
from .settings import ProxySettings
from .status import ProxyError

TIMEOUT_S: Final = 3.0
MESSAGE_TYPE: Final = "message.type"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that can be written to."""

    broker: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """What is known about a topic without asking anybody."""

    queues: list[Queue]
    """Those that can be written to, in the order of writable_queues."""
    addresses: dict[str, str]
    """Of their brokers' masters, by name."""
    message_type: str
    """UNSPECIFIED where nobody has asked."""
    ask_again_s: float
    """When some of it is asked for again, on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class KnownReading:
    """What is known, without asking anybody, about how a group reads a topic."""

    brokers: list[tuple[str, str]]
    """Names and addresses of masters, in the order of readable_brokers."""
    group: GroupConfig
    ask_again_s: float


class Brokers:
    """Asks brokers. This is the only place where names of brokers become addresses."""

    def __init__(self, settings: ProxySettings, on_request: RequestCallback) -> None:
        self._settings = settings
        self._client = RemotingClient(on_request=on_request, credentials=settings.credentials)
        self._answering = ""  # the name server that answered last: for one that is away topics would wait again and again
        self._silent: set[str] = set()  # brokers that gave no answer to the last question: they come last, as some may be gone for good
        self._knowing: dict[tuple[int, str], str] = {}  # the broker that told us last, by request and name
        self._addresses: dict[str, str] = {}  # of masters, by broker name, from all routes seen
        self._on_address: Callable[[str, str], None] | None = None
        refresh_s, most = settings.topic_route_service_cache_refresh_seconds, settings.topics_max
        self._writable: dict[str, tuple[TopicRoute, list[Queue]]] = {}  # of the route that is known; sorting costs every message as much
        self._routes = Cached(self._ask_route, refresh_s, most, "the route of topic")
        self._types = Cached(self._ask_message_type, refresh_s, most, "the kind of messages of topic")
        self._groups = Cached(self._ask_group, refresh_s, most, "the configuration of group")
        self.group_now = self._groups.get
        """A group's configuration; None when no broker knows it. Raises RocketpyError where none answers."""
        self.route = self._routes.get
        """A topic's TopicRoute. Raises ProxyError TOPIC_NOT_FOUND, RocketpyError."""
        self.message_type = self._types.get
        """What a topic's messages are: NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY, LITE, MIXED; UNSPECIFIED when its brokers do not know
        it. Raises as route, and where none of them answers: whoever took that for an answer would refuse messages when they are back."""

    async def stop(self) -> None:
        await self._client.stop()

    async def message_type_if_known(self, topic: str) -> str:
        """The topic's message type; UNSPECIFIED also if no broker answers now. Raises ProxyError as `route` does."""
        try:
            return await self.message_type(topic)
        except RocketpyError:
            return "UNSPECIFIED"

    async def group(self, group: str) -> GroupConfig | None:
        """The group's configuration; None if no broker knows the group, or if none answers now."""
        try:
            return await self._groups.get(group)
        except RocketpyError:
            return None

    def tell_addresses(self, listener: Callable[[str, str], None]) -> None:
        """Calls `listener` with the name and address of each master, whenever a route contains it."""
        self._on_address = listener
        for name, address in self._addresses.items():
            listener(name, address)

    async def call(self, broker: str, code: int, fields: Fields, body: bytes = b"", *, timeout_s: float = TIMEOUT_S) -> Command:
        """The master's answer, whatever its code. Raises ProxyError BAD_REQUEST for a broker that nobody knows, RocketpyError."""
        return await self._client.invoke(await self.address_of(broker), code, fields, body, timeout_s=timeout_s)

    async def call_oneway(self, broker: str, code: int, fields: Fields) -> None:
        await self._client.invoke_oneway(await self.address_of(broker), code, fields)

    async def address_of(self, broker: str) -> str:
        """The address of a broker's master. Every broker has a topic of its own name, whose route tells the address."""
        if broker not in self._addresses:
            try:
                await self.route(broker)
            except ProxyError:
                pass
        address = self._addresses.get(broker)
        if address is None:
            raise ProxyError("BAD_REQUEST", f"broker {broker!r} has no master that a name server knows")
        return address

    def name_of(self, address: str) -> str:
        """The name of the broker whose master has this address; "" if there is none."""
        return next((name for name, known in self._addresses.items() if known == address), "")

    async def writable_queues(self, topic: str) -> list[Queue]:
        """The queues in the order in which RocketMQ's proxies number them, so that a message group has the same queue through any proxy."""
        route = await self.route(topic)
        known = self._writable.get(topic)
        if known is None or known[0] is not route:
            while len(self._writable) >= self._settings.topics_max:
                del self._writable[next(iter(self._writable))]
            known = self._writable[topic] = (route, self._sorted_queues(route))
        return known[1]

    def known(self, topic: str) -> KnownTopic | None:
        """What writable_queues and message_type have found out; None if they would have to ask again."""
        route, (of_route, queues) = self._routes.known(topic), self._writable.get(topic, (None, []))
        if route is None or of_route is not route[0]:
            return None
        kind = self._types.known(topic) or ("UNSPECIFIED", route[1])
        addresses = {queue.broker: self._addresses[queue.broker] for queue in queues if queue.broker in self._addresses}
        return KnownTopic(queues, addresses, kind[0], min(route[1], kind[1]))

    def _sorted_queues(self, route: TopicRoute) -> list[Queue]:
        """The writable queues in order. Those of a static topic are ordered by the numbers that clients know, whoever leads them, so that a
        message group keeps its queue when the queue moves."""
        queues = [
            Queue(data.broker_name, queue_id)
            for data in route.queue_datas
            if data.perm & PERM_WRITE and data.broker_name in self._addresses
            for queue_id in route.writable_numbers(data)
        ]
        return sorted(queues, key=lambda queue: (queue.queue_id if route.queue_mappings else 0, queue.broker, queue.queue_id))

    async def masters_of(self, cluster: str) -> list[str]:
        """The names of a cluster's brokers that have a master; the cluster is also a topic. Raises ProxyError, RocketpyError."""
        return sorted(data.broker_name for data in (await self.route(cluster)).broker_datas if MASTER_ID in data.broker_addrs)

    async def readable_brokers(self, topic: str) -> list[str]:
        return self._readable(await self.route(topic))

    def _readable(self, route: TopicRoute) -> list[str]:
        return sorted(
            data.broker_name
            for data in route.queue_datas
            if data.perm & PERM_READ and data.read_queue_nums > 0 and data.broker_name in self._addresses
        )

    def known_reading(self, topic: str, group: str) -> KnownReading | None:
        """What readable_brokers and group have found out; None if they would have to ask again."""
        route, config = self._routes.known(topic), self._groups.known(group)
        if route is None or config is None:
            return None
        brokers = [(name, self._addresses[name]) for name in self._readable(route[0])]
        return KnownReading(brokers, config[0] or GroupConfig(), min(route[1], config[1]))

    def group_if_known(self, group: str) -> GroupConfig:
        """The configuration that was asked for last, or the default."""
        known = self._groups.known(group)
        return (known[0] if known is not None else None) or GroupConfig()

    async def _ask_route(self, topic: str) -> TopicRoute:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        reason = ""
        for name_server in sorted(self._settings.name_servers, key=lambda address: address != self._answering):
            try:
                response = await self._client.call(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_s=TIMEOUT_S)
            except CommandError as error:
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    self._answering = name_server
                    raise ProxyError("TOPIC_NOT_FOUND", f"No topic route info in name server for the topic: {topic}") from error
                reason = str(error)
            except RocketpyError as error:
                reason = str(error)
            else:
                self._answering = name_server
                route = TopicRoute.decode(response.body)
                for broker in route.broker_datas:
                    if MASTER_ID in broker.broker_addrs:
                        self._addresses[broker.broker_name] = address = broker.broker_addrs[MASTER_ID]
                        if self._on_address is not None:
                            self._on_address(broker.broker_name, address)
                return route
        raise NetworkError(f"no name server of {self._settings.namesrv_addr} says where {topic} is: {reason}")

    async def _ask_message_type(self, topic: str) -> str:
        names = [data.broker_name for data in (await self.route(topic)).queue_datas]
        known = self._types.known(topic) is not None
        members = await self._ask_any(names, RequestCode.GET_TOPIC_CONFIG, topic, GetTopicConfigRequestHeader(topic=topic), known)
        if members is None:
            return "UNSPECIFIED"
        attributes = members.get("attributes") or {}
        return str(attributes.get(MESSAGE_TYPE) or "NORMAL").upper()

    async def _ask_group(self, group: str) -> GroupConfig | None:
        """Asks any broker of the clusters that our clients have asked for."""
        header = GetSubscriptionGroupConfigRequestHeader(group=group)
        known = self._groups.known(group) is not None
        members = await self._ask_any(sorted(self._addresses), RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group, header, known)
        if members is None:
            return None
        try:
            return GroupConfig.from_json(members)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:  # members of any kind: brokers keep what their files say
            raise ProtocolError(f"group {group} of a broker cannot be read: {error}") from error

    async def _ask_any(self, names: Iterable[str], code: RequestCode, what: str, header: Fields, known: bool) -> dict[str, Any] | None:
        """The first answer of a broker that knows `what`; None if none does. Raises RocketpyError if no broker answers. While it is
        `known`, also if the broker that knew it last does not answer and no other one knows it."""
        fault: RocketpyError | None = None
        is_answered = False
        silent: set[str] = set()
        for name in sorted(names, key=self._silent.__contains__):
            if name not in self._addresses:
                continue
            try:
                response = await self.call(name, code, header)
                if response.code == ResponseCode.SYSTEM_BUSY:
                    raise Busy(f"{name}: {response.remark}")
                is_answered = True
                self._silent.discard(name)
                if response.code == ResponseCode.SUCCESS:
                    members = read_object(response.body)
                    self._remember((code, what), name)
                    return members
            except JsonError:
                continue
            except RocketpyError as error:
                fault = error
                silent.add(name)
                self._silent.add(name)
        if fault is not None and (not is_answered or (known and self._knowing.get((code, what)) in silent)):
            raise NetworkError(f"no broker answers {code.name} that may know {what}: {fault}")
        self._knowing.pop((code, what), None)
        return None

    def _remember(self, question: tuple[int, str], name: str) -> None:
        self._knowing.pop(question, None)
        while len(self._knowing) >= 2 * self._settings.topics_max:
            del self._knowing[next(iter(self._knowing))]
        self._knowing[question] = name
