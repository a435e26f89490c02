"""A store directory of rocketpy or RocketMQ, described without opening it as a store.

Layout (RocketMQ: StorePathConfigHelper): commitlog/<offset>, consumequeue/TOPIC/QUEUE/<offset>, batchconsumequeue/ likewise of topics
with queue.type=BatchCQ, index/<time>, config/*.json, checkpoint, abort (there while a broker runs, or after it died), lock; of timed
messages timerwheel, timerlog/<position>, config/timercheck; of compacted topics compaction/ (compaction.py).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rocketpy._core.errors import NotFound, StoreLocked
from rocketpy.remoting.json_codec import read_object

ENTRY_SIZE = 20
BATCH_ENTRY_SIZE = 46
GONE_SIZE = 2**31 - 1
"""The size in an entry that stands for a message which was gone before the queue began."""
QUEUE_DIRECTORIES = {"consumequeue": ENTRY_SIZE, "batchconsumequeue": BATCH_ENTRY_SIZE}
ENTRIES_AT_ONCE = 1024
LOCKS = Path("/proc/locks")
CHECKPOINT_FIELDS = ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp", "master_flushed_offset", "confirm_phy_offset")
TIMER_COUNTS = Path("config") / "timermetrics"
TIMER_CHECKPOINT_FIELDS = ("lastReadTimeMs", "lastTimerLogFlushPos", "lastTimerQueueOffset", "masterTimerQueueOffset")


@dataclass(frozen=True, slots=True)
class QueueFiles:
    """One consume queue. `min` is the offset of the first entry in the first file, `max` the one after the last entry written."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    file_count: int


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """What `rocketpy store info` shows. Sizes are in bytes, times in ms of the wall clock, log offsets physical."""

    root: str
    is_running_or_died: bool
    lock_holder: str | None
    log_files: tuple[tuple[int, int], ...]
    queues: tuple[QueueFiles, ...]
    index_files: tuple[str, ...]
    config_files: tuple[str, ...]
    checkpoint: dict[str, int]
    timer_log_files: tuple[str, ...]
    timer_log_bytes: int
    timer_wheel_bytes: int
    timer_checkpoint: dict[str, int]

    @property
    def log_min_offset(self) -> int:
        return self.log_files[0][0] if self.log_files else 0

    @property
    def log_end_of_files(self) -> int:
        return sum(self.log_files[-1]) if self.log_files else 0


