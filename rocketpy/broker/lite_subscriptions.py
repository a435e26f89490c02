"""Which clients read which lite topics. RocketMQ: LiteSubscriptionRegistryImpl, LiteSubscription (5.5.0 broker/lite/).

    LITE_SUBSCRIPTION_CTL ─ add, remove, replace ─┐                       ┌─► native table, which wakes their pops (lite_readers.h)
    a client not heard of ─ scan ─────────────────┼─ clients by queue ────┤
    a lite topic deleted ─ forget ────────────────┘                       └─► what has to happen: Excluded, Reset

Decisions only. A client is known by its id and its group; RocketMQ goes by the client id alone, and of a client in two groups keeps the
first group. Nothing is saved in a file: clients repeat all that they read every half minute, and a client that is silent for
liteSubscriptionCheckTimeoutMills is forgotten. The names that a client of a wildcard group gives are ignored: it reads all of the topic.

Bounds: `most` subscriptions altogether (maxLiteSubscriptionCount), then LiteQuotaExceeded; RocketMQ lets a client's whole list past it. A
wildcard client counts for one. One client has at most its group's lite.sub.client.quota and QUOTA_SLACK more. RocketMQ leaves that quota to
clients and proxies: a client that ignores it, or makes up client ids, may take all there are. Groups that have less than a tenth of `most`
therefore find another tenth behind it, which no other group gets.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from .._core.errors import Busy, InvalidArgument, NoMemory
from . import names
from .attributes import LITE_RESET_WHEN_EXCLUDED, LITE_RESET_WHEN_LEFT
from .clients import Channel
from .subscriptions import GroupConfig
from .tables import LiteSink

log = logging.getLogger(__name__)

SHARES: Final = 10
"""What is kept for groups that have little is one part of so many, and so much is little."""
QUOTA_SLACK: Final = 300
"""Beyond a client's quota, as proxies let it name more: some of what it had may be gone by now."""


class LiteQuotaExceeded(Exception):
    """There are as many subscriptions as there may be; the message is the remark."""

    actions: list[LiteAction]
    """Of what came to be before."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.actions = []


class LiteIllegal(Exception):
    """The group's consumers may not do that; the message is the remark."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """Another client of the group took the lite topic; this one is told."""

    channel: Channel | None
    client_id: str
    group: str
    queue: str


@dataclass(frozen=True, slots=True)
class Reset:
    """The group begins the queue anew."""

    group: str
    queue: str


LiteAction = Excluded | Reset
GroupOf = Callable[[str], GroupConfig | None]


@dataclass(slots=True)
class LiteClient:
    """What one client of a group reads, by light queues; of a wildcard group nothing by itself."""

    group: str
    client_id: str
    topic: str
    seen_ms: int
    channel: Channel | None = None
    is_wildcard: bool = False
    queues: set[str] = field(default_factory=set)
    senders: list[str] = field(default_factory=list)
    """Of its topic, as of when it was decided which of its lite topics are this broker's (lite_sharding)."""


