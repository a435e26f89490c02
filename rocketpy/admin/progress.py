"""How far consumer groups are behind. RocketMQ: ConsumerProgressSubCommand, BrokerConsumeStatsSubCommad, examineConsumeStats (5.5.0)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..broker.names import LIGHT_QUEUE_PREFIX, RETRY_PREFIX, TIMER_TOPIC, group_of_retry_topic
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from ..remoting.route import TopicRoute
from .beside import ask_beside, show_beside
from .clients import connections_in, consumers_of, shown_info
from .cluster import address_of
from .command_line import Given
from .errors import AdminError
from .global_queues import Led, global_progress, led_by_route
from .output import Columns, Output, Shown
from .queues import by_queue, queue_key
from .session import SLOW_TIMES, Session
from .texts import front, human_second, version_text

IDLE = frozenset(
    (
        ResponseCode.CONSUMER_NOT_ONLINE,
        ResponseCode.BROADCAST_CONSUMPTION,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.TOPIC_NOT_EXIST,
    )
)
"""What is answered about a group that consumes nothing now, or that was deleted meanwhile."""
_NAMES = {
    "#Topic": "topic",
    "#Broker Name": "brokerName",
    "#QID": "queueId",
    "#Broker Offset": "brokerOffset",
    "#Consumer Offset": "consumerOffset",
}
_LAST = {"#Diff": "diff", "#Inflight": "inflight", "#LastTime": "lastTimestamp"}
PROGRESS = Columns(
    "queues", "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s%s", "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %s", _NAMES | _LAST
)
WITH_CLIENTS = Columns(
    "queues",
    "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s%s",
    "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s %s",
    _NAMES | {"#Client IP": "clientIp"} | _LAST,
)
GROUPS = Columns(
    "groups",
    "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s",
    "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s",
    {
        "#Group": "group",
        "#Count": "count",
        "#Version": "version",
        "#Type": "type",
        "#Model": "model",
        "#TPS": "tps",
        "#Diff Total": "diffTotal",
    },
)
IN_BROKER = Columns(
    "queues",
    "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s",
    "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s",
    {
        "#Topic": "topic",
        "#Group": "group",
        "#Broker Name": "brokerName",
        "#QID": "queueId",
        "#Broker Offset": "brokerOffset",
        "#Consumer Offset": "consumerOffset",
        "#Diff": "diff",
        "#LastTime": "lastTimestamp",
    },
)


@dataclass
class ConsumeStats:
    """A group's offsets by queue, and how many messages it consumes per second."""

    queues: dict[Any, dict[str, Any]] = field(default_factory=dict)
    rate: float = 0.0

    @classmethod
    def from_json(cls, value: Any) -> ConsumeStats:
        """Raises AdminError."""
        members = value if isinstance(value, dict) else {}
        table = by_queue(members.get("offsetTable"))
        return cls({queue: row for queue, row in table.items() if isinstance(row, dict)}, float(members.get("consumeTps") or 0))

    def rows(self) -> list[tuple[Any, int, int, int, int]]:
        """(queue, broker's offset, group's offset, offset pulled, last time) in the order of queues."""
        names = ("brokerOffset", "consumerOffset", "pullOffset", "lastTimestamp")
        return [(queue, *(int(self.queues[queue].get(name) or 0) for name in names)) for queue in sorted(self.queues, key=queue_key)]

    def behind(self) -> int:
        return sum(end - at for _, end, at, _, _ in self.rows())


def route_topics(group: str, topic: str | None, cluster: str | None) -> list[str]:
    """The topics whose routes lead to the brokers that know a group, the likeliest first."""
    topics = [RETRY_PREFIX + group]
    if topic:
        topics += [topic, f"{RETRY_PREFIX}{group}_{topic}"]
        if cluster and (topic.startswith(LIGHT_QUEUE_PREFIX) or topic == TIMER_TOPIC):
            topics.append(cluster)
    return topics


async def first_route(session: Session, topics: list[str]) -> TopicRoute:
    """The first route that is found. Raises the AdminError of the last topic if there is none."""
    for topic in topics[:-1]:
        try:
            return await session.route(topic)
        except AdminError:
            continue
    return await session.route(topics[-1])


