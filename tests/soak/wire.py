"""Requests of the load: sends of every kind, pulls, and what comes back. A broker that is being restarted is not a fault of theirs."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from rocketpy._core.errors import NetworkError, TimedOut
from rocketpy._core.remoting import Command
from rocketpy._core.store import Message, decode_message
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S

from .course import Course

BORN_MS = "1700000000000"
LATER = {
    ResponseCode.SYSTEM_BUSY, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY,
}  # fmt: skip
"""How a send may be refused while a slave or the broker comes back: stored perhaps, promised not."""
SYS_FLAG_COMMIT, SYS_FLAG_SUSPEND, SYS_FLAG_SUBSCRIPTION = 1, 2, 4


async def ask(
    course: Course, client: RemotingClient, address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
) -> Command | None:
    """The answer; None when the server went away meanwhile, as it may in a restart only."""
    restarts = course.restarts
    try:
        return await client.invoke(address, code, fields, body, timeout_s=PATIENCE_S)
    except (NetworkError, TimedOut, OSError) as error:
        assert course.may_fail(restarts), f"{RequestCode(code).name} at {course.elapsed_s:.1f} s: {error}"
        course.done["requests that met a restart"] += 1
        return None


def properties_of(keys: str, tag: str) -> str:
    return f"KEYS\x01{keys}\x02TAGS\x01{tag}\x02"


def send_fields(topic: str, queue_id: int, properties: str, *, code: int = RequestCode.SEND_MESSAGE_V2) -> dict[str, str]:
    """Of SEND_MESSAGE, SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE."""
    if code == RequestCode.SEND_MESSAGE:
        return {
            "producerGroup": "soak-producer", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
            "queueId": str(queue_id), "sysFlag": "0", "bornTimestamp": BORN_MS, "flag": "0", "properties": properties,
            "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
        }  # fmt: skip
    return {
        "a": "soak-producer", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": BORN_MS, "h": "0", "i": properties,
        "j": "0", "k": "false", "m": str(code == RequestCode.SEND_BATCH_MESSAGE).lower(),
    }  # fmt: skip


def batch_body(messages: Sequence[tuple[bytes, str]]) -> bytes:
    """Bodies and properties as MessageDecoder.encodeMessages has them."""
    parts = []
    for body, properties in messages:
        text = properties.encode()
        size = 22 + len(body) + len(text)
        parts.append(struct.pack(">IIIII", size, 0, 0, 0, len(body)) + body + struct.pack(">H", len(text)) + text)
    return b"".join(parts)


def pull_fields(
    group: str, topic: str, queue_id: int, offset: int, *, tags: str = "*", commit: int | None = None, suspend_ms: int = 0, count: int = 32
) -> dict[str, str]:
    flag = SYS_FLAG_SUBSCRIPTION | (SYS_FLAG_SUSPEND if suspend_ms else 0) | (SYS_FLAG_COMMIT if commit is not None else 0)
    return {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset), "maxMsgNums": str(count),
        "sysFlag": str(flag), "commitOffset": str(commit or 0), "suspendTimeoutMillis": str(suspend_ms), "subscription": tags,
        "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip


def messages_of(answer: Command) -> Iterator[Message]:
    body, position = memoryview(answer.body), 0
    while position < len(body):
        size = int.from_bytes(body[position : position + 4], "big")
        yield decode_message(body[position : position + size])
        position += size


async def queue_bound(course: Course, client: RemotingClient, address: str, code: int, topic: str, queue_id: int) -> int | None:
    """GET_MIN_OFFSET or GET_MAX_OFFSET."""
    answer = await ask(course, client, address, code, {"topic": topic, "queueId": str(queue_id)})
    if answer is None:
        return None
    assert answer.code == 0, f"{RequestCode(code).name} of {topic} {queue_id}: {answer.code} {answer.remark}"
    return int(answer.fields["offset"])
