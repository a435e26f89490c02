"""Carries out what retention decides: looks at the disk and the files, deletes one at a time off the event loop, opens and closes the
broker for sends.

Threads  run_once on the event loop; file system calls in the default executor, so neither requests nor appends wait for an unlink.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import os
import re
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from .._core.broker import Broker
from .._core.errors import RocketpyError
from .._core.store import MessageStore
from ..config import Config
from .ledger_options import log_directory
from .retention import ActiveFile, Decision, Disk, LogFile, RetentionSettings, Unread, decide, fault_of, next_deletion
from .settings import retention_settings
from .unread import oldest_unread

log = logging.getLogger(__name__)


class RetentionService:
    """`await run_once()` every cleanResourceInterval."""

    def __init__(
        self, settings: RetentionSettings, store: MessageStore, native: Broker, log_path: Path, queue_path: Path, log_file_size: int
    ) -> None:
        self._settings = settings
        self._store = store
        self._native = native
        self._log_path = log_path
        self._queue_path = queue_path
        self._log_file_size = log_file_size
        self._active: ActiveFile | None = None
        self._reason = ""
        self._unread: Unread | None = None
        self._kept_for: Unread | None = None
        self._plan: tuple[str, datetime] | None = None
        self._lock = asyncio.Lock()

    @property
    def plan(self) -> tuple[str, datetime] | None:
        """The next commit log file to be deleted and when (local time), as long as the disk has room; None if there is none."""
        return self._plan

    def apply(self, settings: RetentionSettings) -> None:
        """Takes settings that changed at run time. They count from the next look on."""
        self._settings = settings

    async def run_once(self, *, now: bool = False) -> int:
        """Deletes what may be deleted, and returns how many files that were."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            try:
                decision = await loop.run_in_executor(None, self._decide, now)
            except OSError as error:
                log.error("retention cannot look at the files and the disk, it tries again later: %s", error)
                return 0
            self._set_writable(decision)
            self._tell_kept(decision)
            if decision.unexpired_count:
                log.warning("the disk fills: up to %d commit log files are deleted before fileReservedTime", decision.unexpired_count)
            deleted = 0
            for number in range(decision.delete_count):
                if number:
                    await asyncio.sleep(self._settings.pause_s)
                if not await loop.run_in_executor(None, self._delete_one):
                    break
                deleted += 1
            await loop.run_in_executor(None, self._store.reclaim)  # of files that were still read when they were deleted
            return deleted

    def _decide(self, now: bool) -> Decision:
        stats = self._store.stats()
        if fault := self._active_fault(stats["commit_log_max_offset"]):
            return Decision(0, False, fault, 0)
        low, safe = stats["commit_log_min_offset"], min(stats["flushed_offset"], stats["commit_log_max_offset"])
        files = []
        for path in sorted(path for path in self._log_path.iterdir() if re.fullmatch("[0-9]{20}", path.name)):
            info = path.stat()
            if low <= int(path.name) and int(path.name) + info.st_size < safe:
                files.append(LogFile(path.name, info.st_mtime_ns // 1_000_000, info.st_size))
        disk, at = _disk((self._log_path, self._queue_path)), datetime.now()
        next_at = next_deletion(self._settings, files[0], at) if files else None
        self._plan = (files[0].name, next_at) if next_at is not None else None
        choose = functools.partial(decide, self._settings, files, disk, now_ms=time.time_ns() // 1_000_000, hour=at.hour, now=now)
        decision = choose()
        self._unread = None
        if not decision.delete_count:
            return decision
        try:
            self._unread = oldest_unread(self._native.copy_offsets(), self._store)
        except RocketpyError as error:
            log.error("retention cannot see who has not read what, it tries again later: %s", error)
            return dataclasses.replace(decision, delete_count=0) if self._settings.keeps_unread else decision
        return choose(unread=self._unread)

    def _active_fault(self, log_end: int) -> str:
        base = log_end - log_end % self._log_file_size
        if base == log_end:
            return ""  # the next message makes or enters a file
        path = self._log_path / f"{base:020}"
        before = self._active
        try:
            info = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return fault_of(path.name, self._log_file_size, None, before)
        found = ActiveFile(path.name, info.st_size, (info.st_dev, info.st_ino))
        fault = fault_of(path.name, self._log_file_size, found, before)
        if not fault:
            self._active = found
        return fault

    def _delete_one(self) -> bool:
        begin = self._store.stats()["commit_log_min_offset"]
        unread = self._unread
        try:
            if not self._store.expire_file():
                return False
        except RocketpyError as error:
            log.error("commit log file %020d could not be deleted: %s", begin, error)
            return False
        log.info("delete expired commit log file %020d", begin)
        if unread is not None and unread.log_offset < self._store.stats()["commit_log_min_offset"]:
            log.warning("commit log file %020d held messages that were not read: %s", begin, unread)
            self._unread = None  # said once for each look at the files
        return True

    def _tell_kept(self, decision: Decision) -> None:
        kept_for = self._unread if decision.kept_count else None
        if kept_for is not None and (self._kept_for is None or kept_for.group != self._kept_for.group):
            log.warning("keepUnreadMessages: %d commit log files that would go are kept: %s", decision.kept_count, kept_for)
        self._kept_for = kept_for

    def _set_writable(self, decision: Decision) -> None:
        if decision.reason == self._reason:  # empty while it is writable
            return
        was_writable = not self._reason
        self._reason = decision.reason
        self._native.set_settings(store_writable=int(decision.is_writable), store_reason=decision.reason)
        if decision.is_writable == was_writable:  # another reason for the same
            return
        if decision.is_writable:
            log.warning("the store can be written to again: sends are taken")
        else:
            log.error("sends are refused: %s", decision.reason)


def _disk(paths: Iterable[Path]) -> Disk:
    """The use of the disk as df computes it: what is reserved for root counts as used. A file system that does not say how large it is
    (ramfs, tmpfs without a limit, some behind FUSE) never fills up, as in RocketMQ."""
    disks = [disk for disk in map(os.statvfs, paths) if disk.f_blocks > 0]
    if not disks:
        return Disk(0.0)
    used = max(100.0 * (1 - disk.f_bavail / max(1, disk.f_blocks - disk.f_bfree + disk.f_bavail)) for disk in disks)
    return Disk(used, min(disk.f_bavail * disk.f_frsize for disk in disks))


def make_retention(config: Config, store: MessageStore, native: Broker, queue_path: Path) -> RetentionService:
    file_size = config.integer("mappedFileSizeCommitLog")
    return RetentionService(retention_settings(config), store, native, log_directory(config), queue_path, file_size)
