"""What a process holds at a moment, read from /proc, and what a row of such moments says: decisions without I/O below the reader."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GROWTH_BYTES_MAX = 3 << 20
"""Over the second half of a process's life in a long run. What a message, a connection or a topic left behind would be more: of the 400,000
messages, 10,000 connections and 2,000 topics of fifteen minutes, 8, 300 and 1,500 bytes each."""
JUDGED_S = 480.0
"""Who lived for less is not judged by his memory: a broker's rates alone fill a table for ten minutes (stats.py, RATE_SAMPLES)."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """One process at one moment."""

    at_s: float
    anonymous_bytes: int
    sockets: int
    descriptors: Mapping[str, int]
    """All but sockets and files of the store, by what they are."""
    store_files: int
    maps: int
    """All but those of the store's files."""
    store_maps: int
    deleted: tuple[str, ...]
    """Files that are gone from the disk and still open or mapped."""
    threads: Mapping[str, int]
    """By name; the stand-ins of reactors count as their reactors (docs/locks.md)."""

    @property
    def thread_count(self) -> int:
        return sum(self.threads.values())


def holdings(pid: int, store: Path, now_s: float) -> Holdings:
    """Raises OSError when the process is gone."""
    proc = Path(f"/proc/{pid}")
    kinds: Counter[str] = Counter()
    others: Counter[str] = Counter()
    deleted = set()
    for entry in (proc / "fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue  # closed since the listing
        is_store = target.startswith(str(store))
        if target.startswith("socket:"):
            kinds["socket"] += 1
        elif is_store:
            kinds["store"] += 1
        else:
            others[re.sub(r"\d+", "N", target)] += 1
        if is_store and target.endswith(" (deleted)"):
            deleted.add(target)
    for line in (proc / "maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        target = fields[5] if len(fields) > 5 else ""
        is_store = target.startswith(str(store))
        kinds["store map" if is_store else "map"] += 1
        if is_store and target.endswith(" (deleted)"):
            deleted.add(target)
    threads: Counter[str] = Counter()
    for task in (proc / "task").iterdir():
        try:
            threads[(task / "comm").read_text().strip()] += 1
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended since the listing
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
    anonymous = int(status["RssAnon"].split()[0]) * 1024
    return Holdings(
        now_s, anonymous, kinds["socket"], others, kinds["store"], kinds["map"], kinds["store map"], tuple(sorted(deleted)), threads
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares: y per x; 0 of a row without extent."""
    if len(points) < 2:
        return 0.0
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    extent = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / extent if extent else 0.0


def growth(points: Sequence[tuple[float, float]]) -> float:
    """What the fitted line gains over the second half of a row of (time, value): the first half is the warm-up."""
    if not points:
        return 0.0
    middle = (points[0][0] + points[-1][0]) / 2
    half = [point for point in points if point[0] >= middle]
    return slope(half) * (half[-1][0] - half[0][0])


def memory_fault(row: Sequence[Holdings]) -> str:
    """Why a process's memory is not flat; empty: it is, or it was not looked at for long enough."""
    if not row or row[-1].at_s - row[0].at_s < JUDGED_S:
        return ""
    gained = growth([(each.at_s, each.anonymous_bytes) for each in row])
    if gained <= GROWTH_BYTES_MAX:
        return ""
    return f"anonymous memory grew by {gained / (1 << 20):.1f} MB in the second half, to {row[-1].anonymous_bytes / (1 << 20):.1f} MB"


LATENCY_FACTOR, LATENCY_SLACK_S = 2.0, 0.005


def latency_fault(row: Sequence[tuple[float, float]]) -> str:
    """(time, latency of a probe): the median of the last third against that of the second, of a run long enough to have them. Twice and
    5 ms more is what another program on a shared machine does; a table walked for each message does more, and does not stop."""
    if not row or row[-1][0] - row[0][0] < JUDGED_S:
        return ""
    begin, third = row[0][0], (row[-1][0] - row[0][0]) / 3
    before = statistics.median([value for at, value in row if begin + third <= at < begin + 2 * third] or [0.0])
    after = statistics.median([value for at, value in row if at >= begin + 2 * third])
    if after <= LATENCY_FACTOR * before + LATENCY_SLACK_S:
        return ""
    return f"a probe's median was {before * 1000:.2f} ms in the second third and {after * 1000:.2f} ms in the last"


def more_than(start: Mapping[str, int], end: Mapping[str, int]) -> dict[str, int]:
    """What there is more of than at the start, with how many there are."""
    return {name: count for name, count in end.items() if count > start.get(name, 0)}


MADE_LATER = {"pipe:[N]": 3}
"""Descriptors that stay once they were needed: standard input, and the two ends of a slave's backlog pipe (csrc/ha/backlog_pipe.h)."""


def settled_faults(start: Holdings, end: Holdings, *, maps_slack: int, sockets_slack: int = 0) -> list[str]:
    """What a process still holds when the load is over that it did not hold before. maps_slack: see Bounds."""
    faults = []
    if end.sockets > start.sockets + sockets_slack:
        faults.append(f"{end.sockets} sockets, {start.sockets} at the start")
    if more := {name: count for name, count in more_than(start.descriptors, end.descriptors).items() if count > MADE_LATER.get(name, 0)}:
        faults.append(f"more descriptors than at the start: {more}")
    if end.maps > start.maps + maps_slack:
        faults.append(f"{end.maps} maps, {start.maps} at the start")
    if more := {name: count for name, count in more_than(start.threads, end.threads).items() if not name.endswith("'")}:
        faults.append(f"more threads than at the start: {more}")
    if end.deleted:
        faults.append(f"deleted files are held: {end.deleted[:3]}")
    return faults


@dataclass(frozen=True, slots=True)
class Bounds:
    """While the load runs. Reasons: clients is every connection the load may have at once, and as many that are being closed."""

    clients: int
    store_files: int
    maps_slack: int = 40
    """malloc's arenas, one or two maps for each of up to 16 threads, and large blocks of moments."""
    threads_slack: int = 4
    """Stand-ins of reactors, a look-up of a name."""


def running_faults(start: Holdings, now: Holdings, bounds: Bounds) -> list[str]:
    faults = []
    if now.sockets > start.sockets + bounds.clients:
        faults.append(f"{now.sockets} sockets, {start.sockets} at the start, {bounds.clients} clients at most")
    if sum(now.descriptors.values()) > sum(start.descriptors.values()) + 8:
        faults.append(f"descriptors {dict(now.descriptors)}, at the start {dict(start.descriptors)}")
    if now.store_files > bounds.store_files:
        faults.append(f"{now.store_files} files of the store are open, {bounds.store_files} may be")
    if now.store_maps > 2 * bounds.store_files:
        faults.append(f"{now.store_maps} maps of the store's files, {2 * bounds.store_files} may be")
    if now.maps > start.maps + bounds.maps_slack:
        faults.append(f"{now.maps} maps, {start.maps} at the start")
    if now.thread_count > start.thread_count + bounds.threads_slack:
        faults.append(f"{now.thread_count} threads, {start.thread_count} at the start: {dict(now.threads)}")
    return faults
