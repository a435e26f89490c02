"""What a process uses, as the kernel counts it."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GIB = 1 << 30
FEED_STEP = 16 << 20
READ_BYTES = 16 << 20
MADV_POPULATE_WRITE = 23  # mmap's name for it came with Python 3.14
HUGE_PAGE = 2 << 20
MIB_PER_KIB = 1 / 1024


def rss_without_files_mib(pid: int) -> float:
    """Resident memory that is not a file page: anonymous and shared (RssAnon + RssShmem)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) * MIB_PER_KIB


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_share_while_idle(pid: int, seconds: float) -> float:
    """Share of one core used over some seconds, 1.0 = all of it."""
    before, begin = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - begin)


def is_virtual() -> bool:
    return any("hypervisor" in line.split() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))


def read_through(path: Path) -> None:
    """Its pages are in the page cache afterwards."""
    with path.open("rb", buffering=0) as file:
        while file.read(READ_BYTES):
            pass


@contextmanager
def fed_memory(size: int, seconds: float) -> Iterator[None]:
    """The kernel is given `size` bytes of pages that the host backs, step by step over `seconds`; on a virtual machine only.

    The first write to a page that the host has not backed costs ten times what it costs later, and some hosts take pages back as soon as
    a GiB of them is free. Whoever writes most files would pay for that; here all who are measured find what a machine of its own has.
    Huge pages, because giving is done beside what is measured: 0.006 s of CPU a GiB instead of the 0.11 of small ones.
    """
    if size == 0 or not is_virtual():
        yield
        return
    steps = range(0, size, FEED_STEP)
    over = threading.Event()
    with mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in steps:
            memory.madvise(MADV_POPULATE_WRITE, at, min(FEED_STEP, size - at))

        def give() -> None:
            for at in steps:
                memory.madvise(mmap.MADV_DONTNEED, at, min(FEED_STEP, size - at))
                if over.wait(seconds / len(steps)):
                    return

        giver = threading.Thread(target=give, name="memory")
        giver.start()
        try:
            yield
        finally:
            over.set()
            giver.join()
