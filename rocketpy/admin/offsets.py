"""Consumer offsets moved by an operator. RocketMQ: tools/command/offset/, resetOffsetByTimestamp and -Old of DefaultMQAdminExtImpl (5.5.0).

A group with consumers is moved by its brokers, which tell them; where it has none, by writing its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..broker.names import LIGHT_QUEUE_PREFIX, TIMER_TOPIC
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import GetConsumeStatsRequestHeader, ResetOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from ..remoting.route import TopicRoute
from .beside import ask_beside
from .cluster import address_of
from .command_line import Given
from .errors import AdminError
from .output import Columns, Output
from .progress import ConsumeStats, consume_stats
from .queues import by_queue, max_offset, offset_at, queue_key, queue_of, queue_text
from .session import SLOW_TIMES, Session
from .texts import front, java, time_of
from .topics import topic_stats

TO_THE_END = -1
MOVED = Columns(
    "queues",
    "%-40s  %-40s  %-40s",
    "%-40s  %-40s  %-40s",
    {"#brokerName": "brokerName", "#queueId": "queueId", "#offset": "offset"},
)
_WRITTEN_NAMES = {
    "#brokerName": "brokerName",
    "#queueId": "queueId",
    "#brokerOffset": "brokerOffset",
    "#consumerOffset": "consumerOffset",
    "#timestampOffset": "timestampOffset",
}
_SIX = "%-20s  %-20s  %-20s  %-20s  %-20s  %-20s"
WRITTEN = Columns("queues", _SIX, _SIX, _WRITTEN_NAMES | {"#resetOffset": "resetOffset"})
SKIPPED = Columns("queues", _SIX, _SIX, _WRITTEN_NAMES | {"#rollbackOffset": "rollbackOffset"})


def route_topic(topic: str, cluster: str) -> str:
    """The topic whose route leads to the brokers: for light queues and the timer's own, the cluster that -c names."""
    return cluster if cluster and (topic.startswith(LIGHT_QUEUE_PREFIX) or topic == TIMER_TOPIC) else topic


def addresses_in(route: TopicRoute) -> dict[str, str]:
    """The address to ask, by broker name."""
    return {broker.broker_name: address_of(broker.broker_addrs) for broker in route.broker_datas if broker.broker_addrs}


async def move_by_brokers(
    session: Session, addresses: Mapping[str, str], topic: str, group: str, time_ms: int, force: bool
) -> tuple[dict[Any, int], list[str]]:
    """(offsets by queue, names of brokers that could not do it because no consumer is connected). Brokers that fail are noted."""
    header = ResetOffsetRequestHeader(topic=topic, group=group, timestamp=time_ms, is_force=force, offset=-1)
    moved: dict[Any, int] = {}

    async def move(broker_name: str) -> None:
        try:
            value = await session.members(addresses[broker_name], RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, times=2)
        except AdminError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            offline.append(broker_name)
        else:
            moved.update(by_queue(value.get("offsetTable")))

    offline: list[str] = []
    await session.each(addresses, move)
    return moved, offline


async def write_offset(session: Session, address: str, group: str, topic: str, queue_id: int, offset: int) -> None:
    header = UpdateConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
    await session.call(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)


async def _known_offsets(
    session: Session, address: str, group: str, topic: str, broker_name: str, queues: int
) -> dict[Any, tuple[int, int]]:
    """(the broker's offset, the group's offset) by queue of a topic. For a group that has consumed nothing, each queue from its first
    message on."""
    header = GetConsumeStatsRequestHeader(consumer_group=group)
    stats = ConsumeStats.from_json(await session.members(address, RequestCode.GET_CONSUME_STATS, header, times=SLOW_TIMES))
    known = {queue: (end, at) for queue, end, at, _, _ in stats.rows() if queue["topic"] == topic}
    if known:
        return known
    table, _ = await topic_stats(session, topic, [address])
    rows = ((queue_of(topic, broker_name, queue_id), table.get(queue_of(topic, broker_name, queue_id))) for queue_id in range(queues))
    return {queue: (int(row.get("maxOffset") or 0), int(row.get("minOffset") or 0)) for queue, row in rows if row is not None}


async def move_by_writing(
    session: Session, route: TopicRoute, broker_names: Iterable[str], topic: str, group: str, time_ms: int, force: bool
) -> list[tuple[str, int, int, int, int, int]]:
    """Rows of (broker name, queue, the broker's offset, the group's former offset, the offset at that time, the group's new offset).
    Brokers that fail are noted."""
    rows: list[tuple[str, int, int, int, int, int]] = []
    sizes = {queues.broker_name: queues.read_queue_nums for queues in route.queue_datas}
    addresses = addresses_in(route)

    async def move(broker_name: str) -> None:
        address = addresses[broker_name]
        known = await _known_offsets(session, address, group, topic, broker_name, sizes.get(broker_name, 0))
        for queue in sorted(known, key=queue_key):
            queue_id, (end, before) = queue["queueId"], known[queue]
            if time_ms == TO_THE_END:
                at_time = await max_offset(session, address, topic, queue_id)
            else:
                at_time = await offset_at(session, address, topic, queue_id, time_ms)
            now = before
            if force or at_time <= before:
                now = at_time
                await write_offset(session, address, group, topic, queue_id, now)
            rows.append((front(queue["brokerName"], 32), queue_id, end, before, at_time, now))

    await session.each(sorted(broker_names), move)
    return rows


