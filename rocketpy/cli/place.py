"""Where a trial puts its data by default: on a disk with room for it. Many systems keep /tmp in memory (Debian 13 does), but the first two
files of a store take 1 GiB each, and disk figures that were measured in memory mean nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

LASTING = Path("/var/tmp")
"""The other directory for everybody's temporary files: it outlives a reboot, so it is on a disk."""
AHEAD_BYTES = 2 << 30
"""What the commit log takes beyond the messages: the file being written and the next one."""
BESIDE_BODY_BYTES = 256
"""What a message takes beside its body: header, properties, topic, its entries in queue and index."""
FILL_MAX = 0.9
"""diskSpaceWarningLevelRatio: above it a broker takes no messages."""


def bytes_of(messages: int, body_size: int) -> int:
    """How much of an empty disk that many messages take."""
    return int(messages * (body_size + BESIDE_BODY_BYTES) / FILL_MAX)


def existing(directory: Path) -> Path:
    """The nearest existing directory at or above the path: a store is made only at the first start."""
    while not os.path.isdir(directory) and directory != directory.parent:  # noqa: PTH112 - Path.is_dir raises where it may not look
        directory = directory.parent
    return directory


def free_bytes(directory: Path) -> int:
    """Free bytes at the path. A file system that does not say how large it is (ramfs) never fills up."""
    usage = shutil.disk_usage(existing(directory))
    return usage.free if usage.total > 0 else sys.maxsize


def file_system_kind(directory: Path, mounts: str) -> str:
    """The kind of file system (ext4, tmpfs, nfs4, …), according to the text of /proc/self/mounts."""
    place = existing(directory).resolve()
    kind, best = "unknown", -1
    for line in mounts.splitlines():
        _, mount, found, *_ = line.split()
        if place.is_relative_to(mount.replace("\\040", " ")) and len(mount) >= best:  # of two in one place the later hides the other
            kind, best = found, len(mount)
    return kind


def trial_place(wanted_bytes: int) -> Path:
    """The parent directory for a trial's own: TMPDIR if set; else, of the usual one and LASTING, the first on a disk with enough room, the
    first with enough room at all, or the one with the most."""
    usual = Path(tempfile.gettempdir())
    if os.environ.get("TMPDIR") or not os.access(LASTING, os.W_OK | os.X_OK):
        return usual
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    wanted_bytes += AHEAD_BYTES

    def merit(place: Path) -> tuple[bool, bool, int]:
        free = free_bytes(place)
        has_room = free >= wanted_bytes
        return has_room and file_system_kind(place, mounts) != "tmpfs", has_room, 0 if has_room else free

    return max((usual, LASTING), key=merit)  # the first of two equal ones
