"""Which commit log files may go, and whether sends are taken: decided from the clock, the files and the disk.
RocketMQ: CleanCommitLogService, RunningFlags (5.3.3 store/DefaultMessageStore.java).

    disk used   below diskMaxUsedSpaceRatio (75 %)      only expired files, in the hours of deleteWhen
                above it                                expired files at any hour
                above diskSpaceCleanForciblyRatio (85)  the oldest files, expired or not, when cleanFileForciblyEnable
                above diskSpaceWarningLevelRatio (90)   and sends are refused until it is below again
    log larger than retentionBytes                      the oldest files, expired or not
    less free than freeSpaceReserve                     as above the last two ratios

With keepUnreadMessages no file goes that holds a message which a consumer group has not read.

No I/O and no clock of its own: `decide` is a function of what it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

MS_PER_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """The configuration keys. Ratios are in percent of the file system; if log and queues are on different ones, of the fuller one."""

    reserved_hours: int = 72
    bytes_max: int = 0
    """The oldest files go while all that may go are together larger than this; 0 is no limit."""
    delete_hours: frozenset[int] = frozenset({4})
    batch_max: int = 10
    pause_s: float = 0.1
    """Between two deletions, so that the disk is not busy with this alone."""
    forcible: bool = True
    used_ratio_max: int = 75
    forcible_ratio: int = 85
    warning_ratio: int = 90
    free_bytes_min: int = 0
    keeps_unread: bool = False


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the commit log that is no longer written. modified_ms: when its last message reached the disk, by the wall clock."""

    name: str
    modified_ms: int
    size: int = 0

    @property
    def end(self) -> int:
        """The log offset at the end of the file."""
        return int(self.name) + self.size


@dataclass(frozen=True, slots=True)
class Unread:
    """The oldest message in the log that has not been read by a group which has committed an offset in its queue."""

    log_offset: int
    group: str
    topic: str
    queue_id: int
    offset: int

    def __str__(self) -> str:
        return f"group {self.group} has read queue {self.queue_id} of topic {self.topic} up to offset {self.offset} only"


@dataclass(frozen=True, slots=True)
class Disk:
    """The store's file system; if log and queues are on different ones, the fuller one."""

    used_percent: float
    free_bytes: int = 1 << 62


@dataclass(frozen=True, slots=True)
class Decision:
    """Delete the first delete_count files; accept sends if is_writable, else refuse them with `reason`. expired_count: how many files were
    past their time, or exceeded bytes_max. kept_count: how many stay because somebody has not read them."""

    delete_count: int
    is_writable: bool
    reason: str
    expired_count: int
    kept_count: int = 0

    @property
    def unexpired_count(self) -> int:
        """How many files are deleted before their time, to keep the disk from filling up."""
        return self.delete_count - min(self.delete_count, self.expired_count)


def decide(
    settings: RetentionSettings,
    files: Sequence[LogFile],
    disk: Disk,
    *,
    now_ms: int,
    hour: int,
    now: bool = False,
    unread: Unread | None = None,
) -> Decision:
    """files: those that may be deleted, oldest first. hour: local time, 0..23. now: an operator asked for it, so the hour does not
    matter."""
    deadline = now_ms - settings.reserved_hours * MS_PER_HOUR
    expired = 0
    for modified_ms in _times(files, now_ms):
        if modified_ms is None or modified_ms > deadline:
            break
        expired += 1
    is_short = disk.free_bytes < settings.free_bytes_min
    wanted = expired if now or hour in settings.delete_hours or disk.used_percent > settings.used_ratio_max else 0
    if settings.forcible and (is_short or disk.used_percent > settings.forcible_ratio):
        wanted = len(files)
    surplus = _too_many(settings.bytes_max, files)
    wanted = max(wanted, surplus)
    kept = wanted - sum(file.end <= unread.log_offset for file in files[:wanted]) if settings.keeps_unread and unread else 0
    reason = _refusal(settings, disk)
    if reason and kept:
        reason += f" (keepUnreadMessages: {unread})"
    return Decision(min(wanted - kept, settings.batch_max), not reason, reason, max(expired, surplus), kept)


def _refusal(settings: RetentionSettings, disk: Disk) -> str:
    """Why sends are refused; empty if they are not. Short, because the answers to producers contain it."""
    if disk.used_percent > settings.warning_ratio:
        what = f"is {disk.used_percent:.1f} % full, above diskSpaceWarningLevelRatio {settings.warning_ratio} %"
    elif disk.free_bytes < settings.free_bytes_min:
        what = f"has {disk.free_bytes} bytes left, less than freeSpaceReserve {settings.free_bytes_min}"
    else:
        return ""
    return f"the disk of the store {what}; free space or add a disk, sends are taken again by themselves"


def next_deletion(settings: RetentionSettings, oldest: LogFile, now: datetime) -> datetime | None:
    """When the oldest file that may be deleted will be, as long as the disk has room: in the first hour of deleteWhen after it has expired.
    None if deleteWhen names no hour, or the calendar ends before. `now` and the result are local time."""
    try:
        at = max(now, datetime.fromtimestamp(oldest.modified_ms / 1000) + timedelta(hours=settings.reserved_hours))
        for _ in range(24):
            if at.hour in settings.delete_hours:
                return at
            at = at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    except (OverflowError, ValueError, OSError):  # a fileReservedTime that stands for ever, or a file's time that is none
        return None
    return None


@dataclass(frozen=True, slots=True)
class ActiveFile:
    """The commit log file that messages are written to, as its directory shows it. identity: device and inode."""

    name: str
    size: int
    identity: tuple[int, int]


def fault_of(name: str, size: int, found: ActiveFile | None, before: ActiveFile | None) -> str:
    """Why messages written to the file of that name and size would be lost at the next start; empty if they would not. found: what the
    directory has under the name; before: what it had at the previous look. Short, because the answers to producers contain it."""
    if found is None:
        what = "is gone from its directory"
    elif found.size < size:
        what = f"was cut to {found.size} bytes"
    elif before is not None and before.name == name and before.identity != found.identity:
        what = "was replaced by another file"
    else:
        return ""
    return f"commit log file {name} {what}: put it back, or restart the broker"


def _times(files: Sequence[LogFile], now_ms: int) -> list[int | None]:
    """When each file was last written to. A time in the future does not count, because the clock was set back since; such a file is taken
    to be as old as the next later file whose time counts. None if there is no such file."""
    times: list[int | None] = []
    told = None
    for file in reversed(files):
        told = file.modified_ms if file.modified_ms <= now_ms else told
        times.append(told)
    return times[::-1]


def _too_many(bytes_max: int, files: Sequence[LogFile]) -> int:
    """How many of the oldest files must be deleted so that the others hold no more than bytes_max."""
    excess = sum(file.size for file in files) - bytes_max if bytes_max else 0
    count = 0
    while excess > 0 and count < len(files):
        excess -= files[count].size
        count += 1
    return count


def parse_hours(text: str) -> frozenset[int]:
    """The hours of the day in deleteWhen, separated by semicolons. Raises ValueError."""
    hours = frozenset(int(part) for part in text.split(";") if part.strip())
    if not all(0 <= hour <= 23 for hour in hours):
        raise ValueError(f"deleteWhen {text!r} names an hour outside 00 to 23")
    return hours
