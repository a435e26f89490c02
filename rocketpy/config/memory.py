"""The memory that a server plans with, and how it is shared out: the memory of the machine, or less if a cgroup limits it, or what --memory
says.

RocketMQ: the heap and direct memory of runbroker.sh and runserver.sh, and StoreUtil.TOTAL_PHYSICAL_MEMORY_SIZE (5.3.3 store/).

The shares are parts of what is left after BASE. They are bounds: nothing is taken before it is needed, and the shares of all servers in one
process add up to no more than there is. Cached pages of files belong to no share, because the kernel can take them back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from .keys import Value

BASE: Final = 64 << 20
"""What a server itself takes, with the tables of a small cluster."""
LEAST: Final = 96 << 20
"""The least that an operator may configure: a third of it is left for shares."""
SHARED_LEAST: Final = 21 << 20
"""Shares are of so much where a machine or a cgroup has less: two thirds of what LEAST leaves, for a proxy beside its broker."""
BUFFERS_MAX: Final = 1 << 30
BUFFERS_LEAST: Final = 1 << 20
VIP_BUFFERS_PART: Final = 8
"""A broker's second listener gets this part of bufferBytesMax: few clients use it, and with all of it both would exceed the memory."""
COMPACTION_KEYS_MAX: Final = 100 << 20
PARTS: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "namesrv": {"bufferBytesMax": (BUFFERS_MAX, 2)},
    "controller": {"bufferBytesMax": (BUFFERS_MAX, 2)},
    "broker": {"bufferBytesMax": (BUFFERS_MAX, 4), "maxOffsetMapSize": (COMPACTION_KEYS_MAX, 16)},
}
"""Keys by role and name: the default, and which part of the memory it may be at most. Another value is the operator's, and stays."""
NAMESRV_BESIDE: Final = (BUFFERS_MAX, 7)
"""The share of a name server in the process of a broker, and perhaps of a proxy."""
LIMIT_FILES: Final = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
"""The names of the files with the limit, by kind of file system."""


@dataclass(frozen=True, slots=True)
class Memory:
    """An amount of memory in bytes, and where the figure comes from."""

    size: int
    source: str

    def __str__(self) -> str:
        return f"{shown_size(self.size)} ({self.source})"


def share(memory: int, most: int, part: int) -> int:
    """`most` bytes, but no more than 1/`part` of the memory that is left after BASE (of SHARED_LEAST, if less is left)."""
    return min(most, max(memory - BASE, SHARED_LEAST) // part)


def beside_broker(memory: int) -> int:
    """The memory that a proxy in its broker's process plans with: it shares out two thirds of what a proxy alone would."""
    return BASE + (memory - BASE) * 2 // 3


def shares(role: str, values: Mapping[str, Value]) -> dict[str, int]:
    """The size of each of the server's PARTS: as configured, or its share of the memory where the default was kept."""
    memory = _whole(values["memory"])
    sizes = {name: (_whole(values[name]), part) for name, part in PARTS[role].items()}
    return {name: share(memory, *part) if size == part[0] else size for name, (size, part) in sizes.items()}


def vip_buffers(buffers: int) -> int:
    """bufferBytesMax of a broker's second (VIP) listener, given that of the first."""
    return max(BUFFERS_LEAST, buffers // VIP_BUFFERS_PART)


def what_does_not_fit(role: str, values: Mapping[str, Value]) -> tuple[str, str] | None:
    """(key to change, complaint) if keys that were set above their shares ask for more memory than there is; else None."""
    memory, parts = _whole(values["memory"]), shares(role, values)
    larger = {name: size for name, size in parts.items() if size > share(memory, *PARTS[role][name])}
    wanted = dict(parts)
    if role == "broker":
        wanted["for the VIP channel"] = vip_buffers(parts["bufferBytesMax"])
    if not larger or BASE + sum(wanted.values()) <= memory:
        return None
    key = max(larger, key=lambda name: larger[name])
    said = ", ".join(f"{shown_size(size)} {name}" for name, size in wanted.items())
    return (
        key,
        f"does not fit into the memory of {memory_of(memory)}: {shown_size(BASE)} the server itself, {said}; lower it, or give more",
    )


def memory_of(size: int) -> Memory:
    """The configured amount, described by how it compares with what this process may use."""
    found = found_memory()
    if size == found.size:
        return found
    there_is = "out of" if size < found.size else "but there is only"
    return Memory(size, f"as configured, {there_is} {shown_size(found.size)} {found.source}")


def found_memory(process: Path = Path("/proc/self")) -> Memory:
    """The least of the machine's memory and of what this process's cgroup, and each cgroup above it, allows."""
    machine = Memory(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "of this machine")
    return min((machine, *_cgroup_limits(process)), key=lambda memory: memory.size)


def shown_size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"


def _cgroup_limits(process: Path) -> Iterator[Memory]:
    groups = dict(_memory_groups(_lines(process / "cgroup")))
    mounts: dict[str, list[tuple[Path, PurePosixPath | None]]] = {}
    for line in _lines(process / "mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kind, options = before.split(), after.partition(" ")[0], after.rpartition(" ")[2]
        if kind not in groups or (kind == "cgroup" and "memory" not in options.split(",")):
            continue
        root, mount = (re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field) for field in fields[3:5])
        mounts.setdefault(kind, []).append((Path(mount), _below(groups[kind], root)))
    for kind, found in mounts.items():
        is_seen = any(below is not None for _, below in found)
        for directory, below in found:
            if below is not None or not is_seen:  # of a group that lies elsewhere only the mounts themselves are seen
                yield from _limits_upward(directory, below or PurePosixPath(), LIMIT_FILES[kind])


def _memory_groups(lines: list[str]) -> Iterator[tuple[str, str]]:
    """(kind, group) of a version 2 cgroup, and of a version 1 cgroup that still controls memory."""
    for line in lines:
        if line.count(":") < 2:
            continue
        _, controllers, group = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            yield "cgroup" if controllers else "cgroup2", group


def _below(group: str, root: str) -> PurePosixPath | None:
    """The group's path below the mount, which shows only what is below `root`; None if the group lies elsewhere."""
    path = PurePosixPath(group)
    return path.relative_to(root) if ".." not in path.parts and path.is_relative_to(root) else None


def _limits_upward(mount: Path, below: PurePosixPath, file: str) -> Iterator[Memory]:
    for directory in (below, *below.parents):
        path = mount / directory / file
        for text in _lines(path)[:1]:
            if text.isdecimal():  # "max", or a number beyond any machine's memory, where there is no limit
                yield Memory(int(text), f"by {path}")


def _lines(path: Path) -> list[str]:
    """The lines of a file, split at LF only: a group's name may hold characters that str.splitlines() takes for line ends."""
    try:
        return path.read_bytes().decode(errors="surrogateescape").split("\n")
    except OSError:
        return []


def _whole(value: Value) -> int:
    assert isinstance(value, int)
    return value
