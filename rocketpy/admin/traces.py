"""Who sent a message and who consumed it, by the traces that clients write: records end with \x02, fields with \x01. What is no such record
is passed over. RocketMQ: QueryMsgTraceByIdSubCommand, TraceView, TraceDataEncoder (5.3.3 client/trace/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .command_line import Given
from .errors import AdminError
from .finding import FOREVER_MS, by_key
from .found_message import FoundMessage
from .output import Columns, Output, Shown
from .session import Session
from .texts import human_second

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_FORM = "%-10s %-20s %-20s %-20s %-10s %-10s"
_ENDS = {"#CostTimes": "costTimeMs", "#Status": "status"}
PUBLISHED = Columns(
    "traces", _FORM, _FORM, {"#Type": "type", "#ProducerGroup": "group", "#ClientHost": "clientHost", "#SendTime": "timestamp", **_ENDS}
)
CONSUMED = Columns(
    "traces", _FORM, _FORM, {"#Type": "type", "#ConsumerGroup": "group", "#ClientHost": "clientHost", "#ConsumerTime": "timestamp", **_ENDS}
)


@dataclass(frozen=True, slots=True)
class Trace:
    is_publish: bool
    message_id: str
    group: str
    host: str
    time_ms: int
    cost_ms: int
    succeeded: bool


def traces_in(body: str, host: str) -> Iterator[Trace]:
    """The sends and the finished consumptions in one trace message."""
    for record in body.split("\x02"):
        parts = record.split("\x01")
        try:
            if parts[0] == "Pub" and len(parts) >= 13:
                success = parts[12] if len(parts) == 13 else parts[13]
                yield Trace(True, parts[5], parts[3], host, int(parts[1]), int(parts[10]), success == "true")
            elif parts[0] == "SubAfter" and len(parts) >= 6:
                time_ms, group = (int(parts[7]), parts[8]) if len(parts) >= 9 else (0, "null")
                yield Trace(False, parts[2], group, host, time_ms, int(parts[3]), parts[4] == "true")
        except ValueError:
            continue


def _host(found: FoundMessage) -> str:
    return found.message.born_host.rpartition(":")[0].strip("[]")


async def query_msg_trace_by_id(session: Session, given: Given, out: Output) -> None:
    message_id = given.text("i")
    begin, end = given.number("b", 0), given.number("e", FOREVER_MS)
    listed = await by_key(session, given.text("t", TRACE_TOPIC), message_id, given.number("c", 64, least=1), begin, end)
    traces = [trace for found in listed for trace in traces_in(found.body_text("utf-8"), _host(found)) if trace.message_id == message_id]
    if not traces:
        raise AdminError(
            f"no trace of message {message_id}", remedy="clients write traces where they were told to, such as by enableMsgTrace"
        )
    for trace in traces:
        if trace.is_publish:
            out.heading(PUBLISHED)
            _row(out, PUBLISHED, "Pub", trace)
            out.line()
    for group in dict.fromkeys(trace.group for trace in traces if not trace.is_publish):
        out.heading(CONSUMED)
        for trace in traces:
            if not trace.is_publish and trace.group == group:
                _row(out, CONSUMED, "Sub", trace)
        out.line()


def _row(out: Output, columns: Columns, kind: str, trace: Trace) -> None:
    when = Shown(trace.time_ms, human_second(trace.time_ms))
    cost = Shown(trace.cost_ms, f"{trace.cost_ms}ms")
    out.row(columns, kind, trace.group, trace.host, when, cost, "success" if trace.succeeded else "failed")
