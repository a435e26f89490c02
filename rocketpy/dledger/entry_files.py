"""Files of one size in a row, named by the offset of their first byte. DLedger: MmapFileList, DefaultMmapFile (0.3.2 dledger/store/file/).

Every file has its full size from the start, as DLedger wants it, with a hole where nothing was written. Everything behind the end is zero:
cut() removes the bytes for good, so that the rest of an abandoned log is never read as the continuation of another.

Threads  one at a time. Bounds: one descriptor a file.
Errors   StoreIOError, DiskFull; StoreCorrupt for files that do not make a row. After write, cut or sync has raised, it is unknown what
         is on disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._core.base import making_remedy
from .._core.errors import DiskFull, StoreCorrupt, StoreIOError
from ..state_file import sync_directory

NAME_DIGITS = 20


class EntryFiles:
    def __init__(self, directory: Path, file_size: int) -> None:
        self.directory = directory
        self.file_size = file_size
        self._descriptors: dict[int, int] = {}
        self._unsynced: set[int] = set()

    @property
    def offsets(self) -> list[int]:
        """The first offsets of the files, ascending."""
        return sorted(self._descriptors)

    def open(self) -> None:
        with store_errors(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            names = sorted(path.name for path in self.directory.iterdir())
            for name in names:
                if len(name) == NAME_DIGITS and name.isascii() and name.isdigit():
                    self._open_file(int(name))
            sync_directory(self.directory.parent)
        offsets = self.offsets
        for number, offset in enumerate(offsets):
            if offset % self.file_size or offset != offsets[0] + number * self.file_size:
                raise StoreCorrupt(f"files of {self.file_size} bytes do not follow each other up to {offset}", file=str(self.directory))

    def close(self) -> None:
        descriptors, self._descriptors = self._descriptors, {}
        self._unsynced.clear()
        for descriptor in descriptors.values():
            os.close(descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Reads within one file: less than size at the end of the file, nothing if there is no file."""
        base = offset - offset % self.file_size
        if offset < 0 or base not in self._descriptors:
            return b""
        with store_errors(self._path(base)):
            return os.pread(self._descriptors[base], min(size, base + self.file_size - offset), offset - base)

    def write(self, offset: int, data: bytes) -> None:
        """Writes within one file, which is created if it does not exist."""
        base = offset - offset % self.file_size
        with store_errors(self._path(base)):
            if base not in self._descriptors:
                self._open_file(base)
                sync_directory(self.directory)
            self._unsynced.add(base)
            view, at = memoryview(data), offset - base
            while view:
                count = os.pwrite(self._descriptors[base], view, at)
                view, at = view[count:], at + count

    def sync(self) -> None:
        for base in sorted(self._unsynced):
            with store_errors(self._path(base)):
                os.fdatasync(self._descriptors[base])
        self._unsynced.clear()

    def cut(self, offset: int) -> None:
        """Fills everything from offset on with zeros, on disk. Later files are deleted first, beginning with the last, so that kill -9
        leaves no gap between files."""
        for base in reversed(self.offsets):
            path = self._path(base)
            with store_errors(path):
                if base >= offset and base > 0:
                    os.close(self._descriptors.pop(base))
                    self._unsynced.discard(base)
                    path.unlink()
                    sync_directory(self.directory)
                elif base + self.file_size > offset:
                    os.ftruncate(self._descriptors[base], max(offset - base, 0))
                    os.ftruncate(self._descriptors[base], self.file_size)
                    os.fsync(self._descriptors[base])

    def _open_file(self, base: int) -> None:
        descriptor = os.open(self._path(base), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._descriptors[base] = descriptor
        size = os.fstat(descriptor).st_size
        if size > self.file_size:
            raise StoreCorrupt(f"the file has {size} bytes, more than the {self.file_size} of a file", file=str(self._path(base)))
        if size < self.file_size:  # new, or cut() was ended between its two halves
            os.ftruncate(descriptor, self.file_size)

    def _path(self, base: int) -> Path:
        return self.directory / f"{base:0{NAME_DIGITS}d}"


def write_file(path: Path, text: str) -> None:
    """Replaces the contents of the file. At every moment it has the old or the new text; when this returns, the new one."""
    with store_errors(path):
        temporary = path.with_name(path.name + ".tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)


def read_properties(path: Path) -> dict[str, str] | None:
    """The lines name=value as Java's Properties writes them; None if there is no file. What can be read of a damaged file is returned."""
    try:
        with store_errors(path):
            text = path.read_bytes().decode("utf-8", "replace")
    except StoreIOError as error:
        if error.os_errno == errno.ENOENT:
            return None
        raise
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turns an OSError of the block into an error that names the file."""
    try:
        yield
    except StoreIOError:
        raise
    except OSError as error:
        kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreIOError
        remedy = making_remedy(error.errno or 0, path)
        raise kind(f"the log of the group failed: {error.strerror}{remedy}", file=str(path), os_errno=error.errno or 0) from error
