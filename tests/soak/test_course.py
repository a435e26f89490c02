"""How a soak's turns are counted, ended by the clock, and what may fail while something restarts."""

from __future__ import annotations

import asyncio

from .course import SHORT, Course, long_extent


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def numbers(made: Course, clock: Clock, step_s: float, until: float = 1.0) -> list[int]:
    found = []
    async for number in made.turns("turns", 0.0001, 5, until=until):
        found.append(number)
        clock.now_s += step_s
    return found


def test_the_short_form_counts_and_the_long_one_ends_by_the_clock() -> None:
    clock = Clock()
    assert asyncio.run(numbers(Course(clock, 1, SHORT), clock, 1000.0)) == list(range(5))
    assert asyncio.run(numbers(Course(clock, 1, long_extent(1)), clock, 10.0)) == list(range(6))
    assert asyncio.run(numbers(Course(clock, 1, long_extent(1)), clock, 10.0, until=0.5)) == list(range(3))


def test_who_waits_for_turns_goes_on_when_they_are_done() -> None:
    async def test() -> None:
        made = Course(Clock(), 1, SHORT)
        waiting = asyncio.create_task(made.until_done("sends", 2))
        for _ in range(2):
            await asyncio.sleep(0)
            assert not waiting.done()
            made.count("sends")
        await waiting
        await made.until_done("sends", 1)  # done already
        assert made.done["sends"] == 2

    asyncio.run(test())


def test_only_what_met_a_restart_may_fail() -> None:
    made = Course(Clock(), 1, SHORT)
    assert not made.may_fail(0)
    made.restarts += 1
    assert made.may_fail(0) and not made.may_fail(1)
    made.restarts_under_way += 1
    assert made.may_fail(1)


def test_the_same_seed_throws_the_same() -> None:
    one, other = (Course(Clock(), seed, SHORT).dice("x").random() for seed in (1, 1))
    assert one == other != Course(Clock(), 2, SHORT).dice("x").random() != Course(Clock(), 1, SHORT).dice("y").random()
