"""A full disk of a file system that copies on write (btrfs): there bytes that had space need it again once they were written back, so no
allocation ahead keeps a store to a mapped file from being a SIGBUS.

A file system in a file, so these need root, mount(8) and mkfs.btrfs (btrfs-progs).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocketpy._core.remoting import encode_command
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.crash.broker_process import SMALL_FILES, BrokerProcess, NameServerProcess
from tests.crash.replica_pair import log_bytes, wait_in_sync
from tests.processes import wait_until

from .requests_wire import Wire
from .test_bad_input import SEND
from .test_full_disk import TOPIC, read_all, send, works_again

SIZE = 400 << 20
SENDERS = 4
CYCLES = 10
BALLAST = os.urandom(1 << 20)
"""Nothing that a file system may make smaller; the same each time, as 400 MB of it are written in each cycle."""


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
                    ballast.write(BALLAST[:size])
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


def fill_and_empty(disk: Path, cycles: int) -> None:
    """To the last block, then a little less, again and again: whoever needs a page has the kernel look for space all the time."""
    ballast = use_up(disk)
    for cycle in range(cycles):
        os.truncate(ballast, max(0, ballast.stat().st_size - (1 << 12 + 2 * (cycle % 6))))
        use_up(disk)
    ballast.unlink()


def send_until(over: threading.Event, port: int, queue: int, acknowledged: list[tuple[int, int]], refused: Counter[int]) -> None:
    """One connection; bodies of all sizes, a key each."""
    with Wire(port) as wire:
        for number in itertools.count():
            if over.is_set():
                return
            fields = {**SEND, "b": TOPIC, "e": str(queue), "i": f"KEYS\x01k{queue}-{number}\x02"}
            wire.write(encode_command(RequestCode.SEND_MESSAGE_V2, fields, b"%08d" % number + bytes(number % 7 * 1000), opaque=number))
            answer = wire.read()
            assert answer is not None, "the broker closed the connection"
            if answer.code == ResponseCode.SUCCESS:
                acknowledged.append((number, int(answer.fields["queueOffset"])))
            else:
                refused[answer.code] += 1


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_disk_that_fills_and_empties_under_load_refuses_sends_and_never_ends_the_broker(disk: Path, tmp_path: Path, flush: str) -> None:
    """Space for one page is found by writing others back: those among them that were asked for first and not stored to yet."""
    keys = {**SMALL_FILES, "flushDiskType": flush, "cleanResourceInterval": 3_600_000}
    broker = BrokerProcess(tmp_path / "broker", storePathRootDir=disk / "store", **keys)
    broker.store = disk / "store"
    broker.start()
    over, refused = threading.Event(), Counter[int]()
    acknowledged: list[list[tuple[int, int]]] = [[] for _ in range(SENDERS)]
    try:
        with ThreadPoolExecutor(SENDERS) as senders:
            sends = [senders.submit(send_until, over, broker.port, queue, acknowledged[queue], refused) for queue in range(SENDERS)]
            try:
                fill_and_empty(disk, CYCLES)
            finally:
                over.set()
            for each in sends:
                each.result()
        assert set(refused) == {ResponseCode.SERVICE_NOT_AVAILABLE}
        wait_until(lambda: works_again(broker), what="sends after there is space again")
        for queue, numbers in enumerate(acknowledged):
            found = read_all(broker, queue)[: numbers[-1][1] + 1]
            assert [found[offset] for _, offset in numbers] == [number for number, _ in numbers]
        broker.stop()
        broker.check_store()
    finally:
        broker.stop()


def test_a_slave_whose_disk_fills_up_waits_for_space_and_has_all_its_master_sends(disk: Path, tmp_path: Path) -> None:
    names = NameServerProcess(tmp_path / "n")
    keys = {**SMALL_FILES, "namesrvAddr": names.address, "cleanResourceInterval": 3_600_000}
    master = BrokerProcess(tmp_path / "m", brokerRole="ASYNC_MASTER", **keys)
    slave = BrokerProcess(tmp_path / "s", brokerRole="SLAVE", brokerId=1, storePathRootDir=disk / "store", **keys)
    try:
        for server in (names, master, slave):
            server.start()
        with Wire(master.port) as wire:
            assert all(send(wire, number).code == ResponseCode.SUCCESS for number in range(50))
            asyncio.run(wait_in_sync(master, slave))
            os.sync()  # pages that the slave has ready are on disk: the next store to each is a copy
            ballast = use_up(disk)
            assert all(send(wire, number).code == ResponseCode.SUCCESS for number in range(50, 250))
        wait_until(
            lambda: f"No space left on device; free disk space or add a disk, writing resumes by itself [{disk}" in slave.log.read_text(),
            what="the slave's word of its full disk",
        )
        ballast.unlink()
        os.sync()
        end = asyncio.run(wait_in_sync(master, slave))
        assert slave.log.read_text().count("boot success") == 1, "it died of it"
        slave.stop()
        master.stop()
        assert log_bytes(disk / "store", end) == log_bytes(master.store, end)
    finally:
        for server in (slave, master, names):
            server.stop()
