"""What a process uses, as the kernel counts it."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

GIB = 1 << 30
TOUCH_STEP = 256 << 20
MIB_PER_KIB = 1 / 1024


def rss_without_files_mib(pid: int) -> float:
    """Resident memory that is no file page: anonymous and shared (RssAnon + RssShmem)."""
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


def available_bytes() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


def touch_memory(share: float) -> float:
    """Writes to that share of the available memory once and gives it back; GiB touched.

    On a virtual machine the first write to a page that the host has not backed yet costs ten times what it costs later. Whoever fills the
    page cache first would pay that for all others.
    """
    size = int(available_bytes() * share) // TOUCH_STEP * TOUCH_STEP
    with mmap.mmap(-1, max(size, TOUCH_STEP)) as memory:
        for at in range(0, size, TOUCH_STEP):
            memory.madvise(mmap.MADV_POPULATE_WRITE if hasattr(mmap, "MADV_POPULATE_WRITE") else 23, at, TOUCH_STEP)
    return size / GIB
