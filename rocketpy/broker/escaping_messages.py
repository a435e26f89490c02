"""The requests by which a slave that stands in for its master sends messages to other masters, and to which of them.
RocketMQ: EscapeBridge, TransactionalMessageUtil (5.3.3 broker/failover/, broker/transaction/).

    delivered     a message that is due: sent to its topic as it was sent at first, without the properties that would make it wait again
    rolled        one that waits for longer than the wheel reaches: sent to its topic with the time that it is due
    prepared      one of a transaction: sent to its topic as prepared; the other master asks its producer
    checkpoint    of what was popped, or its ack: sent as it is to the other master's revive topic

As long as the same masters have a topic, each of its queues goes to one queue of one of them, so messages stay in order.

Threads  none: decisions only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .._core.results import Message
from ..remoting.headers import SendMessageRequestHeader
from ..remoting.route import MASTER_ID, TopicRoute
from . import names

DEFAULT_TOPIC: Final = "TBW102"
DEFAULT_QUEUES: Final = 8
PREPARED: Final = 0x4
NOT_SENT: Final = 0x10 | 0x20 | 0xC
"""Of sysFlag: how long the record's hosts are, and a kind of transaction."""

PUT_BY_BROKERS: Final = frozenset(("MSG_REGION", "TRACE_ON", "CLUSTER", "__CRC32#"))
WAITING: Final = frozenset(("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"))
IN_WHEEL: Final = frozenset(("REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES"))
OF_CHECKS: Final = frozenset(("REAL_TOPIC", "REAL_QID", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"))


@dataclass(frozen=True, slots=True)
class Place:
    """The queue that a message was sent to."""

    topic: str
    queue_id: int


def place_of(message: Message) -> Place | None:
    """Where it goes; None: its properties name no queue."""
    if message.topic not in (names.TIMER_TOPIC, names.TRANS_HALF_TOPIC):
        return Place(message.topic, message.queue_id)
    topic, queue_id = message.properties.get("REAL_TOPIC", ""), message.properties.get("REAL_QID", "")
    if not names.is_possible(topic) or not (queue_id.isascii() and queue_id.isdigit() and len(queue_id) <= 6):
        return None
    return Place(topic, int(queue_id))


def is_of_pop(topic: str) -> bool:
    """Whether checkpoints and acks lie in it."""
    return topic.startswith(names.REVIVE_TOPIC_PREFIX)


def request_of(message: Message, place: Place, queue_id: int, broker_name: str, own_group: str) -> SendMessageRequestHeader:
    """The header of the send; its body is the message's. queue_id: at the broker of that name; own_group: the producer group of a message
    that names none."""
    properties, sys_flag = _properties(message), message.sys_flag & ~NOT_SENT
    if message.topic == names.TRANS_HALF_TOPIC:
        sys_flag |= PREPARED
    return SendMessageRequestHeader(
        producer_group=message.properties.get("PGROUP") or own_group,
        topic=place.topic,
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_nums=DEFAULT_QUEUES,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=message.born_timestamp_ms,
        flag=message.flag,
        properties="".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
        reconsume_times=message.reconsume_times,
        unit_mode=False,
        batch=False,
        bname=broker_name,
    )


def _properties(message: Message) -> Mapping[str, str]:
    sent = {name: value for name, value in message.properties.items() if name not in PUT_BY_BROKERS}
    if is_of_pop(message.topic):
        return sent
    if message.topic == names.TRANS_HALF_TOPIC:
        return {**_without(sent, OF_CHECKS), "TRAN_MSG": "true"}
    if message.topic == names.TIMER_TOPIC:
        return {**_without(sent, IN_WHEEL | WAITING), "TIMER_DELIVER_MS": sent.get("TIMER_OUT_MS", "0")}
    return _without(sent, WAITING | {"TRAN_MSG"})


def _without(properties: Mapping[str, str], left_out: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in left_out}


# ---- to whom ----


@dataclass(frozen=True, slots=True)
class Master:
    """Another master that takes messages of a topic. queues: the numbers of its queues that can be written."""

    broker_name: str
    address: str
    queues: Sequence[int]


def other_masters(route: TopicRoute, own_name: str) -> tuple[Master, ...]:
    """By name: everybody who asks gets the same order."""
    addresses = {broker.broker_name: broker.broker_addrs.get(MASTER_ID) for broker in route.broker_datas}
    return tuple(
        Master(queues.broker_name, address, numbers)
        for queues in sorted(route.queue_datas, key=lambda queues: queues.broker_name)
        if queues.broker_name != own_name
        and queues.perm & names.PERM_WRITE
        and (numbers := route.writable_numbers(queues))
        and (address := addresses.get(queues.broker_name))
    )


def choose(masters: tuple[Master, ...], place: Place, failing: Collection[str]) -> tuple[Master, int] | None:
    """A master and its queue. failing: addresses that are passed over, unless all of them fail."""
    able = [master for master in masters if master.address not in failing] or list(masters)
    if not able:
        return None
    master = able[(zlib.crc32(place.topic.encode("utf-8", "surrogateescape")) + place.queue_id) % len(able)]
    return master, master.queues[place.queue_id % len(master.queues)]


def topics_to_ask(topic: str, popped: Collection[str]) -> Iterator[str]:
    """The topics whose routes are asked for, in turn, until one of them has other masters. popped: what popped_topics returns for the
    topic. A POP retry topic is read only by brokers that have one of those; any other topic may be made by a broker that makes topics."""
    yield topic
    yield from popped
    if not popped:
        yield DEFAULT_TOPIC


def popped_topics(topic: str, is_group: Callable[[str], bool], is_topic: Callable[[str], bool]) -> list[str]:
    """The topics whose popped messages come back by this retry topic. There may be several: the older spelling does not say where the
    group's name ends."""
    if not topic.startswith(names.RETRY_PREFIX):
        return []
    name = topic.removeprefix(names.RETRY_PREFIX)
    splits = ((name[:at], name[at + 1 :]) for at, character in enumerate(name) if character in "+_")
    return [popped for group, popped in splits if is_group(group) and is_topic(popped)]
