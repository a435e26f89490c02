"""Whether a slave is to stand in for its master: only when it has the smallest id in the answers of all name servers that
answer, twice in a row.
RocketMQ: BrokerController.syncBrokerMemberGroup, onMinBrokerChange (5.3.3 broker/), which go by the first answer of one name server.

    each name server that answers ─┬─ names somebody with a smaller id ─────► not it
                                   └─ this broker is the least, twice ──────► it is
    the master's log is connected ──────────────────────────────────────────► not it
    nobody answers ─────────────────────────────────────────────────────────► as before

Threads  none: decisions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ..config import Config
from .group_members import Members
from .set_aside import SetAside
from .settings import is_elected
from .timers_passed_on import TimersPassedOn

ROUNDS: Final = 2
"""Answers in a row that have to say so: a master that only starts again is not stood in for in between."""


def may_act(config: Config) -> bool:
    """Whether slaves of this broker's name pass on what a master that is down has to deliver. Behind a controller, and in a DLedger group,
    another master is elected instead."""
    stands_in, passes_on = config.boolean("enableSlaveActingMaster"), config.boolean("enableRemoteEscape")
    return stands_in and passes_on and not is_elected(config)


@dataclass(slots=True)
class ActingState:
    """Of one broker. log_end: where its log ended when it stood in last, which has not grown meanwhile; None: it never did. halves: how far
    prepared messages are passed on; None: as the group's offset says. timers: how far timed ones were before it was started again."""

    is_acting: bool = False
    log_end: int | None = None
    halves: SetAside | None = None
    timers: TimersPassedOn = field(default_factory=TimersPassedOn)
    rounds: int = 0

    def begin(self, log_end: int) -> None:
        """What is known of timed messages holds for a log that ends there."""
        if log_end != self.log_end:
            self.timers = TimersPassedOn()
        self.is_acting, self.log_end = True, log_end

    def timers_at(self, now: TimersPassedOn) -> TimersPassedOn:
        """now: as they say themselves, who begin anew with the first that was set aside. Until they have come to where they were, which
        they do not while no other master answers, that is how far they are."""
        if self.timers.offsets and now.read_ms < self.timers.read_ms:
            return self.timers
        return now if now.offsets else TimersPassedOn()

    def heard(self, answers: Sequence[Members], own: tuple[int, str], *, is_connected: bool) -> bool:
        """Whether it is to stand in. answers: everybody of the name, a name server each; own: (broker id, address)."""
        ids = {broker_id for members in answers for broker_id, _ in members}
        is_least = any(own in members for members in answers) and min(ids) >= own[0]
        if is_connected or (answers and not is_least):
            self.rounds = 0
            return False
        self.rounds = min(ROUNDS, self.rounds + 1) if answers else self.rounds
        return self.rounds >= ROUNDS