def _say_moved(out: Output, moved: dict[Any, int]) -> None:
    out.heading(MOVED)
    for queue in sorted(moved, key=queue_key):
        out.row(MOVED, front(queue["brokerName"], 32), queue["queueId"], moved[queue])


async def reset_offset_by_time(session: Session, given: Given, out: Output) -> None:
    group, topic, text, force = given.text("g"), given.text("t"), given.text("s"), given.truth("f", True)
    time_ms = session.clock() if text == "now" else time_of(text)
    if given.has("b") and given.number("q", -1) >= 0:
        await _reset_queue(session, given, out, time_ms)
        return
    route = await session.route(route_topic(topic, given.text("c")))
    about = f"topic[{topic}], force[{java(force)}], timestamp(string)[{text}], timestamp(long)[{time_ms}]"
    moved, offline = await move_by_brokers(session, addresses_in(route), topic, group, time_ms, force)
    if offline:
        rows = await move_by_writing(session, route, offline, topic, group, time_ms, force)
        out.line(f"reset consumer offset by specified consumerGroup[{group}], {about}")
        out.heading(WRITTEN)
        for row in rows:
            out.row(WRITTEN, *row)
    if moved or not (offline or session.troubles):
        out.line(f"start reset consumer offset by specified, group[{group}], {about}")
        _say_moved(out, moved)


async def _reset_queue(session: Session, given: Given, out: Output, time_ms: int) -> None:
    group, topic, address, queue_id = given.text("g"), given.text("t"), given.text("b"), given.number("q")
    out.line(
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], queueId[{queue_id}], broker[{address}], "
        f"timestamp(string)[{given.text('s')}], timestamp(long)[{time_ms}]"
    )
    offset = given.number("o") if given.has("o") else await offset_at(session, address, topic, queue_id, time_ms)
    out.line(f"reset consumer offset to {offset}")
    out.set(offset=offset, moved=offset > 0)
    if offset <= 0:  # mqadmin moves nothing either: 0 is also what a queue without messages of that time answers
        raise AdminError(f"nothing was moved: the offset is {offset}", remedy="without -b and -q all queues are moved, also to 0")
    await write_offset(session, address, group, topic, queue_id, offset)
    header = ResetOffsetRequestHeader(topic=topic, group=group, queue_id=queue_id, offset=offset, timestamp=0, is_force=False)
    await session.call(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)


async def skip_accumulated_message(session: Session, given: Given, out: Output) -> None:
    group, topic, force = given.text("g"), given.text("t"), given.truth("f", True)
    route = await session.route(route_topic(topic, given.text("c")))
    moved, offline = await move_by_brokers(session, addresses_in(route), topic, group, TO_THE_END, force)
    if offline:
        rows = await move_by_writing(session, route, offline, topic, group, TO_THE_END, force)
        out.heading(SKIPPED)
        for row in rows:
            out.row(SKIPPED, *row)
    if moved or not (offline or session.troubles):
        _say_moved(out, moved)


async def clone_group_offset(session: Session, given: Given, out: Output) -> None:
    source, target, topic = given.text("s"), given.text("d"), given.text("t")
    stats = await consume_stats(session, source, as_stored=True, in_part=True)
    addresses = await session.addresses(topic)
    offsets = {queue: offset for queue, _, offset, _, _ in stats.rows() if queue["brokerName"] in addresses and offset >= 0}

    async def write(part: Session, queue: Any) -> None:
        try:
            await write_offset(part, addresses[queue["brokerName"]], target, queue["topic"], queue["queueId"], offsets[queue])
        except AdminError as error:
            if error.code is None:  # who says nothing is told of once, not for each queue
                raise
            raise error.about(queue_text(queue)) from error

    def take(queue: Any, nothing: None) -> None:
        written.append(queue)
        out.add("queues", {**dict(queue), "offset": offsets[queue]})

    if not offsets:
        remedy = f"brokerConsumeStats shows where {source} has some"
        raise AdminError(f"group {source} has no offsets at the brokers of {topic}: nothing was moved", remedy=remedy)
    written: list[Any] = []
    await ask_beside(session, offsets, write, take)
    if session.troubles:  # what was moved stays moved
        for queue in written:
            out.line(f"clone group offset {offsets[queue]} to destGroup=[{target}], {queue_text(queue)}")
        return
    out.put(f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]")
