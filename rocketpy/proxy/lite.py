"""Lite topics: the proxy passes the subscriptions of lite consumers on to the brokers of the parent topic, and tells a consumer which lite
topics a broker took away from it.
RocketMQ: ClientActivity.syncLiteSubscription, ClientProcessor, LiteSubscriptionService, ProxyClientRemotingProcessor (5.5.0 proxy/).

    client ── SyncLiteSubscription ──► LITE_SUBSCRIPTION_CTL ──► every broker of the parent topic
    client is gone ── COMPLETE_REMOVE ─────────────────────────────┘
    client ◄── telemetry ◄── NOTIFY_UNSUBSCRIBE_LITE ◄── a broker that gave the lite topic to another client

The proxy keeps no subscriptions: clients repeat all of theirs regularly, and brokers forget clients that are silent.

Threads  one event loop. Bounds: max_sync_lite_subscription_rate subscriptions a second; one goodbye under way for each client.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.codes import RequestCode
from ..remoting.command import check_success
from ..remoting.headers import HeaderError, LiteSubscriptionCtlRequestHeader, NotifyUnsubscribeLiteRequestHeader
from ..remoting.json_codec import write_json
from . import schema
from .brokers import Brokers
from .clients import Client, Clients, is_lite
from .context import Context
from .group_config import GroupConfig
from .settings import ProxySettings
from .status import OK, ProxyError, status
from .validation import group_of, lite_topic_of, topic_of

log = logging.getLogger(__name__)

SYNC_S: Final = 2.0
ACTIONS: Final = ("PARTIAL_ADD", "PARTIAL_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE")
QUOTA_SLACK: Final = 300
"""So many lite topics beyond a client's quota are the brokers' to refuse: some of those it has may be gone by now."""
POLICIES: Final = range(3)
"""Of an offset option: LAST, MIN, MAX, by numbers that brokers have, too."""
SHOWN_MAX: Final = 100


class Rate:
    """At most `per_s` per second, and as many at once after a second without any."""

    def __init__(self, per_s: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._per_s = max(1, per_s)
        self._now_s = now_s
        self._left = float(self._per_s)
        self._at_s = now_s()

    def take(self) -> bool:
        now_s = self._now_s()
        self._left = min(self._per_s, self._left + max(0.0, now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


def offset_option(given: Any) -> dict[str, Any]:
    """Where a new subscription begins, in the form that brokers take. Raises ProxyError."""
    if (kind := given.WhichOneof("offset_type")) is None or (kind == "policy" and given.policy not in POLICIES):
        raise ProxyError("BAD_REQUEST", "an offset option that says no offset")
    return {"type": kind.upper(), "value": int(getattr(given, kind))}


@dataclass(slots=True)
class _Goodbye:
    """The goodbye of one client id, while brokers are being told."""

    next: Client | None
    """Whom it is to be said for once more."""
    saying: Client | None = None
    """Whom it is said for, and who has subscribed to nothing since."""
    task: asyncio.Task[None] | None = None


class LiteSubscriptions:
    """The method SyncLiteSubscription, and what belongs to it."""

    def __init__(self, settings: ProxySettings, brokers: Brokers, clients: Clients) -> None:
        self._settings = settings
        self._brokers = brokers
        self._clients = clients
        self._rate = Rate(settings.max_sync_lite_subscription_rate)
        self._goodbyes: dict[str, _Goodbye] = {}

    async def stop(self) -> None:
        """Waits until brokers have been told about clients that are gone."""
        await asyncio.gather(*(goodbye.task for goodbye in self._goodbyes.values() if goodbye.task is not None), return_exceptions=True)

    # ---- clients ----

    async def sync_lite_subscription(self, context: Context, request: Any) -> Any:
        topic, group = topic_of(request.topic), group_of(request.group)
        action = schema.label("LiteSubscriptionAction", request.action)
        if action not in ACTIONS:
            raise ProxyError("BAD_REQUEST", f"unknown LiteSubscriptionAction: {action}")
        names = list(dict.fromkeys(request.lite_topic_set))
        option = None
        if action == "PARTIAL_ADD":
            names = [lite_topic_of(name, self._settings.max_lite_topic_size) for name in names]
            option = offset_option(request.offset_option) if request.HasField("offset_option") else None
        await self._brokers.route(topic)
        config = await self._group(group)
        _check_topic(group, config, topic)
        if len(names) > config.lite_quota + QUOTA_SLACK:
            raise ProxyError("LITE_SUBSCRIPTION_QUOTA_EXCEEDED", f"lite subscription quota exceeded: {config.lite_quota}")
        if action == "PARTIAL_ADD" and not self._rate.take():
            text = f"Too many syncLiteSubscription requests, topic={topic}, group={group}, clientId={context.client_id}"
            raise ProxyError("TOO_MANY_REQUESTS", text)
        if (goodbye := self._goodbyes.get(context.client_id)) is not None:
            goodbye.saying = None
        await self._tell(topic, group, context.client_id, action, names, option, int(request.version))
        return schema.message("SyncLiteSubscriptionResponse")(status=status(OK))

    async def check(self, settings: Any) -> None:
        """Checks a consumer's settings: lite consumers need lite groups, and the reverse. Raises ProxyError, RocketpyError."""
        group, topics = str(settings.subscription.group.name), [str(each.topic.name) for each in settings.subscription.subscriptions]
        if not is_lite(settings):
            config = await self._brokers.group(group)
            if config is not None and config.lite_bind_topic:
                raise ProxyError("ILLEGAL_CONSUMER_GROUP", f"lite group must use LITE mode: {group}")
            return
        config = await self._group(group)
        if not config.lite_bind_topic:
            raise ProxyError("ILLEGAL_CONSUMER_GROUP", f"regular group cannot use LITE mode: {group}")
        if topics:
            _check_topic(group, config, topics[0])

    async def _group(self, group: str) -> GroupConfig:
        """The group's configuration. Raises ProxyError if the group is not known, RocketpyError if nobody answers."""
        config = await self._brokers.group_now(group)
        if config is None:
            raise ProxyError("ILLEGAL_CONSUMER_GROUP", f"group not found: {group}")
        return config

    def leave(self, client: Client) -> None:
        """A lite client is gone: brokers give its events to others of its group from now on."""
        if not client.is_lite or not client.settings.subscription.subscriptions:
            return
        goodbye = self._goodbyes.get(client.client_id)
        if goodbye is None:
            goodbye = self._goodbyes[client.client_id] = _Goodbye(client)
            goodbye.task = asyncio.ensure_future(self._say_goodbyes(client.client_id, goodbye))
        elif goodbye.saying is not client:  # else its stream has ended, and it says itself that it goes
            goodbye.next = client

    async def _say_goodbyes(self, client_id: str, goodbye: _Goodbye) -> None:
        """Repeats the goodbye of a client that came back meanwhile and left once more, since it may have subscribed in between."""
        try:
            while (client := goodbye.next) is not None:
                goodbye.saying, goodbye.next = client, None
                if self._is_gone(client):
                    await self._say_goodbye(client)
        finally:
            del self._goodbyes[client_id]

    def _is_gone(self, client: Client) -> bool:
        """Whether the client is still gone: one that is here again keeps what it has subscribed to since."""
        now = self._clients.get(client.client_id)
        return now is None or (now is client and now.stream is None)

    async def _say_goodbye(self, client: Client) -> None:
        topic = str(client.settings.subscription.subscriptions[0].topic.name)
        try:
            await self._tell(topic, client.group, client.client_id, "COMPLETE_REMOVE", [], None, 0)
        except (ProxyError, RocketpyError, ValueError) as error:
            log.info("brokers forget lite client %s of %s later: %s", client.client_id, client.group, error)

    # ---- brokers ----

    async def _tell(
        self, topic: str, group: str, client_id: str, action: str, names: list[str], option: dict[str, Any] | None, version: int
    ) -> None:
        """Tells all brokers, whichever refuses. Raises ProxyError, RocketpyError."""
        members = {"action": action, "clientId": client_id, "group": group, "topic": topic, "liteTopicSet": names, "version": version}
        body = write_json({"subscriptionSet": [members if option is None else {**members, "offsetOption": option}]})
        brokers = await self._brokers.readable_brokers(topic)
        if not brokers:
            raise ProxyError("FORBIDDEN", "no readable queue")
        answers = await asyncio.gather(*(self._tell_one(name, body) for name in brokers), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def _tell_one(self, broker: str, body: bytes) -> None:
        header = LiteSubscriptionCtlRequestHeader()
        check_success(await self._brokers.call(broker, RequestCode.LITE_SUBSCRIPTION_CTL, header, body, timeout_s=SYNC_S))

    def unsubscribe(self, address: str, request: Command) -> None:
        """Sends NOTIFY_UNSUBSCRIBE_LITE: the client no longer has the lite topic."""
        try:
            header = NotifyUnsubscribeLiteRequestHeader.decode(request.fields)
        except HeaderError as error:
            log.warning("%s unsubscribes a client with fields that cannot be read: %s", address, error)
            return
        client = self._clients.get(header.client_id)
        command = schema.message("TelemetryCommand")()
        command.notify_unsubscribe_lite_command.lite_topic = header.lite_topic
        if client is None or client.group != header.consumer_group or not client.tell(command):
            shown = header.lite_topic[:SHOWN_MAX], header.client_id[:SHOWN_MAX], header.consumer_group[:SHOWN_MAX]
            log.info("lite topic %r is taken from %r of %r, which is not here to be told", *shown)


def _check_topic(group: str, config: GroupConfig, topic: str) -> None:
    if config.lite_bind_topic != topic:
        bound = config.lite_bind_topic or "null"
        raise ProxyError("ILLEGAL_TOPIC", f"lite group {group} is expected to bind topic {bound}, but actual is {topic}")