Consumers = Callable[[], Awaitable[dict[str, Any]]]


async def consume_stats(
    session: Session,
    group: str,
    topic: str | None = None,
    cluster: str | None = None,
    *,
    as_stored: bool = False,
    in_part: bool = False,
    consumers: Consumers | None = None,
) -> ConsumeStats:
    """A group's offsets at all brokers. as_stored: for static topics also by the brokers' own queues. in_part: brokers that fail are noted
    and left out. consumers: as consumers_of, of a caller that wants to know them as well. Raises AdminError, also if there are no
    offsets."""
    route = await first_route(session, route_topics(group, topic, cluster))
    stats = ConsumeStats()
    header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)

    async def ask(part: Session, address: str) -> ConsumeStats:
        return ConsumeStats.from_json(await part.members(address, RequestCode.GET_CONSUME_STATS, header, times=SLOW_TIMES))

    def add(address: str, found: ConsumeStats) -> None:
        stats.queues |= found.queues
        stats.rate += found.rate

    brokers = session.part()
    addresses = [address_of(broker.broker_addrs) for broker in route.broker_datas if broker.broker_addrs]
    is_whole = await ask_beside(brokers, addresses, ask, add)
    if not is_whole and not in_part:
        raise brokers.troubles[0]
    session.take_part(brokers)
    if not cluster and not as_stored:
        await _count_globally(session, stats)
    if stats.queues or not is_whole:
        return stats
    what = "Not found the consumer group consume stats, because return offset table is empty, "
    try:
        connection = await (consumers() if consumers is not None else consumers_of(session, group))
    except AdminError:
        raise AdminError(what + "maybe the consumer not online", code=ResponseCode.CONSUMER_NOT_ONLINE) from None
    if connection.get("messageModel") == "BROADCASTING":
        raise AdminError(what + "the consumer is under the broadcast mode", code=ResponseCode.BROADCAST_CONSUMPTION)
    return stats


async def _count_globally(session: Session, stats: ConsumeStats) -> None:
    """Shows static topics by their global queues."""

    async def ask(part: Session, topic: str) -> Led:
        try:
            return await led_by_route(part, topic, await part.route(topic))
        except AdminError:  # no name server has it any more, or brokers disagree: their own queues say what they know
            return {}

    def count(topic: str, led: Led) -> None:
        if led:
            found = global_progress(led, stats.queues)
            stats.queues = {queue: row for queue, row in stats.queues.items() if queue["topic"] != topic} | found

    await ask_beside(session, sorted({str(queue["topic"]) for queue in stats.queues}), ask, count)


