"""Where a trial's data goes: not into memory, and not where it has no room."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketpy.cli import place
from rocketpy.cli.place import AHEAD_BYTES, bytes_of, file_system_kind, free_bytes, trial_place
from tests.unit.cli.processes import run

WANTED = 1 << 30
ROOM = WANTED + AHEAD_BYTES


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """In place of /tmp and /var/tmp."""
    usual, lasting = tmp_path / "usual", tmp_path / "lasting"
    usual.mkdir()
    lasting.mkdir()
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    monkeypatch.setattr(place, "LASTING", lasting)
    return usual, lasting


@pytest.mark.parametrize(
    ("kinds", "free", "chosen"),
    [
        (("ext4", "ext4"), (ROOM, 2 * ROOM), 0),  # as ever
        (("tmpfs", "ext4"), (2 * ROOM, ROOM), 1),  # memory is no disk
        (("tmpfs", "ext4"), (ROOM, ROOM - 1), 0),  # but it has room
        (("ext4", "ext4"), (ROOM - 1, ROOM), 1),
        (("tmpfs", "ext4"), (5, 9), 1),
        (("ext4", "tmpfs"), (9, 5), 0),
    ],
)
def test_a_disk_with_room_is_chosen(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, str], free: tuple[int, int], chosen: int
) -> None:
    monkeypatch.setattr(place, "file_system_kind", lambda directory, mounts: kinds[places.index(directory)])
    monkeypatch.setattr(place, "free_bytes", lambda directory: free[places.index(directory)])
    assert trial_place(WANTED) == places[chosen]


def test_who_sets_tmpdir_has_chosen(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "free_bytes", lambda directory: 0)
    monkeypatch.setenv("TMPDIR", str(places[0]))
    assert trial_place(WANTED) == places[0]


def test_a_place_that_is_not_there_is_not_chosen(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    places[1].rmdir()
    monkeypatch.setattr(place, "free_bytes", lambda directory: 0)
    assert trial_place(WANTED) == places[0]


def test_the_kind_of_a_mount_with_blanks_is_found(tmp_path: Path) -> None:
    directory = tmp_path / "a b"
    directory.mkdir()
    assert (
        file_system_kind(
            directory / "not" / "there", f"/dev/x / ext4 rw 0 0\nt {str(directory).replace(' ', chr(92) + '040')} tmpfs rw 0 0"
        )
        == "tmpfs"
    )
    assert free_bytes(directory / "not" / "there") > 0


def test_a_disk_that_does_not_say_how_large_it_is_never_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=0, used=0, free=0))  # as of ramfs
    assert free_bytes(tmp_path) > bytes_of(10**12, 1024)


def test_a_check_that_the_disk_cannot_hold_does_not_begin(tmp_path: Path) -> None:
    count = 10**12
    assert bytes_of(count, 1024) > free_bytes(tmp_path)
    done = run("up", "--namesrv-port", "0", "--broker-port", "0", "--check", str(count), "--dir", str(tmp_path / "data"))
    assert done.returncode == 1 and done.stdout == ""
    assert (
        done.stderr.startswith("rocketpy up: 1,000,000,000,000 messages of 1,024 bytes need about 1,")
        and "name another directory" in done.stderr
        and len(done.stderr.splitlines()) == 1
    )
    assert not (tmp_path / "data").exists()
