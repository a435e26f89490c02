"""Which replicas a master has to wait for, and whether it may still call itself the master: decisions, with the clock passed in.
RocketMQ: AutoSwitchHAService (5.3.3 store/ha/autoswitch/): maybeShrinkSyncStateSet, maybeExpandInSyncStateSet; the lease is ours.

    slaves' acks ─► wanted set ─ differs ─► proposal ─ asked ─┬─ answered ───► the set of a new edition
                                                              ├─ refused ────► the set as before
                                                              └─ no answer ──► both, until the controller has said which

Set    While a proposal is open, a message needs the acknowledgements of both sets, the one that the controller knows and the proposed one:
       whichever of them an election goes by, the elected broker has the message. A proposal without an answer may still be carried out
       until the set has a newer edition. An answer that the controller has the set as before proves nothing at first: RocketMQ's controller
       answers from what it has applied, while the proposal may still be in its log. Such an answer counts only FENCE_MS after the proposal,
       when that log is committed or belongs to another leader, and only when it came twice, APART_MS apart: when two requests wait at a
       controller that stood still, either may be answered first.
Lease  A master that reaches neither the controller nor its set may have been replaced. It takes sends as long as, within the lease, the
       controller called it the master or every other member of the set followed it: an elected member follows nobody, and nobody outside
       the set can be elected (except with enableElectUncleanMaster). So a master alone in its set goes on without a controller, and so
       does a set that is complete.

Threads  none: decisions only. Times in ms of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..remoting.replica_bodies import SyncStateSet

FENCE_MS: Final = 30_000
"""DLedger gives an append 5 s, a leader without a majority 6 s, and an election a few more."""
APART_MS: Final = 5000


@dataclass(frozen=True, slots=True)
class Follower:
    """A slave that is connected to this master's log."""

    broker_id: int
    caught_up_ms: int | None
    """When it last said that it held all there was; None: it never did."""
    may_join: bool = True
    """It holds what is confirmed, and reached this epoch."""
    is_learner: bool = False
    """asyncLearner: nobody waits for it."""


@dataclass(frozen=True, slots=True)
class SyncStateRules:
    """haMaxTimeSlaveNotCatchup, and how long the lease lasts; 0: sends are accepted whatever the controller says."""

    behind_max_ms: int = 15_000
    lease_ms: int = 10_000


class SyncStates:
    """The in-sync set of one master in one epoch. Each epoch gets a new one."""

    def __init__(self, rules: SyncStateRules, own_id: int, known: SyncStateSet, confirmed_ms: int) -> None:
        """confirmed_ms: when the request was sent whose answer made this broker the master."""
        self._rules = rules
        self._own_id = own_id
        self.known = known
        self._asked: frozenset[int] | None = None
        self._asked_ms = 0
        self._unanswered: frozenset[int] = frozenset()
        self._settles_ms: int | None = None
        """A question from then on settles the set by the answer `unchanged`. None: one from FENCE_MS on has to be answered so first."""
        self._fence_ms = 0
        self._confirmed_ms = confirmed_ms

    @property
    def waited_for(self) -> frozenset[int]:
        """The brokers whose acknowledgement a message needs."""
        return self.known.ids | self._unanswered | (self._asked or frozenset())

    @property
    def is_settled(self) -> bool:
        """Whether the set is the one that the controller named last, and can be no other."""
        return self._asked is None and not self._unanswered

    @property
    def is_open(self) -> bool:
        """Whether an unanswered proposal may still be carried out."""
        return bool(self._unanswered)

    # ---- the set ----

    def proposal(self, followers: Iterable[Follower], now_ms: int) -> SyncStateSet | None:
        """The set to ask for, with the edition that it is to replace. None: it is as it should be, or one was asked for. The one that is
        known, where the controller may have another: whoever was to join may have gone, and would be waited for without an end."""
        if self._asked is not None:
            return None
        wanted = {self._own_id}
        for follower in followers:
            caught_up_ms, is_in = follower.caught_up_ms, follower.broker_id in self.known.ids
            if caught_up_ms is None or follower.is_learner or now_ms - caught_up_ms > self._rules.behind_max_ms:
                continue
            if is_in or follower.may_join:
                wanted.add(follower.broker_id)
        if wanted == self.known.ids and not self._unanswered:
            return None
        self._asked, self._asked_ms = frozenset(wanted), now_ms
        return SyncStateSet(self._asked, self.known.epoch)

    def answered(self, known: SyncStateSet) -> None:
        """Takes the set that the controller's answer names."""
        self._asked = None
        self.take(known)

    def refused(self) -> None:
        """An answer says that the proposal was not carried out."""
        self._asked = None

    def unchanged(self, now_ms: int) -> None:
        """By an answer, now: the set that was asked for is the one that the controller has."""
        if self._settles_ms is not None and self._asked_ms >= self._settles_ms:
            self._unanswered = frozenset()
        elif self._settles_ms is None and self._asked_ms >= self._fence_ms:
            self._settles_ms = now_ms + APART_MS
        self._asked = None

    def failed(self, now_ms: int) -> None:
        """No answer came: the proposal may have been carried out, or may still be. That makes no difference to a proposal of the set that
        is known."""
        if self._asked is not None and self._asked != self.known.ids:
            self._unanswered |= self._asked
            self._fence_ms, self._settles_ms = now_ms + FENCE_MS, None
        self._asked = None

    def take(self, known: SyncStateSet) -> bool:
        """Takes a set that the controller names without being asked. True if it is new."""
        if known.epoch <= self.known.epoch:
            return False
        self.known, self._unanswered = known, frozenset()
        return True

    # ---- the lease ----

    def confirmed(self, asked_ms: int) -> None:
        """The controller confirms that we are the master, in answer to a request that was sent at that time."""
        self._confirmed_ms = max(self._confirmed_ms, asked_ms)

    def lease_left_ms(self, followers: Iterable[Follower], now_ms: int) -> int | None:
        """For how long sends may be accepted; 0: no longer. None: there is no lease."""
        until_ms = self.lease_until_ms(followers, now_ms)
        return None if until_ms is None else max(0, until_ms - now_ms)

    def lease_until_ms(self, followers: Iterable[Follower], now_ms: int) -> int | None:
        """Until when, by the clock of now_ms, sends may be accepted. None: there is no lease."""
        if not self._rules.lease_ms:
            return None
        heard = {follower.broker_id: follower.caught_up_ms or 0 for follower in followers}
        others = self.waited_for - {self._own_id}
        if not others:
            return now_ms + self._rules.lease_ms
        followed_ms = min(heard.get(other, 0) for other in others)
        return max(self._confirmed_ms, followed_ms) + self._rules.lease_ms
