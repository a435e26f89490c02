"""Queues of static topics as clients name them, with offsets as clients count them; both are worked out from the brokers' queues.
RocketMQ: ClientMetadata, MQAdminUtils.convertPhysical… (5.5.0).

RocketMQ's tool shows the end of a global queue in global offsets, but a group's position in offsets of the broker's queue. Once a queue has
moved, their difference means nothing. Here both are global.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..remoting.bodies import PERM_READ
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import GetTopicConfigRequestHeader
from ..remoting.json_codec import read_json
from ..remoting.queue_mapping import (
    SCOPE_GLOBAL,
    Items,
    MappingFault,
    QueueMapping,
    StaticTopic,
    find_item,
    led_queues,
    mock_broker_name,
)
from ..remoting.route import MASTER_ID, TopicRoute
from .errors import AdminError, refused
from .queues import queue_of
from .session import Session

LONG_MAX = (1 << 63) - 1
Rows = dict[Any, dict[str, Any]]
"""By queue, as brokers answer them."""
Led = Mapping[int, tuple[QueueMapping, Items]]


def readable_queues(route: TopicRoute) -> list[tuple[str, int, str]]:
    """(the broker name that clients use, queue number, the broker to ask) of each readable queue, in order."""
    return sorted(
        (_named_broker(route, queues.broker_name), number, queues.broker_name)
        for queues in route.queue_datas
        if queues.perm & PERM_READ
        for number in route.readable_numbers(queues)
    )


def _named_broker(route: TopicRoute, broker_name: str) -> str:
    mapping = (route.queue_mappings or {}).get(broker_name)
    return broker_name if mapping is None else mock_broker_name(str(mapping.get("scope") or SCOPE_GLOBAL))


async def topic_at(session: Session, address: str, topic: str) -> StaticTopic | None:
    """The topic at a broker; None if it has no such topic. Raises AdminError."""
    code = RequestCode.GET_TOPIC_CONFIG
    answer = await session.invoke(address, code, GetTopicConfigRequestHeader(topic=topic, lo=True))
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    if answer.code != ResponseCode.SUCCESS:
        raise refused(address, code, answer.code, answer.remark)
    try:
        return StaticTopic.from_json(read_json(answer.body))
    except ValueError as error:
        raise AdminError(f"the answer cannot be read: {error}", address=address, request=code) from error


async def led_by_route(session: Session, topic: str, route: TopicRoute) -> Led:
    """The global queues of a topic; empty for a plain one. Raises AdminError."""
    if not route.queue_mappings:
        return {}
    addresses = [broker.broker_addrs[MASTER_ID] for broker in route.broker_datas if MASTER_ID in broker.broker_addrs]
    known = [await topic_at(session, address, topic) for address in addresses]
    try:
        return led_queues([each.mapping for each in known if each is not None and each.mapping is not None], newest=True)
    except MappingFault as error:
        raise AdminError(f"the queue mappings of topic {topic}: {error}") from error


def global_bounds(led: Led, rows: Rows) -> Rows:
    """The first and last offsets of global queues."""
    found: Rows = {}
    for global_id, (mapping, items) in led.items():
        first, last = find_item(items, 0), find_item(items, LONG_MAX)
        if first is None or last is None:
            continue
        low = rows.get(queue_of(mapping.topic, first.broker_name, first.queue_id))
        high = rows.get(queue_of(mapping.topic, last.broker_name, last.queue_id))
        if low is not None and high is not None:
            found[queue_of(mapping.topic, mock_broker_name(mapping.scope), global_id)] = {
                "minOffset": max(0, first.global_offset_within(int(low.get("minOffset") or 0))),
                "maxOffset": max(0, last.global_offset(int(high.get("maxOffset") or 0))),
                "lastUpdateTimestamp": high.get("lastUpdateTimestamp"),
            }
    return found


def global_progress(led: Led, rows: Rows) -> Rows:
    """A group's offset in each queue, in the latest piece that it has reached; queues that it has not reached are left out."""
    found: Rows = {}
    for global_id, (mapping, items) in led.items():
        pieces = [(item, rows.get(queue_of(mapping.topic, item.broker_name, item.queue_id))) for item in reversed(items)]
        there = [(item, row) for item, row in pieces if row is not None and item.logic_offset >= 0]
        read = next(((item, row) for item, row in there if int(row.get("consumerOffset") or 0) >= 0), None)
        if read is None:
            continue
        (last, end), (item, at) = there[0], read
        consumed = int(at.get("consumerOffset") or 0)
        found[queue_of(mapping.topic, mock_broker_name(mapping.scope), global_id)] = {
            "brokerOffset": last.global_offset(int(end.get("brokerOffset") or 0)),
            "consumerOffset": item.global_offset(consumed),
            "pullOffset": item.global_offset(max(consumed, int(at.get("pullOffset") or 0))),
            "lastTimestamp": at.get("lastTimestamp"),
        }
    return found
