"""Queue locks of a whole broker group (lockInStrictMode): a client holds a queue when most of the group's replicas have locked it for it,
so that two consumers do not read one queue in order, one by its master and one by the slave that stands in for it.
RocketMQ: AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ (5.3.3 broker/processor/).

Whoever is asked by a client asks the other members that name servers know; a member that does not answer has not agreed. What this broker
alone has granted stays locked here until it expires or is unlocked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.json_codec import read_json, write_fastjson
from .callers import GroupCaller
from .json_members import list_member
from .parts import queue_json, read_object, read_queue
from .rebalance_locks import MessageQueue

TIMEOUT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class LockRequest:
    """The body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    group: str
    client_id: str
    queues: Sequence[MessageQueue]
    only_this_broker: bool
    """Another member of the group asks: what it asks its others."""

    def for_member(self, queues: Iterable[MessageQueue]) -> bytes:
        mq_set: list[dict[str, Any]] = [queue_json(queue) for queue in queues]
        return write_fastjson({"clientId": self.client_id, "consumerGroup": self.group, "mqSet": mq_set, "onlyThisBroker": True})


async def lock_by_majority(
    client: GroupCaller, members: Iterable[str], request: LockRequest, own: Sequence[MessageQueue], majority: int
) -> list[MessageQueue]:
    """Of the queues that are locked here for the client, those that `majority` members, this broker included, have locked for it."""
    body = request.for_member(own)
    answers = await client.invoke_all(members, RequestCode.LOCK_BATCH_MQ, body=body, timeout_s=TIMEOUT_S)
    votes = Counter(queue for answer in answers.values() for queue in _granted(answer))
    return [queue for queue in own if 1 + votes[queue] >= majority]


async def unlock_in_group(client: GroupCaller, members: Iterable[str], request: LockRequest) -> None:
    """Unlocks the queues at the other members. One that does not answer keeps its locks until they expire."""
    await client.invoke_all(members, RequestCode.UNLOCK_BATCH_MQ, body=request.for_member(request.queues), timeout_s=TIMEOUT_S)


def _granted(answer: Command | RocketpyError) -> set[MessageQueue]:
    if isinstance(answer, RocketpyError) or answer.code != ResponseCode.SUCCESS:
        return set()
    try:
        return {read_queue(queue) for queue in list_member(read_object(read_json(answer.body)), "lockOKMQSet", "locks")}
    except (ValueError, TypeError, RecursionError):
        return set()
