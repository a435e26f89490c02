"""How far a broker has got with its controller, and the role that has given it: decisions, with the clock passed in.
RocketMQ: ReplicasManager.State, .RegisterState (5.3.3 broker/controller/).

    LEADERLESS ─ leader ─► NAMELESS ─ id offered ─► APPLYING ─ id given ─► NAMED ─ registered ─► MASTERLESS ─ a master ─► RUNNING
                              ▲                        │ somebody else has it              ▲            │                    │
                              └────────────────────────┘                                   └── unknown ─┴────────────────────┘

`due` says which requests are due now; each answer is passed in, and decides what is due next. Epochs of masters only grow: an answer with
an older epoch than a previous one changes nothing, whoever gave it. One request of each kind is under way at a time; a failed one is due
again after a second.

Threads  none: decisions only. Times in ms of one monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from ..remoting.replica_bodies import SyncStateSet
from .controller_calls import ReplicaInfo

HINT_MS: Final = 100
"""Hints come from anybody: they make nobody ask more often than this."""
RETRY_MS: Final = 1000
"""RocketMQ: five tries within a second each, then a pause of five seconds."""


class Standing(Enum):
    """How far the controller and this broker know each other."""

    LEADERLESS = auto()
    NAMELESS = auto()
    APPLYING = auto()
    NAMED = auto()
    MASTERLESS = auto()
    RUNNING = auto()


class Ask(Enum):
    """Requests to the controllers."""

    LEADER = auto()
    BROKER_ID = auto()
    APPLY = auto()
    REGISTER = auto()
    ELECT = auto()
    REPLICA_INFO = auto()
    BEAT = auto()


@dataclass(frozen=True, slots=True)
class ReplicaPeriods:
    """How often each request is sent, in ms."""

    leader_ms: int = 10_000
    info_ms: int = 5000
    beat_ms: int = 1000


@dataclass(frozen=True, slots=True)
class Role:
    """The master of the replicas from an epoch on, and their in-sync set."""

    master_id: int
    master_address: str
    epoch: int
    is_master: bool
    """Whether it is this broker."""
    sync_state_set: SyncStateSet = field(default_factory=SyncStateSet)


_NEXT: Final = {
    Standing.NAMELESS: Ask.BROKER_ID,
    Standing.APPLYING: Ask.APPLY,
    Standing.NAMED: Ask.REGISTER,
    Standing.MASTERLESS: Ask.ELECT,
}


class ReplicaState:
    """What one broker knows about its controllers. `due` says what to ask; then one of the other methods takes the answer."""

    def __init__(
        self, periods: ReplicaPeriods, broker_id: int | None = None, offered_id: int | None = None, *, is_learner: bool = False
    ) -> None:
        """broker_id: given by a controller earlier. offered_id: asked for earlier, but the answer is not known. is_learner: asks for no
        election, and waits until there is a master."""
        self._periods = periods
        self._next: Final = {**_NEXT, Standing.MASTERLESS: Ask.REPLICA_INFO} if is_learner else _NEXT
        self.leader: str | None = None
        self.broker_id = broker_id
        self.offered_id = offered_id
        self.role: Role | None = None
        self._is_registered = False
        self._lacks_master = True
        self._asking: set[Ask] = set()
        self._hinted: set[Ask] = set()
        self._at: dict[Ask, int] = {}

    @property
    def standing(self) -> Standing:
        if self.leader is None:
            return Standing.LEADERLESS
        if self.broker_id is None:
            return Standing.NAMELESS if self.offered_id is None else Standing.APPLYING
        if not self._is_registered:
            return Standing.NAMED
        return Standing.MASTERLESS if self._lacks_master else Standing.RUNNING

    # ---- what to do ----

    def due(self, now_ms: int) -> list[Ask]:
        """The requests to send now. Each is under way until `over`."""
        due = [ask for ask in self._wanted() if ask not in self._asking and self._at.get(ask, now_ms) <= now_ms]
        self._asking.update(due)
        return due

    def next_ms(self, now_ms: int) -> int:
        """For how long nothing is due, unless something happens."""
        times = [self._at.get(ask, now_ms) - now_ms for ask in self._wanted() if ask not in self._asking]
        return max(0, min(times, default=RETRY_MS))

    def _wanted(self) -> list[Ask]:
        wanted = [Ask.LEADER]
        standing = self.standing
        if standing in self._next:
            wanted.append(self._next[standing])
        if self.broker_id is not None and self._is_registered:
            wanted.append(Ask.BEAT)
        if standing is Standing.RUNNING:
            wanted.append(Ask.REPLICA_INFO)
        return wanted

    def at_once(self, ask: Ask) -> None:
        """Makes a request due now, before its period has passed."""
        self._at.pop(ask, None)

    def hint(self) -> None:
        """Somebody says that the role or the leader has changed. Whoever it was, the leader is asked."""
        for ask in (Ask.LEADER, Ask.REPLICA_INFO):
            if ask in self._asking:
                self._hinted.add(ask)
            else:
                self.at_once(ask)

    def over(self, ask: Ask, now_ms: int, *, is_done: bool) -> None:
        """The request has ended. is_done: with an answer that could be used."""
        self._asking.discard(ask)
        period_ms = {
            Ask.LEADER: self._periods.leader_ms if self.leader is not None else RETRY_MS,
            Ask.BEAT: self._periods.beat_ms,
            Ask.REPLICA_INFO: self._periods.info_ms,
        }
        if is_done and ask not in period_ms:
            self._at.pop(ask, None)
        else:
            pause_ms = period_ms.get(ask, RETRY_MS)
            self._at[ask] = now_ms + (pause_ms if is_done else min(pause_ms, RETRY_MS))
        if ask in self._hinted:
            self._hinted.discard(ask)
            self._at[ask] = now_ms + HINT_MS

    # ---- answers ----

    def found_leader(self, address: str) -> None:
        self.leader = address

    def lost_leader(self, address: str) -> None:
        """The leader does not answer, or leads no more. The new leader is looked for at once; until it is found, nothing else is asked."""
        if self.leader == address:
            self.leader = None
            self.at_once(Ask.LEADER)

    def offered(self, broker_id: int) -> None:
        self.offered_id = broker_id

    def refused(self) -> None:
        """Another broker has the id that was asked for."""
        self.offered_id = None

    def given(self) -> None:
        assert self.offered_id is not None
        self.broker_id, self.offered_id = self.offered_id, None

    def registered(self) -> None:
        self._is_registered = True

    def unknown(self) -> None:
        """The controller does not know this broker (any more), so the broker registers again. The role stays until an answer changes it."""
        self._is_registered = False

    def masterless(self) -> None:
        """There is no master, so an election is asked for; a learner leaves that to others. The role stays, whoever has it, until another
        one is given."""
        self._lacks_master = True
        self.at_once(Ask.ELECT)

    def take(self, info: ReplicaInfo) -> Role | None:
        """The role in the answer; None if it is not new. A newer in-sync set under the same master and epoch is a new role."""
        known = self.role
        if info.master_id is None or not info.master_address or self.broker_id is None:
            return None
        if known is not None and info.master_epoch < known.epoch:
            return None
        self._lacks_master = False
        is_newer_set = known is not None and info.sync_state_set.epoch > known.sync_state_set.epoch
        if known is not None and info.master_epoch == known.epoch and (info.master_id != known.master_id or not is_newer_set):
            return None
        is_master = info.master_id == self.broker_id
        self.role = Role(info.master_id, info.master_address, info.master_epoch, is_master, info.sync_state_set)
        return self.role
