"""Messages of queues, printed.
RocketMQ: PrintMessageSubCommand, PrintMessageByQueueCommand, ConsumeMessageCommand, DumpCompactionLogCommand (5.5.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path

from .._core.errors import RocketpyError
from .._core.store import decode_message
from ..remoting.client import FRAME_SIZE_MAX
from ..remoting.codes import ResponseCode
from .command_line import Given
from .errors import AdminError, UsageError
from .finding import TOOLS_GROUP, Pulled, pull
from .found_message import FoundMessage
from .global_queues import readable_queues
from .messages import charset_of
from .output import Output
from .queues import max_offset, min_offset, offset_at, queue_of, queue_text
from .session import Session
from .texts import time_of

RECORD_LEAST = 8
"""Bytes of a record: its size and its magic."""
BLANK = bytes.fromhex("cbd43194")
"""The magic of what fills the rest of a file."""

PULL_COUNT = 32
READS_ON = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
"""After the second, no message of those looked at has a wanted tag: mqadmin's printMsgByQueue ends there, and leaves out what follows."""
ENDS = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)
STATUSES = {
    ResponseCode.SUCCESS: "FOUND",
    ResponseCode.PULL_NOT_FOUND: "NO_NEW_MSG",
    ResponseCode.PULL_RETRY_IMMEDIATELY: "NO_MATCHED_MSG",
    ResponseCode.PULL_OFFSET_MOVED: "OFFSET_ILLEGAL",
}


def _status(pulled: Pulled) -> str:
    return next((text for code, text in STATUSES.items() if code == pulled.code), str(pulled.code))


async def _places_to_read(session: Session, topic: str) -> list[tuple[str, str, int]]:
    """(broker name, address, queue) of all readable queues. Raises AdminError."""
    route = await session.route(topic)
    addresses = await session.addresses(topic, route)
    found = [(name, addresses[broker], number) for name, number, broker in readable_queues(route) if broker in addresses]
    if not found:
        raise AdminError(f"no queue of {topic} can be read", remedy="topicRoute shows its queues and its permission")
    return found


async def address_of_queue(session: Session, topic: str, broker_name: str, queue_id: int) -> str:
    """That of its broker, which has a global queue of a static topic by another name. Raises AdminError for a queue that the topic does not
    have there: brokers answer as for an empty one, but for those of static topics, of which a route counts the pieces here and not the
    global queues."""
    route = await session.route(topic)
    addresses = await session.addresses(topic, route)
    if route.queue_mappings:
        asked = {(name, number): broker for name, number, broker in readable_queues(route)}
        broker_name = asked.get((broker_name, queue_id), broker_name)
    if broker_name not in addresses:
        raise AdminError(f"{topic} has no queues at broker {broker_name!r}", remedy=f"it has at {', '.join(addresses)}")
    count = sum(queues.read_queue_nums for queues in route.queue_datas if queues.broker_name == broker_name)
    if queue_id >= count and not route.queue_mappings:
        raise AdminError(f"{topic} has no queue {queue_id} at broker {broker_name!r}", remedy=f"it has {count} there, from 0 on")
    return addresses[broker_name]


async def _span(session: Session, address: str, topic: str, queue_id: int, begin: str | None, end: str | None) -> tuple[int, int]:
    """The first offset and the one after the last: of all messages, or of those stored from begin to end."""
    first, last = await min_offset(session, address, topic, queue_id), await max_offset(session, address, topic, queue_id)
    if begin is not None:
        first = await offset_at(session, address, topic, queue_id, time_of(begin))
    if end is not None:
        last = await offset_at(session, address, topic, queue_id, time_of(end))
    return first, last


def _print(out: Output, found: FoundMessage, charset: str, with_body: bool, end: str = "\n") -> None:
    out.put(f"MSGID: {found.shown_id} {found.text()} BODY: {found.body_text(charset) if with_body else 'NOT PRINT BODY'}{end}")
    out.add("messages", found.to_json(with_body=with_body))


