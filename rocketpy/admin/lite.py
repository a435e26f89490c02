"""Lite topics of RocketMQ 5.5. RocketMQ: tools/command/lite/ (5.5.0). Brokers of other releases refuse these requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..remoting.codes import RequestCode
from ..remoting.headers import (
    GetLiteClientInfoRequestHeader,
    GetLiteGroupInfoRequestHeader,
    GetLiteTopicInfoRequestHeader,
    GetParentTopicInfoRequestHeader,
    TriggerLiteDispatchRequestHeader,
)
from ..remoting.json_codec import write_json
from .command_line import Given
from .errors import AdminError
from .output import Columns, Output, Shown
from .session import Session
from .texts import human_time, java

CLIENT_TOPICS_MAX = 1000
TOP_K = 20
_BROKER = "%-30s %-17s %-10s %-14s %-20s %-17s %-15s %-18s %-15s"
BROKER = Columns(
    "brokers",
    _BROKER,
    _BROKER,
    {
        "#Broker": "broker",
        "#Store Type": "storeType",
        "#Max LMQ": "maxLmqNum",
        "#Current LMQ": "currentLmqNum",
        "#SubscriptionCount": "liteSubscriptionCount",
        "#OrderInfoCount": "orderInfoCount",
        "#CQTableSize": "cqTableSize",
        "#OffsetTableSize": "offsetTableSize",
        "#eventMapSize": "eventMapSize",
    },
)
_PARENT = "%-50s %-8s %-14s %-14s %-100s "
PARENT = Columns(
    "brokers",
    _PARENT,
    _PARENT,
    {"#Broker Name": "brokerName", "#TTL": "ttl", "#Lite Count": "liteTopicCount", "#LMQ NUM": "lmqNum", "#GROUPS": "groups"},
)
_TOPIC = "%-50s %-14s %-14s %-30s %-12s %-18s "
TOPIC = Columns(
    "brokers",
    _TOPIC,
    _TOPIC,
    {
        "#Broker Name": "brokerName",
        "#MinOffset": "minOffset",
        "#MaxOffset": "maxOffset",
        "#LastUpdate": "lastUpdateTimestamp",
        "#Sharding": "shardingToBroker",
        "#SubClientCount": "subscriberCount",
    },
)
_CLIENT = "%-30s %-20s %-30s %-30s "
CLIENT = Columns(
    "brokers",
    _CLIENT,
    _CLIENT,
    {
        "#Broker": "brokerName",
        "#LiteTopicCount": "liteTopicCount",
        "#LastAccessTime": "lastAccessTime",
        "#LastConsumeTime": "lastConsumeTime",
    },
)
_GROUP = "%-50s %-16s %-16s %-16s %-30s"
GROUP = Columns(
    "brokers",
    _GROUP,
    _GROUP,
    {
        "#Broker Name": "brokerName",
        "#BrokerOffset": "brokerOffset",
        "#ConsumeOffset": "consumerOffset",
        "#LagCount": "lagCount",
        "#LastUpdate": "lastTimestamp",
    },
)
_WORST = "%-6s %-40s %-12s %-30s"


def _when(time_ms: Any, missing: str) -> Shown:
    value = int(time_ms or 0)
    return Shown(value, human_time(value) if value > 0 else missing)


async def _each_broker(session: Session, topic: str, out: Output, work: Callable[[str, str], Awaitable[None]]) -> None:
    """Does the work at each broker of a topic (its name, its address). One that fails gets a line."""

    async def do(place: tuple[str, str]) -> None:
        try:
            await work(*place)
        except AdminError:
            out.line(f"[{place[0]}] error.")
            raise

    await session.each((await session.addresses(topic)).items(), do)


async def get_broker_lite_info(session: Session, given: Given, out: Output) -> None:
    out.heading(BROKER)

    async def show(address: str) -> None:
        value = await session.members(address, RequestCode.GET_BROKER_LITE_INFO)
        out.row(BROKER, address, *(value.get(name) for name in list(BROKER.names.values())[1:]))
        if given.has("d"):
            out.line(f"Topic Meta: {write_json(value.get('topicMeta') or {}).decode()}")
            out.line(f"Group Meta: {write_json(value.get('groupMeta') or {}).decode()}\n")
            out.add("details", {"broker": address, "topicMeta": value.get("topicMeta"), "groupMeta": value.get("groupMeta")})

    await session.each(await session.masters_to_ask(given), show)


async def get_parent_topic_info(session: Session, given: Given, out: Output) -> None:
    topic = given.text("p")
    out.line(f"Parent Topic Info: [{topic}]")
    out.heading(PARENT)

    async def show(name: str, address: str) -> None:
        value = await session.members(address, RequestCode.GET_PARENT_TOPIC_INFO, GetParentTopicInfoRequestHeader(topic=topic))
        groups = value.get("groups") or []
        out.row(PARENT, name, value.get("ttl"), value.get("liteTopicCount"), value.get("lmqNum"), Shown(groups, java(groups)))

    await _each_broker(session, topic, out, show)


async def get_lite_topic_info(session: Session, given: Given, out: Output) -> None:
    parent, topic = given.text("p"), given.text("l")
    out.line(f"Lite Topic Info: [{parent}] [{topic}] [%LMQ%${parent}${topic}]")
    out.heading(TOPIC)
    header = GetLiteTopicInfoRequestHeader(parent_topic=parent, lite_topic=topic)

    async def show(name: str, address: str) -> None:
        value = await session.members(address, RequestCode.GET_LITE_TOPIC_INFO, header)
        offsets, subscribers = value.get("topicOffset") or {}, value.get("subscriber") or []
        sharding = bool(value.get("shardingToBroker"))
        cells = (offsets.get("minOffset"), offsets.get("maxOffset"), _when(offsets.get("lastUpdateTimestamp"), "-"))
        out.row(TOPIC, name, *cells, Shown(sharding, java(sharding)), len(subscribers))
        if given.has("s"):
            clients = [f"{each.get('clientId')}@{each.get('group')}" for each in subscribers]
            out.line(java(clients))
            out.add("subscribers", {"brokerName": name, "clients": clients})

    await _each_broker(session, parent, out, show)


async def get_lite_client_info(session: Session, given: Given, out: Output) -> None:
    parent, group, client_id = given.text("p"), given.text("g"), given.text("c")
    out.line(f"Lite Client Info: [{parent}] [{group}] [{client_id}]")
    out.heading(CLIENT)
    header = GetLiteClientInfoRequestHeader(parent_topic=parent, group=group, client_id=client_id, max_count=CLIENT_TOPICS_MAX)

    async def show(name: str, address: str) -> None:
        value = await session.members(address, RequestCode.GET_LITE_CLIENT_INFO, header)
        count = int(value.get("liteTopicCount") or 0)
        times = (_when(value.get(member), "N/A") for member in ("lastAccessTime", "lastConsumeTime"))
        out.row(CLIENT, name, Shown(count, str(count) if count > 0 else "N/A"), *times)
        if given.has("s"):
            out.line(f"Lite Topics: {java(value.get('liteTopicSet') or [])}\n")
            out.add("details", {"brokerName": name, "liteTopics": value.get("liteTopicSet")})

    await _each_broker(session, parent, out, show)


async def get_lite_group_info(session: Session, given: Given, out: Output) -> None:
    parent, group, topic = given.text("p"), given.text("g"), given.maybe("l")
    out.line(f"Lite Group Info: [{group}] [{parent}]")
    if topic:
        out.heading(GROUP)
    header = GetLiteGroupInfoRequestHeader(group=group, lite_topic=topic, top_k=given.number("k", TOP_K, least=1))
    found: list[dict[str, Any]] = []

    async def show(name: str, address: str) -> None:
        value = await session.members(address, RequestCode.GET_LITE_GROUP_INFO, header)
        found.append(value)
        if not topic:
            return
        wrapper = value.get("liteTopicOffsetWrapper")
        if wrapper is None:
            out.row(GROUP, name, *[Shown(None, "-")] * 4)
            return
        end, at = int(wrapper.get("brokerOffset") or 0), int(wrapper.get("consumerOffset") or 0)
        out.row(GROUP, name, end, at, end - at, _when(wrapper.get("lastTimestamp"), "-"))

    await _each_broker(session, parent, out, show)
    _say_lag(session, out, found)
    if not topic:
        _say_worst(out, found)


def _say_lag(session: Session, out: Output, found: list[dict[str, Any]]) -> None:
    total = sum(max(0, int(value.get("totalLagCount") or 0)) for value in found)
    times = [int(value.get("earliestUnconsumedTimestamp") or 0) for value in found]
    earliest = min((each for each in times if each > 0), default=session.clock())
    out.line(f"Total Lag Count: {total}")
    out.line(f"Min Unconsumed Timestamp: {earliest} ({(session.clock() - earliest) // 1000} s ago)\n")
    out.set(totalLagCount=total, minUnconsumedTimestamp=earliest)


def _say_worst(out: Output, found: list[dict[str, Any]]) -> None:
    for title, member, key in (
        ("------TopK by lag count-----", "lagCountTopK", lambda each: -int(each.get("lagCount") or 0)),
        ("\n------TopK by lag time------", "lagTimestampTopK", lambda each: int(each.get("earliestUnconsumedTimestamp") or 0)),
    ):
        rows = sorted((each for value in found for each in value.get(member) or ()), key=key)
        out.line(title)
        out.line(_WORST % ("NO", "Lite Topic", "Lag Count", "UnconsumedTimestamp"))
        for number, each in enumerate(rows, 1):
            out.line(
                _WORST % (number, each.get("liteTopic"), each.get("lagCount"), _when(each.get("earliestUnconsumedTimestamp"), "-").text)
            )
        out.set(**{member: rows})


async def trigger_lite_dispatch(session: Session, given: Given, out: Output) -> None:
    parent, group = given.text("p"), given.text("g")
    out.line(f"Group And Topic Info: [{group}] [{parent}]\n")
    header = TriggerLiteDispatchRequestHeader(group=group, client_id=given.maybe("c"))
    addresses = await session.addresses(parent)

    async def trigger(name: str) -> None:
        try:
            await session.call(addresses[name], RequestCode.TRIGGER_LITE_DISPATCH, header)
        except AdminError:
            out.line(f"{name:30} {'error':12}")
            raise
        out.done(f"{name:30} {'dispatched':12}", brokerName=name)

    names = [name for name in addresses if given.text("b", name) == name]
    if not names:
        raise AdminError(f"{parent} has no queues at broker {given.text('b')!r}", remedy=f"it has at {', '.join(addresses)}")
    await session.each(names, trigger)
