"""Messages that an operator sends one by one, and how long each took. Every send takes the next queue, in the order of the route.
RocketMQ: SendMessageCommand, CheckMsgSendRTCommand, SendMsgStatusCommand, CLusterSendMsgRTCommand, SendResult (5.5.0).
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from ..remoting.bodies import PERM_WRITE
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import SendMessageRequestHeaderV2, SendMessageResponseHeader
from ..remoting.headers.admin import AUTO_CREATE_TOPIC
from ..remoting.headers.base import HeaderError
from ..remoting.route import MASTER_ID, TopicRoute
from .command_line import Given
from .errors import AdminError, UsageError, refused
from .found_message import UNIQUE_ID
from .output import Columns, Output, Shown
from .rounds import every
from .session import Session

STATUSES = {
    ResponseCode.SUCCESS: "SEND_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
}
BODY_MAX = 64 << 20
NEW_QUEUES = 4
"""Of a topic that is made by being sent to, as a send asks for it."""
TROUBLES_MAX = 10
"""So many failed sends are told of one by one."""
SENT = Columns(
    "messages",
    "%-32s  %-4s  %-20s    %s",
    "%-32s  %-4s  %-20s    %s",
    {"#Broker Name": "brokerName", "#QID": "queueId", "#Send Result": "sendStatus", "#MsgId": "msgId"},
)
TIMES = Columns(
    "sends",
    "%-32s  %-4s  %-20s    %s",
    "%-32s  %-4s  %-20s    %s",
    {"#Broker Name": "brokerName", "#QID": "queueId", "#Send Result": "sent", "#RT": "rtMs"},
)
CLUSTER_TIMES = Columns(
    "brokers",
    "%-24s  %-24s  %-4s  %-8s  %-8s",
    "%-24s  %-24s  %-8s  %-16s  %-16s",
    {
        "#Cluster Name": "clusterName",
        "#Broker Name": "brokerName",
        "#RT": "rtMs",
        "#successCount": "successCount",
        "#failCount": "failCount",
    },
)
CHINA = timezone(timedelta(hours=8))
_numbers = itertools.count(int.from_bytes(os.urandom(2), "big"))


@dataclass(frozen=True, slots=True)
class Outgoing:
    topic: str
    body: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """One queue to send to."""

    broker_name: str
    address: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class Sent:
    status: str
    target: Target
    topic: str
    message_id: str
    offset_id: str
    queue_offset: int
    recall_handle: str | None

    def text(self) -> str:
        """SendResult.toString."""
        queue = f"MessageQueue [topic={self.topic}, brokerName={self.target.broker_name}, queueId={self.target.queue_id}]"
        return (
            f"SendResult [sendStatus={self.status}, msgId={self.message_id}, offsetMsgId={self.offset_id}, messageQueue={queue}, "
            f"queueOffset={self.queue_offset}, recallHandle={self.recall_handle or 'null'}]"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "sendStatus": self.status,
            "msgId": self.message_id,
            "offsetMsgId": self.offset_id,
            "topic": self.topic,
            "brokerName": self.target.broker_name,
            "queueId": self.target.queue_id,
            "queueOffset": self.queue_offset,
        }


def unique_id(time_ms: int) -> str:
    """16 bytes that nobody else makes (MessageClientIDSetter): process, random number, time within this month, counter."""
    month = datetime.fromtimestamp(time_ms // 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    in_month = (time_ms - int(month.timestamp() * 1000)) & 0xFFFFFFFF
    head = os.urandom(4) + (os.getpid() & 0xFFFF).to_bytes(2, "big") + os.urandom(4)
    return (head + in_month.to_bytes(4, "big") + (next(_numbers) & 0xFFFF).to_bytes(2, "big")).hex().upper()


def targets_of(route: TopicRoute) -> list[Target]:
    """All queues that accept messages, taking brokers in turn."""
    masters = {broker.broker_name: broker.broker_addrs.get(MASTER_ID) for broker in route.broker_datas}
    found = []
    for queues in sorted(route.queue_datas, key=lambda each: each.broker_name):
        address = masters.get(queues.broker_name)
        if queues.perm & PERM_WRITE and address:
            found += [Target(queues.broker_name, address, queue_id) for queue_id in route.writable_numbers(queues)]
    return sorted(found, key=lambda target: (target.queue_id, target.broker_name))


async def find_targets(session: Session, topic: str) -> list[Target]:
    """The queues of a topic. If the topic does not exist, those of the default topic, whose brokers then create it. Raises AdminError if
    there is nowhere to send to."""
    try:
        route = await session.route(topic)
    except AdminError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        try:
            route = await session.route(AUTO_CREATE_TOPIC)
        except AdminError:
            raise error from None
        queues = (replace(each, write_queue_nums=min(each.write_queue_nums, NEW_QUEUES)) for each in route.queue_datas)
        route = replace(route, queue_datas=tuple(queues))
    targets = targets_of(route)
    if not targets:
        remedy = "topicRoute shows its permission, which wipeWritePerm takes away, and whether its brokers have a master, brokerId 0"
        raise AdminError(f"no queue of {topic} takes messages", remedy=remedy)
    return targets


async def send(session: Session, message: Outgoing, group: str, target: Target | None = None) -> Sent:
    """Raises AdminError."""
    if target is None:
        target = (await find_targets(session, message.topic))[0]
    now = session.clock()
    properties = {**message.properties}
    properties.setdefault(UNIQUE_ID, unique_id(now))
    properties.setdefault("WAIT", "true")
    header = SendMessageRequestHeaderV2(
        a=group,
        b=message.topic,
        c=AUTO_CREATE_TOPIC,
        d=NEW_QUEUES,
        e=target.queue_id,
        f=0,
        g=now,
        h=message.flag,
        i="".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
        j=0,
        k=False,
        m=False,
        n=target.broker_name,
    )
    code = RequestCode.SEND_MESSAGE_V2
    response = await session.invoke(target.address, code, header, message.body)
    status = next((text for known, text in STATUSES.items() if known == response.code), None)
    if status is None:
        raise refused(target.address, code, response.code, response.remark)
    try:
        answer = SendMessageResponseHeader.decode(response.fields)
    except HeaderError as error:
        raise AdminError(str(error), address=target.address, request=code) from error
    stored = Target(target.broker_name, target.address, answer.queue_id)
    return Sent(status, stored, message.topic, properties[UNIQUE_ID], answer.msg_id, answer.queue_offset, answer.recall_handle)


async def send_message(session: Session, given: Given, out: Output) -> None:
    topic = given.text("t")
    if given.has("i") and not given.has("b"):
        raise UsageError("Broker name must be set if the queue is chosen!")
    properties = {name: given.text(key) for key, name in (("k", "KEYS"), ("c", "TAGS")) if given.has(key)}
    targets = await find_targets(session, topic)
    if given.has("b"):  # mqadmin goes by it only together with -i, and sends to any broker without
        at_broker = [target for target in targets if target.broker_name == given.text("b")]
        if not at_broker:
            names = ", ".join(sorted({target.broker_name for target in targets}))
            raise AdminError(f"{topic} takes no messages at broker {given.text('b')!r}", remedy=f"it does at {names}")
        targets = [replace(at_broker[0], queue_id=given.number("i", at_broker[0].queue_id, least=0))]
    sent = await send(session, Outgoing(topic, given.text("p").encode(), properties), group=str(session.clock()), target=targets[0])
    out.heading(SENT)
    out.row(SENT, sent.target.broker_name, sent.target.queue_id, sent.status, sent.message_id)


def _size(given: Given, key: str, default: int) -> int:
    size = given.number(key, default, least=0)
    if size > BODY_MAX:
        raise UsageError(f"messages of {size} bytes are more than any broker takes")
    return size


async def _timed(session: Session, message: Outgoing, group: str, target: Target) -> tuple[Sent | None, AdminError | None, int]:
    """The result of a send, and the milliseconds that it took."""
    begin = time.monotonic_ns()
    sent, fault = None, None
    session.try_again(target.address)  # what is timed is a send, whatever became of the one before
    try:
        sent = await send(session, message, group, target)
    except AdminError as error:
        fault = error
    return sent, fault, (time.monotonic_ns() - begin) // 1_000_000


def _cycle(targets: list[Target], count: int) -> Iterator[Target]:
    return itertools.islice(itertools.cycle(targets), count)


async def send_msg_status(session: Session, given: Given, out: Output) -> None:
    """Sends to the topic that has the broker's name. The first send is not shown."""
    topic, size, count = given.text("b"), _size(given, "s", 128), given.number("c", 50, least=0)
    body = b"hello jodie" * -(-size // 11)
    targets = await find_targets(session, topic)
    await send(session, Outgoing(topic, b"hello jodie" * 2), "PID_SMSC", targets[0])
    for target in _cycle(targets, count):
        sent, fault, elapsed = await _timed(session, Outgoing(topic, body), "PID_SMSC", target)
        if sent is None:
            raise fault or AdminError("not sent")
        out.line(f"rt={elapsed}ms, SendResult={sent.text()}")
        out.add("sends", {"rtMs": elapsed, **sent.to_json()})


async def check_msg_send_rt(session: Session, given: Given, out: Output) -> None:
    topic, count = given.text("t"), given.number("a", 100, least=1)
    message = Outgoing(topic, b"a" * _size(given, "s", 128))
    out.heading(TIMES)
    elapsed_all = 0
    for number, target in enumerate(_cycle(await find_targets(session, topic), count)):
        sent, fault, elapsed = await _timed(session, message, str(session.clock()), target)
        if fault is not None and len(session.troubles) < TROUBLES_MAX:
            session.troubles.append(fault)
        elapsed_all += elapsed if number else 0
        out.row(TIMES, target.broker_name, target.queue_id, Shown(sent is not None, "true" if sent is not None else "false"), elapsed)
    average = elapsed_all / (count - 1) if count > 1 else 0.0
    out.line(f"Avg RT: {average:.2f}")
    out.set(averageRtMs=round(average, 2))


async def cluster_rt(session: Session, given: Given, out: Output) -> None:
    """Measures until Ctrl-C. Every broker has a topic with its own name."""
    count, interval = given.number("a", 100, least=1), given.number("i", 10, least=1)
    as_log = given.truth("p")
    body = b"a" * _size(given, "s", 128)
    if not as_log:
        out.line(CLUSTER_TIMES.head % tuple(CLUSTER_TIMES.names))

    async def work(session: Session, given: Given, out: Output) -> None:
        cluster = await session.cluster()
        names = [given.text("c")] if given.has("c") else list(cluster.clusters)
        for name in names:
            for broker_name in cluster.names(name):
                done, failed, average = await measure_sends(session, Outgoing(broker_name, body), count)
                if as_log:
                    now = datetime.fromtimestamp(session.clock() // 1000, CHINA).strftime("%Y-%m-%d %H:%M:%S")
                    out.line(f"{now}|{given.text('m', 'noname')}|{name}|{broker_name}|{int(average + 0.5)}")
                else:
                    out.line(CLUSTER_TIMES.form % (name, broker_name, f"{average:.2f}", done, failed))
                values = (name, broker_name, round(average, 2), done, failed)
                out.add(CLUSTER_TIMES.member, dict(zip(CLUSTER_TIMES.names.values(), values, strict=True)))

    await every(session, given, out, work, interval)


async def measure_sends(session: Session, message: Outgoing, count: int) -> tuple[int, int, float]:
    """(sent, failed, milliseconds per send without the first)."""
    try:
        targets = await find_targets(session, message.topic)
    except AdminError as error:
        session.note(error)
        return 0, count, 0.0
    done, elapsed_all = 0, 0
    for number, target in enumerate(_cycle(targets, count)):
        sent, fault, elapsed = await _timed(session, message, str(session.clock()), target)
        if fault is not None and len(session.troubles) < TROUBLES_MAX:
            session.note(fault)
        done += sent is not None
        elapsed_all += elapsed if number else 0
    return done, count - done, elapsed_all / (count - 1) if count > 1 else 0.0
