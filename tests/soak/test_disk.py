"""Files that point below the log only are found, those that do not are left alone."""

from __future__ import annotations

import struct
from pathlib import Path

from .disk import ENTRY_BYTES, bytes_in, first_offset, outlived


def make(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def entries(*offsets: int) -> bytes:
    return b"".join(struct.pack(">qiq", offset, 100, 0) for offset in offsets)


def index(end: int) -> bytes:
    return struct.pack(">qqqqii", 1, 2, 0, end, 1, 1)


def test_files_behind_the_log_are_found(tmp_path: Path) -> None:
    for name in ("00000000000000004096", "00000000000000008192"):
        make(tmp_path / "commitlog" / name, bytes(4096))
    queue = tmp_path / "consumequeue" / "t" / "0"
    make(queue / "00000000000000000000", entries(0, 4000))
    make(queue / "00000000000000000040", entries(4050, 4100))
    make(queue / "00000000000000000080", entries(4200) + bytes(ENTRY_BYTES))  # is being written
    make(queue / "00000000000000000120", bytes(2 * ENTRY_BYTES))  # made ahead
    for name, end in (("20260101000000000", 4095), ("20260101000000001", 4096), ("20260101000000002", 0)):
        make(tmp_path / "index" / name, index(end))
    assert len(entries(0)) == ENTRY_BYTES
    assert first_offset(tmp_path) == 4096
    assert outlived(tmp_path) == ["consumequeue/t/0/00000000000000000000", "index/20260101000000000"]
    assert bytes_in(tmp_path / "commitlog") == 8192
