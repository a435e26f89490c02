"""Producers and consumers that are connected. RocketMQ: tools/command/connection/, producer/, ConsumerStatusSubCommand (5.5.0)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..broker.names import RETRY_PREFIX
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import (
    GetConsumerConnectionListRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from .beside import ask_beside
from .command_line import Given
from .errors import AdminError
from .output import Columns, Output, Shown
from .running_info import blocked_queues, check_report, has_same_subscriptions, running_text
from .session import Session
from .texts import version_text

CONSUMERS = Columns(
    "connections",
    "%-36s %-22s %-10s %s",
    "%-36s %-22s %-10s %s",
    {"#ClientId": "clientId", "#ClientAddr": "clientAddr", "#Language": "language", "#Version": "version"},
)
SUBSCRIPTIONS = Columns("subscriptions", "%-20s %s", "%-20s %s", {"#Topic": "topic", "#SubExpression": "subString"})
STATUS = Columns(
    "consumers",
    "%-10s %-40s %-20s %s",
    "%-10s %-40s %-20s %s",
    {"#Index": "index", "#ClientId": "clientId", "#Version": "version", "#ConsumerRunningInfoFile": "file"},
)


def shown_version(connection: dict[str, Any]) -> Shown:
    version = int(connection.get("version") or 0)
    return Shown(version, version_text(version))


def connections_in(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The connections, sorted by client id, because brokers give them in any order."""
    found = [each for each in value.get("connectionSet") or () if isinstance(each, dict)]
    return sorted(found, key=lambda each: str(each.get("clientId")))


async def _places(session: Session, group: str, address: str) -> list[str]:
    """The broker at `address`; without one, all brokers that know the group: those that have its retry topic."""
    return [address] if address else list((await session.addresses(RETRY_PREFIX + group)).values())


async def consumers_of(session: Session, group: str, address: str = "") -> dict[str, Any]:
    """A group's connections and subscriptions. Raises AdminError, also if it has none."""
    header = GetConsumerConnectionListRequestHeader(consumer_group=group)

    async def ask(place: str) -> dict[str, Any]:
        value = await session.members(place, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        if not connections_in(value):
            raise AdminError(
                "Not found the consumer group connection",
                address=place,
                request=RequestCode.GET_CONSUMER_CONNECTION_LIST,
                code=ResponseCode.CONSUMER_NOT_ONLINE,
            )
        return value

    return await session.from_any(await _places(session, group, address), ask)


async def running_info(session: Session, group: str, client_id: str, *, stacks: bool = False, address: str = "") -> dict[str, Any]:
    """What a consumer reports about itself, asked through a broker. Raises AdminError."""
    header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id, jstack_enable=stacks)

    async def ask(place: str) -> dict[str, Any]:
        return await session.members(place, RequestCode.GET_CONSUMER_RUNNING_INFO, header, times=3)

    return await session.from_any(await _places(session, group, address), ask)


async def shown_info(session: Session, group: str, client_id: str, *, stacks: bool = False, address: str = "") -> dict[str, Any]:
    """As running_info, but checked that it can be shown. Raises AdminError, also if it cannot."""
    info = await running_info(session, group, client_id, stacks=stacks, address=address)
    check_report(client_id, info)
    return info


async def consumer_connection(session: Session, given: Given, out: Output) -> None:
    value = await consumers_of(session, given.text("g"), given.text("b"))
    out.heading(CONSUMERS)
    for each in connections_in(value):
        out.row(CONSUMERS, each.get("clientId"), each.get("clientAddr"), each.get("language"), shown_version(each))
    out.line("\nBelow is subscription:")
    out.heading(SUBSCRIPTIONS)
    subscriptions = value.get("subscriptionTable") or {}
    for name in sorted(subscriptions):
        out.row(SUBSCRIPTIONS, subscriptions[name].get("topic"), subscriptions[name].get("subString"))
    out.line()
    for label, member in (("ConsumeType", "consumeType"), ("MessageModel", "messageModel"), ("ConsumeFromWhere", "consumeFromWhere")):
        out.line(f"{label}: {value.get(member)}")
        out.set(**{member: value.get(member)})


