"""The log of a controller that is alone: what was answered is there after any end, and damage is not overlooked."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from rocketpy._core.errors import Closed, DiskFull, RocketpyError, StoreCorrupt, StoreIOError, StoreLocked, TooLarge, Unsupported
from rocketpy.controller.lone_log import ENTRY_MAX, MAGIC, LoneLog

BODIES = [b"one", b"\0" * 20, b"three" * 100]


def opened(directory: Path, applied: list[bytes] | None = None) -> LoneLog:
    bodies = applied if applied is not None else []
    log = LoneLog(directory, "g", "n0", "h:1", lambda index, body: bodies.append(body))
    log.open()
    return log


def written(directory: Path) -> bytes:
    """A log with BODIES; its bytes."""

    async def scenario() -> None:
        log = opened(directory)
        for body in BODIES:
            await log.append(body)
        await log.stop()

    asyncio.run(scenario())
    return (directory / "events.log").read_bytes()


def test_what_was_appended_is_applied_at_once_and_again_at_the_next_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        applied: list[bytes] = []
        log = opened(tmp_path / "new" / "directory", applied)
        assert (log.is_leader, log.leader_id, log.leader_address, dict(log.peers)) == (True, "n0", "h:1", {"n0": "h:1"})
        await log.append(b"")
        for body in BODIES:
            await log.append(body)
            assert applied[-1] == body
        with pytest.raises(TooLarge):
            await log.append(b"x" * (ENTRY_MAX + 1))
        await log.stop()
        assert not log.is_leader
        with pytest.raises(Closed):
            await log.append(b"late")

    asyncio.run(scenario())
    again: list[bytes] = []
    opened(tmp_path / "new" / "directory", again).close()
    assert again == BODIES


def test_a_log_cut_at_any_byte_holds_all_whole_entries_and_goes_on(tmp_path: Path) -> None:
    whole = written(tmp_path)
    ends = [len(MAGIC)]
    for body in BODIES:
        ends.append(ends[-1] + 8 + len(body))
    for size in [*range(40), *range(len(whole) - 20, len(whole) + 1)]:
        (tmp_path / "events.log").write_bytes(whole[:size])
        applied: list[bytes] = []
        opened(tmp_path, applied).close()
        assert applied == BODIES[: sum(end <= size for end in ends[1:])], size
        assert (tmp_path / "events.log").stat().st_size == max(end for end in ends if end <= max(size, len(MAGIC)))


def test_a_tail_of_nothing_or_of_a_wrong_checksum_was_never_answered(tmp_path: Path) -> None:
    whole = written(tmp_path)
    for tail in (bytes(500), b"\0\0\0\5\1\2\3\4right"):
        (tmp_path / "events.log").write_bytes(whole + tail)
        applied: list[bytes] = []
        opened(tmp_path, applied).close()
        assert applied == BODIES
        assert (tmp_path / "events.log").read_bytes() == whole


@pytest.mark.parametrize("place", [0, 7, 8, 12, 17, 25, 30])
def test_damage_in_front_of_what_was_answered_ends_the_start(tmp_path: Path, place: int) -> None:
    damaged = bytearray(written(tmp_path))
    damaged[place] ^= 0xFF
    (tmp_path / "events.log").write_bytes(damaged)
    with pytest.raises(StoreCorrupt, match="controllerStorePath"):
        opened(tmp_path)
    assert (tmp_path / "events.log").read_bytes() == damaged


def test_two_controllers_do_not_share_a_log_and_rocketmqs_is_not_overlooked(tmp_path: Path) -> None:
    log = opened(tmp_path)
    with pytest.raises(StoreLocked):
        opened(tmp_path)
    log.close()
    opened(tmp_path).close()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "00000000000000000000").write_bytes(b"")
    with pytest.raises(Unsupported):
        opened(tmp_path)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreIOError, match="controllerStorePath"):
        opened(tmp_path / "file" / "below")


def test_a_full_disk_is_an_error_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, real = written(tmp_path), os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if len(data) > 4:
            return real(file, data[:4], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scenario() -> None:
        log = opened(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            with pytest.raises(DiskFull):
                await log.append(b"lost")
        assert (tmp_path / "events.log").read_bytes() == whole
        assert log.is_leader
        await log.append(b"kept")
        await log.stop()

    asyncio.run(scenario())
    applied: list[bytes] = []
    opened(tmp_path, applied).close()
    assert applied == [*BODIES, b"kept"]


def test_after_a_failed_sync_nobody_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def scenario() -> None:
        applied: list[bytes] = []
        log = opened(tmp_path, applied)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", fail)
            with pytest.raises(StoreIOError, match="leads no more"):
                await log.append(b"unknown")
        assert (log.is_leader, log.leader_id, applied) == (False, None, [])
        with pytest.raises(RocketpyError):
            await log.append(b"next")
        await log.stop()

    asyncio.run(scenario())


def test_a_write_that_nobody_waits_for_any_more_ends_before_the_next_begins(tmp_path: Path) -> None:
    async def scenario() -> None:
        applied: list[bytes] = []
        log = opened(tmp_path, applied)
        given_up = asyncio.ensure_future(log.append(b"first"))
        await asyncio.sleep(0)
        given_up.cancel()
        await log.append(b"second")
        assert applied == [b"first", b"second"]
        await log.stop()

    asyncio.run(scenario())
