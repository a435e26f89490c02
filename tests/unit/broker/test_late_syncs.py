"""A disk that hangs fails no call. The log says so, once, and when it goes on."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from unittest.mock import Mock

import pytest

from rocketpy.broker import housekeeping
from rocketpy.broker.late_syncs import LOOKS_MAX, LateSyncs
from rocketpy.broker.native_options import FlushTiming
from tests.unit.broker.running import run, running

INTERVAL_MS = 10_000
LATE = LOOKS_MAX + 1  # looks at a mark


def lines(late: LateSyncs, looks: int, end: int, flushed: int, first: int = 0, *, acknowledged: bool = True) -> list[str]:
    """What is said in so many looks, ten seconds apart."""
    seen = [late.look(end, flushed, INTERVAL_MS, (first + look) * 10_000, is_acknowledged=acknowledged) for look in range(looks)]
    return [line for line in seen if line]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == housekeeping.__name__]


def test_a_log_that_is_synced_now_and_then_is_not_late() -> None:
    late = LateSyncs()
    for round_ in range(50):  # all the time there are bytes that are not synced, but never the same
        assert lines(late, LATE - 1, 1000 * round_ + 999, 1000 * round_, round_ * LATE) == []
    assert lines(late, 50, 50_000, 50_000, 50 * LATE) == []


def test_what_stays_away_from_the_disk_is_said_once_and_when_it_is_there() -> None:
    late = LateSyncs()
    (line,) = lines(late, 50, 7_000, 0)  # the first look takes the mark
    assert f"stored {LATE * 10} s ago" in line and "7000 bytes from offset 0 on" in line
    assert lines(late, 1, 9_000, 6_999, 50) == []
    assert lines(late, 1, 9_000, 7_000, 51) == ["commit log: it is on the disk again, after 510 s"]
    assert lines(late, 1, 9_000, 9_000, 52) == []
    assert len(lines(late, 50, 10_000, 9_000, 53)) == 1


def test_a_log_that_was_cut_begins_anew() -> None:
    late = LateSyncs()
    assert lines(late, LATE, 7_000, 0) == []
    assert lines(late, LATE, 5_000, 0, LATE) == []
    (line,) = lines(late, 1, 5_000, 0, 2 * LATE)
    assert "5000 bytes" in line
    assert lines(late, 1, 4_000, 0, 2 * LATE + 1) == ["commit log: what was not on the disk was cut off, the log ends at offset 4000 now"]
    assert lines(late, LATE, 4_000, 0, 2 * LATE + 2)[0].startswith("commit log: what was stored")


def test_who_waits_for_the_disk_or_for_the_master_has_not_been_told() -> None:
    (told,), (untold,) = lines(LateSyncs(), LATE + 1, 10, 0), lines(LateSyncs(), LATE + 1, 10, 0, acknowledged=False)
    assert told == untold + ", which ASYNC_FLUSH has acknowledged"


@pytest.mark.parametrize(
    ("flush", "role", "says"), [("ASYNC_FLUSH", "ASYNC_MASTER", 1), ("SYNC_FLUSH", "ASYNC_MASTER", 0), ("ASYNC_FLUSH", "SLAVE", 0)]
)
def test_the_line_is_of_the_configuration_and_its_slowest_sync(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, flush: str, role: str, says: int
) -> None:
    """A sync each minute that takes few pages when 61 s have passed: two minutes."""
    now_ms = 0

    async def test() -> None:
        nonlocal now_ms
        keys = {"flushIntervalCommitLog": "60000", "flushCommitLogThoroughInterval": "61000"}
        async with running(tmp_path, flushDiskType=flush, brokerRole=role, brokerId=str(int(role == "SLAVE")), **keys) as at:
            parts = at.broker.parts
            assert parts is not None
            store = Mock(stats=lambda: {"commit_log_max_offset": 500, "flushed_offset": 0})
            keeping = housekeeping.Housekeeping(dataclasses.replace(parts, store=store), None)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(housekeeping, "monotonic_ms", lambda: now_ms)
                while now_ms < 200_000 and not said(caplog):
                    keeping.warn_of_late_syncs()
                    now_ms += 10_000

    with caplog.at_level(logging.WARNING, "rocketpy.broker.housekeeping"):
        run(test)
    (line,) = said(caplog)
    assert now_ms > 140_000 and line.count("which ASYNC_FLUSH has acknowledged") == says


def test_a_broker_says_what_its_disk_does_not_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = str(2**31 - 1)
    at_once: FlushTiming = {"interval_ms": 0, "least_pages": 0, "thorough_interval_ms": 0, "queue_interval_ms": 1}

    async def test() -> None:
        async with running(tmp_path, flushIntervalCommitLog=never, flushCommitLogThoroughInterval=never) as at:
            parts = at.broker.parts
            assert parts is not None
            keeping = housekeeping.Housekeeping(parts, None)
            keeping.warn_of_late_syncs()
            await at.peer().send("T", b"x")
            for _ in range(LATE):
                keeping.warn_of_late_syncs()
            assert said(caplog) == []  # so long as the configuration lets it wait
            monkeypatch.setattr(housekeeping, "flush_timing", lambda config: at_once)
            for _ in range(LATE):
                keeping.warn_of_late_syncs()
            parts.store.wait_flushed(parts.store.stats()["commit_log_max_offset"], 60_000)
            keeping.warn_of_late_syncs()

    with caplog.at_level(logging.WARNING, "rocketpy.broker.housekeeping"):
        run(test)
    late, again = said(caplog)
    assert "is not on the disk" in late and again.startswith("commit log: it is on the disk again")
