"""A full disk of a file system that copies on write (btrfs): there bytes that had space need it again once they were written back, so no
allocation ahead keeps a store to a mapped file from being a SIGBUS.

A file system in a file, so these need root, mount(8) and mkfs.btrfs (btrfs-progs).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.remoting.codes import ResponseCode
from tests.crash.broker_process import SMALL_FILES, BrokerProcess
from tests.processes import wait_until

from .requests_wire import Wire
from .test_full_disk import read_all, send, works_again

SIZE = 400 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    image, directory = tmp_path / "image", tmp_path / "disk"
    directory.mkdir()
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("there is no mkfs.btrfs")
    with image.open("wb") as file:
        file.truncate(SIZE)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True, capture_output=True)
    mount = subprocess.run(["mount", "-o", "loop", str(image), str(directory)], capture_output=True, text=True, check=False)
    if mount.returncode != 0:
        pytest.skip(f"cannot mount a file: {mount.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=False, capture_output=True)


def use_up(disk: Path) -> Path:
    """Takes what is left, again after each sync: what was not written back yet may turn out smaller than it was taken for."""
    path = disk / "ballast"
    with path.open("wb", buffering=0) as ballast:
        for size in (1 << 20, 1 << 16, 1 << 12, 1 << 16, 1 << 12):
            try:
                for _ in range(SIZE // size):
                    ballast.write(os.urandom(size))
            except OSError:
                os.sync()
    return path


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_was_written_back_is_stored_to_again_on_a_full_disk(disk: Path, tmp_path: Path, flush: str) -> None:
    keys = {**SMALL_FILES, "flushDiskType": flush, "cleanResourceInterval": 3_600_000}
    broker = BrokerProcess(tmp_path / "broker", storePathRootDir=disk / "store", **keys)
    broker.start()
    try:
        with Wire(broker.port) as wire:
            acknowledged = [number for number in range(50) if send(wire, number).code == ResponseCode.SUCCESS]
            assert acknowledged == list(range(50))
            os.sync()  # pages that the broker has ready are on disk: the next store to each is a copy
            ballast = use_up(disk)
            answers = [send(wire, number) for number in range(50, 250)]
        refused = [answer for answer in answers if answer.code != ResponseCode.SUCCESS]
        assert refused, "the disk was not full"
        assert {answer.code for answer in refused} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert "disk is full" in (refused[0].remark or "")
        acknowledged += [number for number, answer in enumerate(answers, 50) if answer.code == ResponseCode.SUCCESS]
        assert read_all(broker) == acknowledged
        broker.kill()
        broker.start()  # readers are served while it is full
        assert read_all(broker) == acknowledged
        ballast.unlink()
        os.sync()
        wait_until(lambda: works_again(broker), what="sends after there is space again")
        assert read_all(broker)[: len(acknowledged)] == acknowledged
    finally:
        broker.stop()
