"""What the log says of a table's file that cannot be written."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from rocketpy.broker.persistence import TELL_AGAIN_S, SavedState


def test_a_file_that_cannot_be_written_is_told_of_now_and_then_and_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now_s, version = 1000.0, 0
    directory = tmp_path / "config"
    directory.write_text("no directory")
    saved = SavedState(directory / "topics.json", dict, lambda: version, lambda _: "{}", lambda: now_s)

    def lines() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        caplog.clear()
        return found

    async def test() -> None:
        nonlocal now_s, version
        version = 1
        assert not await saved.save_or_log()
        (line,) = lines()
        assert "topics.json" in line and "tried again" in line
        for _ in range(3):
            now_s += 1
            assert not await saved.save_or_log()
        assert lines() == []
        now_s += TELL_AGAIN_S
        assert not await saved.save_or_log()
        assert [line.endswith("(3 more times since this was said last)") for line in lines()] == [True]
        directory.unlink()
        assert await saved.save_or_log()
        (line,) = lines()
        assert "written again" in line
        version = 2
        assert await saved.save_or_log() and lines() == []
        directory.rename(tmp_path / "away")
        directory.write_text("no directory")
        version = 3
        assert not await saved.save_or_log()
        assert len(lines()) == 1, "another outage"

    asyncio.run(test())
