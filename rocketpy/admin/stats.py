"""What topics took in and groups took out. RocketMQ: StatsAllSubCommand (5.5.0)."""

from __future__ import annotations

from typing import Any

from ..broker.names import DLQ_PREFIX, RETRY_PREFIX
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import ViewBrokerStatsDataRequestHeader
from ..remoting.route import MASTER_ID
from .beside import ask_beside, show_beside
from .command_line import Given
from .errors import AdminError
from .output import Columns, Output, Shown
from .progress import consume_stats, note_unless_idle
from .session import Session
from .texts import front
from .topics import groups_of

STATS = Columns(
    "stats",
    "%-64s  %-64s %12s %11s %11s %14s %14s",
    "%-64s  %-64s %12s %11s %11s %14s %14s",
    {
        "#Topic": "topic",
        "#Consumer Group": "consumerGroup",
        "#Accumulation": "accumulation",
        "#InTPS": "inTps",
        "#OutTPS": "outTps",
        "#InMsg24Hour": "inMessages24Hours",
        "#OutMsg24Hour": "outMessages24Hours",
    },
)


def day_sum(stats: dict[str, Any]) -> int:
    """The messages of the last 24 hours, or as far back as they are known."""
    sums = (int((stats.get(name) or {}).get("sum") or 0) for name in ("statsDay", "statsHour", "statsMinute"))
    return next((each for each in sums if each), 0)


def minute_rate(stats: dict[str, Any]) -> float:
    return float((stats.get("statsMinute") or {}).get("tps") or 0)


async def broker_stats(session: Session, address: str, name: str, key: str) -> dict[str, Any]:
    """Empty if the broker has no such figure, for example about a topic without messages. Raises AdminError if it does not answer, or
    refuses."""
    try:
        header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        return await session.members(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
    except AdminError as error:
        if error.code != ResponseCode.SYSTEM_ERROR or "not exist" not in error.cause:  # that code has also what went wrong in a broker
            raise
        return {}


async def _sum(session: Session, masters: list[str], name: str, key: str) -> tuple[float, int]:
    rate, count = 0.0, 0

    async def ask(part: Session, address: str) -> tuple[float, int]:
        stats = await broker_stats(part, address, name, key)
        return minute_rate(stats), day_sum(stats)

    def add(address: str, found: tuple[float, int]) -> None:
        nonlocal rate, count
        rate, count = rate + found[0], count + found[1]

    await ask_beside(session, masters, ask, add)
    return rate, count


async def _topic(session: Session, topic: str, only_active: bool, out: Output) -> None:
    route = await session.route(topic)
    masters = [broker.broker_addrs[MASTER_ID] for broker in route.broker_datas if MASTER_ID in broker.broker_addrs]
    groups = await groups_of(session, topic)
    in_rate, in_count = await _sum(session, masters, "TOPIC_PUT_NUMS", topic)
    named = Shown(topic, front(topic, 64))

    async def show(part: Session, aside: Output, group: str) -> None:
        out_rate, out_count = await _sum(part, masters, "GROUP_GET_NUMS", f"{topic}@{group}")
        if only_active and in_count <= 0 and out_count <= 0:
            return
        try:
            behind = max(0, (await consume_stats(part, group, topic, in_part=True)).behind())
        except AdminError as error:  # it has consumed nothing yet
            note_unless_idle(part, error)
            behind = 0
        aside.row(STATS, named, Shown(group, front(group, 64)), behind, *_rates(in_rate, out_rate), in_count, out_count)

    await show_beside(session, out, groups, show)
    if not groups and (not only_active or in_count > 0):
        out.row(STATS, named, Shown(None, ""), 0, _rates(in_rate)[0], Shown(None, ""), in_count, Shown(None, "NO_CONSUMER"))


def _rates(*rates: float) -> list[Shown]:
    return [Shown(rate, f"{rate:.2f}") for rate in rates]


async def stats_all(session: Session, given: Given, out: Output) -> None:
    wanted = given.text("t")
    topics = [topic for topic in await session.topics() if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and wanted in ("", topic)]
    if wanted and not topics:
        remedy = "topicList shows the topics there are; those of retries and dead letters have no such figures"
        raise AdminError(f"no topic {wanted} with figures", remedy=remedy, code=ResponseCode.TOPIC_NOT_EXIST)
    out.heading(STATS)

    async def show(part: Session, aside: Output, topic: str) -> None:
        try:
            await _topic(part, topic, given.has("a"), aside)
        except AdminError as error:
            note_unless_idle(part, error)  # of topics that were deleted meanwhile, nothing

    session.keep_answers()
    await show_beside(session, out, topics, show)
