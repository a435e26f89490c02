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
from rocketpy.remoting.codes import ResponseCode
from rocketpy.state_file import StateFile
from tests.crash.broker_process import SMALL_FILES, BrokerProcess
from tests.processes import PATIENCE_S, wait_until
from tests.unit.native import ffi, lib, text

from .requests_wire import Wire
from .test_full_disk import read_all, send, works_again

INODES = 20


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Of 1 MB, or mounted with what the test is parametrized with."""
    directory = tmp_path / "disk"
    directory.mkdir()
    options = getattr(request, "param", f"size=1m,nr_inodes={INODES}")
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(directory)], capture_output=True, text=True, check=False)
    if mount.returncode != 0:
        pytest.skip(f"cannot mount a small tmpfs: {mount.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


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
    assert remedies(DiskFull(f"No space left on device{making_remedy(errno.ENOSPC, '/')}", file="/")) == (), "it stands there already"
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
        assert making_remedy(errno.ENOSPC, path) == "; free space on its file system", path
    assert making_remedy(errno.EDQUOT, "store") == "; free space on its file system" and making_remedy(errno.EIO, "store") == ""
    assert making_remedy(errno.EACCES, "store") == making_remedy(errno.EPERM, "") == "; let this user write there"
    assert "ulimit -f" in making_remedy(errno.EFBIG, "store")


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


@pytest.mark.parametrize("disk", ["size=64m,nr_inodes=200"], indirect=True)
def test_a_broker_that_ran_before_starts_and_serves_readers_without_inodes(disk: Path, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", storePathRootDir=disk / "store", **SMALL_FILES)
    broker.start()
    try:
        with Wire(broker.port) as wire:
            assert send(wire, 7).code == ResponseCode.SUCCESS
        broker.kill()
        use_up(disk)
        broker.start()
        assert read_all(broker) == [7]
        wait_until(lambda: "no inodes left (df -i): remove files" in broker.log.read_text(), PATIENCE_S, "a line that says what is missing")
        for path in disk.glob("file *"):
            path.unlink()
        wait_until(lambda: works_again(broker), PATIENCE_S, "sends after there are inodes again")
    finally:
        broker.stop()
