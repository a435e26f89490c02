"""Who still has to be told the outcome of an election. Decides; the service sends.
RocketMQ: ControllerManager.NotifyService (5.3.3 controller/), which sends once and does not ask whether it arrived.

    post ─► waiting ─ take_due ─► under way ─ told ───────────────────────► done
               ▲                      └─ failed ─ broker lives, its newest ─┐
               └──────────────────── after RETRY_MS ◄───────────────────────┘

A newer notice replaces an older one, even one that is under way; a notice of an older epoch than the pending one is dropped.

Threads  one event loop. Bounds: one notice a broker, TRIES_MAX tries each; brokers are bounded by decisions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .broker_lives import BrokerIdentity, BrokerLives
from .decisions import RoleNotice

RETRY_MS = 1000
TRIES_MAX = 30


@dataclass(frozen=True, slots=True)
class Telling:
    """One notice on its way to one broker."""

    broker: BrokerIdentity
    address: str
    notice: RoleNotice


@dataclass(slots=True)
class _Pending:
    telling: Telling
    due_ms: int
    tries: int = 0
    is_under_way: bool = False


class RoleNotices:
    """The notices that brokers have not received yet. `clock`: monotonic milliseconds."""

    def __init__(self, lives: BrokerLives, clock: Callable[[], int]) -> None:
        self._lives = lives
        self._clock = clock
        self._pending: dict[BrokerIdentity, _Pending] = {}

    def post(self, notice: RoleNotice) -> None:
        """All live brokers of the set are to be told, at once."""
        for broker_id, address in notice.addresses.items():
            broker = BrokerIdentity(notice.cluster_name, notice.broker_name, broker_id)
            before = self._pending.get(broker)
            if before is not None and before.telling.notice.master_epoch > notice.master_epoch:
                continue
            if address and self._is_alive(broker):
                self._pending[broker] = _Pending(Telling(broker, address, notice), self._clock())

    def take_due(self, most: int) -> list[Telling]:
        """The notices that are due, at most `most` of them. Each is under way until told or failed."""
        now_ms = self._clock()
        due = [each for each in self._pending.values() if not each.is_under_way and each.due_ms <= now_ms][:most]
        for pending in due:
            pending.is_under_way = True
            pending.tries += 1
        return [pending.telling for pending in due]

    def told(self, telling: Telling) -> None:
        """The broker has answered."""
        pending = self._pending.get(telling.broker)
        if pending is not None and pending.telling is telling:
            del self._pending[telling.broker]

    def failed(self, telling: Telling) -> bool:
        """The broker could not be told. False if that was the last attempt."""
        pending = self._pending.get(telling.broker)
        if pending is None or pending.telling is not telling:
            return True
        if pending.tries >= TRIES_MAX or not self._is_alive(telling.broker):
            del self._pending[telling.broker]
            return False
        pending.is_under_way = False
        pending.due_ms = self._clock() + RETRY_MS
        return True

    def clear(self) -> None:
        """Drops all notices, because another controller leads."""
        self._pending.clear()

    def wait_ms(self) -> int | None:
        """How long until the next notice is due; None if there is none."""
        due = [pending.due_ms for pending in self._pending.values() if not pending.is_under_way]
        return max(min(due) - self._clock(), 0) if due else None

    def _is_alive(self, broker: BrokerIdentity) -> bool:
        return self._lives.life(broker.cluster_name, broker.broker_name, broker.broker_id) is not None
