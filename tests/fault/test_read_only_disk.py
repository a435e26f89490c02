"""A disk that turns read-only under a running broker, as ext4 makes itself after an error: sends are refused, nothing acknowledged is lost,
and after the repair the broker starts with all of it. On a mount that is read-only already the start is refused with cause and remedy.

File systems of its own, so these need root, mount(8) and mkfs.ext4.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.cli import doctor
from rocketpy.remoting.codes import ResponseCode
from tests.crash.broker_process import SMALL_FILES, BrokerProcess
from tests.processes import wait_until
from tests.unit.cli.processes import run

from .requests_wire import Wire
from .test_full_disk import read_all, send

SENDS_MAX = 4000


class LoopDisk:
    """ext4 in a file."""

    def __init__(self, directory: Path) -> None:
        self.image = directory / "ext4"
        self.path = directory / "disk"

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.path)], check=True, capture_output=True)

    def fail(self) -> None:
        """As after a bad block of its metadata: read-only from now on (ext4's `abort`, made for this)."""
        subprocess.run(["mount", "-o", "remount,abort", str(self.path)], check=True)

    def remount(self, mode: str) -> None:
        """Returns when the kernel took it: requests of an io_uring, and files open for them, may outlive a killed process for a moment."""

        def was_taken() -> bool:
            subprocess.run(["mount", "-o", f"remount,{mode}", str(self.path)], check=True, capture_output=True)
            return True

        wait_until(was_taken, what=f"the remount as {mode}", every=0.1, not_yet=subprocess.CalledProcessError)

    def unmount(self) -> None:
        """Returns when nobody has it mounted: a mount namespace that another program made meanwhile keeps it as it is, aborted."""
        subprocess.run(["umount", str(self.path)], check=True)
        wait_until(lambda: not self._loop_devices(), what="the end of the mount in every namespace")

    def _loop_devices(self) -> str:
        return subprocess.run(["losetup", "-j", str(self.image)], check=True, capture_output=True, text=True).stdout

    def repair(self) -> None:
        self.unmount()
        subprocess.run(["fsck.ext4", "-p", str(self.image)], check=False, capture_output=True)
        self.mount()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    made = LoopDisk(tmp_path)
    made.path.mkdir()
    with made.image.open("wb") as image:
        image.truncate(256 << 20)
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", "-F", str(made.image)], check=True)
    try:
        made.mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"cannot mount a file: {error.stderr.decode().strip()}")
    try:
        yield made
    finally:
        subprocess.run(["umount", "-l", str(made.path)], check=False)


def broker_on(disk: LoopDisk, tmp_path: Path, flush: str) -> BrokerProcess:
    return BrokerProcess(tmp_path / "broker", storePathRootDir=disk.path / "store", flushDiskType=flush, **SMALL_FILES)


def send_all(broker: BrokerProcess, first: int, count: int) -> list[int]:
    with Wire(broker.port) as wire:
        assert {send(wire, number).code for number in range(first, first + count)} == {ResponseCode.SUCCESS}
    return list(range(first, first + count))


def send_until_refused(broker: BrokerProcess, first: int) -> list[int]:
    """The numbers that were acknowledged before."""
    with Wire(broker.port) as wire:
        for number in range(first, first + SENDS_MAX):
            answer = send(wire, number)
            if answer.code != ResponseCode.SUCCESS:
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, f"{answer.code}: {answer.remark}"
                assert "[the store is read-only]" in (answer.remark or "") or "[sync failed: " in (answer.remark or "")
                return list(range(first, number))
    raise AssertionError("a disk that takes no writes took them all")


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_sends_are_refused_readers_go_on_and_after_the_repair_what_was_synced_is_there(disk: LoopDisk, tmp_path: Path, flush: str) -> None:
    broker = broker_on(disk, tmp_path, flush)
    broker.start()
    try:
        synced = send_all(broker, 0, 60)
        broker.stop()  # an ASYNC_FLUSH broker has synced them now as well
        broker.start()
        pid = broker.pid
        if flush == "SYNC_FLUSH":
            synced += send_all(broker, 60, 20)
        disk.fail()
        acknowledged = synced + send_until_refused(broker, len(synced))
        assert read_all(broker) == acknowledged
        assert send_until_refused(broker, len(acknowledged)) == []  # a failed sync is never tried again into a success
        assert broker.pid == pid and broker.process.is_running()
        broker.stop()
        disk.repair()
        broker.start()
        found = read_all(broker)
        assert found[: len(synced)] == synced and found == acknowledged[: len(found)]
        if flush == "SYNC_FLUSH":
            assert found == acknowledged
        assert send_all(broker, 9_000, 10) == read_all(broker)[-10:]
    finally:
        broker.stop()


def test_a_start_on_a_read_only_mount_is_refused_and_serves_after_a_remount(disk: LoopDisk, tmp_path: Path) -> None:
    broker = broker_on(disk, tmp_path, "SYNC_FLUSH")
    broker.start()
    try:
        acknowledged = send_all(broker, 0, 60)
        broker.kill()
        disk.remount("ro")
        refused = run("broker", "-c", str(broker.config))
        assert refused.returncode == 1
        assert f"the file system of {disk.path / 'store'} is mounted read-only: mount it for writing" in refused.stderr
        assert doctor.check_disk(disk.path / "store").text.startswith(f"{disk.path / 'store'}: mounted read-only")
        disk.remount("rw")
        broker.start()
        assert read_all(broker) == acknowledged
    finally:
        broker.stop()