def _leads_on(out: Output, queue: str, pulled: Pulled, offset: int, *, told: Container[int] = STATUSES) -> bool:
    """Whether the queue is read on at the next offset; of the codes to be told, says where a pull brought nothing. Raises AdminError where
    it would never end."""
    if pulled.code not in READS_ON:
        if pulled.code in told:
            out.line(f"{queue} print msg finished. status={_status(pulled)}, offset={pulled.next_offset}")
        return False
    if pulled.code == ResponseCode.PULL_RETRY_IMMEDIATELY and pulled.code in told:
        out.line(f"{queue} no matched msg. status=NO_MATCHED_MSG, offset={pulled.next_offset}")
    if pulled.next_offset <= offset:
        raise AdminError(f"{queue}: the broker's next offset {pulled.next_offset} does not lead on from {offset}")
    return True


async def print_msg(session: Session, given: Given, out: Output) -> None:
    topic, charset, tags = given.text("t"), charset_of(given.text("c", "UTF-8")), given.text("s", "*")
    with_body = given.truth("d", True)

    async def print_queue(place: tuple[str, str, int]) -> None:
        broker_name, address, queue_id = place
        queue = queue_text(queue_of(topic, broker_name, queue_id))
        offset, end = await _span(session, address, topic, queue_id, given.maybe("b"), given.maybe("e"))
        out.line(f"minOffset={offset}, maxOffset={end}, {queue}")
        while offset < end:
            pulled = await pull(session, address, broker_name, topic, queue_id, offset, PULL_COUNT, tags)
            for found in pulled.messages:
                _print(out, found, charset, with_body)
            if not _leads_on(out, queue, pulled, offset):
                break
            offset = pulled.next_offset
        out.line("--------------------------------------------------------")

    await session.each(await _places_to_read(session, given.text("l") or topic), print_queue)


async def print_msg_by_queue(session: Session, given: Given, out: Output) -> None:
    topic, broker_name, queue_id = given.text("t"), given.text("a"), given.number("i", least=0)
    charset, tags = charset_of(given.text("c", "UTF-8")), given.text("s", "*")
    is_printed = given.truth("p")
    if not (is_printed or given.truth("f")):
        raise UsageError("nothing would be said: -p true prints the messages, -f true counts them by tag")
    address, queue = await address_of_queue(session, topic, broker_name, queue_id), queue_text(queue_of(topic, broker_name, queue_id))
    counts: Counter[str] = Counter()
    count = 0
    offset, end = await _span(session, address, topic, queue_id, given.maybe("b"), given.maybe("e"))
    while offset < end:
        try:
            pulled = await pull(session, address, broker_name, topic, queue_id, offset, PULL_COUNT, tags)
            if not _leads_on(out, queue, pulled, offset, told=ENDS if is_printed else ()):
                break
        except AdminError as error:  # what was counted up to here is said
            session.note(error)
            break
        offset = pulled.next_offset
        count += len(pulled.messages)
        counts.update(found.tags for found in pulled.messages if found.tags and found.tags.strip())
        for found in pulled.messages if is_printed else ():
            _print(out, found, charset, given.truth("d"))
    else:
        if is_printed and not count:
            out.line(f"{queue} no matched msg, offset={offset}")
    if given.truth("f"):
        for tag, count in counts.most_common():
            out.line(f"Tag: {tag:30} Count: {count}")
        out.set(tags=dict(counts.most_common()))


def _checked_time(given: Given, key: str, name: str, now_ms: int) -> int:
    time_ms = time_of(given.text(key)) if given.has(key) else 0
    if time_ms > now_ms:
        raise UsageError(f"Please set the {name} before now!")
    return time_ms


