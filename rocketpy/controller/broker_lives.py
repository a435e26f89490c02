"""Which brokers live, by their heartbeats, and how far their logs go.
RocketMQ: DefaultBrokerHeartbeatManager, BrokerLiveInfo (5.3.3 controller/impl/heartbeat/).

    heartbeat ──────────────► lives; on a new connection all its values are taken, on the same one the log never gets shorter
    silence > its time-out ─► gone
    connection closed ──────► gone, if its last heartbeat came on that one

Every controller gets the heartbeats of every broker, so that a new leader knows them; these tables are not replicated. When a broker
reconnects, its new connection counts; RocketMQ remembers only the first one, and does not notice when a later one closes.

Threads  one event loop. Bounds: LIVES_MAX brokers, TIMEOUT_MAX_MS; whoever has gone is remembered until LIVES_MAX others have.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..remoting.headers import BrokerHeartbeatRequestHeader

LIVES_MAX = 20_000
DEFAULT_TIMEOUT_MS = 10_000
TIMEOUT_MAX_MS = 3_600_000
PRIORITY_LEAST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """One broker of a broker set."""

    cluster_name: str
    broker_name: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerLife:
    """What a broker's last heartbeats said."""

    heard_ms: int
    timeout_ms: int
    connection_id: int
    epoch: int
    max_offset: int
    confirm_offset: int
    election_priority: int

    @property
    def reach(self) -> tuple[int, int]:
        """How far the broker's log goes."""
        return self.epoch, self.max_offset

    def lives_at(self, now_ms: int) -> bool:
        return self.heard_ms + self.timeout_ms >= now_ms


class BrokerLives:
    """The brokers that this controller hears. `clock`: monotonic milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lives: dict[BrokerIdentity, BrokerLife] = {}
        self._gone: OrderedDict[BrokerIdentity, None] = OrderedDict()

    def hear(self, header: BrokerHeartbeatRequestHeader, connection_id: int) -> bool:
        """Takes a heartbeat with a broker id. False if there is no room for another broker."""
        assert header.broker_id is not None
        identity = BrokerIdentity(header.cluster_name, header.broker_name, header.broker_id)
        before = self._lives.get(identity)
        if before is None and len(self._lives) >= LIVES_MAX:
            return False
        life = _life(header, connection_id, self._clock())
        if before is not None and before.connection_id == connection_id and before.reach > life.reach:
            life = replace(life, epoch=before.epoch, max_offset=before.max_offset, confirm_offset=before.confirm_offset)
        self._lives[identity] = life
        self._gone.pop(identity, None)
        return True

    def life(self, cluster_name: str, broker_name: str, broker_id: int) -> BrokerLife | None:
        """What is known about a live broker; None for any other."""
        found = self._lives.get(BrokerIdentity(cluster_name, broker_name, broker_id))
        return found if found is not None and found.lives_at(self._clock()) else None

    def has_gone(self, identity: BrokerIdentity) -> bool:
        """Whether a broker was heard here once and is down now; False for one that has not been heard yet."""
        found = self._lives.get(identity)
        return identity in self._gone or (found is not None and not found.lives_at(self._clock()))

    def connection_closed(self, connection_id: int) -> list[BrokerIdentity]:
        """The brokers that leave with a connection."""
        gone = [identity for identity, life in self._lives.items() if life.connection_id == connection_id]
        for identity in gone:
            self._forget(identity)
        return gone

    def expire(self) -> list[tuple[BrokerIdentity, int]]:
        """The brokers that were silent for too long, each with its connection."""
        now_ms = self._clock()
        gone = [(identity, life.connection_id) for identity, life in self._lives.items() if not life.lives_at(now_ms)]
        for identity, _ in gone:
            self._forget(identity)
        return gone

    def forget_gone(self) -> None:
        """For a controller that begins to lead: brokers that are down now count as not heard yet. Live ones stay alive."""
        self.expire()
        self._gone.clear()

    def active_counts(self) -> dict[tuple[str, str], int]:
        """The number of live brokers, by cluster and broker set."""
        counts: dict[tuple[str, str], int] = {}
        now_ms = self._clock()
        for identity, life in self._lives.items():
            if life.lives_at(now_ms):
                key = (identity.cluster_name, identity.broker_name)
                counts[key] = counts.get(key, 0) + 1
        return counts

    def _forget(self, identity: BrokerIdentity) -> None:
        del self._lives[identity]
        self._gone[identity] = None
        if len(self._gone) > LIVES_MAX:
            self._gone.popitem(last=False)


def _life(header: BrokerHeartbeatRequestHeader, connection_id: int, now_ms: int) -> BrokerLife:
    timeout_ms = DEFAULT_TIMEOUT_MS if header.heartbeat_timeout_mills is None else header.heartbeat_timeout_mills
    return BrokerLife(
        heard_ms=now_ms,
        timeout_ms=min(max(timeout_ms, 0), TIMEOUT_MAX_MS),
        connection_id=connection_id,
        epoch=_or_none(header.epoch),
        max_offset=_or_none(header.max_offset),
        confirm_offset=_or_none(header.confirm_offset),
        election_priority=PRIORITY_LEAST if header.election_priority is None else header.election_priority,
    )


def _or_none(value: int | None) -> int:
    """The value, or -1, by which RocketMQ says that there is none."""
    return -1 if value is None else value
