"""Files of a store that retention should have taken: their messages are no longer in the log. From outside, by the formats alone.

index file     40 bytes of header: begin and end time, begin and end offset in the log (8 bytes each, big endian), two counts
queue file     entries of 20 bytes: offset in the log (8), size (4), tag code (8)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

ENTRY_BYTES = 20


def bytes_in(directory: Path) -> int:
    """Of the files below; those that go meanwhile count nothing."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def first_offset(store: Path) -> int:
    return min((int(path.name) for path in (store / "commitlog").iterdir()), default=0)


def outlived(store: Path) -> list[str]:
    """Index files, and queue files in front of others, that point below the log only."""
    low = first_offset(store)
    return sorted(str(path.relative_to(store)) for path in (*_index_files(store, low), *_queue_files(store, low)))


def _index_files(store: Path, low: int) -> Iterator[Path]:
    """The last one is being written."""
    for path in sorted((store / "index").glob("*"))[:-1]:
        _, _, _, end = struct.unpack_from(">qqqq", path.read_bytes())
        if 0 < end < low:
            yield path


def _queue_files(store: Path, low: int) -> Iterator[Path]:
    """A queue keeps its last file, which says where it ends."""
    for queue in (store / "consumequeue").glob("*/*"):
        for path in sorted(queue.iterdir())[:-1]:
            last, size = struct.unpack_from(">qi", path.read_bytes(), path.stat().st_size - ENTRY_BYTES)
            if size > 0 and last < low:  # else it is being written, and the next one was made ahead
                yield path
