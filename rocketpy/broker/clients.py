"""Who is connected: the producers and consumers of every group, what live groups subscribed to, and who must hear of a change.
RocketMQ: ProducerManager, ConsumerManager, ConsumerGroupInfo, ClientHousekeepingService (5.3.3 broker/client/).

    heartbeat ──┐                       ┌─ Notify: NOTIFY_CONSUMER_IDS_CHANGED to every client of a group, so that it rebalances
    unregister ─┼─ tables ─ actions ────┤
    closed ─────┤      │                └─ CloseChannel: a connection nobody heard of for EXPIRES_MS
    scan ───────┘      └─ native tables (the sinks): exactly what live groups subscribed to; which connection a producer's replies go to

Decisions only; `now_ms` is monotonic. A channel is a connection of one listener. Bounds: CHANNEL_GROUPS_MAX groups a connection; what one
heartbeat may hold is bounded where it is read (heartbeat.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._core.errors import InvalidArgument, RocketpyError
from ..remoting.json_codec import write_fastjson
from .heartbeat import BROADCASTING, CLUSTERING, CONSUME_PASSIVELY, ConsumerData, Subscription
from .names import is_possible
from .tables import ProducerSink, SubscriptionSink

log = logging.getLogger(__name__)

EXPIRES_MS = 120_000
CHANNEL_GROUPS_MAX = 10_000
FEW_GROUPS = 8


class Channel(NamedTuple):
    """One connection: the listener that it came through, and its id there."""

    listener: int
    connection_id: int


@dataclass(slots=True)
class Client:
    """A client, as one group knows it."""

    channel: Channel
    client_id: str
    address: str
    language: int
    version: int
    seen_ms: int


@dataclass(frozen=True, slots=True)
class Notify:
    """A decision: tell these clients that the members or subscriptions of a group have changed."""

    group: str
    channels: tuple[Channel, ...]


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """A decision: close a connection that has sent no heartbeat for too long."""

    channel: Channel


Action = Notify | CloseChannel


@dataclass(slots=True)
class ConsumerGroup:
    """A group that has at least one client."""

    group: str
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = ""
    clients: dict[Channel, Client] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    fingerprint: int = 0
    changes: int = 0
    """How often any of this but its clients has changed."""
    _id_list: bytes | None = field(default=None, repr=False)

    @property
    def client_ids(self) -> list[str]:
        return [client.client_id for client in self.clients.values()]

    def encoded_ids(self) -> bytes:
        """The answer to GET_CONSUMER_LIST_BY_GROUP, cached until a client joins, leaves or changes its id."""
        if self._id_list is None:
            self._id_list = write_fastjson({"consumerIdList": self.client_ids})
        return self._id_list

    def put(self, client: Client) -> None:
        known = self.clients.get(client.channel)
        if known is None or known.client_id != client.client_id:
            self._id_list = None
        _share_texts(client, known)
        self.clients[client.channel] = client

    def pop(self, channel: Channel) -> Client | None:
        self._id_list = None
        return self.clients.pop(channel, None)

    @property
    def is_broadcast(self) -> bool:
        return self.message_model == BROADCASTING

    def find(self, client_id: str) -> Client | None:
        return next((client for client in self.clients.values() if client.client_id == client_id), None)


class Heard(NamedTuple):
    """A heartbeat that changed nothing: its digest; each of its groups, with that group's change count at the time; and the number of its
    producer groups, which were all that its connection has."""

    digest: bytes
    consumers: tuple[Any, ...]
    producer_groups: int


def _share_texts(client: Client, known: Client | None) -> None:
    """Replaces equal texts by one copy, because every heartbeat brings new ones."""
    if known is not None and (known.client_id, known.address) == (client.client_id, client.address):
        client.channel, client.client_id, client.address = known.channel, known.client_id, known.address


class ChannelGroups:
    """The groups that each connection belongs to, so that its end costs no more than it has groups. Most have one or two, hence no set
    each, which takes 216 bytes."""

    def __init__(self) -> None:
        self._groups: dict[Channel, tuple[str, ...] | set[str]] = {}

    def add(self, channel: Channel, group: str) -> bool:
        groups = self._groups.get(channel, ())
        if group in groups:
            return True
        if len(groups) >= CHANNEL_GROUPS_MAX:
            return False
        if isinstance(groups, set):
            groups.add(group)
        else:
            self._groups[channel] = (*groups, group) if len(groups) < FEW_GROUPS else {*groups, group}
        return True

    def remove(self, channel: Channel, group: str) -> None:
        groups = self._groups.get(channel, ())
        if isinstance(groups, set):
            groups.discard(group)
        elif group in groups:
            groups = self._groups[channel] = tuple(each for each in groups if each != group)
        if not groups:
            self._groups.pop(channel, None)

    def __contains__(self, channel: Channel) -> bool:
        return channel in self._groups

    def of(self, channel: Channel) -> Collection[str]:
        return self._groups.get(channel, ())

    def pop(self, channel: Channel) -> Collection[str]:
        return self._groups.pop(channel, ())


class ConsumerTable:
    """The consumer groups and their clients."""

    def __init__(
        self,
        sink: SubscriptionSink,
        now_ms: Callable[[], int],
        *,
        expires_ms: int = EXPIRES_MS,
        is_readable: Callable[[str, str], bool] = lambda group, topic: True,
        notifies: Callable[[str], bool] = lambda group: True,
    ) -> None:
        self._sink = sink
        self._now_ms = now_ms
        self._expires_ms = expires_ms
        self._is_readable = is_readable
        self._notifies = notifies
        self._groups: dict[str, ConsumerGroup] = {}
        self._channels = ChannelGroups()
        self.heard: dict[Channel, Heard] = {}
        """Of each connection, until it closes: repeated_heartbeats.py."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    def get(self, group: str) -> ConsumerGroup | None:
        return self._groups.get(group)

    def find(self, group: str, client_id: str) -> Client | None:
        info = self._groups.get(group)
        return None if info is None else info.find(client_id)

    def client_ids(self, group: str) -> list[str]:
        info = self._groups.get(group)
        return [] if info is None else info.client_ids

    def subscription(self, group: str, topic: str) -> Subscription | None:
        info = self._groups.get(group)
        return None if info is None else info.subscriptions.get(topic)

    def subscription_count(self, group: str) -> int:
        info = self._groups.get(group)
        return 0 if info is None else len(info.subscriptions)

    def is_consumed(self, group: str, topic: str) -> bool:
        """Whether the group reads the topic: it subscribes to it, or no live client says what it subscribes to. Offsets of topics that a
        live group no longer subscribes to are history, not lag."""
        return self.subscription(group, topic) is not None or self.subscription_count(group) == 0

    def subscribers(self, topic: str) -> set[str]:
        return {info.group for info in self._groups.values() if topic in info.subscriptions}

    def register(self, data: ConsumerData, client: Client, *, update_subscriptions: bool = True) -> list[Action]:
        """Takes what a heartbeat says about one group."""
        info = self._groups.get(data.group)
        if not self._channels.add(client.channel, data.group if info is None else info.group):
            log.error(
                "client %s of %s has more than %d groups; %s is ignored", client.client_id, client.address, CHANNEL_GROUPS_MAX, data.group
            )
            return []
        if info is None:
            info = self._groups[data.group] = ConsumerGroup(data.group)
        model_changed = info.message_model != data.message_model
        if model_changed or (info.consume_type, info.consume_from_where) != (data.consume_type, data.consume_from_where):
            info.changes += 1
        info.consume_type, info.message_model = data.consume_type, data.message_model
        info.consume_from_where = data.consume_from_where
        joined = self._update_client(info, client)
        changed = self._update_subscriptions(info, data) if update_subscriptions else False
        if model_changed:
            for topic in info.subscriptions:
                self._publish(info, topic)
        return self._changed(info) if joined or changed else []

    def unregister(self, group: str, channel: Channel) -> list[Action]:
        info = self._groups.get(group)
        if info is None:
            return []
        client = info.pop(channel)
        self._channels.remove(channel, group)
        if client is not None:
            log.info("unregister a consumer %s from group %s", client.client_id, group)
        return self._left(info)

    def channel_closed(self, channel: Channel) -> list[Action]:
        self.heard.pop(channel, None)
        actions: list[Action] = []
        for group in self._channels.pop(channel):
            info = self._groups.get(group)
            if info is not None and (client := info.pop(channel)) is not None:
                log.info("remove closed channel %s of client %s from consumer group %s", client.address, client.client_id, group)
                actions += self._left(info)
        return actions

    def scan(self) -> list[Action]:
        """Removes clients that have been silent for too long; their connections are to be closed."""
        now = self._now_ms()
        actions: list[Action] = []
        for info in list(self._groups.values()):
            silent = [client for client in info.clients.values() if now - client.seen_ms > self._expires_ms]
            for client in silent:
                log.warning("SCAN: remove expired channel %s of client %s, consumer group %s", client.address, client.client_id, info.group)
                info.pop(client.channel)
                self._channels.remove(client.channel, info.group)
                actions.append(CloseChannel(client.channel))
            if silent:
                actions += self._left(info)
        return actions

    def republish(self, group: str, topic: str) -> None:
        """To be called when the permission of a group to read a topic has changed."""
        info = self._groups.get(group)
        if info is not None and topic in info.subscriptions:
            self._publish(info, topic)

    def _update_client(self, info: ConsumerGroup, client: Client) -> bool:
        known = info.clients.get(client.channel)
        if known is None:
            log.info(
                "new consumer connected, group: %s %s %s client: %s %s",
                info.group,
                info.consume_type,
                info.message_model,
                client.client_id,
                client.address,
            )
        elif known.client_id != client.client_id:
            log.error(
                "consumer channel exists in broker, but clientId is not the same one, group=%s, old=%s, new=%s",
                info.group,
                known.client_id,
                client.client_id,
            )
        client.seen_ms = self._now_ms()
        info.put(client)
        return known is None

    def _update_subscriptions(self, info: ConsumerGroup, data: ConsumerData) -> bool:
        changed = False
        for subscription in data.subscriptions:
            known = info.subscriptions.get(subscription.topic)
            if known is None:
                changed = True
                log.info("subscription changed, add new topic, group: %s %s", info.group, subscription)
            elif subscription.version <= known.version:
                continue
            elif info.consume_type == CONSUME_PASSIVELY and subscription.expression != known.expression:
                log.info("subscription changed, group: %s OLD: %s NEW: %s", info.group, known, subscription)
            info.subscriptions[subscription.topic] = subscription
            info.changes += 1
            self._publish(info, subscription.topic)
        topics = {subscription.topic for subscription in data.subscriptions}
        for topic in [topic for topic in info.subscriptions if topic not in topics]:
            log.warning("subscription changed, group: %s remove topic %s", info.group, topic)
            del info.subscriptions[topic]
            info.changes += 1
            self._sink.delete_subscription(info.group, topic)
            changed = True
        return changed

    def _publish(self, info: ConsumerGroup, topic: str) -> None:
        if not is_possible(topic):  # nobody can pull it: there is none
            return
        subscription = info.subscriptions[topic]
        is_readable = self._is_readable(info.group, topic)
        if subscription.is_sql and is_readable and self._publish_sql(info, subscription):
            return
        native = subscription.is_by_tag and is_readable
        try:
            self._sink.put_subscription(
                info.group, topic, subscription.codes, subscription.version, broadcast=info.is_broadcast, native=native
            )
        except InvalidArgument as error:  # more tags than the native filter holds: such pulls come up to us, and are refused
            log.error("pulls of group %s from topic %s are refused: %s", info.group, topic, error)
            self._sink.put_subscription(info.group, topic, (), subscription.version, broadcast=info.is_broadcast, native=False)

    def _publish_sql(self, info: ConsumerGroup, subscription: Subscription) -> bool:
        """False if the group's expression cannot be compiled; its pulls are then passed up to Python, which refuses them."""
        try:
            unread = self._sink.put_sql_subscription(
                info.group, subscription.topic, subscription.expression, subscription.version, broadcast=info.is_broadcast
            )
        except InvalidArgument as error:
            log.error("pulls of group %s from topic %s are refused: %s: %r", info.group, subscription.topic, error, subscription.expression)
            return False
        if unread:
            log.warning(
                "group %s filters topic %s by %r; what follows the expression, %r, is not looked at",
                info.group,
                subscription.topic,
                subscription.expression,
                unread,
            )
        return True

    def _left(self, info: ConsumerGroup) -> list[Action]:
        if info.clients:
            return self._changed(info)
        if self._groups.pop(info.group, None) is not None:
            log.info("unregister consumer ok, no any connection, and remove consumer group, %s", info.group)
            for topic in info.subscriptions:
                self._sink.delete_subscription(info.group, topic)
        return []

    def _changed(self, info: ConsumerGroup) -> list[Action]:
        if info.is_broadcast or not info.clients or not self._notifies(info.group):
            return []
        return [Notify(info.group, tuple(info.clients))]


