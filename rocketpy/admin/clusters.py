"""All brokers of the clusters, a row each. RocketMQ: ClusterListSubCommand (5.5.0). A broker that does not answer has a row, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .beside import ask_beside
from .brokers import runtime_table
from .command_line import Given
from .errors import AdminError
from .output import Columns, Output, Shown
from .rounds import rounds
from .session import Session

BASE = Columns(
    "brokers",
    "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %-11s  %-12s  %-8s  %-10s",
    "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s",
    {
        "#Cluster Name": "clusterName",
        "#Broker Name": "brokerName",
        "#BID": "brokerId",
        "#Addr": "address",
        "#Version": "version",
        "#InTPS(LOAD)": "inTps",
        "#OutTPS(LOAD)": "outTps",
        "#Timer(Progress)": "timer",
        "#PCWait(ms)": "pageCacheLockTimeMs",
        "#Hour": "hours",
        "#SPACE": "commitLogDiskRatio",
        "#ACTIVATED": "active",
    },
)
MORE = Columns(
    "brokers",
    "%-16s  %-32s %14s %14s %14s %14s",
    "%-16s  %-32s %14d %14d %14d %14d",
    {
        "#Cluster Name": "clusterName",
        "#Broker Name": "brokerName",
        "#InTotalYest": "inTotalYesterday",
        "#OutTotalYest": "outTotalYesterday",
        "#InTotalToday": "inTotalToday",
        "#OutTotalToday": "outTotalToday",
    },
)


def number(table: Mapping[str, str], name: str) -> float:
    """The first number of a value; 0 if there is none."""
    try:
        return float(table.get(name, "").split(" ")[0])
    except ValueError:
        return 0.0


def base_cells(table: Mapping[str, str], now_ms: int) -> list[Any]:
    """The columns of BASE that come from a broker's runtime table."""
    send, pull, ack = (_load(table, pool) for pool in ("send", "pull", "ack"))
    incoming, outgoing = number(table, "putTps"), number(table, "getTransferredTps")
    behind = int(number(table, "timerReadBehind")), int(number(table, "timerOffsetBehind"))
    congested, enqueued, dequeued = (number(table, name) for name in ("timerCongestNum", "timerEnqueueTps", "timerDequeueTps"))
    timer = f"{behind[0]}-{behind[1]}({congested / 10000:.1f}w, {enqueued:.1f}, {dequeued:.1f})"
    hours = (now_ms - number(table, "earliestMessageTimeStamp")) / 3_600_000 if table.get("earliestMessageTimeStamp") else 0.0
    space = number(table, "commitLogDiskRatio")
    active = table.get("brokerActive", "").lower() == "true"
    return [
        table.get("brokerVersionDesc", ""),
        Shown(incoming, f"{incoming:9.2f}({send})"),
        Shown(outgoing, f"{outgoing:9.2f}({pull}|{ack})"),
        Shown({"readBehindS": behind[0], "offsetBehind": behind[1], "congestNum": int(congested)}, timer),
        Shown(int(number(table, "pageCacheLockTimeMills")), table.get("pageCacheLockTimeMills", "")),
        Shown(round(hours, 2), f"{hours:2.2f}"),
        Shown(space, f"{space:.4f}"),
        Shown(active, "true" if active else "false"),
    ]


def _load(table: Mapping[str, str], pool: str) -> str:
    missing = "N" if pool == "ack" else "null" if table else ""
    size, waited = (table.get(f"{pool}ThreadPoolQueue{what}", missing) for what in ("Size", "HeadWaitTimeMills"))
    return f"{size},{waited}ms"


def totals(table: Mapping[str, str]) -> list[int]:
    """(received yesterday, sent yesterday, received today, sent today)."""
    moments = ("YesterdayMorning", "TodayMorning", "TodayNow")
    (put_0, put_1, put_2), (get_0, get_1, get_2) = (
        [int(number(table, f"msg{what}Total{moment}")) for moment in moments] for what in ("Put", "Get")
    )
    return [put_1 - put_0, get_1 - get_0, put_2 - put_1, get_2 - get_1]


async def _round(session: Session, given: Given, out: Output) -> None:
    cluster = await session.cluster()
    columns = MORE if given.has("m") else BASE
    out.heading(columns)
    places = [
        (name, broker.broker_name, broker_id, address)
        for name in ([given.text("c")] if given.has("c") else cluster.clusters)
        for broker in cluster.groups(name)
        for broker_id, address in sorted(broker.broker_addrs.items())
    ]

    async def ask(part: Session, place: tuple[str, str, int, str]) -> dict[str, str]:
        try:
            return await runtime_table(part, place[-1])
        except AdminError as error:
            part.note(error)
            return {}

    def show(place: tuple[str, str, int, str], table: dict[str, str]) -> None:
        if given.has("m"):
            out.row(columns, *place[:2], *totals(table))
        else:
            out.row(columns, *place, *base_cells(table, session.clock()))

    await ask_beside(session, places, ask, show)


async def cluster_list(session: Session, given: Given, out: Output) -> None:
    await rounds(session, given, out, _round)
