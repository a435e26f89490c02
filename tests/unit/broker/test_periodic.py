"""Work that is done again and again, whatever became of it the last time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
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
    monkeypatch.setattr(periodic, "_seconds_to_midnight", lambda: 0.0)

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
