"""A clock by which what its process stood still for was short."""

from __future__ import annotations

import asyncio
import time

import pytest

from rocketpy.awake_clock import GAP_MS, AwakeClock


def test_what_the_process_stood_still_for_was_short(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    now_ms = 1_000_000
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ms * 1_000_000)

    async def scenario() -> None:
        nonlocal now_ms
        clock = AwakeClock()
        begin_ms = clock()
        now_ms += 60_000
        assert clock() == begin_ms + 60_000, "nobody looks yet"
        keeping = asyncio.create_task(clock.keep())
        await asyncio.sleep(0)
        begin_ms = clock()
        for _ in range(5):
            now_ms += GAP_MS
            clock()
        assert clock() == begin_ms + 5 * GAP_MS, "slow is not still"
        assert not caplog.records
        now_ms += 60_000
        assert clock() == begin_ms + 6 * GAP_MS
        assert "stood still for 60000 ms" in caplog.text
        now_ms += 10
        assert clock() == begin_ms + 6 * GAP_MS + 10
        keeping.cancel()
        await asyncio.wait([keeping])

    asyncio.run(scenario())