def _checked_span(given: Given, now_ms: int) -> tuple[str | None, str | None]:
    """The times from which and up to which messages are wanted; None: no limit. Raises UsageError about these options and those that do not
    go with them."""
    if given.number("c", 128) <= 0:
        raise UsageError("Please input a positive messageNumber!")
    if given.has("i") and not given.has("b"):
        raise UsageError("Please set the brokerName before queueId!")
    if given.has("o") and not given.has("i"):
        raise UsageError("Please set queueId before offset!")
    begin_ms = _checked_time(given, "s", "beginTimestamp", now_ms)
    end_ms = _checked_time(given, "e", "endTimestamp", now_ms)
    if given.has("e") and begin_ms > end_ms:
        raise UsageError("Please make sure that the beginTimestamp is less than or equal to the endTimestamp")
    return (str(begin_ms) if begin_ms > 0 else None), (str(end_ms) if end_ms > 0 else None)


async def consume_message(session: Session, given: Given, out: Output) -> None:
    topic, group, left = given.text("t"), given.text("g", TOOLS_GROUP), given.number("c", 128)
    begin, end = _checked_span(given, session.clock())
    one_queue = given.has("i")
    if one_queue:
        name, queue_id = given.text("b"), given.number("i", least=0)
        queues = [(name, await address_of_queue(session, topic, name, queue_id), queue_id)]
    else:
        queues = await _places_to_read(session, topic)
    for broker_name, address, queue_id in queues:
        if left <= 0:
            return
        first, last = await _span(session, address, topic, queue_id, begin, end)
        wanted = given.number("o", 0)
        if one_queue and wanted > last:
            out.line(f"{queue_text(queue_of(topic, broker_name, queue_id))} no matched msg, offset={wanted}")
            return
        first = max(first, wanted)
        if last - first > left:
            of_queue = f"older {left} message of the {queue_id} queue"
            out.line(f"The {f'oldler {left} message' if one_queue else of_queue} will be provided")  # in mqadmin's words
            last, left = first + left - 1, 0
        else:
            left -= last - first + 1
        await _consume(session, out, (broker_name, address, queue_id), topic, group, first, last)


async def _consume(session: Session, out: Output, place: tuple[str, str, int], topic: str, group: str, offset: int, last: int) -> None:
    """Prints the messages from offset to last, both included, as a single consumer would get them."""
    broker_name, address, queue_id = place
    queue = queue_text(queue_of(topic, broker_name, queue_id))
    while offset <= last:
        count = min(last - offset + 1, PULL_COUNT)
        pulled = await pull(session, address, broker_name, topic, queue_id, offset, count, group=group)
        if pulled.code == ResponseCode.SUCCESS:
            out.line("Consume ok")
        for found in pulled.messages:
            _print(out, found, "utf-8", True)
        if not _leads_on(out, queue, pulled, offset):
            return
        offset = pulled.next_offset


async def dump_compaction_log(session: Session, given: Given, out: Output) -> None:
    path = Path(given.text("f"))
    for found in file_messages(path):
        if isinstance(found, AdminError):
            session.troubles.append(found)
        else:
            out.line(found.text())
            out.add("messages", found.to_json())


def file_messages(path: Path) -> Iterator[FoundMessage | AdminError]:
    """The messages in a file, one after the other, up to space that was never written, or an error for bytes that are not a message. Raises
    AdminError, OSError."""
    if path.is_dir():
        raise AdminError(f"file {path} is a directory.")
    with path.open("rb") as file:
        while True:
            begin = file.tell()
            head = file.read(RECORD_LEAST)
            size = int.from_bytes(head[:4], "big")
            if not any(head) or head[4:] == BLANK:
                return
            is_possible = RECORD_LEAST <= size <= FRAME_SIZE_MAX
            record = head + file.read(size - RECORD_LEAST) if is_possible else head
            if not is_possible or len(record) < size:
                cause = f"{path} at byte {begin}: no whole message of {size} bytes"
                yield AdminError(cause, remedy="is it a file of compaction/compactionLog?")
                return
            try:
                yield FoundMessage(decode_message(record, check_crc=False))
            except RocketpyError as error:
                yield AdminError(f"{path} at byte {begin}: {error}")
                return
