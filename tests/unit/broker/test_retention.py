"""Retention as a function: which files go at which hour, age and fill of the disk, and when sends are refused."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from rocketpy._core.store import MessageStore
from rocketpy.broker.metrics import BrokerMetrics
from rocketpy.broker.metrics_settings import metrics_settings
from rocketpy.broker.parts import Parts
from rocketpy.broker.retention import (
    MS_PER_HOUR,
    ActiveFile,
    Disk,
    LogFile,
    RetentionSettings,
    Unread,
    decide,
    fault_of,
    next_deletion,
    parse_hours,
)
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .running import Running, eventually, run, running

NOW = 1_700_000_000_000
BY_HAND = {"mappedFileSizeCommitLog": "65536", "cleanResourceInterval": "3600000"}
SETTINGS = RetentionSettings()
OLD, NEW, TO_COME = NOW - 80 * MS_PER_HOUR, NOW - MS_PER_HOUR, NOW + 5000 * MS_PER_HOUR


def statvfs_of(blocks: int, free: int) -> os.statvfs_result:
    return os.statvfs_result((4096, 4096, blocks, free, free, 0, 0, 0, 0, 255))


async def filled(at: Running) -> Parts:
    """With two files that may go."""
    parts = at.broker.parts
    assert parts is not None
    for _ in range(5):
        assert (await at.peer().send("t", bytes(30_000))).code == 0
    store = parts.store
    await eventually(lambda: store.stats()["flushed_offset"] == store.stats()["commit_log_max_offset"], "all is on disk")
    return parts


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
    decision = decide(SETTINGS, files(*ages), Disk(used), now_ms=NOW, hour=hour, now=now)
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
    assert decide(SETTINGS, files(*ages), Disk(10.0), now_ms=NOW, hour=4).delete_count == deleted


def test_nothing_goes_before_its_time_unless_it_may() -> None:
    settings = RetentionSettings(forcible=False)
    decision = decide(settings, files(OLD, NEW), Disk(95.0), now_ms=NOW, hour=5)
    assert decision.delete_count == 1 and decision.unexpired_count == 0
    assert decide(SETTINGS, files(OLD, NEW), Disk(95.0), now_ms=NOW, hour=5).unexpired_count == 1


def test_a_limit_in_bytes_takes_the_oldest_files() -> None:
    aged = [LogFile(f"{number:020d}", NEW, 100) for number in range(5)]
    for limit, deleted in ((0, 0), (500, 0), (499, 1), (400, 1), (250, 3), (1, 5)):
        decision = decide(RetentionSettings(bytes_max=limit), aged, Disk(10.0), now_ms=NOW, hour=5)
        assert (decision.delete_count, decision.is_writable) == (deleted, True), limit
        assert decision.unexpired_count == 0, "as configured, with room on the disk"


def test_a_reserve_of_free_space_is_kept() -> None:
    settings = RetentionSettings(free_bytes_min=1000)
    enough = decide(settings, files(NEW, NEW), Disk(10.0, 1000), now_ms=NOW, hour=5)
    assert (enough.delete_count, enough.is_writable) == (0, True)
    short = decide(settings, files(NEW, NEW), Disk(10.0, 999), now_ms=NOW, hour=5)
    assert (short.delete_count, short.is_writable) == (2, False) and "999 bytes left, less than freeSpaceReserve 1000" in short.reason
    unforced = decide(replace(settings, forcible=False), files(NEW, NEW), Disk(10.0, 999), now_ms=NOW, hour=5)
    assert (unforced.delete_count, unforced.is_writable) == (0, False)


@pytest.mark.parametrize(
    ("disk", "bytes_max", "read_to", "deleted", "kept"),
    [
        (Disk(10.0), 0, 0, 0, 3),  # expired
        (Disk(10.0), 0, 250, 2, 1),
        (Disk(10.0), 0, 300, 3, 0),
        (Disk(10.0), 100, 100, 1, 3),
        (Disk(95.0), 0, 199, 1, 4),
        (Disk(95.0), 0, None, 5, 0),
    ],
)
def test_what_somebody_has_not_read_is_kept_if_asked(disk: Disk, bytes_max: int, read_to: int | None, deleted: int, kept: int) -> None:
    aged = [LogFile(f"{100 * number:020d}", OLD if number < 3 else NEW, 100) for number in range(5)]
    unread = Unread(read_to, "g", "t", 1, 7) if read_to is not None else None
    settings = RetentionSettings(bytes_max=bytes_max, keeps_unread=True)
    decision = decide(settings, aged, disk, now_ms=NOW, hour=4, unread=unread)
    assert (decision.delete_count, decision.kept_count) == (deleted, kept)
    told = "keepUnreadMessages: group g has read queue 1 of topic t up to offset 7 only"
    assert (told in decision.reason) is (not decision.is_writable and kept > 0)
    careless = decide(replace(settings, keeps_unread=False), aged, disk, now_ms=NOW, hour=4, unread=unread)
    assert (careless.delete_count, careless.kept_count) == (deleted + kept, 0)


@pytest.mark.parametrize(
    ("modified", "hours", "at"),
    [
        ("2026-03-01 10:30", "04", "2026-03-05 04:00"),  # expires at 10:30 of the fourth
        ("2026-03-01 04:20", "04", "2026-03-04 04:20"),
        ("2026-03-01 10:30", "04;12", "2026-03-04 12:00"),
        ("2026-01-01 10:30", "04", "2026-03-03 04:00"),  # long ago
        ("2026-01-01 10:30", "", None),
    ],
)
def test_when_the_next_file_goes(modified: str, hours: str, at: str | None) -> None:
    file = LogFile("0" * 20, int(datetime.fromisoformat(modified).timestamp() * 1000))
    settings = RetentionSettings(delete_hours=parse_hours(hours))
    found = next_deletion(settings, file, datetime.fromisoformat("2026-03-02 08:00"))
    assert found == (datetime.fromisoformat(at) if at is not None else None)


@pytest.mark.parametrize(("reserved_hours", "modified_ms"), [(2**31 - 1, NOW), (72, 2**62), (24 * 365 * 8000, NOW)])
def test_what_goes_when_no_calendar_has_a_day_for_it_has_no_time(reserved_hours: int, modified_ms: int) -> None:
    settings = RetentionSettings(reserved_hours=reserved_hours)
    assert next_deletion(settings, LogFile("0" * 20, modified_ms), datetime.fromisoformat("2026-03-02 08:00")) is None


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


def test_unread_messages_are_kept_or_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        small = {"mappedFileSizeCommitLog": "65536", "retentionBytes": "1", "deleteCommitLogFilesInterval": "0"}
        async with running(tmp_path, keepUnreadMessages="true", **small) as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            store, retention = parts.store, parts.retention
            for _ in range(10):
                assert (await peer.send("t", bytes(30_000))).code == 0

            async def commit(group: str, offset: int) -> None:
                fields = {"consumerGroup": group, "topic": "t", "queueId": 0, "commitOffset": offset}
                assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0

            await peer.heartbeat("c", "slow", "t")
            await peer.heartbeat("d", "quick", "t")
            await commit("slow", 3)
            await commit("quick", 10)
            await eventually(lambda: store.stats()["flushed_offset"] == store.stats()["commit_log_max_offset"], "all is on disk")
            assert await retention.run_once() == 1 and store.min_offset("t", 0) <= 3 < 10
            assert await retention.run_once() == 0
            told = [record.message for record in caplog.records if "keepUnreadMessages" in record.message]
            assert len(told) == 1 and "group slow has read queue 0 of topic t up to offset 3 only" in told[0]
            await commit("slow", 10)
            assert await retention.run_once() > 0 and store.min_offset("t", 0) > 3
            for _ in range(6):
                assert (await peer.send("t", bytes(30_000))).code == 0
            await eventually(lambda: store.stats()["flushed_offset"] == store.stats()["commit_log_max_offset"], "all is on disk")
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"keepUnreadMessages=false\n")).code == 0
            assert await retention.run_once() > 0
            lost = [record.message for record in caplog.records if "held messages that were not read" in record.message]
            assert len(lost) == 1 and "has read queue 0 of topic t up to offset 10 only" in lost[0]

    run(test)


def test_retention_goes_on_with_files_that_are_kept_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path, **BY_HAND, fileReservedTime=str(2**31 - 1)) as at:
            parts = await filled(at)
            assert await parts.retention.run_once(now=True) == 0 and parts.retention.plan is None
            monkeypatch.setattr(os, "statvfs", lambda path: statvfs_of(blocks=100, free=5))
            assert await parts.retention.run_once() == 2
            assert (await at.peer().send("t", bytes(10))).code == ResponseCode.SERVICE_NOT_AVAILABLE

    run(test)


def test_a_disk_that_does_not_say_how_large_it_is_never_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ramfs, or a tmpfs without a limit."""

    async def test() -> None:
        async with running(tmp_path, **BY_HAND, freeSpaceReserve="1000") as at:
            parts = await filled(at)
            monkeypatch.setattr(os, "statvfs", lambda path: statvfs_of(blocks=0, free=0))
            assert await parts.retention.run_once() == 0
            assert (await at.peer().send("t", bytes(10))).code == 0

    run(test)


def test_what_goes_next_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, mappedFileSizeCommitLog="65536", metricsExporterType="PROM", metricsPromExporterPort="0") as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            assert "nextDeletion" not in at.broker.runtime_table()
            for _ in range(5):
                assert (await peer.send("t", bytes(30_000))).code == 0
            await eventually(
                lambda: parts.store.stats()["flushed_offset"] == parts.store.stats()["commit_log_max_offset"], "all is on disk"
            )
            await parts.retention.run_once()
            assert parts.retention.plan is not None
            name, when = parts.retention.plan
            left = when - datetime.now()
            assert name == "0" * 20 and timedelta(hours=71) < left < timedelta(hours=97) and when.hour == 4
            assert at.broker.runtime_table()["nextDeletion"] == f"{name} at {when:%Y-%m-%d %H:%M:%S}"
            families = {each.name: each for each in BrokerMetrics(parts, metrics_settings(at.broker.config)).read().metrics}
            (sample,) = families["rocketmq_storage_next_deletion_timestamp_milliseconds"].samples
            assert sample.value == when.timestamp() * 1000

    run(test)
