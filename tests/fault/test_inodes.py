"""A file system with free space and no inodes: what helps is to remove files, and that is said.

A tmpfs of its own, so this needs root and mount(8).
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy._core.base import making_remedy
from rocketpy._core.errors import DiskFull, StoreIOError
from rocketpy.broker.store_directory import make_store_directory
from rocketpy.cli.terminal import remedies
from rocketpy.state_file import StateFile
from tests.unit.native import ffi, lib, text

INODES = 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    options = f"size=1m,nr_inodes={INODES}"
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(tmp_path)], capture_output=True, text=True, check=False)
    if mount.returncode != 0:
        pytest.skip(f"cannot mount a small tmpfs: {mount.stderr.strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def use_up(disk: Path) -> None:
    for number in range(os.statvfs(disk).f_favail):
        (disk / f"file {number}").touch()


def test_used_up_inodes_are_named_where_space_is_free(disk: Path) -> None:
    missing, started = disk / "0000", disk / "store" / "commitlog"
    error = DiskFull("No space left on device", file=str(started))
    assert "free disk space" in text(lib.rp_write_remedy(errno.ENOSPC, str(missing).encode()))
    assert "free disk space" in remedies(error)[0]
    use_up(disk)
    for path in (disk, missing, disk / "file 0", disk / "store" / "consumequeue" / "topic" / "0"):
        assert "no inodes left" in text(lib.rp_write_remedy(errno.ENOSPC, str(path).encode()))
        assert "free disk space" in text(lib.rp_write_remedy(errno.EDQUOT, str(path).encode())), "a quota, not the disk"
    assert "no inodes left" in remedies(error)[0]
    with pytest.raises(OSError, match="No space left"), (disk / "file 1").open("wb", buffering=0) as ballast:
        while ballast.write(bytes(4096)):
            pass
    assert "free disk space" in text(lib.rp_write_remedy(errno.ENOSPC, str(missing).encode())), "both are used up"


def test_a_relative_path_is_of_the_working_directory(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(disk)
    use_up(disk)
    for path in ("store", "store/commitlog/0000", "."):
        assert "no inodes left" in making_remedy(errno.ENOSPC, path), path
    for path in ("", "/", "//", "/store", "x" * 5000):
        assert making_remedy(errno.ENOSPC, path) == "", path


def test_a_directory_or_state_file_that_cannot_be_made_says_that_inodes_are_used_up(disk: Path) -> None:
    use_up(disk)
    error = ffi.new("rp_error *")
    assert lib.rp_path_make_directories(str(disk / "queues" / "topic").encode(), error) == DiskFull.status
    assert text(error.message).endswith("; its file system has no inodes left (df -i): remove files")
    with pytest.raises(StoreIOError, match=r"no inodes left \(df -i\): remove files there, or name another place"):
        make_store_directory("storePathRootDir", disk / "store" / "deep")
    with pytest.raises(DiskFull, match="no inodes left") as full:
        StateFile(disk / "config" / "topics.json").write("{}")
    assert remedies(full.value) == (), "it stands there already"
