"""Which client of a group may consume a queue in order: one at a time, for as long as it renews.
RocketMQ: RebalanceLockManager (5.3.3 broker/client/rebalance/). Decisions only: requests and a clock in, granted queues out.

A lock lives for EXPIRES_MS after its last renewal; clients renew every 20 s. Bounds: LOCKS_MAX, then nothing new is granted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

log = logging.getLogger(__name__)

EXPIRES_MS = 60_000
"""rocketmq.broker.rebalance.lockMaxLiveTime"""

LOCKS_MAX = 1_000_000


class MessageQueue(NamedTuple):
    """A queue of a topic on a broker, in the order in which RocketMQ sorts them."""

    topic: str
    broker_name: str
    queue_id: int


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class RebalanceLocks:
    """The queue locks of all groups. `now_ms` is monotonic."""

    def __init__(self, now_ms: Callable[[], int], expires_ms: int = EXPIRES_MS) -> None:
        self._now_ms = now_ms
        self._expires_ms = expires_ms
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """The queues the client now holds: free, expired and its own ones."""
        now = self._now_ms()
        table = self._groups.setdefault(group, {})
        granted: list[MessageQueue] = []
        for queue in dict.fromkeys(queues):
            held = table.get(queue)
            if held is None:
                if self._count >= LOCKS_MAX:
                    log.error("queue lock of group %s refused: %d locks are held already", group, self._count)
                    continue
                table[queue] = _Lock(client_id, now)
                self._count += 1
                log.info("lock a message queue which has not been locked yet, group=%s, clientId=%s, mq=%s", group, client_id, queue)
            elif held.client_id == client_id:
                held.renewed_ms = now
            elif self._is_expired(held, now):
                log.warning(
                    "lock an expired message queue, group=%s, mq=%s, old client id=%s, new client id=%s",
                    group,
                    queue,
                    held.client_id,
                    client_id,
                )
                held.client_id, held.renewed_ms = client_id, now
            else:
                log.debug("message queue has been locked by other client, group=%s, mq=%s, locked by %s", group, queue, held.client_id)
                continue
            granted.append(queue)
        if not table:
            del self._groups[group]
        return granted

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Gives back what the client holds; locks of others stay."""
        table = self._groups.get(group, {})
        for queue in queues:
            held = table.get(queue)
            if held is None or held.client_id != client_id:
                log.info("unlock of %s by %s in group %s ignored: it does not hold the lock", queue, client_id, group)
                continue
            del table[queue]
            self._count -= 1
        if not table:
            self._groups.pop(group, None)

    def is_locked(self, group: str) -> bool:
        """Whether somebody consumes a queue of the group in order just now."""
        now = self._now_ms()
        return any(not self._is_expired(lock, now) for lock in self._groups.get(group, {}).values())

    def forget_expired(self) -> int:
        """Drops locks nobody renewed for ten times their life, which RocketMQ keeps for ever; returns how many."""
        now = self._now_ms()
        gone = 0
        for group in list(self._groups):
            table = self._groups[group]
            stale = [queue for queue, lock in table.items() if now - lock.renewed_ms > 10 * self._expires_ms]
            for queue in stale:
                del table[queue]
            gone += len(stale)
            if not table:
                del self._groups[group]
        self._count -= gone
        return gone

    def _is_expired(self, lock: _Lock, now_ms: int) -> bool:
        return now_ms - lock.renewed_ms > self._expires_ms
