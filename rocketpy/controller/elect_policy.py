"""Who becomes the master of a broker set.
RocketMQ: DefaultElectPolicy (5.3.3 controller/elect/impl/).

    among brokers that live: first those in sync, then, only if the operator allows an unclean election, all others
    1. who was asked for by name, or nobody of these
    2. the master there is
    3. the highest epoch, then the farthest log, then the least electionPriority, then the least id

RocketMQ compares offsets by a 32-bit difference, so a log that is 2 GiB longer can lose, and chooses between equal brokers by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .broker_lives import BrokerLife


@dataclass(frozen=True, slots=True)
class Elected:
    """Who was elected, and whether it may lack messages."""

    broker_id: int
    is_unclean: bool = False


def elect(
    in_sync: Iterable[int],
    others: Iterable[int],
    life: Callable[[int], BrokerLife | None],
    *,
    master: int | None,
    wanted: int | None = None,
) -> Elected | None:
    """others: the brokers that an unclean election may take; none if such elections are off. life: None for a broker that is not alive."""
    for candidates, is_unclean in ((in_sync, False), (others, True)):
        lives = {broker_id: found for broker_id in candidates if (found := life(broker_id)) is not None}
        chosen = _choose(lives, master, wanted)
        if chosen is not None:
            return Elected(chosen, is_unclean)
    return None


def _choose(lives: dict[int, BrokerLife], master: int | None, wanted: int | None) -> int | None:
    if wanted is not None:
        return wanted if wanted in lives else None
    if master is not None and master in lives:
        return master
    ranked = sorted(lives, key=lambda each: (-lives[each].epoch, -lives[each].max_offset, lives[each].election_priority, each))
    return ranked[0] if ranked else None
