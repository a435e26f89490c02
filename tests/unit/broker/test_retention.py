"""Retention as a function: which files go at which hour, age and fill of the disk, and when sends are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy._core.store import MessageStore
from rocketpy.broker.retention import MS_PER_HOUR, ActiveFile, LogFile, RetentionSettings, decide, fault_of, parse_hours

NOW = 1_700_000_000_000
SETTINGS = RetentionSettings()
OLD, NEW, TO_COME = NOW - 80 * MS_PER_HOUR, NOW - MS_PER_HOUR, NOW + 5000 * MS_PER_HOUR


def files(*ages: int) -> list[LogFile]:
    return [LogFile(f"{number:020d}", modified) for number, modified in enumerate(ages)]


@pytest.mark.parametrize(
    ("hour", "used", "now", "ages", "deleted", "writable"),
    [
        (4, 10.0, False, (OLD, OLD, NEW), 2, True),
        (5, 10.0, False, (OLD, OLD, NEW), 0, True),
        (5, 10.0, True, (OLD, OLD, NEW), 2, True),
        (5, 76.0, False, (OLD, NEW), 1, True),
        (5, 86.0, False, (OLD, NEW, NEW), 3, True),
        (5, 91.0, False, (NEW, NEW), 2, False),
        (4, 10.0, False, (NEW, OLD), 0, True),
        (4, 10.0, False, (OLD,) * 25, 10, True),
        (4, 99.0, False, (), 0, False),
    ],
)
def test_files_go_by_hour_age_and_fill_of_the_disk(
    hour: int, used: float, now: bool, ages: tuple[int, ...], deleted: int, writable: bool
) -> None:
    decision = decide(SETTINGS, files(*ages), used_percent=used, now_ms=NOW, hour=hour, now=now)
    assert (decision.delete_count, decision.is_writable) == (deleted, writable)
    assert bool(decision.reason) is not writable


@pytest.mark.parametrize(
    ("ages", "deleted"),
    [
        ((TO_COME, OLD, NEW), 2),
        ((OLD, TO_COME, TO_COME, OLD), 4),
        ((TO_COME, TO_COME, NEW), 0),
        ((NEW, TO_COME, OLD), 0),
        ((OLD, TO_COME), 1),
    ],
)
def test_a_file_of_a_time_to_come_is_as_old_as_the_next_one(ages: tuple[int, ...], deleted: int) -> None:
    """The clock was set back since: as it says, all files behind it would be kept until the disk is full."""
    assert decide(SETTINGS, files(*ages), used_percent=10.0, now_ms=NOW, hour=4).delete_count == deleted


def test_nothing_goes_before_its_time_unless_it_may() -> None:
    settings = RetentionSettings(forcible=False)
    decision = decide(settings, files(OLD, NEW), used_percent=95.0, now_ms=NOW, hour=5)
    assert decision.delete_count == 1 and decision.unexpired_count == 0
    assert decide(SETTINGS, files(OLD, NEW), used_percent=95.0, now_ms=NOW, hour=5).unexpired_count == 1


def test_a_limit_in_bytes_takes_the_oldest_files() -> None:
    aged = [LogFile(f"{number:020d}", NEW, 100) for number in range(5)]
    for limit, deleted in ((0, 0), (500, 0), (499, 1), (400, 1), (250, 3), (1, 5)):
        decision = decide(RetentionSettings(bytes_max=limit), aged, used_percent=10.0, now_ms=NOW, hour=5)
        assert (decision.delete_count, decision.is_writable) == (deleted, True), limit
        assert decision.unexpired_count == 0, "as configured, with room on the disk"


def test_a_file_that_is_no_longer_the_one_that_is_written_to_refuses_sends() -> None:
    ours, copy, cut = ActiveFile("a", 100, (1, 1)), ActiveFile("a", 100, (1, 2)), ActiveFile("a", 40, (1, 1))
    assert fault_of("a", 100, ours, None) == "" and fault_of("a", 100, ours, ours) == ""
    assert fault_of("a", 100, ours, ActiveFile("before it", 100, (1, 7))) == ""
    assert "is gone" in fault_of("a", 100, None, ours)
    assert "40 bytes" in fault_of("a", 100, cut, None)
    assert "replaced" in fault_of("a", 100, copy, ours)


def test_hours_of_the_day_are_named_with_semicolons_between_them() -> None:
    assert parse_hours("04") == {4}
    assert parse_hours("04;16") == {4, 16}
    with pytest.raises(ValueError, match="24"):
        parse_hours("24")


def test_expired_files_take_their_queue_and_index_entries_with_them(tmp_path: Path) -> None:
    options = {"commit_log_file_size": 16384, "consume_queue_file_size": 200, "index_slot_count": 11, "index_entry_count_max": 21}
    with MessageStore(tmp_path, **options) as store:  # type: ignore[arg-type]
        for number in range(300):
            store.append("T", number % 2, bytes(200), f"KEYS\x01k{number}\x02")
        assert not store.expire_file(), "nothing that is not on disk may go"
        store.wait_flushed(store.stats()["commit_log_max_offset"], 5000)
        count = 0
        while store.expire_file():
            count += 1
        stats = store.stats()
        assert count == stats["commit_log_min_offset"] // 16384 > 3
        assert stats["commit_log_max_offset"] - stats["commit_log_min_offset"] <= 2 * 16384
        for queue in (0, 1):
            low, high = store.min_offset("T", queue), store.max_offset("T", queue)
            assert 100 < low < high == 150
            offset, size, _ = store.entries("T", queue, low, 1)[0]
            assert offset >= stats["commit_log_min_offset"] and len(store.read(offset, size)) == size
        assert len(list((tmp_path / "consumequeue" / "T" / "0").iterdir())) < 8
    with MessageStore(tmp_path, **options) as store:  # type: ignore[arg-type]
        assert store.max_offset("T", 0) == 150 and store.min_offset("T", 0) > 100
