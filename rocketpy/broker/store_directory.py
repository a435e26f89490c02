"""The directories a store needs, made or refused with the configuration key that names them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._core.base import inodes_are_used_up
from .._core.errors import StoreIOError
from ..config import home_directory
from ..state_file import PASSING
from ..store.directory import QUEUE_DIRECTORIES, has_entries, has_messages


def is_mounted_read_only(path: Path) -> bool:
    """Whether the file system is read-only, also because of an error."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def opening_command(directory: Path) -> str:
    """A shell command that makes an existing directory writable for this user, who may own it (a umask may close what it creates)."""
    return f"chmod u+rwx {directory}" if directory.stat().st_uid == os.geteuid() else f"sudo chown $USER {directory}"


def make_store_directory(key: str, path: Path) -> None:
    """Raises StoreIOError that names the key, what is wrong with its value, and what to do."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        in_the_way = next((each for each in (path, *path.parents) if each.exists() and not each.is_dir()), path)
        raise StoreIOError(f"{key}={path}: {in_the_way} is not a directory; name another place, or move that file away") from None
    except OSError as error:
        raise StoreIOError(f"{key}={path} cannot be made: {error.strerror}; {_remedy(path, error.errno or 0)}") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise StoreIOError(f"{key}={path} cannot be written by this user; {_remedy(path)}")


def check_kind_of_store(root: Path) -> None:
    """Raises StoreIOError for a store whose topics, groups and offsets RocketMQ kept in RocksDB: it would look empty here."""
    config = root / "config"
    in_rocksdb = [path for path in (config / "topics", root / "consumequeue" / "CURRENT") if path.exists()]
    if in_rocksdb and not (config / "topics.json").exists():
        raise StoreIOError(
            f"storePathRootDir={root}: {in_rocksdb[0]} is RocksDB's (storeType=defaultRocksDB), which this release does not read; "
            f"start RocketMQ on it, or name another directory"
        )


def check_place_of_log(root: Path) -> None:
    """Raises StoreIOError for a store that RocketMQ before 4.9.4 kept in two places: without storePathCommitLog the log was in ~/store,
    whatever storePathRootDir said. Its queues, beside a log without messages, would be cut to nothing here."""
    log, old_log = root / "commitlog", home_directory() / "store" / "commitlog"
    with _readable("storePathRootDir", root):
        is_in_two_places = not has_messages(log) and has_entries(root / "consumequeue") and has_messages(old_log)
    if is_in_two_places:
        raise StoreIOError(
            f"storePathCommitLog is not set, and {log} holds no messages for the queues in {root / 'consumequeue'}: RocketMQ before 4.9.4 "
            f"kept its log in {old_log}, which has some; set storePathCommitLog={old_log}, or move consumequeue away to begin with an "
            f"empty log"
        )


def make_log_directory(root: Path, key: str, log: Path, *, may_be_cut: bool) -> None:
    """key: which names the log's place where that is not below root. may_be_cut: a replica, whose log may have been cut to nothing before
    it follows another master, or is filled by others.

    Raises StoreIOError, also for a log that is not there, as when its disk is not mounted: the queues would be cut to nothing, and new
    messages take the offsets of those that consumers have read."""
    is_inside = log.is_relative_to(root)
    named_by = "storePathRootDir" if is_inside else key
    if _may_be_there(log):
        make_store_directory(named_by, log)  # or what cannot be read would be called empty
    if not may_be_cut:
        with _readable(named_by, root if is_inside else log):
            is_gone = not has_messages(log)
        with _readable("storePathRootDir", root):
            queues = next((root / name for name in QUEUE_DIRECTORIES if is_gone and has_entries(root / name)), None)
        if queues is not None:
            named = f"storePathRootDir={root}: {log.relative_to(root)}" if is_inside else f"{key}={log}"
            other = f"put its files back, or name their directory ({key})" if is_inside else "name the directory that has them"
            raise StoreIOError(
                f"{named} holds no messages for the queues in {queues}: mount its disk, or {other}; "
                f"or move {queues.name} away to begin with an empty log"
            )
    make_store_directory(named_by, log)


def check_no_ledger(root: Path) -> None:
    """Raises StoreIOError for a store whose log is a DLedger group's: it would look empty here, and its queues would be cut to nothing."""
    if ledger := next((path for path in sorted(root.glob("dledger-*/data")) if _has_files(path, "*")), None):
        raise StoreIOError(
            f"storePathRootDir={root}: the messages are in {ledger}, the log of a DLedger group; set enableDLegerCommitLog=true with that "
            "group's keys, or name another directory"
        )


def _may_be_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # this user may not look
        return True


def _has_files(directory: Path, pattern: str) -> bool:
    return any(path.is_file() for path in directory.glob(pattern))


@contextmanager
def _readable(key: str, value: Path) -> Iterator[None]:
    """Turns an OSError of the block into a StoreIOError that names the key and the file."""
    try:
        yield
    except OSError as error:
        path = Path(error.filename or value)
        remedy = PASSING.get(error.errno or 0, "let this user read it, or move it away")
        raise StoreIOError(f"{key}={value}: {path} cannot be read: {error.strerror}; {remedy}") from None


def _remedy(path: Path, os_errno: int = 0) -> str:
    """What to do. Never advises to give away a directory that existed before the store: it may be /var/lib."""
    if os_errno in (errno.ENOSPC, errno.EDQUOT):
        short = "no inodes left (df -i): remove files there" if inodes_are_used_up(path) else "no room: free disk space there"
        return f"its file system has {short}, or name another place"
    place = next((each for each in (path, *path.parents) if os.access(each, os.F_OK)), path)
    if is_mounted_read_only(place):  # its owner and mode are no matter then
        return f"the file system of {place} is mounted read-only: mount it for writing (look at dmesg first), or name another place"
    if place == path:
        return f"name another place, or: {opening_command(path)}"
    if not os.access(place, os.X_OK):
        return f"name another place, {place} is closed to this user"
    return f"name another place, or: sudo install -d -o $USER {path}"
