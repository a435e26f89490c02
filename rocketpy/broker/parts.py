"""What the request handlers of the broker share: its tables, its store, its way to clients and name servers.

One frozen struct, made by the service; handlers of one noun are a class that gets it. Nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, Protocol, TypeVar

from .._core.broker import Broker
from .._core.remoting import Command, Request, Server
from .._core.store import MessageStore
from ..auth.service import AuthService
from ..awake_clock import AwakeClock
from ..config import Config
from ..ha.service import HaService
from ..remoting.bodies import DataVersion
from ..remoting.client import RemotingClient
from ..remoting.codes import ResponseCode, request_name
from ..remoting.command import CommandError, Fields, Response
from ..remoting.json_codec import ObjectKey, is_deeper, read_json, write_fastjson
from ..remoting.latencies import Latencies
from ..remoting.service import Handler
from . import names
from .acting_state import ActingState
from .clients import Action, Channel, ConsumerTable, ProducerTable
from .consumer_offsets import ConsumerOffsets
from .consumer_orders import ConsumerOrders
from .delay_offsets import DelayOffsets
from .lite_subscriptions import LiteSubscriptions
from .other_brokers import OtherBrokers
from .persistence import SavedState
from .queue_mappings import QueueMappings
from .rebalance_locks import MessageQueue, RebalanceLocks
from .registration import Registration
from .request_modes import RequestModes
from .retention_service import RetentionService
from .routes import TopicRoutes
from .settings import BrokerSettings
from .stats import BrokerStats
from .store_reads import StoreReads
from .subscriptions import GroupTable
from .timer_metrics import TimerMetrics
from .topic_deletion import TopicDeletion
from .topics import TopicTable

log = logging.getLogger(__name__)

BODY_DEPTH_MAX = 100
"""Levels of a body's JSON: members nobody knows are kept in tables, which are written (to DEPTH_MAX of json_codec) and read again."""
FAULT_MAX = 500
"""Characters of what is wrong with a body: a member of a wrong kind is shown, and may be nearly all of it."""
T = TypeVar("T")


class ClientLink(Protocol):
    """Sends our own requests over the connections of clients, whichever listener they came through."""

    def notify(self, channel: Channel, code: int, fields: Fields = ..., body: bytes = ...) -> bool: ...
    async def call(self, channel: Channel, code: int, fields: Fields = ..., body: bytes = ..., *, timeout_s: float = ...) -> Command: ...
    def close(self, channel: Channel) -> None: ...


class CatchUp(Protocol):
    """The call of SlaveSynchronize.catch_up."""

    async def __call__(self, *, with_users: bool = ...) -> None: ...


@dataclass(frozen=True, slots=True)
class SavedStates:
    """The state files of the broker."""

    topics: SavedState
    groups: SavedState
    offsets: SavedState
    request_modes: SavedState
    delay_offsets: SavedState
    timer_metrics: SavedState
    consumer_orders: SavedState
    auth: SavedState
    queue_mappings: SavedState

    def __iter__(self) -> Any:
        return iter(
            (
                self.topics,
                self.groups,
                self.offsets,
                self.request_modes,
                self.delay_offsets,
                self.timer_metrics,
                self.consumer_orders,
                self.auth,
                self.queue_mappings,
            )
        )


