"""Queues as keys of tables, {"brokerName": …, "queueId": …, "topic": …}, and what is asked about one.
RocketMQ: MessageQueue, MQAdminImpl (5.5.0).
"""

from __future__ import annotations

from typing import Any

from ..remoting.codes import RequestCode
from ..remoting.headers import GetMaxOffsetRequestHeader, GetMinOffsetRequestHeader, SearchOffsetRequestHeader
from ..remoting.json_codec import JsonError, ObjectKey, read_json
from .errors import AdminError
from .session import Session


def by_queue(table: Any) -> dict[Any, Any]:
    """A table whose keys are queues. RocketMQ writes those as objects, other servers as texts that contain an object. Raises AdminError."""
    if not isinstance(table, dict):
        return {}
    return {_queue(key): value for key, value in table.items()}


def _queue(key: Any) -> ObjectKey:
    try:
        members = dict(key) if isinstance(key, ObjectKey) else read_json(key)
        return ObjectKey.of(brokerName=str(members["brokerName"]), queueId=int(members["queueId"]), topic=str(members["topic"]))
    except (JsonError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise AdminError(f"{key!r} is not a queue") from error


def queue_of(topic: str, broker_name: str, queue_id: int) -> ObjectKey:
    return ObjectKey.of(brokerName=broker_name, queueId=queue_id, topic=topic)


def queue_key(queue: Any) -> tuple[str, str, int]:
    """The sort key of a queue (MessageQueue.compareTo)."""
    return str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"])


def queue_text(queue: Any) -> str:
    """MessageQueue.toString."""
    return f"MessageQueue [topic={queue['topic']}, brokerName={queue['brokerName']}, queueId={queue['queueId']}]"


async def min_offset(session: Session, address: str, topic: str, queue_id: int) -> int:
    header = GetMinOffsetRequestHeader(topic=topic, queue_id=queue_id)
    offset = offset_in(await session.call(address, RequestCode.GET_MIN_OFFSET, header), address, RequestCode.GET_MIN_OFFSET)
    return max(0, offset)  # -1 of a batch queue that has had no message


async def max_offset(session: Session, address: str, topic: str, queue_id: int) -> int:
    header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
    return offset_in(await session.call(address, RequestCode.GET_MAX_OFFSET, header), address, RequestCode.GET_MAX_OFFSET)


async def offset_at(session: Session, address: str, topic: str, queue_id: int, time_ms: int) -> int:
    """The offset of the first message stored at that time or later."""
    header = SearchOffsetRequestHeader(topic=topic, queue_id=queue_id, timestamp=time_ms)
    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    return offset_in(await session.call(address, code, header), address, code)


def offset_in(response: Any, address: str, code: int) -> int:
    try:
        return int(response.fields["offset"])
    except (KeyError, ValueError) as error:
        raise AdminError("the answer has no offset", address=address, request=code) from error
