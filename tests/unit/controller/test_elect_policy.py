"""Who becomes the master."""

from __future__ import annotations

from rocketpy.controller.broker_lives import BrokerLife
from rocketpy.controller.elect_policy import Elected, elect


def lives(**by_id: tuple[int, int, int]) -> dict[int, BrokerLife]:
    """epoch, max offset, priority of b1, b2 …"""
    return {int(name[1:]): BrokerLife(0, 1, 1, epoch, offset, 0, priority) for name, (epoch, offset, priority) in by_id.items()}


ALL = lives(b1=(1, 100, 5), b2=(2, 10, 5), b3=(2, 10, 4), b4=(2, 9, 0))


def test_the_master_stays_while_it_lives_and_is_in_sync() -> None:
    assert elect({1, 2}, (), ALL.get, master=1) == Elected(1)


def test_a_dead_master_is_followed_by_the_farthest_in_sync() -> None:
    for in_sync, expected in (({1, 2}, 2), ({1, 2, 3}, 3), ({1, 4}, 4), ({3, 4}, 3)):
        assert elect(in_sync, (), ALL.get, master=9) == Elected(expected)


def test_equals_are_told_apart_by_their_id_and_far_offsets_do_not_overflow() -> None:
    assert elect({3, 2}, (), lives(b2=(1, 1, 1), b3=(1, 1, 1)).get, master=None) == Elected(2)
    assert elect({3, 2}, (), lives(b2=(1, 0, 1), b3=(1, 3 << 31, 1)).get, master=None) == Elected(3)


def test_who_is_not_in_sync_is_elected_with_leave_only() -> None:
    assert elect({9}, (), ALL.get, master=9) is None
    assert elect({9}, (1, 2), ALL.get, master=9) == Elected(2, is_unclean=True)
    assert elect({1}, (2,), ALL.get, master=9) == Elected(1)


def test_who_is_asked_for_is_elected_or_nobody() -> None:
    assert elect({1, 2}, (), ALL.get, master=1, wanted=2) == Elected(2)
    assert elect({1, 2}, (), ALL.get, master=1, wanted=3) is None
    assert elect({1, 2}, (), ALL.get, master=1, wanted=9) is None
    assert elect({1, 2}, (3,), ALL.get, master=1, wanted=3) == Elected(3, is_unclean=True)
