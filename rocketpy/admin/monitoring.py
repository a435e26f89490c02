"""Groups that fall behind, looked at once a minute until Ctrl-C. RocketMQ: MonitorService, DefaultMonitorListener
(5.3.3 tools/monitor/), which writes the same to its log; here it goes to standard output.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .beside import show_beside
from .clients import connections_in, consumers_of
from .command_line import Given
from .errors import AdminError
from .output import Output
from .progress import ConsumeStats, consume_stats, consuming_groups, note_unless_idle, running_infos
from .rounds import end_round
from .running_info import blocked_queues, has_same_subscriptions
from .session import Session
from .texts import human_second

ROUND_S = 60


@dataclass(frozen=True, slots=True)
class Undone:
    """How far a group is behind in one topic: over all queues, in the worst one, and since when."""

    topic: str
    total: int
    most: int
    delay_ms: int


def undone_of(stats: ConsumeStats, now_ms: int) -> list[Undone]:
    """The topics in which a group is behind."""
    rows: dict[str, list[tuple[int, int]]] = {}
    for queue, end, at, _, last in stats.rows():
        if end > at:
            rows.setdefault(queue["topic"], []).append((end - at, now_ms - last if last > 0 else 0))
    return [
        Undone(topic, sum(behind for behind, _ in found), max(behind for behind, _ in found), max(delay for _, delay in found))
        for topic, found in rows.items()
    ]


async def start_monitoring(session: Session, given: Given, out: Output) -> None:
    session.keep_answers()
    while True:
        try:
            await show_beside(session, out, await consuming_groups(session), look_at)
        except AdminError as error:  # the name servers may be back the next time
            session.note(error)
        out.set(time=session.clock())
        end_round(session, out)
        await asyncio.sleep(ROUND_S)


async def look_at(session: Session, out: Output, group: str) -> None:
    now = session.clock()
    try:
        for undone in undone_of(await consume_stats(session, group, in_part=True), now):
            out.line(
                f"{human_second(now)} undone group={group} topic={undone.topic} total={undone.total} maxOfQueue={undone.most} "
                f"delayMs={undone.delay_ms}"
            )
            out.add(
                "undone",
                {"group": group, "topic": undone.topic, "total": undone.total, "maxOfQueue": undone.most, "delayMs": undone.delay_ms},
            )
        ids = [str(each.get("clientId")) for each in connections_in(await consumers_of(session, group))]
    except AdminError as error:  # nobody consumes, or it is gone meanwhile
        note_unless_idle(session, error)
        return
    infos = await running_infos(session, group, ids)
    if infos and not has_same_subscriptions(list(infos.values()), now):
        out.line(f"{human_second(now)} different subscriptions in group={group}")
        out.add("differentSubscriptions", group)
    for client_id, info in infos.items():
        for line in blocked_queues(client_id, info, now):
            out.line(f"{human_second(now)} blocked group={group} {line}")
            out.add("blocked", {"group": group, "queue": line})