class LiteSubscriptions:
    """All of this broker."""

    def __init__(self, sink: LiteSink, now_ms: Callable[[], int], group: GroupOf, most: Callable[[], int]) -> None:
        """now_ms: any clock that does not go back. group: a group's settings."""
        self._sink = sink
        self._now_ms = now_ms
        self._group = group
        self._most = most
        self._clients: dict[tuple[str, str], LiteClient] = {}
        self._readers: dict[str, dict[tuple[str, str], LiteClient]] = {}
        self._wildcards: dict[str, dict[str, LiteClient]] = {}
        self._counts: Counter[str] = Counter()  # by group
        self.count = 0
        """Of subscriptions: a lite topic of two clients counts twice."""

    def __iter__(self) -> Iterator[LiteClient]:
        return iter(self._clients.values())

    def get(self, group: str, client_id: str) -> LiteClient | None:
        return self._clients.get((group, client_id))

    def readers(self, queue: str) -> set[tuple[str, str]]:
        """(client id, group) of who reads it; ("*", group) of wildcard groups."""
        parts = names.lite_parts(queue)
        wildcards = {("*", group) for group in self._wildcards if parts and self._wildcard_topic(group) == parts[0]}
        return {(client_id, group) for group, client_id in self._readers.get(queue, ())} | wildcards

    @property
    def most(self) -> int:
        """How many there may be altogether."""
        return self._most()

    def check_list(self, group: str, client_id: str, count: int) -> None:
        """Of a client that names so many, before they are looked at; proxies refuse it likewise. Raises LiteQuotaExceeded."""
        config = self._group(group)
        if config is not None and not config.is_lite_wildcard and 0 <= config.lite_client_quota < count - QUOTA_SLACK:
            raise LiteQuotaExceeded(f"lite subscription quota exceeded: {client_id} names {count} lite topics")

    def is_bound(self, group: str, topic: str) -> bool:
        """Whether the group reads that topic's lite topics: pops of others are refused. Raises LiteIllegal."""
        return self._consuming(group).lite_topic == topic

    def check(self, group: str) -> GroupConfig:
        """Whether a client of the group may add one. Raises LiteQuotaExceeded, LiteIllegal."""
        config = self._consuming(group)
        self._check_room(group)
        if config.is_lite_wildcard:
            raise LiteIllegal("subscribe lite operation is not supported for this group")
        return config

    def that_fit(self, group: str, client_id: str, topic: str, queues: Sequence[str]) -> list[str]:
        """Those that the client has, or that it may still have, in the order of `add`. Raises LiteIllegal."""
        config, client = self._consuming(group), self.get(group, client_id)
        has = client.queues if client is not None else set[str]()
        known = has if client is not None and client.topic == topic else set[str]()  # of another topic, it begins anew
        room = self._room(group, leaving=len(has) - len(known))
        if config.lite_client_quota >= 0:
            room = min(room, config.lite_client_quota + QUOTA_SLACK - len(known))
        new = [queue for queue in queues if queue not in known]
        return [queue for queue in queues if queue in known] + new[: max(0, room)]

    def add(self, group: str, client_id: str, topic: str, queues: Collection[str], channel: Channel) -> list[LiteAction]:
        """Some more. Raises LiteQuotaExceeded, LiteIllegal."""
        config = self.check(group)
        client = self._open(group, client_id, topic, channel)
        actions: list[LiteAction] = []
        try:
            for queue in queues:
                self._subscribe(client, queue, config)  # first: who has it now keeps it when this one cannot have it
                if config.is_lite_exclusive:
                    actions += self._exclude_others(config, client, queue)
        except LiteQuotaExceeded as error:
            error.actions = actions
            raise
        finally:
            self._drop_if_empty(client)
            if lost := [action for action in actions if isinstance(action, Excluded)]:
                shown = (len(lost), group, lost[0].queue, lost[0].client_id, client_id)
                log.info("%d lite topics of group %s, %s of client %s first, go to client %s", *shown)
        return actions

    def remove(self, group: str, client_id: str, queues: Iterable[str]) -> list[LiteAction]:
        """Some less."""
        client, config = self.get(group, client_id), self._group(group)
        if client is None:
            return []
        client.seen_ms = self._now_ms()
        gone = [queue for queue in queues if queue in client.queues]
        for queue in gone:
            self._unsubscribe(client, queue)
        self._drop_if_empty(client)
        resets = config is not None and config.is_true(LITE_RESET_WHEN_LEFT)
        return [Reset(group, queue) for queue in gone] if resets else []

    def replace(self, group: str, client_id: str, topic: str, queues: Collection[str], channel: Channel) -> None:
        """These and no others; of a wildcard group all. Raises LiteQuotaExceeded, LiteIllegal."""
        config = self._consuming(group)
        if config.is_lite_wildcard:
            self._read_all(group, client_id, topic, channel)
            return
        client = self._open(group, client_id, topic, channel)
        if client.is_wildcard:  # it was, up to now
            self._remove_client(client)
            client = self._open(group, client_id, topic, channel)
        wanted = set(queues)
        for queue in client.queues - wanted:
            self._unsubscribe(client, queue)
        try:
            for queue in wanted - client.queues:
                self._subscribe(client, queue, config)
        finally:
            self._drop_if_empty(client)

    def remove_client(self, group: str, client_id: str) -> None:
        client = self.get(group, client_id)
        if client is not None:
            log.info("a client leaves its lite topics: topic %s, group %s, client %s", client.topic, group, client_id)
            self._remove_client(client)

    def scan(self, timeout_ms: int) -> list[LiteClient]:
        """Forgets who has not said anything for so long; who that was."""
        now_ms = self._now_ms()
        gone = [client for client in self._clients.values() if now_ms - client.seen_ms > timeout_ms]
        for client in gone:
            log.info("a client of lite topics is not heard of: topic %s, group %s, client %s", client.topic, client.group, client.client_id)
            self._remove_client(client)
        return gone

    def tell_missed(self) -> None:
        """Wildcard groups that were not told of everything, for want of memory or room, are told again."""
        for group in self._wildcards:
            topic = self._wildcard_topic(group)
            if topic is not None and self._sink.lite_wildcard_has_missed(group):
                log.warning("group %s missed something of the lite topics of %s, and is told again", group, topic)
                with contextlib.suppress(Busy, NoMemory):  # and again
                    self._sink.put_lite_wildcard(group, topic)

    def forget(self, queue: str) -> None:
        """It was deleted. Its readers are not told: they name it again in their next list, as in RocketMQ."""
        for client in self._readers.pop(queue, {}).values():
            client.queues.discard(queue)
            self._add_to_count(client.group, -1)
            self._drop_if_empty(client)
        self._sink.forget_lite_queue(queue)

    # ---- clients ----

    def _consuming(self, group: str) -> GroupConfig:
        config = self._group(group)
        if config is None or not config.consume_enable:
            raise LiteIllegal("Consumer group is not allowed to consume.")
        return config

    def _open(self, group: str, client_id: str, topic: str, channel: Channel) -> LiteClient:
        """Of another topic, its group is bound to that now, and it begins anew."""
        client = self._clients.get((group, client_id))
        if client is not None and client.topic != topic:
            self._remove_client(client)
            client = None
        if client is None:
            client = self._clients[group, client_id] = LiteClient(group, client_id, topic, 0)
        client.seen_ms, client.channel = self._now_ms(), channel
        return client

    def _remove_client(self, client: LiteClient) -> None:
        for queue in list(client.queues):
            self._unsubscribe(client, queue)
        if client.is_wildcard:
            client.is_wildcard = False
            self._add_to_count(client.group, -1)
            others = self._wildcards[client.group]
            del others[client.client_id]
            if not others:
                del self._wildcards[client.group]
                self._sink.delete_lite_readers(client.group, "")
        self._clients.pop((client.group, client.client_id), None)

    def _drop_if_empty(self, client: LiteClient) -> None:
        if not client.queues and not client.is_wildcard:
            self._clients.pop((client.group, client.client_id), None)

    def _read_all(self, group: str, client_id: str, topic: str, channel: Channel) -> None:
        is_known = self._wildcard_topic(group) == topic
        client = self._open(group, client_id, topic, channel)
        if client.is_wildcard:
            return
        for queue in list(client.queues):
            self._unsubscribe(client, queue)
        try:
            self._check_room(group)
            if not is_known:
                self._sink.put_lite_wildcard(group, topic)
        except (Busy, NoMemory) as error:
            self._drop_if_empty(client)
            raise LiteQuotaExceeded(f"lite subscription quota exceeded: {error}") from error
        except LiteQuotaExceeded:
            self._drop_if_empty(client)
            raise
        client.is_wildcard = True
        self._wildcards.setdefault(group, {})[client_id] = client
        self._add_to_count(group, 1)

    def _wildcard_topic(self, group: str) -> str | None:
        """What the group reads all of: what the last of its clients that came said."""
        clients = self._wildcards.get(group)
        return clients[next(reversed(clients))].topic if clients else None

    # ---- subscriptions ----

    def _room(self, group: str, leaving: int = 0) -> int:
        """For how many more of the group's, once so many of them have gone."""
        most, count = self._most(), self.count - leaving
        share = most // SHARES
        return min(most + share - count, max(share - self._counts[group] + leaving, most - count))

    def _check_room(self, group: str) -> None:
        if self._room(group) > 0:
            return
        most = self._most()
        is_for_others = self.count < most + most // SHARES
        of_group = f": {self._counts[group]} are of group {group}, and those beyond are for groups that have few" if is_for_others else ""
        raise LiteQuotaExceeded(f"lite subscription quota exceeded {most}{of_group}")

    def _add_to_count(self, group: str, by: int) -> None:
        self.count += by
        self._counts[group] += by
        if not self._counts[group]:
            del self._counts[group]

    def _subscribe(self, client: LiteClient, queue: str, config: GroupConfig) -> None:
        if queue in client.queues:
            return
        self._check_room(client.group)
        if 0 <= config.lite_client_quota <= len(client.queues) - QUOTA_SLACK:
            raise LiteQuotaExceeded(f"lite subscription quota exceeded {config.lite_client_quota} of client {client.client_id}")
        try:
            self._sink.put_lite_reader(client.group, client.client_id, queue)
        except (Busy, NoMemory, InvalidArgument) as error:
            raise LiteQuotaExceeded(f"lite subscription quota exceeded: {error}") from error
        client.queues.add(queue)
        self._readers.setdefault(queue, {})[client.group, client.client_id] = client
        self._add_to_count(client.group, 1)

    def _unsubscribe(self, client: LiteClient, queue: str) -> None:
        self._sink.delete_lite_reader(client.group, client.client_id, queue)
        client.queues.discard(queue)
        readers = self._readers[queue]
        del readers[client.group, client.client_id]
        if not readers:
            del self._readers[queue]
        self._add_to_count(client.group, -1)

    def _exclude_others(self, config: GroupConfig, client: LiteClient, queue: str) -> list[LiteAction]:
        others = [other for other in self._readers.get(queue, {}).values() if other.group == client.group and other is not client]
        actions: list[LiteAction] = []
        for other in others:
            self._unsubscribe(other, queue)
            self._drop_if_empty(other)
            actions.append(Excluded(other.channel, other.client_id, client.group, queue))
        if others and config.is_true(LITE_RESET_WHEN_EXCLUDED):
            actions.append(Reset(client.group, queue))
        return actions
