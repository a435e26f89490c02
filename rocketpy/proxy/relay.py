"""Requests of 4.x clients, passed on to the brokers they are for, bodies unread, and the answers back.
RocketMQ: RemotingProtocolServer and its activities (5.3.3 proxy/remoting/).

    guest ── HEART_BEAT, UNREGISTER_CLIENT ──► all brokers it has to do with ┐
          ── GET_CONSUMER_LIST_BY_GROUP ─────► one of its group's topics     ├─ connections of this guest alone
          ── a broker's own ─────────────────► that one                      ┘
          ◄─ CHECK_TRANSACTION_STATE, NOTIFY_CONSUMER_IDS_CHANGED, … ──────── a broker
          ── GET_ROUTEINFO_BY_TOPIC ─────────► answered here: every broker is behind this proxy's address

Groups, locks, transactions and lists of clients are the brokers' business as without a proxy: any number of proxies, and of clients that
come to the brokers themselves, share a group. RocketMQ's proxies keep the groups, and tell each other of them by messages.

Threads  one event loop. Bounds: UNDER_WAY_MAX requests of one guest, bytes_max of bodies of all, then SYSTEM_BUSY; the service's tasks.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from .._core.errors import NetworkError, RocketpyError
from .._core.remoting import Command, Request
from ..broker.names import RETRY_PREFIX
from ..remoting.codes import VERSION_4_9_4, RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.credentials import Credentials
from ..remoting.headers import GetConsumerConnectionListRequestHeader, GetRouteInfoRequestHeader
from ..remoting.json_codec import JsonError, read_object, write_json
from ..remoting.route import MASTER_ID, TopicRoute
from ..remoting.service import RemotingService
from .brokers import Brokers
from .clients import Clients
from .found_messages import FoundMessages
from .guests import BROKERS_MAX, Guest
from .relay_rules import FORWARDED, NAME_MAX, assigned_topic, locked_broker, named_broker, named_topic, patience_s
from .settings import KEPT_BYTES_MAX
from .status import ProxyError

log = logging.getLogger(__name__)

RelayHandler = Callable[[Request], Awaitable[Response | None]]
UNDER_WAY_MAX: Final = 4096
"""Pulls of every queue that a client reads wait for messages."""
TRIES_MAX: Final = 3
"""Brokers that are asked in turn; by then the client has lost its patience."""
_NO_BROKER: Final = Response(ResponseCode.VERSION_NOT_SUPPORTED, "Request doesn't have field bname")


class Relay:
    """The handlers of the port. `attach` before the first request. `address`: the port's, as clients are told it. `bytes_max`: of request
    bodies that wait for brokers. `found`: what asks for rights on messages that requests name by their place."""

    def __init__(
        self,
        brokers: Brokers,
        clients: Clients,
        credentials: Credentials | None,
        address: str,
        bytes_max: int = KEPT_BYTES_MAX,
        found: FoundMessages | None = None,
    ) -> None:
        self._brokers = brokers
        self._clients = clients
        self._credentials = credentials
        self._address = address
        self._guests: dict[int, Guest] = {}
        self._service: RemotingService | None = None
        self._bytes_max = bytes_max
        self._found = found
        self._bytes = 0
        self._unreachable: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._guests)

    def attach(self, service: RemotingService) -> None:
        self._service = service

    def handlers(self) -> Mapping[int, RelayHandler]:
        return {
            **dict.fromkeys(FORWARDED, self._forward),
            RequestCode.QUERY_ASSIGNMENT: self._assignment,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._lock,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self._check_config,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._consumer_ids,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._consumer_connections,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
        }

    # ---- guests come and go ----

    def opened(self, event: Request) -> None:
        self._guests[event.connection_id] = Guest(event.connection_id, self._credentials, self._asked)

    def closed(self, event: Request) -> None:
        guest = self._guests.pop(event.connection_id, None)
        if guest is not None:
            self._in_background(guest.leave())

    async def stop(self) -> None:
        """Closes the connections of all guests to brokers."""
        guests, self._guests = list(self._guests.values()), {}
        await asyncio.gather(*(guest.leave() for guest in guests), *self._background, return_exceptions=True)

    def _guest(self, request: Request) -> Guest:
        guest = self._guests.get(request.connection_id)
        if guest is None:
            raise CommandError(ResponseCode.SYSTEM_ERROR, "the client has closed its connection")
        return guest

    def _in_background(self, work: Awaitable[Any]) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ---- to brokers ----

    async def _forward(self, request: Request) -> Response | None:
        broker = named_broker(request.code, request.fields) or await self._only_broker(request)
        return await self._pass_on(request, broker) if broker else _NO_BROKER

    async def _only_broker(self, request: Request) -> str:
        """The broker for a request that names none: the only one that its topic, or its client, deals with; "" if there are several."""
        topic = named_topic(request.code, request.fields)
        names = set(await self._masters(topic)) if topic else self._guest(request).at_hand
        return next(iter(names)) if len(names) == 1 else ""

    async def _lock(self, request: Request) -> Response | None:
        broker = locked_broker(request.body)
        return await self._pass_on(request, broker) if broker else Response(remark="MessageQueue set is empty", body=request.body)

    async def _assignment(self, request: Request) -> Response | None:
        """Sends a request for an assignment on. Any broker of the topic shares out its queues on all brokers: the one that the request
        names is asked, then others that know the guest, until one answers. Java's clients of 5.2.0 to 5.3.1 that are refused pull from
        then on, whatever mode their group has."""
        names = await self._masters(assigned_topic(request.body))
        if not names:
            return await self._forward(request)
        named, at_hand = named_broker(request.code, request.fields), self._guest(request).at_hand
        known = [name for name in names if name in at_hand] or names
        order = sorted(random.sample(known, len(known)), key=lambda name: name != named)
        if named and named not in order:
            order.insert(0, named)
        *first, last = order[:TRIES_MAX]
        for broker in first:
            try:
                return await self._ask_broker(request, broker)
            except (ProxyError, RocketpyError):
                continue
        return await self._pass_on(request, last)

    async def _pass_on(self, request: Request, broker: str) -> Response | None:
        """The broker's answer, whatever it is; None for a request that wants none."""
        try:
            return await self._ask_broker(request, broker)
        except (ProxyError, RocketpyError) as error:
            return Response(ResponseCode.SYSTEM_ERROR, str(error))

    async def _ask_broker(self, request: Request, broker: str) -> Response | None:
        """As _pass_on. Raises ProxyError, RocketpyError."""
        guest, body = self._guest(request), request.body
        if guest.under_way >= UNDER_WAY_MAX or self._bytes + len(body) > self._bytes_max:
            return Response(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")
        guest.under_way += 1
        self._bytes += len(body)
        try:
            if self._found is not None:
                await self._found.check_request(request, broker)
            address = await self._brokers.address_of(broker)
            guest.brokers.add(broker)
            client, fields = guest.client_for(request), request.fields
            if request.is_oneway:
                await client.invoke_oneway(address, request.code, fields, body)
                return None
            answer = await client.invoke(address, request.code, fields, body, timeout_s=patience_s(request.code, fields))
        except CommandError as error:
            return Response(error.code, error.remark)
        except (ProxyError, RocketpyError) as error:
            self._say(broker, error)
            if isinstance(error, NetworkError):
                guest.lose(broker)  # until the guest asks for its route again, or something of it
            raise
        finally:
            guest.under_way -= 1
            self._bytes -= len(body)
        self._unreachable.discard(broker)
        guest.lost.discard(broker)
        return Response(answer.code, answer.remark, answer.fields, answer.body)

    def _say(self, broker: str, error: Exception) -> None:
        """Logs once, until the broker answers again, that it fails. Nothing is logged about names that no broker has."""
        if broker not in self._unreachable and len(self._unreachable) < BROKERS_MAX and isinstance(error, RocketpyError):
            self._unreachable.add(broker)
            log.warning("requests of 4.x clients to %s fail: %s", broker, error)

    async def _pass_to_all(self, request: Request, guest: Guest) -> Response | None:
        """The first successful answer, else one of the errors; with no broker at all a success, as from RocketMQ's proxy. One broker that
        does not answer in time delays nobody if another one does."""
        tasks = [asyncio.ensure_future(self._pass_on(request, name)) for name in sorted(guest.brokers)[:BROKERS_MAX]]
        for task in tasks:
            self._in_background(task)
        answer: Response | None = Response(remark="")
        for done in asyncio.as_completed(tasks):
            answer = await done
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                return answer
        return answer

    # ---- what clients say of themselves ----

    async def _heartbeat(self, request: Request) -> Response | None:
        guest = self._guest(request)
        guest.learn(request.body)
        for topic in guest.new_topics():
            guest.brokers.update(await self._masters(topic))
        for name in sorted(guest.lost - guest.brokers - guest.sought):  # it may be back, and ask about transactions who sends nothing more
            guest.sought.add(name)
            self._in_background(self._seek(request, guest, name))
        return await self._pass_to_all(request, guest)

    async def _seek(self, request: Request, guest: Guest, broker: str) -> None:
        """Tells a lost broker, where the name server says that it is there: also at which address by now."""
        try:
            if broker in await self._masters(broker):
                await self._pass_on(request, broker)
        finally:
            guest.sought.discard(broker)

    async def _unregister(self, request: Request) -> Response | None:
        guest = self._guest(request)
        guest.forget(request.fields.get("consumerGroup", ""))
        return await self._pass_to_all(request, guest)

    async def _check_config(self, request: Request) -> Response | None:
        """Asks one broker about a filter, since all would answer the same."""
        names = sorted(self._guest(request).at_hand)
        return await self._pass_on(request, names[0]) if names else Response(remark="")

    async def _consumer_ids(self, request: Request) -> Response | None:
        group = request.fields.get("consumerGroup", "")
        broker = await self._broker_of_group(self._guest(request), group)
        if not broker:
            return Response(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group[:NAME_MAX]}")
        return await self._pass_on(request, broker)

    async def _broker_of_group(self, guest: Guest, group: str) -> str:
        """A broker that all clients of the group report to; "" for a group that no broker knows. The retry topic is asked for last: the
        name server may not have heard of a new group's yet."""
        for topic in (*(guest.topics_of(group) or self._topics_of_others(group)), f"{RETRY_PREFIX}{group}"):
            if names := await self._masters(topic):
                return names[0]
        return ""

    def _topics_of_others(self, group: str) -> tuple[str, ...]:
        return next((topics for guest in self._guests.values() if (topics := guest.topics_of(group))), ())

    async def _consumer_connections(self, request: Request) -> Response:
        """The connections that the brokers know, and those of this proxy's gRPC clients."""
        group = GetConsumerConnectionListRequestHeader.decode(request.fields).consumer_group
        broker = await self._broker_of_group(self._guest(request), group)
        known = await self._pass_on(request, broker) if broker else None
        told = self._clients.consumer_connection(group)
        if known is not None and known.code == ResponseCode.SUCCESS:
            return Response(body=write_json(_merged(known.body, told)))
        if told is None:
            return Response(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group[:NAME_MAX]}] not online")
        return Response(body=write_json(told))

    # ---- routes ----

    async def _masters(self, topic: str) -> list[str]:
        """The names of a topic's brokers; none for a topic that nobody knows."""
        if not topic or len(topic) > NAME_MAX:
            return []
        try:
            return await self._brokers.masters_of(topic)
        except (ProxyError, RocketpyError):
            return []

    async def _route(self, request: Request) -> Response:
        header = GetRouteInfoRequestHeader.decode(request.fields)
        guest = self._guest(request)
        try:
            if len(header.topic) > NAME_MAX:
                raise ProxyError("TOPIC_NOT_FOUND", f"No topic route info in name server for the topic: {header.topic[:NAME_MAX]}")
            route = await self._brokers.route(header.topic)
        except ProxyError as error:
            return Response(ResponseCode.TOPIC_NOT_EXIST, str(error))
        except RocketpyError as error:
            return Response(ResponseCode.SYSTEM_ERROR, str(error))
        guest.brokers.update(data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs)
        standard = request.version >= VERSION_4_9_4 or header.accept_standard_json_only is True
        return Response(body=behind(route, self._address).encode(standard=standard))

    # ---- from brokers ----

    def _asked(self, guest: Guest, address: str, request: Command) -> None:
        """A broker asks a guest something, or tells it something."""
        if self._service is None:
            return
        fields = dict(request.fields)
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            fields.setdefault("bname", self._brokers.name_of(address))  # brokers of 4.x do not say it, and the answer needs it
        if request.is_oneway:
            self._service.notify(guest.connection_id, request.code, fields, request.body)
        else:
            self._in_background(self._ask(guest, address, request, fields))

    async def _ask(self, guest: Guest, address: str, request: Command, fields: Mapping[str, str]) -> None:
        assert self._service is not None
        answer = await self._service.call_client(guest.connection_id, request.code, fields, request.body, timeout_s=patience_s(0, {}))
        await guest.answer(address, request, answer)


def behind(route: TopicRoute, address: str) -> TopicRoute:
    """The route as clients of the proxy see it: every broker has the proxy's address."""
    brokers = tuple(
        dataclasses.replace(
            data, broker_addrs=dict.fromkeys((MASTER_ID,) if MASTER_ID in data.broker_addrs else data.broker_addrs, address)
        )
        for data in route.broker_datas
    )
    return dataclasses.replace(route, broker_datas=brokers, filter_servers={})


def _merged(body: bytes, told: dict[str, Any] | None) -> dict[str, Any]:
    """A broker's answer, with the connections added that only this proxy knows."""
    try:
        members = read_object(body)
    except JsonError:
        members = {}
    if told is None:
        return members
    listed = members.get("connectionSet")
    connections = [*(listed if isinstance(listed, list) else []), *told["connectionSet"]]
    return {**told, **members, "connectionSet": connections}


async def _quietly(work: Awaitable[Any]) -> None:
    """Ignores what a guest or a broker does not answer: the loss is their own."""
    try:
        await work
    except RocketpyError as error:
        log.info("between a broker and a 4.x client: %s", error)
