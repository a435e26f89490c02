"""Which client of a group may consume a queue in order: one at a time, for as long as it renews.
RocketMQ: RebalanceLockManager (5.3.3 broker/client/rebalance/). Decisions only: requests and a clock in, granted queues out.

A lock lives for EXPIRES_MS after its last renewal; clients renew every 20 s. Bounds: LOCKS_MAX, then nothing new is granted but in the
place of what has expired; names of NAME_BYTES_MAX, client ids of CLIENT_BYTES_MAX. A request is a line or two in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .heartbeat import CLIENT_BYTES_MAX
from .names import NAME_BYTES_MAX, is_possible

log = logging.getLogger(__name__)

EXPIRES_MS = 60_000
"""rocketmq.broker.rebalance.lockMaxLiveTime"""

LOCKS_MAX = 1_000_000

FREE, OWN, EXPIRED, TAKEN = "not locked yet", "its own", "expired", "locked by another client"
NO_ROOM, IMPOSSIBLE = f"refused, {LOCKS_MAX} locks are held already", "refused, the names are too long"
_GRANTED = (FREE, OWN, EXPIRED)
_LEVELS = {
    FREE: logging.INFO,
    OWN: logging.DEBUG,
    EXPIRED: logging.WARNING,
    TAKEN: logging.DEBUG,
    NO_ROOM: logging.ERROR,
    IMPOSSIBLE: logging.WARNING,
}


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
        self._looks_for_room_ms = now_ms()

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """The queues the client now holds: free, expired and its own ones. None of names that cannot be, which would be kept here at any
        length."""
        if not is_possible(group) or len(client_id.encode()) > CLIENT_BYTES_MAX:
            return []
        now = self._now_ms()
        self._make_room(now)
        table = self._groups.setdefault(group, {})
        granted: list[MessageQueue] = []
        outcomes: dict[str, list[MessageQueue]] = {}
        for queue in dict.fromkeys(queues):
            outcome = self._lock_one(table, queue, client_id, now) if _is_possible(queue) else IMPOSSIBLE
            outcomes.setdefault(outcome, []).append(queue)
            if outcome in _GRANTED:
                granted.append(queue)
        if not table:
            del self._groups[group]
        for outcome, ones in outcomes.items():
            level = _LEVELS[outcome]
            log.log(
                level, "lock %d message queues for clientId=%s, group=%s, mq=%s first: %s", len(ones), client_id, group, ones[0], outcome
            )
        return granted

    def _lock_one(self, table: dict[MessageQueue, _Lock], queue: MessageQueue, client_id: str, now: int) -> str:
        held = table.get(queue)
        if held is None:
            if self._count >= LOCKS_MAX:
                return NO_ROOM
            table[queue] = _Lock(client_id, now)
            self._count += 1
            return FREE
        if held.client_id == client_id:
            held.renewed_ms = now
            return OWN
        if not self._is_expired(held, now):
            return TAKEN
        held.client_id, held.renewed_ms = client_id, now
        return EXPIRED

    def _make_room(self, now: int) -> None:
        """At the bound those that are not renewed give way; they are looked for now and then."""
        if self._count >= LOCKS_MAX and now >= self._looks_for_room_ms:
            self._looks_for_room_ms = now + self._expires_ms // 10
            self._forget(now, self._expires_ms)

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Gives back what the client holds; locks of others stay."""
        table = self._groups.get(group, {})
        ignored: list[MessageQueue] = []
        for queue in queues:
            held = table.get(queue)
            if held is None or held.client_id != client_id:
                ignored.append(queue)
                continue
            del table[queue]
            self._count -= 1
        if ignored:
            shown = (len(ignored), ignored[0], client_id, group)
            log.info("unlock of %d queues, %s first, by %s in group %s ignored: it does not hold the locks", *shown)
        if not table:
            self._groups.pop(group, None)

    def is_locked(self, group: str) -> bool:
        """Whether somebody consumes a queue of the group in order just now."""
        now = self._now_ms()
        return any(not self._is_expired(lock, now) for lock in self._groups.get(group, {}).values())

    def forget_expired(self) -> int:
        """Drops locks nobody renewed for ten times their life, which RocketMQ keeps for ever; returns how many."""
        return self._forget(self._now_ms(), 10 * self._expires_ms)

    def _forget(self, now: int, idle_ms: int) -> int:
        gone = 0
        for group in list(self._groups):
            table = self._groups[group]
            stale = [queue for queue, lock in table.items() if now - lock.renewed_ms > idle_ms]
            for queue in stale:
                del table[queue]
            gone += len(stale)
            if not table:
                del self._groups[group]
        self._count -= gone
        return gone

    def _is_expired(self, lock: _Lock, now_ms: int) -> bool:
        return now_ms - lock.renewed_ms > self._expires_ms


def _is_possible(queue: MessageQueue) -> bool:
    return is_possible(queue.topic) and len(queue.broker_name.encode()) <= NAME_BYTES_MAX
