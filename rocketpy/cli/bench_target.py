"""Where a benchmark goes: a broker and the topic's queues there, found through a name server or at an address. A missing topic is made. A
static topic is refused: the generator numbers a broker's queues from 0 on, but the queues of a static topic are numbered over all brokers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .._core.errors import InvalidArgument, NetworkError, NotFound, ProtocolError
from ..remoting.client import RemotingClient, split_address
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import check_success
from ..remoting.headers import CreateTopicRequestHeader, GetRouteInfoRequestHeader, GetTopicConfigRequestHeader
from ..remoting.headers.admin import AUTO_CREATE_TOPIC
from ..remoting.json_codec import JsonError, read_object
from ..remoting.route import MASTER_ID, TopicRoute


@dataclass(frozen=True, slots=True)
class Target:
    """One broker, and how many queues the topic has there."""

    address: str
    broker_name: str
    queues: int
    created: bool


def find_target(address: str | None, namesrv: str, topic: str, queues: int, *, broker_name: str | None, create: bool) -> Target:
    """Finds the broker to load. `queues`: with how many the topic is made if it does not exist. Raises InvalidArgument, NotFound,
    NetworkError, CommandError."""
    return asyncio.run(_find_target(address, namesrv, topic, queues, broker_name, create))


def checked_address(text: str, option: str, example: str) -> str:
    """The address without surrounding blanks. Raises InvalidArgument, naming the option it came from."""
    try:
        split_address(text)
    except NetworkError:
        raise InvalidArgument(f"{option} {text.strip()!r} is not HOST:PORT, such as {example}") from None
    return text.strip()


async def _find_target(address: str | None, namesrv: str, topic: str, queues: int, broker_name: str | None, create: bool) -> Target:
    async with RemotingClient() as client:
        if address is not None:
            return await _at_broker(client, checked_address(address, "-a", "127.0.0.1:10911"), topic, queues, create)
        silent = None
        given = filter(None, map(str.strip, namesrv.replace(",", ";").split(";")))
        for namesrv_address in [checked_address(part, "-n", "127.0.0.1:9876") for part in given]:
            try:
                return await _at_name_server(client, namesrv_address, topic, queues, broker_name, create)
            except NetworkError as error:
                silent = error  # one of the others may answer
    raise silent or InvalidArgument("-n names no name server; it is HOST:PORT, such as 127.0.0.1:9876")


async def _at_name_server(client: RemotingClient, namesrv: str, topic: str, queues: int, broker_name: str | None, create: bool) -> Target:
    route = await _route_of(client, namesrv, topic)
    if route is not None and route.queue_mappings:
        raise _static(topic)
    if route is not None:
        return _target_in(route, topic, broker_name, created=False)
    if not create:
        raise _unknown(topic, namesrv)
    route = await _route_of(client, namesrv, AUTO_CREATE_TOPIC)
    if route is None:
        raise NotFound(f"no broker with autoCreateTopicEnable is registered at {namesrv}; name one with --address")
    target = _target_in(route, AUTO_CREATE_TOPIC, broker_name, created=True)
    await _create(client, target.address, topic, queues)
    return Target(target.address, target.broker_name, queues, True)


async def _route_of(client: RemotingClient, namesrv: str, topic: str) -> TopicRoute | None:
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    response = await client.invoke(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
    if response.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    return TopicRoute.decode(check_success(response, namesrv).body)


def _target_in(route: TopicRoute, topic: str, broker_name: str | None, *, created: bool) -> Target:
    masters = {broker.broker_name: broker.broker_addrs[MASTER_ID] for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    for data in route.queue_datas:
        if data.broker_name in masters and broker_name in (None, data.broker_name):
            return Target(masters[data.broker_name], data.broker_name, min(data.read_queue_nums, data.write_queue_nums), created)
    raise NotFound(
        f"topic {topic} has no master broker{f' named {broker_name}' if broker_name else ''}; known: {', '.join(masters) or 'none'}"
    )


async def _at_broker(client: RemotingClient, address: str, topic: str, queues: int, create: bool) -> Target:
    """The topic at a broker. A broker before 5.0 cannot answer the question; the topic is then assumed to exist with as many queues as were
    asked for."""
    response = await client.invoke(address, RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequestHeader(topic=topic, lo=True))
    if response.code == ResponseCode.SUCCESS and response.body and _has_mapping(response.body, address):
        raise _static(topic)
    missing = response.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR)
    if missing and not create:
        raise _unknown(topic, address)  # else the broker would make it of the first send
    if missing:
        await _create(client, address, topic, queues)
    return Target(address, "", queues, missing)


def _has_mapping(config: bytes, address: str) -> bool:
    try:
        return read_object(config).get("mappingDetail") is not None
    except JsonError as error:
        raise ProtocolError(f"what {address} says of the topic cannot be read: {error}") from None


def _static(topic: str) -> InvalidArgument:
    return InvalidArgument(
        f"topic {topic} is a static topic, whose queues have their numbers on all brokers together; bench measures the queues of one "
        "broker: name another topic (-t)"
    )


def _unknown(topic: str, address: str) -> NotFound:
    return NotFound(f"topic {topic} is not known at {address}; create it, or send to it first without --no-create")


async def _create(client: RemotingClient, address: str, topic: str, queues: int) -> None:
    await client.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopicRequestHeader.plain(topic, queues))
