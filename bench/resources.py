"""What a process uses, as the kernel counts it."""

from __future__ import annotations

import os
import time
from pathlib import Path

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
