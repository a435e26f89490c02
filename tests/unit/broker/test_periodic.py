"""Work that is done again and again, whatever became of it the last time."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine
from datetime import date, timedelta
from typing import Any

import pytest

from rocketpy.broker import periodic
from rocketpy.broker.periodic import at_midnight, every, plain
from tests.processes import PATIENCE_S

Periodic = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]


@pytest.mark.parametrize(
    "repeat",
    [lambda work: every("the work", 0, plain(work)), lambda work: at_midnight("the work", plain(work))],
    ids=["every", "at_midnight"],
)
def test_what_failed_is_logged_with_its_name_and_done_again(
    repeat: Periodic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    days = itertools.count()
    monkeypatch.setattr(periodic, "_seconds_to_midnight", lambda: 0.0)
    monkeypatch.setattr(periodic, "_today", lambda: date(2026, 1, 1) + timedelta(days=next(days)))

    async def scenario() -> None:
        times = 0
        done = asyncio.Event()

        def work() -> None:
            nonlocal times
            times += 1
            if times == 1:
                raise LookupError("not this time")
            done.set()

        task = asyncio.create_task(repeat(work))
        await asyncio.wait({task, asyncio.create_task(done.wait())}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert done.is_set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert caplog.messages == ["the work failed"]


NEW_YEARS_EVE, NEW_YEAR = date(2026, 12, 31), date(2027, 1, 1)


@pytest.mark.parametrize(
    ("days", "times"),
    [
        ([NEW_YEARS_EVE, NEW_YEARS_EVE, NEW_YEAR, NEW_YEAR], 1),
        ([NEW_YEARS_EVE, NEW_YEAR, NEW_YEARS_EVE, NEW_YEAR], 1),  # the clock is set back by a minute, just behind midnight
        ([NEW_YEARS_EVE, date(2036, 5, 5), NEW_YEARS_EVE, NEW_YEARS_EVE, NEW_YEAR], 2),  # a clock that was wrong is set right
    ],
)
def test_a_day_begins_once_whatever_the_clock_does(days: list[date], times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter(days)
    over = asyncio.Event()
    slept: list[float] = []

    def today() -> date:
        day = next(seen, None)
        if day is None:
            over.set()
        return day or days[-1]

    async def sleep(seconds: float, real: Callable[[float], Any] = asyncio.sleep) -> None:
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr(periodic, "_today", today)
    monkeypatch.setattr(periodic, "_seconds_to_midnight", lambda: 80_000.0)
    monkeypatch.setattr(asyncio, "sleep", sleep)

    async def scenario() -> int:
        count = 0

        def work() -> None:
            nonlocal count
            count += 1

        task = asyncio.create_task(at_midnight("the work", plain(work)))
        await asyncio.wait_for(over.wait(), PATIENCE_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return count

    assert asyncio.run(scenario()) == times
    assert set(slept) == {periodic.CLOCK_LOOK_S}
