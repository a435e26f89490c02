"""The log of a controller that is alone in its group: every event on disk before it is true.

    file   DIRECTORY/events.log = MAGIC | entry …      entry = size, 4 bytes big-endian | CRC-32 of the body, 4 bytes | body
    append write ─ fdatasync ─ apply ─ answered        start: every entry is applied, in order

An entry is written only behind one that is synced. So only the last one can be torn, by a power cut or a full disk, and it was
never answered: it is cut off. Any other damage ends the start (StoreCorrupt): what lies behind it was answered and would be forgotten.
An event is a few hundred bytes, a set of brokers writes some for each change of its master or its in-sync set; as RocketMQ's, the log
is not shortened.

Threads  one event loop; a write runs in its executor, one at a time, and to its end even when nobody waits for it any more.
Bounds   ENTRY_MAX bytes an entry.
Errors   StoreIOError, DiskFull: after a failed sync for good, as nobody knows what the disk holds; is_leader is False from then on.
         StoreLocked, StoreCorrupt, Unsupported from open().
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .._core.errors import Closed, DiskFull, RocketpyError, StoreCorrupt, StoreIOError, StoreLocked, TooLarge, Unsupported

log = logging.getLogger(__name__)

MAGIC = b"RPCTRL\x00\x01"
FRAME_SIZE = 8
ENTRY_MAX = 1 << 20
NAME = "events.log"
Apply = Callable[[int, bytes], None]
"""Called with the index, from 0 on, and the body of every committed entry."""


class LoneLog:
    """A Consensus of one member, who leads while its disk works."""

    def __init__(self, directory: Path, group: str, member: str, address: str, apply: Apply) -> None:
        self.group = group
        self.term = 1
        self._path = directory / NAME
        self._member, self._address = member, address
        self._apply = apply
        self._file: int | None = None
        self._end = 0
        self._index = 0
        self._writing = asyncio.Lock()
        self._fault: RocketpyError | None = None

    @property
    def is_leader(self) -> bool:
        return self._file is not None and self._fault is None

    @property
    def leader_id(self) -> str | None:
        return self._member if self.is_leader else None

    @property
    def leader_address(self) -> str | None:
        return self._address if self.is_leader else None

    @property
    def peers(self) -> Mapping[str, str]:
        return {self._member: self._address}

    def open(self) -> None:
        """Applies what is there. The directory is made when it is not there."""
        directory = self._path.parent
        if any((directory / "data").glob("*")):
            raise Unsupported(
                f"{directory} holds the log of a RocketMQ controller (DLedger), which this release does not read: its brokers would look "
                f"unknown; name another controllerStorePath, brokers then register anew"
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._lock(self._file)
            self._recover(self._file, self._path.read_bytes())
        except OSError as error:
            self.close()
            if isinstance(error, RocketpyError):
                raise
            raise StoreIOError(f"controllerStorePath: {self._path} cannot be opened: {error.strerror}", file=str(self._path)) from error
        except RocketpyError:
            self.close()
            raise

    async def append(self, body: bytes) -> None:
        """Returns once the entry is synced and applied. An empty one, which only asks whether all before it is, needs no disk."""
        if len(body) > ENTRY_MAX:
            raise TooLarge(f"an entry of {len(body)} bytes, {ENTRY_MAX} at most are taken")
        await asyncio.shield(asyncio.ensure_future(self._append(body)))

    async def stop(self) -> None:
        """Waits for a write under way. Idempotent."""
        async with self._writing:
            self.close()

    def close(self) -> None:
        """For who has appended nothing, or has waited for it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    async def _append(self, body: bytes) -> None:
        async with self._writing:
            if self._fault is not None:
                raise self._fault
            if self._file is None:
                raise Closed("the controller's log is closed")
            if body:
                await asyncio.get_running_loop().run_in_executor(None, self._write, self._file, _entry(body))
                self._applied(body)

    def _applied(self, body: bytes) -> None:
        self._apply(self._index, body)
        self._index += 1

    def _write(self, file: int, entry: bytes) -> None:
        """In the executor. What is torn off by a full disk is cut off again, and the log goes on when space returns."""
        try:
            _write_all(file, entry, self._end)
        except OSError as error:
            self._cut(file, error)
            kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreIOError
            raise kind(f"{self._path} cannot be written: {error.strerror}") from error
        try:
            os.fdatasync(file)
        except OSError as error:
            raise self._fail(error) from error
        self._end += len(entry)

    def _cut(self, file: int, cause: OSError) -> None:
        try:
            os.ftruncate(file, self._end)
        except OSError as error:
            raise self._fail(error) from cause

    def _fail(self, error: OSError) -> RocketpyError:
        self._fault = StoreIOError(
            f"{self._path} cannot be synced: {error.strerror}; this controller leads no more, restart it once the disk works"
        )
        log.error("%s", self._fault)
        return self._fault

    def _lock(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreLocked(f"{self._path} is held by another controller that runs") from error

    def _recover(self, file: int, data: bytes) -> None:
        if len(data) < len(MAGIC) and MAGIC.startswith(data):
            _write_all(file, MAGIC, 0)
            os.fsync(file)
            _sync_directory(self._path.parent)
            self._end = len(MAGIC)
            return
        if not data.startswith(MAGIC):
            raise StoreCorrupt(f"{self._path} is no log of a controller: move it away, or name another controllerStorePath")
        self._end = len(MAGIC)
        for body in self._entries(data):
            self._applied(body)
        if self._end < len(data):
            log.warning(
                "%s: %d bytes behind entry %d are cut off: they were never answered", self._path, len(data) - self._end, self._index
            )
            os.ftruncate(file, self._end)
            os.fsync(file)
        log.info("%s: %d events", self._path, self._index)

    def _entries(self, data: bytes) -> Iterator[bytes]:
        while len(data) - self._end >= FRAME_SIZE:
            size = int.from_bytes(data[self._end : self._end + 4], "big")
            body = data[self._end + FRAME_SIZE : self._end + FRAME_SIZE + size]
            crc = int.from_bytes(data[self._end + 4 : self._end + FRAME_SIZE], "big")
            if not 0 < size <= ENTRY_MAX or len(body) < size or zlib.crc32(body) != crc:
                self._check_is_torn(data, size)
                return
            yield body
            self._end += FRAME_SIZE + size

    def _check_is_torn(self, data: bytes, size: int) -> None:
        """Raises StoreCorrupt unless the entry at the end of what is good can have been the last one written."""
        reaches_the_end = 0 < size <= ENTRY_MAX and self._end + FRAME_SIZE + size >= len(data)
        if not reaches_the_end and any(data[self._end :]):
            raise StoreCorrupt(
                f"{self._path} is damaged at byte {self._end}, behind entry {self._index}: what follows was answered and would be "
                f"forgotten; restore the file, or name another controllerStorePath: brokers then register anew"
            )


def _entry(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def _write_all(file: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written


def _sync_directory(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
