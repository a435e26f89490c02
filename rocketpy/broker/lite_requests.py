"""The requests by which clients say which lite topics they read.
RocketMQ: LiteSubscriptionCtlProcessor (5.5.0 broker/processor/).

    subscriptionSet ─ each: names checked ─ lite topics of this broker, or with messages here ─ LiteSubscriptions ─► told, offsets set

Bounds: ENTRIES_MAX of a request; as many names as LiteSubscriptions has room for, and for each group as many empty lite topics for which it
was told where to begin, remembered until the broker stops.
"""

from __future__ import annotations

import functools
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import Response
from ..remoting.headers import NotifyUnsubscribeLiteRequestHeader
from . import names
from .clients import Channel
from .json_members import integer_member, text_member
from .lite_sharding import LiteSharding
from .lite_subscriptions import Excluded, LiteAction, LiteIllegal, LiteQuotaExceeded
from .parts import HandlerTable, Parts, read_body, read_object

log = logging.getLogger(__name__)

ENTRIES_MAX: Final = 1000
"""The most entries of one request; RocketMQ's proxies send one."""
SHOWN_MAX: Final = 100
"""Characters of a name in the log."""

PARTIAL_ADD, PARTIAL_REMOVE, COMPLETE_ADD, COMPLETE_REMOVE = ACTIONS = ("PARTIAL_ADD", "PARTIAL_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE")
_MIN, _MAX = 1, 2  # OffsetOption's policies


@dataclass(frozen=True, slots=True)
class OffsetOption:
    """Where a group is to begin: a POLICY (1 the first message, 2 behind the last), an OFFSET, or TAIL_N before where it is."""

    type: str
    value: int

    def target(self, current: int, end: int) -> int | None:
        """None: it stays where it is; so it does for a TIMESTAMP, which RocketMQ takes and does nothing with."""
        wanted = {
            ("POLICY", _MIN): 0,
            ("POLICY", _MAX): end,
        }.get((self.type, self.value))
        if self.type == "OFFSET":
            wanted = self.value
        if self.type == "TAIL_N" and current >= 0:
            wanted = current - self.value
        return None if wanted is None else max(0, min(wanted, end))


@dataclass(frozen=True, slots=True)
class LiteEntry:
    """One client's lite topics. LiteSubscriptionDTO (common/lite/)."""

    action: str
    client_id: str
    group: str
    topic: str
    lite_topics: frozenset[str]
    offset: OffsetOption | None

    @staticmethod
    def from_json(value: Any) -> LiteEntry:
        """Raises ValueError."""
        members, where = read_object(value), "subscription"
        action = text_member(members, "action", "", where)
        if action not in ACTIONS:
            raise ValueError(f"action {action!r} is none of {', '.join(ACTIONS)}")
        option = members.get("offsetOption")
        offset = None
        if option is not None:
            option = read_object(option)
            offset = OffsetOption(text_member(option, "type", "", "offsetOption"), integer_member(option, "value", 0, "offsetOption"))
        return LiteEntry(
            action,
            text_member(members, "clientId", "", where),
            text_member(members, "group", "", where),
            text_member(members, "topic", "", where),
            frozenset(_texts(members.get("liteTopicSet") or ())),
            offset,
        )

    @property
    def shown(self) -> str:
        """The entry for the log, shortened, because anybody may have sent it."""
        return ", ".join(f"{text[:SHOWN_MAX]!r}" for text in (self.action, self.topic, self.group, self.client_id))

    @property
    def is_named(self) -> bool:
        is_possible = names.is_possible(self.group) and names.is_possible(self.topic) and names.is_possible_client(self.client_id)
        return is_possible and all(text.strip() for text in (self.client_id, self.group, self.topic))


