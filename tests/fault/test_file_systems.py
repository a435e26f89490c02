"""Full disks of other kinds: a file system that cannot allocate (ext3, as NFS or FUSE), and one with blocks smaller than a page. There the
first store to a mapped page is what needs space, and would be a SIGBUS.

File systems in files, so these need root, mount(8) and mke2fs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROGRAM = """
import os, pathlib, sys
from rocketpy._core.errors import DiskFull
from rocketpy._core.store import MessageStore

store = MessageStore(
    sys.argv[1] + "/store", commit_log_file_size=1 << 20, consume_queue_file_size=4000, populate_ahead_bytes=4096,
    index_slot_count=5000, index_entry_count_max=20000,
)

def append(keys=""):
    store.append("T", 0, b"x" * 20, keys)

def take_what_is_left():
    with open(sys.argv[1] + "/ballast", "ab", buffering=0) as ballast:
        try:
            while ballast.write(bytes(1024)):
                pass
        except OSError:
            os.fsync(ballast.fileno())

def make_index_sparse():
    (path,) = pathlib.Path(sys.argv[1], "store", "index").iterdir()
    data = path.read_bytes()
    with path.open("wb") as file:
        file.truncate(len(data))
        for at in range(0, len(data), 4096):
            if data[at : at + 4096].strip(b"\\0"):
                os.pwrite(file.fileno(), data[at : at + 4096], at)

def append_until_full():
    try:
        for number in range(20000):
            append(f"KEYS\\x01k{number}\\x02")
    except DiskFull as error:
        print(number, error)
"""


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """on_disk(arguments of mke2fs, programs…): each program runs on that disk and ends without closing its store; the last one's output."""
    image, disk = tmp_path / "image", tmp_path / "disk"
    disk.mkdir()
    if shutil.which("mke2fs") is None:
        pytest.skip("there is no mke2fs")

    def run(kind: list[str], *programs: str) -> str:
        with image.open("wb") as file:
            file.truncate(30 << 20)
        subprocess.run(["mke2fs", "-q", "-F", "-m", "0", *kind, str(image)], check=True)
        mount = subprocess.run(["mount", "-o", "loop", str(image), str(disk)], capture_output=True, text=True, check=False)
        if mount.returncode != 0:
            pytest.skip(f"cannot mount a file: {mount.stderr.strip()}")
        for program in programs:
            command = [sys.executable, "-c", f"{PROGRAM}{program}\nsys.stdout.flush()\nos._exit(0)", str(disk)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, f"{program}: {done.returncode} {done.stderr}"
        return done.stdout

    yield run
    subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)


@pytest.mark.parametrize("kind", [["-t", "ext3"], ["-t", "ext2", "-b", "4096"], ["-t", "ext4", "-b", "1024"]], ids=lambda kind: kind[1])
def test_keys_that_find_no_space_are_no_crash(on_disk: Callable[..., str], kind: list[str]) -> None:
    begun = "append('KEYS\\x01first\\x02')\nwhile store.stats()['indexed_offset'] < store.stats()['commit_log_max_offset']: pass\n"
    drained = "\nstore.close()"
    assert "the disk is full" in on_disk(kind, begun + "take_what_is_left()\nappend_until_full()" + drained)


def test_a_sparse_index_as_rocketmq_leaves_it_does_not_refuse_the_start_on_a_full_disk(on_disk: Callable[..., str]) -> None:
    stopped = "append('KEYS\x01first\x02')\nstore.close()\nmake_index_sparse()\ntake_what_is_left()"
    found = "append_until_full()\nprint(store.query('T', 'first', 0, 1 << 60, 10).offsets)"
    output = on_disk(["-t", "ext4", "-b", "4096"], stopped, found)
    assert "the disk is full" in output and "[0]" in output, output


def test_the_page_in_which_a_recovered_log_ends_takes_messages_on_a_full_disk(on_disk: Callable[..., str]) -> None:
    """The queue's page has all of its blocks, so nothing stops an append before it stores to the log."""
    ends_early_in_a_page = (
        "for _ in range(165): append()\nwhile not 1000 < store.stats()['commit_log_max_offset'] % 4096 < 1500: append()\nos.sync()"
    )
    assert "the disk is full" in on_disk(["-t", "ext4", "-b", "1024"], ends_early_in_a_page, "take_what_is_left()\nappend_until_full()")