class StoreDirectory:
    """A read-only view of a store directory. Raises NotFound if there is none at `root`."""

    def __init__(self, root: str | os.PathLike[str], commit_log_path: str | os.PathLike[str] | None = None) -> None:
        self.root = Path(root)
        self.commit_log_path = Path(commit_log_path) if commit_log_path is not None else self._find_log()
        if not self.root.is_dir():
            raise NotFound(
                "there is no store directory here; it is storePathRootDir of the broker, by default ~/store", file=str(self.root)
            )
        if not self.commit_log_path.is_dir():
            inside = self.root / "store"
            hint = f"; {inside} is one" if (inside / "commitlog").is_dir() else ", or storePathCommitLog lies elsewhere (--commitlog)"
            if any((self.root / queues).is_dir() for queues in QUEUE_DIRECTORIES):
                hint = " with its log: mount its disk, or put it back, or say where it lies (--commitlog)"
            raise NotFound(f"no commitlog directory: not a store{hint}", file=str(self.commit_log_path))

    def _find_log(self) -> Path:
        """The commit log's directory. A member of a DLedger group keeps its log in dledger-ID/data; a commitlog beside that is from before
        it joined."""
        ledgers = sorted(path for path in self.root.glob("dledger-*/data") if path.is_dir())
        return ledgers[0] if len(ledgers) == 1 and offset_files(ledgers[0]) else self.root / "commitlog"

    @property
    def ledger_index_path(self) -> Path | None:
        """The directory of the index files if the log consists of DLedger's entries; None for RocketMQ's own log."""
        is_ledger = self.commit_log_path.name == "data" and self.commit_log_path.parent.name.startswith("dledger-")
        return self.commit_log_path.parent / "index" if is_ledger else None

    def committed_index(self) -> int:
        """The last entry that is committed according to DLedger's checkpoint; -1 without one."""
        try:
            lines = (self.commit_log_path.parent / "checkpoint").read_text(errors="replace").splitlines()
        except OSError:
            return -1
        values = [value.strip() for name, _, value in (line.partition("=") for line in lines) if name.strip() == "committedIndex"]
        return int(values[-1]) if values and re.fullmatch("[0-9]{1,19}", values[-1]) else -1

    def log_files(self) -> list[Path]:
        """Commit log files in offset order."""
        return offset_files(self.commit_log_path)

    def queues(self) -> Iterator[QueueFiles]:
        """Every consume queue, in the order of topics. Queues that a broker deletes meanwhile are left out."""
        topics = [path for directory in QUEUE_DIRECTORIES for path in listed(self.root / directory)]
        for topic in sorted(topics, key=lambda path: (path.name, path.parent.name != "consumequeue")):
            numbered = [path for path in listed(topic) if is_numbered(path)]
            for path in sorted(numbered, key=lambda path: int(path.name)):
                if queue := _describe_queue(path, QUEUE_DIRECTORIES[topic.parent.name]):
                    yield queue

    def queue_path(self, topic: str, queue_id: int) -> Path:
        """The directory of one plain consume queue."""
        return self.root / "consumequeue" / topic / str(queue_id)

    def queue_files(self, topic: str, queue_id: int) -> list[Path]:
        """The files of one plain consume queue, in offset order."""
        return offset_files(self.queue_path(topic, queue_id))

    def begins_in_log(self, topic: str, queue_id: int) -> bool:
        """Whether the log still has all messages of a plain queue, from the very first on."""
        files = self.queue_files(topic, queue_id)
        log_files = self.log_files()
        if not files or not log_files or int(files[0].name) != 0:
            return False
        with files[0].open("rb") as file:
            log_offset, size = struct.unpack(">qi", file.read(12).ljust(12, b"\0"))
        return bool(0 < size < GONE_SIZE and log_offset >= int(log_files[0].name))

    def checkpoint(self) -> dict[str, int]:
        """The numbers in the checkpoint, under RocketMQ's names; empty without the file."""
        return _longs(self.root / "checkpoint", CHECKPOINT_FIELDS)

    def timer_checkpoint(self) -> dict[str, int]:
        """As checkpoint, for the checkpoint of timed messages."""
        return _longs(self.root / "config" / "timercheck", TIMER_CHECKPOINT_FIELDS)

    def lock_holder(self) -> str | None:
        """The process that has the store open; None if there is none."""
        return _lock_holder(self.root / "lock")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the store's lock, so that nobody opens the store meanwhile. It also notices holders that the kernel's table of locks does
        not show, such as one in another container.

        Raises StoreLocked.
        """
        path = self.root / "lock"
        with path.open("ab") as file:  # its end gives the locks back
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # store_lock.c takes both kinds; RocketMQ the second
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                raise StoreLocked("the store is in use; stop whoever has it open, nothing was changed", file=str(path)) from None
            yield

    def timer_counts_fault(self) -> str | None:
        """What is wrong with the file that counts the waiting timed messages of each topic; None if nothing is, or if there is no such
        file."""
        try:
            counts = read_object((self.root / TIMER_COUNTS).read_text(encoding="utf-8"), tolerant_max=None)["timingCount"].values()
            return None if all(isinstance(count["count"], int) for count in counts) else "a count is not a number"
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return f"the counts of timed messages cannot be read: {type(error).__name__}: {error}"

    def summary(self) -> StoreSummary:
        """Everything above in one look."""
        timer_logs = offset_files(self.root / "timerlog")
        return StoreSummary(
            root=str(self.root),
            is_running_or_died=(self.root / "abort").exists(),
            lock_holder=self.lock_holder(),
            log_files=tuple((int(path.name), size) for path in self.log_files() if (size := file_size(path)) is not None),
            queues=tuple(self.queues()),
            index_files=_names(self.root / "index"),
            config_files=_names(self.root / "config"),
            checkpoint=self.checkpoint(),
            timer_log_files=tuple(path.name for path in timer_logs),
            timer_log_bytes=sum(file_size(path) or 0 for path in timer_logs),
            timer_wheel_bytes=file_size(self.root / "timerwheel") or 0,
            timer_checkpoint=self.timer_checkpoint(),
        )


def is_numbered(path: Path) -> bool:
    """Whether the name consists of ASCII digits only: Python also regards others as digits ("²"), which int() refuses."""
    return path.name.isascii() and path.name.isdigit()


def file_size(path: Path) -> int | None:
    """The size in bytes; None for a file that the retention of a running store has removed since it was listed."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def listed(directory: Path) -> list[Path]:
    """What the directory contains. Nothing if it is not a directory, if it has been deleted with its topic, or if it is the lost+found,
    readable for root only, of a disk that holds nothing but queues."""
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        if directory.name != "lost+found":
            raise
        return []


def _longs(path: Path, fields: tuple[str, ...]) -> dict[str, int]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    size = 8 * len(fields)
    return dict(zip(fields, struct.unpack(f">{len(fields)}q", data[:size].ljust(size, b"\0")), strict=True))


def _names(directory: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in directory.iterdir())) if directory.is_dir() else ()


def offset_files(directory: Path) -> list[Path]:
    """The files that the store regards as its own: their names are 20 digits that form an offset of 63 bits."""
    return sorted(path for path in listed(directory) if re.fullmatch("[0-9]{20}", path.name) and int(path.name) < 1 << 63)


def has_messages(log: Path) -> bool:
    """Whether anything was ever written to a log: its beginning has been deleted, or one of its files, all of which may be preallocated,
    begins with a record. Raises OSError."""
    files = offset_files(log)
    return bool(files) and (int(files[0].name) > 0 or any(_begins_with_record(file) for file in files))


