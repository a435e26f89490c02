"""Small state files that survive a power cut: written whole, synced, renamed; the one before is kept as `.bak`.
RocketMQ: ConfigManager, MixAll.string2File (5.3.3 common/), which renames without syncing: its files were found empty after power cuts.

    write  text → NAME.tmp → fsync ─ link NAME as NAME.bak ─ rename NAME.tmp to NAME ─ fsync of the directory
    read   NAME, when it is missing or damaged NAME.bak, and a log line says which and why

A NAME that is a mount point of its own, as containers are given single files, takes no other file's place: it is written over.

At every moment at least one of NAME and NAME.bak is a whole file that was valid once: a NAME that could not be read is set aside as
NAME.damaged and never becomes the backup. Damage never refuses the start: with both gone the table begins empty, loudly. A file that is
there and cannot be opened or read just now (its owner, descriptors, the disk) is not damaged: its backup, which is older, does not serve.

Threads  one at a time.
Errors   StoreIOError, DiskFull from write; read raises StoreIOError where a file cannot be read, and Unsupported for a whole one that holds
         what its table does not take, but nothing for damage.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ._core.base import making_remedy
from ._core.errors import DiskFull, StoreIOError, Unsupported

log = logging.getLogger(__name__)

T = TypeVar("T")

_FULL = (errno.ENOSPC, errno.EDQUOT)
_MORE_DESCRIPTORS = "raise the limit of open files (ulimit -n, LimitNOFILE)"
PASSING = {errno.EMFILE: _MORE_DESCRIPTORS, errno.ENFILE: _MORE_DESCRIPTORS, errno.ENOMEM: "free memory", errno.EIO: "check the disk"}
"""What keeps a good file from being read. Who moved it away would begin without it for nothing."""
PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class FileFault:
    """A file that was there and could not be used."""

    path: Path
    cause: str


class StateFile:
    """One state file and its backup."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        is_whole: bool = False,
        is_private: bool = False,
        owner: tuple[int, int] | None = None,
    ) -> None:
        """is_whole: the caller has read what is there, and it becomes the backup of the first write too. is_private: written so that only
        its owner reads it, whoever could before. owner: user and group whose file it is; None: this process's."""
        self._is_private = is_private
        self._owner = owner
        self.path = Path(path)
        self.backup_path = self.path.with_name(self.path.name + ".bak")
        self.damaged_path = self.path.with_name(self.path.name + ".damaged")
        self.faults: list[FileFault] = []
        self._current_is_good = is_whole

    def read(self, decode: Callable[[str], T]) -> T | None:
        """What decode makes of the file, or of its backup; None when neither can be used. decode raises ValueError for a damaged text.

        Raises StoreIOError for one that cannot be read, and what decode raises of Unsupported; then nothing was moved."""
        self.faults = []
        self._current_is_good = False
        found, value = self._read_one(self.path, decode)
        if value is not None:
            self._current_is_good = True
            log.info("load %s OK", self.path)
            return value
        _, value = self._read_one(self.backup_path, decode)
        if found:
            self._set_aside()
        if value is not None:
            log.warning("load %s failed (%s); its backup %s is used instead", self.path, self._last_cause(), self.backup_path)
            return value
        if self.faults:
            causes = "; ".join(f"{fault.path.name}: {fault.cause}" for fault in self.faults)
            kept = f"; the damaged file is kept as {self.damaged_path.name}" if found else ""
            log.error("neither %s nor its backup can be used (%s): starting empty%s", self.path, causes, kept)
        return None

    def write(self, text: str) -> None:
        """Replaces the file by text. When this returns the text is on disk under the file's name."""
        self.write_bytes(text.encode())

    def write_bytes(self, data: bytes) -> None:
        """write() for a file that holds more than text of ours."""
        directory = self.path.parent
        temporary = self.path.with_name(self.path.name + ".tmp")
        try:
            directory.mkdir(parents=True, exist_ok=True)
            _write_new(temporary, data, PRIVATE if self._is_private else _mode(self.path), self._owner)
            if self._current_is_good:
                _link_over(self.path, self.backup_path, self._owner)
            self._put(temporary, data)
            sync_directory(directory)
        except OSError as error:
            kind = DiskFull if error.errno in _FULL else StoreIOError
            remedy = making_remedy(error.errno or 0, self.path)
            raise kind(f"writing the state failed: {error.strerror}{remedy}", file=str(self.path), os_errno=error.errno or 0) from error
        self._current_is_good = True

    def _put(self, temporary: Path, data: bytes) -> None:
        path, backup = self.path, self.backup_path
        try:
            temporary.replace(path)
        except OSError as error:
            if error.errno != errno.EBUSY or (backup.exists() and backup.samefile(path)):  # not what must survive a write cut short
                raise
            self._write_over(data)
            temporary.unlink()

    def _write_over(self, data: bytes) -> None:
        """When that fails what was there is put back. Where even that fails the file does not become the backup."""
        before, was_good = self.path.read_bytes(), self._current_is_good
        if self._is_private:
            with contextlib.suppress(OSError):  # the file of another user, a file system without modes
                self.path.chmod(PRIVATE)
        self._current_is_good = False
        try:
            _write_into(self.path, data)
        except OSError:
            with contextlib.suppress(OSError):  # the first error says what is wrong
                _write_into(self.path, before)
                self._current_is_good = was_good
            raise

    def _read_one(self, path: Path, decode: Callable[[str], T]) -> tuple[bool, T | None]:
        """(the file holds something, its value or None); a fault is remembered."""
        try:
            if path.is_fifo():  # the open would wait for who writes to it
                raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
            data = path.read_bytes()
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not path.is_symlink():
                return False, None
            remedy = PASSING.get(error.errno or 0, "give this user the file, or move it away to begin without it")
            raise StoreIOError(
                f"the state cannot be read: {error.strerror}; {remedy}", file=str(path), os_errno=error.errno or 0
            ) from error
        if not data.strip(b" \t\r\n\0"):
            self.faults.append(FileFault(path, f"{len(data)} bytes, all blank"))
            return bool(data), None
        try:
            return True, decode(data.decode())
        except Unsupported as error:  # whole, but more than we can hold: beginning without it would lose all of it
            raise Unsupported(f"{error}; nothing was changed", file=str(path)) from error
        except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
            self.faults.append(FileFault(path, str(error) or type(error).__name__))
            return True, None

    def _set_aside(self) -> None:
        try:
            self.path.replace(self.damaged_path)
        except OSError as error:
            log.warning("%s could not be set aside as %s: %s", self.path, self.damaged_path.name, error.strerror)

    def _last_cause(self) -> str:
        return self.faults[0].cause if self.faults else "it does not exist"


