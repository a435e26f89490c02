"""Which messages of a queue are over, while some are set aside."""

from __future__ import annotations

from rocketpy.broker.set_aside import ASIDE_MAX, SetAside


class Counted(int):
    """An offset that knows how often it was compared."""

    looks = 0

    def __eq__(self, other: object) -> bool:
        self.looks += 1
        return int(self) == other

    def __lt__(self, other: int) -> bool:
        self.looks += 1
        return int(self) < other

    def __gt__(self, other: int) -> bool:
        self.looks += 1
        return int(self) > other

    __hash__ = int.__hash__


def test_one_of_many_is_found_without_a_look_at_all() -> None:
    assert [offset for offset in range(42) if not SetAside(40, (17, 29)).is_over(offset)] == [17, 29, 40, 41]
    known = SetAside(2 * ASIDE_MAX, tuple(range(0, 2 * ASIDE_MAX, 2)))
    for number, is_over in ((ASIDE_MAX, False), (ASIDE_MAX + 1, True)):
        offset = Counted(number)
        assert known.is_over(offset) == is_over and offset.looks < 20
