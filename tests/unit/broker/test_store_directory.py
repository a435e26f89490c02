"""A store directory that cannot be: the key, the cause and the remedy are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy._core.errors import StoreIOError
from rocketpy.broker.store_directory import check_kind_of_store, make_store_directory
from tests.unit.cli.processes import run


def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    make_store_directory("storePathRootDir", tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("below", ["", "store"])
def test_a_file_in_its_place_is_named_with_the_key(below: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(StoreIOError, match=rf"storePathRootDir={file / below}: {file} is no directory; name another place"):
        make_store_directory("storePathRootDir", file / below)


def test_a_directory_of_somebody_else_is_named_with_the_key(foreign_directory: Path) -> None:
    with pytest.raises(StoreIOError, match=r"storePathCommitLog=.*chown"):
        make_store_directory("storePathCommitLog", foreign_directory / "log")


def test_a_directory_the_kernel_does_not_make_is_named_with_the_key() -> None:
    with pytest.raises(StoreIOError, match=r"storePathRootDir=/proc/store cannot be made: .*name another place"):
        make_store_directory("storePathRootDir", Path("/proc/store"))


@pytest.mark.parametrize("name", ["config/topics/CURRENT", "consumequeue/CURRENT"])
def test_a_store_that_rocketmq_keeps_in_rocksdb_is_refused_and_left_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("MANIFEST-000005")
    done = run("broker", "-o", f"storePathRootDir={tmp_path}", "-o", "listenPort=0", "-o", "bindAddress=127.0.0.1")
    assert done.returncode == 1 and "is RocksDB's (storeType=defaultRocksDB)" in done.stderr, done.stderr
    assert not (tmp_path / "commitlog").exists()
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "topics.json").write_text("{}")
    check_kind_of_store(tmp_path)


def test_the_start_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    done = run("broker", "-o", f"storePathRootDir={file}", "-o", "listenPort=0", "-o", "bindAddress=127.0.0.1")
    assert done.returncode == 1
    assert f"rocketpy broker: storePathRootDir={file}: {file} is no directory" in done.stderr