def _mode(path: Path) -> int | None:
    """Who may read the file that is replaced; None when there is none."""
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None


def _write_new(path: Path, data: bytes, mode: int | None, owner: tuple[int, int] | None) -> None:
    """What is there was left by a write that was cut short, or put there by somebody: nothing of ours goes into it, nor where it leads."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644 if mode is None else PRIVATE)
    try:
        if owner is not None:
            os.fchown(descriptor, *owner)
        if mode is not None:
            os.fchmod(descriptor, mode)
        _write_synced(descriptor, data)
    finally:
        os.close(descriptor)


def _write_into(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        _write_synced(descriptor, data)
    finally:
        os.close(descriptor)


def _write_synced(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _link_over(source: Path, target: Path, owner: tuple[int, int] | None) -> None:
    """Makes target another name of source without a moment in which target is missing."""
    staging = target.with_name(target.name + ".tmp")
    staging.unlink(missing_ok=True)
    try:
        os.link(source, staging)
    except FileNotFoundError:
        return  # somebody removed the file since: there is nothing to back up
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV):
            raise
        _write_new(staging, source.read_bytes(), _mode(source), owner)  # a file system without hard links, or a mount point
    staging.replace(target)


def sync_directory(path: Path) -> None:
    """What was made, renamed or removed in it is so after a power cut too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