class ProducerPlaces:
    """The connection of each producer's client id, where replies to it are pushed. A connection has one client id, its last one; of two
    connections with one client id the one that joined last counts, and the other again once that has left and it is heard of."""

    def __init__(self, sink: ProducerSink) -> None:
        self._sink = sink
        self._channels: dict[str, Channel] = {}
        self._client_ids: dict[Channel, str] = {}

    def __contains__(self, client_id: str) -> bool:
        return client_id in self._channels

    def put(self, client_id: str, channel: Channel) -> None:
        if self._channels.get(client_id) == channel:
            return
        if channel in self._client_ids:
            self.leave(channel)
        try:
            self._sink.put_producer(client_id, channel.listener, channel.connection_id)
        except RocketpyError as error:  # the producer works as ever, but for replies
            log.warning("replies to the producer with client id %.100r will not find it: %s", client_id, error)
            return
        before = self._channels.get(client_id)
        if before is not None:
            del self._client_ids[before]
        self._channels[client_id] = channel
        self._client_ids[channel] = client_id

    def leave(self, channel: Channel) -> None:
        client_id = self._client_ids.pop(channel, None)
        if client_id is not None:
            del self._channels[client_id]
            self._sink.delete_producer(client_id)


class ProducerTable:
    """The producer groups and their clients."""

    def __init__(self, sink: ProducerSink, now_ms: Callable[[], int], *, expires_ms: int = EXPIRES_MS) -> None:
        self._places = ProducerPlaces(sink)
        self._now_ms = now_ms
        self._expires_ms = expires_ms
        self._groups: dict[str, dict[Channel, Client]] = {}
        self._channels = ChannelGroups()

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[tuple[str, list[Client]]]:
        return ((group, list(clients.values())) for group, clients in self._groups.items())

    def clients(self, group: str) -> list[Client] | None:
        """The producers of a group; None if it has none."""
        clients = self._groups.get(group)
        return None if clients is None else list(clients.values())

    def register(self, group: str, client: Client) -> None:
        if not self._channels.add(client.channel, group):
            log.error("client %s of %s has more than %d groups; %s is ignored", client.client_id, client.address, CHANNEL_GROUPS_MAX, group)
            return
        clients = self._groups.setdefault(group, {})
        if client.channel not in clients:
            log.info("new producer connected, group: %s client: %s %s", group, client.client_id, client.address)
        if client.channel not in clients or client.client_id not in self._places:
            self._places.put(client.client_id, client.channel)
        client.seen_ms = self._now_ms()
        _share_texts(client, clients.get(client.channel))
        clients[client.channel] = client

    def groups_of(self, channel: Channel) -> Collection[str]:
        return self._channels.of(channel)

    def find(self, group: str, channel: Channel) -> Client | None:
        """The producer as it was registered last. None also if replies do not find it, because its next registration may change that."""
        client = self._groups.get(group, {}).get(channel)
        return client if client is not None and client.client_id in self._places else None

    def unregister(self, group: str, channel: Channel) -> None:
        self._channels.remove(channel, group)
        self._remove(group, channel)

    def channel_closed(self, channel: Channel) -> None:
        self._places.leave(channel)
        for group in self._channels.pop(channel):
            self._remove(group, channel)

    def scan(self) -> list[Action]:
        now = self._now_ms()
        actions: list[Action] = []
        for group in list(self._groups):
            for client in [client for client in self._groups[group].values() if now - client.seen_ms > self._expires_ms]:
                log.warning("SCAN: remove expired channel %s of client %s, producer group %s", client.address, client.client_id, group)
                self._channels.remove(client.channel, group)
                self._remove(group, client.channel)
                actions.append(CloseChannel(client.channel))
        return actions

    def _remove(self, group: str, channel: Channel) -> None:
        clients = self._groups.get(group)
        if clients is not None and (client := clients.pop(channel, None)) is not None:
            log.info("unregister a producer %s from group %s", client.client_id, group)
            if channel not in self._channels:
                self._places.leave(channel)
        if clients is not None and not clients:
            del self._groups[group]
            log.info("unregister a producer group[%s]", group)