class SettingsHolder:
    """The settings that are in force; changes of live configuration keys replace them."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.current = settings


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a broker that its handlers share."""

    config: Config
    settings_holder: SettingsHolder
    store: MessageStore
    reads: StoreReads
    copies: StoreReads
    """For clients who wait for a stored message to be stored again, so that operators' reads do not hold them up."""
    native: Broker
    topics: TopicTable
    queue_mappings: QueueMappings
    groups: GroupTable
    offsets: ConsumerOffsets
    consumers: ConsumerTable
    producers: ProducerTable
    locks: RebalanceLocks
    lite: LiteSubscriptions
    request_modes: RequestModes
    consumer_orders: ConsumerOrders
    stats: BrokerStats
    saved: SavedStates
    releasing: asyncio.Lock
    delay_offsets: DelayOffsets
    timer_metrics: TimerMetrics
    registration: Registration
    routes: TopicRoutes
    other_brokers: OtherBrokers
    client: RemotingClient
    link: ClientLink
    ha: HaService
    acting: ActingState
    retention: RetentionService
    deletion: TopicDeletion
    catch_up: CatchUp
    """A slave's tables as new as its log; nothing on a master. Raises CommandError."""
    follow: Callable[[str | None, str | None], None]
    """A slave's master from now on, by its address and its HA address; None for what is not known. Nothing on a master."""
    act: Callable[[Iterable[Action]], None]
    auth: AuthService
    server_of: Callable[[int], Server]
    clock: AwakeClock
    """By which clients are silent, and their locks and subscriptions old: not for what this broker stood still for."""
    boot_ms: int
    memory_bytes: int
    """The memory of this machine."""
    latencies: Latencies = field(default_factory=Latencies)
    """The latencies of what Python answers, on all listeners."""

    @property
    def settings(self) -> BrokerSettings:
        return self.settings_holder.current

    @property
    def address(self) -> str:
        return self.registration.identity.address

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self.settings.broker_name, queue_id)

    def queue_end(self, topic: str, queue_id: int) -> int | None:
        """The end of a queue, messages included that are still held back from readers; None for topics that are not here."""
        return self.store.next_offset(topic, queue_id) if self.topics.get(topic) is not None else None

    def serves(self, topic: str) -> bool:
        """Whether the topic is here and the fast path has it from now on. A light queue is added at its first use."""
        if not self.topics.is_light(topic):
            return topic in self.topics
        return self.topics.serve_light(topic, has_messages=self.store.max_offset(topic, 0) > 0)

    async def release_new(self, topic: str) -> None:
        """Returns when a topic that was created by being used is in its file, so that what is acknowledged can be read after a crash. All
        who wait share one write."""
        async with self.releasing:
            if topic in (new := self.topics.withheld):
                await self.saved.topics.save_or_log()  # what the disk cannot take, the append refuses in RocketMQ's words
                self.topics.release(new)

    async def make_topic(self, topic: str, queues: int, system_flag: int = 0) -> str:
        """Makes a topic in which the broker itself stores messages. Returns its name when it is in its file. Raises CommandError."""
        if not names.is_possible(topic):
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"topic[{topic}] not exist")
        if topic not in self.topics:
            await self.deletion.over(topic)
            _, is_new = self.topics.create_plain(topic, queues, names.PERM_READ | names.PERM_WRITE, system_flag=system_flag)
            if is_new:
                self.registration.announce([topic])
                await self.saved.topics.save_or_log()  # a message in it is acknowledged next
        await self.release_new(topic)
        return topic

    async def widen_topic(self, topic: str, queues: int) -> None:
        """Gives a topic of make_topic more queues, if it has fewer. Returns when the change is in the file."""
        config = self.topics.get(topic)
        if config is None or min(config.read_queue_nums, config.write_queue_nums) >= queues:
            return
        wider = replace(config, read_queue_nums=max(config.read_queue_nums, queues), write_queue_nums=max(config.write_queue_nums, queues))
        if self.topics.update(wider):
            self.registration.announce([topic])
            await self.saved.topics.save_or_log()

    async def topics_changed(self, topics: Collection[str]) -> None:
        """Saves the topics and tells the name servers. An operator's answer waits for both."""
        await self.saved.topics.save()
        self.topics.release(topics)
        await self.registration.topics_changed(topics)

    def check_not_slave(self) -> None:
        if self.settings.is_slave:
            raise CommandError(
                ResponseCode.SYSTEM_ERROR,
                "Can't modify topic or subscription group from slave broker, please execute it from master broker.",
            )


HandlerTable = Mapping[int, Handler]


def now_ms() -> int:
    """Milliseconds since 1970, by the wall clock."""
    return time.time_ns() // 1_000_000


def json_response(value: Any, fields: Fields = None) -> Response:
    return Response(fields=fields, body=write_fastjson(value))


def read_body(request: Request, decode: Callable[[Any], T]) -> T:
    """The request's body, as `decode` reads it. Raises CommandError that says what is wrong."""
    if not request.body:
        raise CommandError(ResponseCode.INVALID_PARAMETER, "the body of the request is empty")
    try:
        value = read_json(request.body)
        if request.body.count(b"[") + request.body.count(b"{") > BODY_DEPTH_MAX and is_deeper(value, BODY_DEPTH_MAX):
            raise ValueError(f"nested deeper than {BODY_DEPTH_MAX}")
        return decode(value)
    except (ValueError, TypeError, RecursionError) as error:
        cause = str(error)[:FAULT_MAX]
        log.warning("the body of %s from %s cannot be read: %s", request_name(request.code), request.remote_address, cause)
        raise CommandError(ResponseCode.INVALID_PARAMETER, f"the body of the request cannot be read: {cause}") from error


def read_object(value: Any) -> Mapping[Any, Any]:
    """A decoder for bodies that are read member by member: JSON in which any object becomes a dict."""
    if not isinstance(value, dict):
        raise ValueError(f"it is {type(value).__name__}, expected an object")
    return value


def queue_key(queue: MessageQueue) -> ObjectKey:
    """A queue as the key of a map."""
    return ObjectKey.of(brokerName=queue.broker_name, queueId=queue.queue_id, topic=queue.topic)


def queue_json(queue: MessageQueue) -> dict[str, Any]:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def read_queue(value: Any) -> MessageQueue:
    """Raises ValueError."""
    members = read_object(value)
    topic, broker, queue_id = members.get("topic"), members.get("brokerName"), members.get("queueId", 0)
    is_int = isinstance(queue_id, int) and -(1 << 31) <= queue_id < 1 << 31
    if not isinstance(topic, str) or not isinstance(broker, (str, NoneType)) or not is_int:
        raise ValueError(f"{value!r} is not a message queue")
    return MessageQueue(topic, broker or "", queue_id)


def is_version(text: str | None, version: DataVersion) -> bool:
    """Whether a version that was sent as JSON in a header is this one. One that cannot be read is not."""
    try:
        return text is not None and DataVersion.decode(text.encode()) == version
    except ValueError:
        return False