def _texts(value: Any) -> Iterable[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ValueError("liteTopicSet is no list of texts")
    return value


def _read_entries(value: Any) -> list[LiteEntry]:
    members: Mapping[Any, Any] = read_object(value)
    entries = members.get("subscriptionSet") or []
    if not isinstance(entries, list) or len(entries) > ENTRIES_MAX:
        raise ValueError(f"subscriptionSet is no list of at most {ENTRIES_MAX}")
    return [LiteEntry.from_json(each) for each in entries]


class LiteRequests:
    """The handler of LITE_SUBSCRIPTION_CTL."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._subscriptions = parts.lite
        self._sharding = LiteSharding(parts.routes, parts.settings.broker_name)
        self._begun: set[tuple[str, str]] = set()  # (group, lite queue without messages), that it was told where to begin
        self._has_told = False  # that these are too many

    def handlers(self, listener: int) -> HandlerTable:
        return {RequestCode.LITE_SUBSCRIPTION_CTL: functools.partial(self._control, listener)}

    async def _control(self, listener: int, request: Request) -> Response:
        settings = self._parts.settings
        if settings.is_slave:
            return Response(ResponseCode.SYSTEM_ERROR, f"the broker[{settings.broker_ip}] is a slave: its master answers this")
        if not settings.light_queues:
            return Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, NOT_WITHOUT_LIGHT_QUEUES)
        if not request.body:
            return Response(ResponseCode.ILLEGAL_OPERATION, "Request body is null.")
        entries = read_body(request, _read_entries)
        if not entries:
            return Response(ResponseCode.ILLEGAL_OPERATION, "LiteSubscriptionCtlRequestBody is empty.")
        channel = Channel(listener, request.connection_id)
        try:
            for entry in entries:
                if entry.is_named:
                    await self._apply(entry, channel)
                else:
                    log.warning("a subscription to lite topics of %s has a name that cannot be: %s", request.remote_address, entry.shown)
        except LiteQuotaExceeded as error:
            return Response(ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, f"org.apache.rocketmq.broker.lite.LiteQuotaException: {error}")
        except LiteIllegal as error:
            return Response(ResponseCode.ILLEGAL_OPERATION, f"java.lang.IllegalStateException: {error}")
        return Response()

    async def _apply(self, entry: LiteEntry, channel: Channel) -> None:
        subscriptions, group, client_id = self._subscriptions, entry.group, entry.client_id
        if entry.action == COMPLETE_REMOVE:
            subscriptions.remove_client(group, client_id)
        elif entry.action == PARTIAL_REMOVE:
            self._act(subscriptions.remove(group, client_id, self._queues(entry)))
        elif not subscriptions.is_bound(group, entry.topic):
            log.debug("lite topics of %s are not kept for group %s, which is not bound to it", entry.topic, group)
        elif entry.action == COMPLETE_ADD:
            subscriptions.check_list(group, client_id, len(entry.lite_topics))
            senders = await self._sharding.senders(entry.topic)
            subscriptions.replace(group, client_id, entry.topic, self._active(entry, senders), channel)
            client = subscriptions.get(group, client_id)
            if client is not None:
                client.senders = senders
        else:
            subscriptions.check_list(group, client_id, len(entry.lite_topics))
            queues = self._active(entry, await self._sharding.senders(entry.topic))
            subscriptions.check(group)
            if entry.offset is not None:  # first: its pops may wait
                self._begin(group, subscriptions.that_fit(group, client_id, entry.topic, queues), entry.offset)
            try:
                self._act(subscriptions.add(group, client_id, entry.topic, queues, channel))
            except LiteQuotaExceeded as error:
                self._act(error.actions)
                raise

    def _queues(self, entry: LiteEntry) -> list[str]:
        """The light queues of those lite topics that the client has."""
        client = self._subscriptions.get(entry.group, entry.client_id)
        prefix = names.LITE_QUEUE_PREFIX + entry.topic + names.LITE_SEPARATOR
        return [queue for lite in entry.lite_topics if client is not None and (queue := prefix + lite) in client.queues]

    def _active(self, entry: LiteEntry, senders: list[str]) -> list[str]:
        """Of this broker, or with messages here: a client names all it reads to every broker, every half minute. What it has is not looked
        at again while its topic's queues are where they were."""
        client = self._subscriptions.get(entry.group, entry.client_id)
        known = client.queues if client is not None and client.topic == entry.topic and client.senders == senders else frozenset()
        prefix = names.LITE_QUEUE_PREFIX + entry.topic + names.LITE_SEPARATOR
        kept = [queue for lite in entry.lite_topics if (queue := prefix + lite) in known]
        new = ((lite, names.lite_queue(entry.topic, lite)) for lite in entry.lite_topics if prefix + lite not in known)
        return kept + [queue for lite, queue in new if queue is not None and self._is_here(lite, queue, senders)]

    def _is_here(self, lite: str, queue: str, senders: list[str]) -> bool:
        return self._sharding.is_own(lite, senders) or self._parts.store.max_offset(queue, 0) > 0

    def _act(self, actions: Iterable[LiteAction]) -> None:
        reset: dict[str, list[str]] = defaultdict(list)
        for action in actions:
            if isinstance(action, Excluded):
                self._tell(action)
            else:
                reset[action.group].append(action.queue)
        for group, queues in reset.items():
            self._begin(group, queues, OffsetOption("POLICY", _MIN))

    def _tell(self, excluded: Excluded) -> None:
        parts = names.lite_parts(excluded.queue)
        assert parts is not None
        header = NotifyUnsubscribeLiteRequestHeader(lite_topic=parts[1], consumer_group=excluded.group, client_id=excluded.client_id)
        channel = excluded.channel
        if channel is None or not self._parts.link.notify(channel, RequestCode.NOTIFY_UNSUBSCRIBE_LITE, header):
            log.debug("notifyUnsubscribeLite: client %s of group %s cannot be told", excluded.client_id, excluded.group)

    def _begin(self, group: str, queues: Iterable[str], option: OffsetOption) -> None:
        """The group's next pop of each begins there, whoever has messages of it now. One line in the log, however many a client names."""
        begun = [queue for queue in queues if self._begin_at(group, queue, option)]
        if begun:
            log.info("group %s begins %d lite queues anew, %s first: %s", group, len(begun), begun[0], option)

    def _begin_at(self, group: str, queue: str, option: OffsetOption) -> bool:
        parts = self._parts
        current, end = parts.offsets.query(group, queue, 0), parts.store.max_offset(queue, 0)
        target = option.target(current, end)
        if target is None or target == current or (end <= 0 and not self._may_begin_empty(group, queue)):
            return False
        parts.offsets.reset(group, queue, 0, target)
        return True

    def _may_begin_empty(self, group: str, queue: str) -> bool:
        """An offset keeps its memory until the broker stops, and names cost whoever makes them up nothing. Past the bound a group begins
        such a lite topic as any other does."""
        if (group, queue) not in self._begun and len(self._begun) >= self._subscriptions.most:
            if not self._has_told:
                log.warning("lite topic %s has no message, and is one of too many whose beginning was asked for: theirs stays open", queue)
            self._has_told = True
            return False
        self._begun.add((group, queue))
        return True


NOT_WITHOUT_LIGHT_QUEUES: Final = "this broker does not support lite topics without enableLmq and enableMultiDispatch"
