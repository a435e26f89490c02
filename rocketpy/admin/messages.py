"""Single messages: looked up, given to a consumer, sent again. RocketMQ: QueryMsgBy…SubCommand (5.5.0 tools/command/message/)."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import ConsumeMessageDirectlyResultRequestHeader
from .clients import running_info
from .command_line import Given
from .errors import AdminError, UsageError
from .finding import FOREVER_MS, UNIQUE_MAX, by_id, by_key, pull, tracks_of
from .found_message import FoundMessage
from .output import Columns, Output
from .running_info import is_push
from .sending import Outgoing, send
from .session import Session
from .texts import human_time, java, java_map

BODIES = Path("/tmp/rocketmq/msgbodys")
KEYS = Columns(
    "messages",
    "%-50s %4s %40s %-200s",
    "%-50s %4s %40s %-200s",
    {"#Message ID": "msgId", "#QID": "queueId", "#Offset": "queueOffset", "#IndexKey": "indexKey"},
)
HOUR_MS = 3_600_000


def charset_of(text: str) -> str:
    """Raises UsageError for a name that is not a text encoding: unknown ones, and those between bytes, such as hex."""
    try:
        b"text".decode(text, "replace")
        return codecs.lookup(text).name
    except (LookupError, UnicodeError) as error:
        raise UsageError(f"{text!r} is no encoding, such as UTF-8 or GBK") from error


def body_file(found: FoundMessage, suffix: str = "") -> Path:
    """The file that a body is written to. Ids come from strangers, so they must not name a directory."""
    BODIES.mkdir(parents=True, exist_ok=True)
    path = BODIES / (re.sub(r"^\.+|[^0-9A-Za-z_.-]", "_", found.shown_id)[:200] + suffix)
    path.write_bytes(found.body)
    return path


async def _show(
    session: Session, out: Output, found: FoundMessage, *, with_id: bool = True, charset: str | None = None, suffix: str = ""
) -> None:
    message = found.message
    lines = {
        "OffsetID:": found.offset_id,
        "Topic:": message.topic,
        "Tags:": f"[{java(found.tags)}]",
        "Keys:": f"[{java(found.keys)}]",
        "Queue ID:": message.queue_id,
        "Queue Offset:": message.queue_offset,
        "CommitLog Offset:": message.commit_log_offset,
        "Reconsume Times:": message.reconsume_times,
        "Born Timestamp:": human_time(message.born_timestamp_ms),
        "Store Timestamp:": human_time(message.store_timestamp_ms),
        "Born Host:": message.born_host,
        "Store Host:": message.store_host,
        "System Flag:": message.sys_flag,
        "Properties:": java_map(message.properties),
        "Message Body Path:": None if out.is_json else body_file(found, suffix),
    }
    if not with_id:
        del lines["OffsetID:"]
    if charset is not None:
        lines["Message Body:"] = found.body_text(charset)
    for name, value in lines.items():
        out.line(f"{name:20} {value}")
    try:
        tracks = await tracks_of(session, found)
    except AdminError as error:
        session.note(error)
        tracks = []
    out.put("\n\n" if tracks else "\n\nWARN: No Consumer")
    for track in tracks:
        out.put(track.text() + ("\n" if with_id else ""))
    out.add("messages", {**found.to_json(), "tracks": [track.to_json() for track in tracks]})


async def query_msg_by_id(session: Session, given: Given, out: Output) -> None:
    topic, cluster = given.text("t"), given.text("c")
    charset = charset_of(given.text("f")) if given.has("f") else None

    async def query(message_id: str) -> None:
        found = await by_id(session, topic, message_id, cluster)
        if found is None:
            session.note(AdminError(f"no message {message_id} in {topic}", code=ResponseCode.NO_MESSAGE))
        elif given.has("g") and given.has("d"):
            await _give(session, given, out, found)
        elif given.truth("s"):
            out.put(f"prepare resend msg. originalMsgId={message_id}")
            properties = {**found.message.properties}
            sent = await send(session, Outgoing(topic, found.body, properties, flag=found.message.flag), group="ReSendMsgById")
            out.put(sent.text())
            out.add("done", {"originalMsgId": message_id, **sent.to_json()})
        else:
            await _show(session, out, found, charset=charset)

    await session.each(given.named("i", "message"), query)


async def _give(session: Session, given: Given, out: Output, found: FoundMessage) -> None:
    """Has the broker send the message to one consumer at once."""
    group, client_id = given.text("g"), given.text("d")
    if not is_push(await running_info(session, group, client_id)):
        raise AdminError(f"this {client_id} client is not push consumer ,not support direct push")
    header = ConsumeMessageDirectlyResultRequestHeader(
        consumer_group=group, client_id=client_id, msg_id=found.offset_id, topic=found.message.topic
    )
    value = await session.members(found.message.store_host, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, times=2)
    names = ("order", "autoCommit", "consumeResult", "remark", "spentTimeMills")
    out.put("ConsumeMessageDirectlyResult [" + ", ".join(f"{name}={java(value.get(name))}" for name in names) + "]")
    out.add("done", {"msgId": found.shown_id, **value})


async def query_msg_by_key(session: Session, given: Given, out: Output) -> None:
    kind = given.maybe("p")
    if kind not in (None, "K", "T"):
        raise UsageError(f"-p/--keyType: {kind!r} is neither K nor T")
    found = await by_key(
        session,
        given.text("t"),
        given.text("k"),
        given.number("m", 64, least=1),
        given.number("b", 0),
        given.number("e", FOREVER_MS),
        route_topic=given.text("c"),
        index_type=kind,
        last_key=given.maybe("l"),
    )
    if not found:
        raise AdminError(f"no message with key {given.text('k')} in {given.text('t')}", code=ResponseCode.NO_MESSAGE)
    out.heading(KEYS)
    for each in found:
        message = each.message
        hour = message.store_timestamp_ms // HOUR_MS * HOUR_MS
        index_key = "@".join(map(str, (hour, given.text("t"), kind or "K", given.text("k"), each.shown_id, message.commit_log_offset)))
        out.row(KEYS, each.shown_id, message.queue_id, message.queue_offset, index_key)


async def query_msg_by_unique_key(session: Session, given: Given, out: Output) -> None:
    begin, end = given.number("s", 0), given.number("e", FOREVER_MS)
    listed = await by_key(session, given.text("t"), given.text("i"), UNIQUE_MAX, begin, end, route_topic=given.text("c"), is_unique=True)
    if not listed:
        raise AdminError(f"no message {given.text('i')} in {given.text('t')}", code=ResponseCode.NO_MESSAGE)
    listed.sort(key=lambda each: each.message.store_timestamp_ms)
    if given.has("g") and given.has("d"):
        await _give(session, given, out, listed[0])
        return
    for number, each in enumerate(listed if given.has("a") else listed[:1]):
        await _show(session, out, each, with_id=False, suffix=f"_{number}" if number else "")


async def query_msg_by_offset(session: Session, given: Given, out: Output) -> None:
    topic, broker_name = given.text("t"), given.text("b")
    addresses = await session.addresses(given.text("r") or topic)
    if broker_name not in addresses:
        raise AdminError(f"{topic} has no queues at broker {broker_name!r}", remedy=f"it has at {', '.join(addresses)}")
    offset = given.number("o", least=0)
    charset = charset_of(given.text("f")) if given.has("f") else None
    pulled = await pull(session, addresses[broker_name], broker_name, topic, given.number("i"), offset, 1)
    if not pulled.messages:
        raise AdminError(f"no message at offset {offset}", remedy="topicStatus shows the offsets there are", code=pulled.code)
    await _show(session, out, pulled.messages[0], charset=charset)