async def producer_connection(session: Session, given: Given, out: Output) -> None:
    header = GetProducerConnectionListRequestHeader(producer_group=given.text("g"))

    async def ask(place: str) -> dict[str, Any]:
        return await session.members(place, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)

    found = connections_in(await session.from_any((await session.addresses(given.text("t"))).values(), ask))
    if not found:
        raise AdminError("Not found the producer group connection", remedy="producer -b HOST:PORT shows the producers there are")
    out.set(connections=found)
    for number, each in enumerate(found, 1):
        out.line(
            f"{number:04}  {each.get('clientId')!s:32} {each.get('clientAddr')!s:22} {each.get('language')!s:8} {shown_version(each).text}"
        )


async def producer(session: Session, given: Given, out: Output) -> None:
    value = await session.members(given.text("b"), RequestCode.GET_ALL_PRODUCER_INFO)
    data = value.get("data") or {}
    for group in sorted(data):
        if not data[group]:
            out.line(f"producer group ({group}) instances are empty")
        for each in sorted(data[group] or (), key=lambda member: str(member.get("clientId"))):
            out.line(
                f"producer group ({group}) instance : clientId={each.get('clientId')},remoteIP={each.get('remoteIP')}, "
                f"language={each.get('language')}, version={each.get('version')}, lastUpdateTimestamp={each.get('lastUpdateTimestamp')}"
            )
            out.add("producers", {"producerGroup": group, **each})


async def consumer_status(session: Session, given: Given, out: Output) -> None:
    group = given.text("g")
    session.keep_answers()
    connections = connections_in(await consumers_of(session, group, given.text("b")))
    if given.has("i"):
        info = await shown_info(session, group, given.text("i"), stacks=given.has("s"), address=given.text("b"))
        out.put(running_text(info))
        out.add("consumers", {"clientId": given.text("i"), "runningInfo": info})
        return
    await _status_of_all(session, given, out, connections)


def write_info(path: str, info: dict[str, Any]) -> None:
    """Raises OSError."""
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(running_text(info), encoding="utf-8", errors="replace")


async def _status_of_all(session: Session, given: Given, out: Output, connections: list[dict[str, Any]]) -> None:
    now = session.clock()
    found: dict[str, dict[str, Any]] = {}
    out.line(STATUS.head % tuple(STATUS.names))

    async def ask(part: Session, each: dict[str, Any]) -> dict[str, Any]:
        return await shown_info(part, given.text("g"), str(each.get("clientId")), stacks=given.has("s"), address=given.text("b"))

    def show(each: dict[str, Any], info: dict[str, Any]) -> None:
        client_id = str(each.get("clientId"))
        found[client_id] = info
        path = f"{now}/{client_id.replace('/', '_')}"
        try:
            if not out.is_json:
                write_info(path, info)
        except (OSError, ValueError) as error:  # its id may be no name of a file
            session.note(AdminError(f"{path} cannot be written: {error}", remedy=f"-i {client_id} prints what would be in it"))
            return
        out.line(STATUS.form % (len(found), client_id, shown_version(each).text, path))
        out.add("consumers", {"clientId": client_id, "version": each.get("version"), "runningInfo": info})

    await ask_beside(session, connections, ask, show)
    if not found:
        return
    same = has_same_subscriptions(list(found.values()), now)
    out.set(sameSubscriptions=same)
    if not same:
        out.put("\n\nWARN: Different subscription in the same group of consumer!!!")
        return
    out.put("\n\nSame subscription in the same group of consumer")
    out.put("\n\nRebalance OK\n")
    for client_id in sorted(found):
        for line in blocked_queues(client_id, found[client_id], now):
            out.line(line)
            out.add("blocked", line)