def _begins_with_record(path: Path) -> bool:
    with path.open("rb") as file:
        return any(file.read(8))


def has_entries(queues: Path) -> bool:
    """Whether a queue below one of QUEUE_DIRECTORIES has an entry of a message. Preallocated space does not count, nor do entries that
    stand for messages which were gone before the queue began. Stops reading at the first one. Raises OSError."""
    size = QUEUE_DIRECTORIES[queues.name]
    directories = (path for topic in listed(queues) for path in listed(topic) if is_numbered(path))
    return any(_has_entry(file, size) for directory in directories for file in offset_files(directory))


def _has_entry(path: Path, entry_size: int) -> bool:
    """Whether the file has such an entry. Skips holes, of which a preallocated file mostly consists."""
    with path.open("rb", buffering=0) as file:  # lseek goes behind a buffer's back
        at, end = 0, path.stat().st_size
        while at < end:
            try:
                at = max(at, os.lseek(file.fileno(), at, os.SEEK_DATA) // entry_size * entry_size)
            except OSError as error:
                if error.errno == errno.ENXIO:  # no data from there on
                    return False
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system that knows no holes has data everywhere
                    raise
            file.seek(at)
            entries = file.read(ENTRIES_AT_ONCE * entry_size)
            sizes = (entries[place : place + 4] for place in range(8, len(entries), entry_size)) if any(entries) else ()
            if any(0 < int.from_bytes(each, "big") < GONE_SIZE for each in sizes):
                return True
            at += ENTRIES_AT_ONCE * entry_size
    return False


def batch_topics(root: Path) -> str:
    """The topics with queue.type=BatchCQ according to the broker's topics.json, or else its backup; each is followed by a line end.

    Whoever opens the store has to name them: a single message that RocketMQ accepted for such a topic is in no queue, and must not create a
    plain one.
    """
    for name in ("topics.json", "topics.json.bak"):
        try:
            table = read_object((root / "config" / name).read_text(encoding="utf-8"), tolerant_max=None)["topicConfigTable"]
            configs = [(topic, config.get("attributes") or {}) for topic, config in table.items()]
            return "".join(f"{topic}\n" for topic, attributes in configs if attributes.get("queue.type") == "BatchCQ")
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
    return ""


def _describe_queue(directory: Path, entry_size: int) -> QueueFiles | None:
    """The description of a queue; None if it has gone since it was listed: retention leaves the last file, the deletion of a topic does
    not."""
    topic, queue_id, files = directory.parent.name, int(directory.name), offset_files(directory)
    if not files:
        return QueueFiles(topic, queue_id, 0, 0, 0) if directory.exists() else None
    last = files[-1]
    try:
        written = _entries_written(last, entry_size)
        if entry_size == BATCH_ENTRY_SIZE:
            return QueueFiles(topic, queue_id, *_batch_offsets(files, written), len(files))
    except FileNotFoundError:
        return None
    return QueueFiles(topic, queue_id, int(files[0].name) // ENTRY_SIZE, int(last.name) // ENTRY_SIZE + written, len(files))


def _batch_offsets(files: list[Path], written: int) -> tuple[int, int]:
    """The first offset and the one after the last, which the entries of a batch queue contain."""
    last = files[-1] if written or len(files) == 1 else files[-2]
    at = (written or _entries_written(last, BATCH_ENTRY_SIZE)) - 1
    if at < 0:
        return 0, 0
    first_offset, _ = _batch_entry(files[0], 0)
    last_offset, messages = _batch_entry(last, at)
    return first_offset, last_offset + messages


def _batch_entry(path: Path, number: int) -> tuple[int, int]:
    with path.open("rb") as file:
        file.seek(number * BATCH_ENTRY_SIZE + 28)
        offset, messages = struct.unpack(">qh", file.read(10).ljust(10, b"\0"))
    return offset, messages


def _entries_written(path: Path, entry_size: int) -> int:
    """How many entries a file has. They are written front to back and the rest of the file is zero, so a binary search finds the first
    empty one."""
    with path.open("rb") as file:
        low, high = 0, path.stat().st_size // entry_size
        while low < high:
            middle = (low + high) // 2
            file.seek(middle * entry_size + 8)
            if file.read(4) == b"\0\0\0\0":
                high = middle
            else:
                low = middle + 1
    return low


def _lock_holder(path: Path) -> str | None:
    """The process that holds the lock file, according to the kernel's table of locks; None if there is none."""
    try:
        file = path.stat()
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        parts = line.split()
        if len(parts) >= 6 and parts[5].rpartition(":")[2] == str(file.st_ino) and _has_open(parts[4], file):
            return parts[4]
    return None


def _has_open(pid: str, file: os.stat_result) -> bool:
    """Whether a process has the file open; if we may not look into the process, yes. The table of locks is not enough: it names a file by
    its inode, which another file system may use as well, and by a device, which may differ from the one that stat reports."""
    try:
        opened = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError as error:
        return isinstance(error, PermissionError)
    for descriptor in opened:
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.samestat(descriptor.stat(), file):
                return True
    return False
