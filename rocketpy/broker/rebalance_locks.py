"""Which client of a group may consume a queue in order: one at a time, for as long as it renews.
RocketMQ: RebalanceLockManager (5.3.3 broker/client/rebalance/). Decisions only: requests and a clock in, granted queues out.

A lock lives for EXPIRES_MS after its last renewal; clients renew every 20 s. Bounds: LOCKS_MAX, after which a new lock is granted only in
the place of an expired one; names of NAME_BYTES_MAX, client ids of CLIENT_BYTES_MAX. A request is a line or two in the log, with names of
SHOWN_MAX.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from .names import NAME_BYTES_MAX, is_possible, is_possible_client

log = logging.getLogger(__name__)

EXPIRES_MS = 60_000
"""rocketmq.broker.rebalance.lockMaxLiveTime"""

LOCKS_MAX = 1_000_000
SHOWN_MAX: Final = 255


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """What comes of asking for a queue: as the log tells it, at which level, and whether it is granted. There is one of each: a key by what
    it is, not by what it holds."""

    text: str
    level: int
    is_granted: bool


FREE: Final = Outcome("not locked yet", logging.INFO, True)
OWN: Final = Outcome("its own", logging.DEBUG, True)
EXPIRED: Final = Outcome("expired", logging.WARNING, True)
TAKEN: Final = Outcome("locked by another client", logging.DEBUG, False)
NO_ROOM: Final = Outcome(f"refused, {LOCKS_MAX} locks are held already", logging.ERROR, False)
IMPOSSIBLE: Final = Outcome("refused, the names are empty or too long", logging.WARNING, False)


class MessageQueue(NamedTuple):
    """A queue of a topic on a broker. Sorts as in RocketMQ."""

    topic: str
    broker_name: str
    queue_id: int


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class RebalanceLocks:
    """The queue locks of all groups. `now_ms` is a monotonic clock."""

    def __init__(
        self, now_ms: Callable[[], int], expires_ms: int = EXPIRES_MS, *, on_granted: Callable[[str], None] = lambda group: None
    ) -> None:
        """on_granted is called with a group when one of its queues is locked, or such a lock renewed."""
        self._now_ms = now_ms
        self._expires_ms = expires_ms
        self._on_granted = on_granted
        self._locks: OrderedDict[tuple[str, MessageQueue], _Lock] = OrderedDict()
        """By group and queue; the lock that was renewed last is last, so that expired ones are found at the front."""
        self._groups: dict[str, set[MessageQueue]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Locks the queues that are free, expired, or the client's own already. Returns the queues that the client now holds. Impossible
        names are not locked: they could be of any length."""
        now = self._now_ms()
        outcomes: dict[Outcome, list[MessageQueue]] = {}
        granted: list[MessageQueue] = []
        can_be_held = is_possible(group) and is_possible_client(client_id)
        for queue in dict.fromkeys(queues):
            outcome = self._lock_one(group, queue, client_id, now) if can_be_held else IMPOSSIBLE
            outcomes.setdefault(outcome, []).append(queue)
            if outcome.is_granted:
                granted.append(queue)
        for outcome, ones in outcomes.items():
            if log.isEnabledFor(outcome.level):
                shown = (len(ones), client_id[:SHOWN_MAX], group[:SHOWN_MAX], _shown(ones[0]), outcome.text)
                log.log(outcome.level, "lock %d message queues for clientId=%s, group=%s, mq=%s first: %s", *shown)
        if granted:
            self._on_granted(group)
        return granted

    def _lock_one(self, group: str, queue: MessageQueue, client_id: str, now: int) -> Outcome:
        key = (group, queue)
        held = self._locks.get(key)
        if held is None:
            if not _is_possible(queue):
                return IMPOSSIBLE
            if len(self._locks) >= LOCKS_MAX and not self._forget_oldest(now, self._expires_ms):
                return NO_ROOM
            self._locks[key] = _Lock(client_id, now)
            self._groups.setdefault(group, set()).add(queue)
            return FREE
        outcome = OWN
        if held.client_id != client_id:
            if not self._is_expired(held, now):
                return TAKEN
            outcome = EXPIRED
        held.client_id, held.renewed_ms = client_id, now
        self._locks.move_to_end(key)
        return outcome

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Gives back what the client holds. The locks of other clients stay."""
        ignored: list[MessageQueue] = []
        for queue in queues:
            held = self._locks.get((group, queue))
            if held is None or held.client_id != client_id:
                ignored.append(queue)
                continue
            self._drop(group, queue)
        if ignored:
            shown = (len(ignored), _shown(ignored[0]), client_id[:SHOWN_MAX], group[:SHOWN_MAX])
            log.info("unlock of %d queues, %s first, by %s in group %s ignored: it does not hold the locks", *shown)

    def is_locked(self, group: str) -> bool:
        """Whether somebody consumes a queue of the group in order just now."""
        now = self._now_ms()
        return any(not self._is_expired(self._locks[group, queue], now) for queue in self._groups.get(group, ()))

    def forget_expired(self) -> int:
        """Drops locks that nobody has renewed for ten times their lifetime, which RocketMQ keeps for ever. Returns how many."""
        now, gone = self._now_ms(), 0
        while self._forget_oldest(now, 10 * self._expires_ms):
            gone += 1
        return gone

    def _forget_oldest(self, now: int, idle_ms: int) -> bool:
        """Unless it was renewed within idle_ms."""
        key = next(iter(self._locks), None)
        if key is None or now - self._locks[key].renewed_ms <= idle_ms:
            return False
        self._drop(*key)
        return True

    def _drop(self, group: str, queue: MessageQueue) -> None:
        del self._locks[group, queue]
        table = self._groups[group]
        table.discard(queue)
        if not table:
            del self._groups[group]

    def _is_expired(self, lock: _Lock, now_ms: int) -> bool:
        return now_ms - lock.renewed_ms > self._expires_ms


def _is_possible(queue: MessageQueue) -> bool:
    return is_possible(queue.topic) and len(queue.broker_name.encode()) <= NAME_BYTES_MAX


def _shown(queue: MessageQueue) -> MessageQueue:
    return MessageQueue(queue.topic[:SHOWN_MAX], queue.broker_name[:SHOWN_MAX], queue.queue_id)