async def running_infos(session: Session, group: str, client_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What the consumers of a group report about themselves, by client. One that does not answer is noted, one that has gone is not."""
    infos: dict[str, dict[str, Any]] = {}

    async def look(part: Session, client_id: str) -> dict[str, Any] | None:
        try:
            return await shown_info(part, group, client_id)
        except AdminError as error:
            note_unless_idle(part, error)
            return None

    def take(client_id: str, info: dict[str, Any] | None) -> None:
        if info is not None:
            infos[client_id] = info

    await ask_beside(session, client_ids, look, take)
    return infos


async def clients_of_queues(session: Session, group: str) -> dict[Any, str]:
    try:
        ids = [str(each.get("clientId")) for each in connections_in(await consumers_of(session, group))]
    except AdminError as error:
        session.note(error)
        return {}
    infos = await running_infos(session, group, ids)
    return {queue: client_id.partition("@")[0] for client_id, info in infos.items() for queue in by_queue(info.get("mqTable"))}


async def consumer_progress(session: Session, given: Given, out: Output) -> None:
    session.keep_answers()
    if given.has("g"):
        await _progress_of_group(session, given, out)
    else:
        await _progress_of_all(session, out)


async def _progress_of_group(session: Session, given: Given, out: Output) -> None:
    group = given.text("g")
    topic = given.maybe("t")
    stats = await consume_stats(session, group, topic, given.maybe("c") if topic else None, in_part=True)
    with_clients = given.truth("s")
    clients = await clients_of_queues(session, group) if with_clients else {}
    columns = WITH_CLIENTS if with_clients else PROGRESS
    out.heading(columns)
    inflight_total = 0
    for queue, end, at, pulled, last in stats.rows():
        inflight = pulled - at
        inflight_total += inflight
        when = Shown(last, human_second(last) if last else "N/A")
        where = (Shown(clients.get(queue), clients.get(queue, "N/A")),) if with_clients else ()
        named = (front(queue["topic"], 64), front(queue["brokerName"], 32), queue["queueId"])
        out.row(columns, *named, end, at, *where, end - at, inflight, when)
    out.line()
    out.line(f"Consume TPS: {stats.rate:.2f}")
    out.line(f"Consume Diff Total: {stats.behind()}")
    out.line(f"Consume Inflight Total: {inflight_total}")
    out.set(consumeTps=stats.rate, diffTotal=stats.behind(), inflightTotal=inflight_total)


async def consuming_groups(session: Session) -> list[str]:
    """Those with retry topics, of which a POP group has one for each of its topics. Of the older spelling (%RETRY%group_topic) each is
    taken for a group's own: to fold it could hide a group of that name. Raises AdminError, UsageError."""
    return list(dict.fromkeys(group_of_retry_topic(topic) for topic in await session.topics() if topic.startswith(RETRY_PREFIX)))


def _asked_once(session: Session, group: str) -> Consumers:
    """consumers_of that asks again only where it had no answer: without offsets a group is asked for by two."""
    known: list[dict[str, Any] | AdminError] = []

    async def ask() -> dict[str, Any]:
        if not known:
            try:
                known.append(await consumers_of(session, group))
            except AdminError as error:
                if error.code is None:
                    raise
                known.append(error)
        if isinstance(known[0], AdminError):
            raise known[0]
        return known[0]

    return ask


async def _progress_of_all(session: Session, out: Output) -> None:
    async def show(part: Session, aside: Output, group: str) -> None:
        rate, behind, connection = 0, 0, None
        consumers = _asked_once(part, group)
        try:
            stats = await consume_stats(part, group, in_part=True, consumers=consumers)
            rate, behind = int(stats.rate), stats.behind()
        except AdminError as error:  # a group that has consumed nothing yet is a row like any other
            note_unless_idle(part, error)
        try:
            connection = await consumers()
        except AdminError as error:
            note_unless_idle(part, error)
        aside.row(GROUPS, front(group, 64), *_connection_cells(connection), rate, behind)

    out.heading(GROUPS)
    await show_beside(session, out, await consuming_groups(session), show)


def note_unless_idle(session: Session, error: AdminError) -> None:
    if error.code not in IDLE:
        session.note(error)


def _connection_cells(connection: dict[str, Any] | None) -> tuple[Any, ...]:
    """Count, version, type and model of a group's consumers."""
    if connection is None:
        return 0, Shown(None, "OFFLINE"), Shown(None, ""), Shown(None, "")
    found = connections_in(connection)
    oldest = min(int(each.get("version") or 0) for each in found)
    is_pull = connection.get("consumeType") == "CONSUME_ACTIVELY"
    model = str(connection.get("messageModel")) if connection.get("consumeType") == "CONSUME_PASSIVELY" else ""
    return len(found), Shown(oldest, version_text(oldest)), "PULL" if is_pull else "PUSH", model


async def broker_consume_stats(session: Session, given: Given, out: Output) -> None:
    session.timeout_s = given.number("t", 50_000, least=1) / 1000
    header = GetConsumeStatsInBrokerHeader(is_order=given.truth("o"))
    value = await session.members(given.text("b"), RequestCode.GET_BROKER_CONSUME_STATS, header)
    out.heading(IN_BROKER)
    least = given.number("l")
    for table in value.get("consumeStatsList") or ():
        for group, listed in sorted(table.items()):
            for each in listed or ():
                for queue, end, at, _, last in ConsumeStats.from_json(each).rows():
                    if end - at < least or last <= 0:  # as mqadmin: a queue of which nothing was consumed has no row
                        continue
                    when = Shown(last, human_second(last))
                    named = (front(queue["topic"], 64), group, front(queue["brokerName"], 32), queue["queueId"])
                    out.row(IN_BROKER, *named, end, at, end - at, when)
    out.line(f"\nDiff Total: {value.get('totalDiff', 0)}")
    out.set(diffTotal=value.get("totalDiff", 0))
