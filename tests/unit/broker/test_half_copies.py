"""Which operations copies of prepared messages need: what is known, from when on, and how much of it."""

from __future__ import annotations

import pytest

from rocketpy.broker import half_copies
from rocketpy.broker.half_copies import HalfCopies


def begun(position: int = 10, end: int = 10) -> HalfCopies:
    copies = HalfCopies()
    copies.begin(position, end)
    return copies


def firsts(copies: HalfCopies, position: int) -> list[int] | None:
    found = copies.firsts(position)
    return None if found is None else list(found)


def test_a_copy_needs_the_operation_about_its_first_offset_until_it_is_passed() -> None:
    copies = begun()
    for offset, first in ((10, 3), (11, -1), (12, 0), (15, 3)):
        copies.add(offset, first)
    assert [firsts(copies, position) for position in (10, 11, 12, 13, 15, 16)] == [[3, 0, 3], [0, 3], [0, 3], [3], [3], []]
    copies.pass_to(12)
    copies.begin(12, 16)
    assert firsts(copies, 12) == [0, 3]


def test_what_was_copied_before_is_not_known_until_it_is_passed() -> None:
    copies = begun(10, 20)
    copies.add(20, 4)
    assert [firsts(copies, position) for position in (10, 19, 20, 21)] == [None, None, [4], []]
    copies.pass_to(15)
    copies.begin(15, 21)
    assert [firsts(copies, position) for position in (15, 19, 20)] == [None, None, [4]]


@pytest.mark.parametrize(("position", "end"), [(13, 30), (11, 30), (12, 5)], ids=["ahead", "set back", "queue made again"])
def test_a_position_that_somebody_else_moved_makes_them_all_unknown(position: int, end: int) -> None:
    copies = begun()
    copies.add(14, 3)
    copies.pass_to(12)
    copies.begin(position, end)
    assert firsts(copies, 29) == ([] if end == 5 else None)
    assert firsts(copies, 30) == []


def test_more_than_can_be_noted_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_copies, "COPIES_MAX", 2)
    copies = begun()
    for offset in (10, 11, 12, 13):
        copies.add(offset, offset - 10)
    assert [firsts(copies, position) for position in (10, 12, 13, 14)] == [None, None, [3], []]
