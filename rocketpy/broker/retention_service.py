"""Carries out what retention decides: looks at the disk and the files, deletes one at a time off the event loop, opens and closes the
broker for sends.

Threads  run_once on the event loop; file system calls in the default executor, so neither requests nor appends wait for an unlink.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from datetime import datetime
from pathlib import Path

from .._core.broker import Broker
from .._core.errors import RocketpyError
from .._core.store import MessageStore
from .retention import ActiveFile, Decision, LogFile, RetentionSettings, decide, fault_of

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
        self._lock = asyncio.Lock()

    def apply(self, settings: RetentionSettings) -> None:
        """Settings changed while running: they count from the next look on."""
        self._settings = settings

    async def run_once(self, *, now: bool = False) -> int:
        """How many files were deleted."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            try:
                decision = await loop.run_in_executor(None, self._decide, now)
            except OSError as error:
                log.error("retention cannot look at the files and the disk, it tries again later: %s", error)
                return 0
            self._set_writable(decision)
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
        used_percent = max(_used_percent(path) for path in (self._log_path, self._queue_path))
        hour = datetime.now().hour
        return decide(self._settings, files, used_percent=used_percent, now_ms=time.time_ns() // 1_000_000, hour=hour, now=now)

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
        try:
            if not self._store.expire_file():
                return False
        except RocketpyError as error:
            log.error("commit log file %020d could not be deleted: %s", begin, error)
            return False
        log.info("delete expired commit log file %020d", begin)
        return True

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


def _used_percent(path: Path) -> float:
    """As df computes it: what root keeps for itself counts as used."""
    disk = os.statvfs(path)
    return 100.0 * (1 - disk.f_bavail / max(1, disk.f_blocks - disk.f_bfree + disk.f_bavail))
