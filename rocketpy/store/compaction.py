"""What compacted topics have kept, of a store that is not opened for it: compaction/ of either product (csrc/store/compaction_segment.h).

compactionLog/TOPIC/QUEUE/BASE holds records, compactionCq/TOPIC/QUEUE/BASE beside it their entries, of 46 bytes. A queue whose files a
compaction was moving when its process ended has them in both places until the next start: what lies at its own place is shown.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rocketpy._core.errors import RocketpyError
from rocketpy._core.results import Damage
from rocketpy._core.store import Message, decode_message
from rocketpy.store.directory import file_size, is_numbered, listed, offset_files

DIRECTORY = "compaction"
RECORDS, ENTRIES = "compactionLog", "compactionCq"
KIND = "compaction"
POSITIONS = "position-checkpoint"
"""How far each queue was compacted."""
_ENTRY = struct.Struct(">qiqqqhii")
_ENTRIES_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class CompactedQueue:
    """What is kept of one queue. `min_offset` is that of the first message, `max_offset` the one after the last; `messages` counts those
    that have entries; `bytes` are those of the files of records."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    messages: int
    file_count: int
    bytes: int
    is_being_moved: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    place: int
    size: int
    queue_offset: int


def compacted_queues(root: Path) -> Iterator[CompactedQueue]:
    """Every compacted queue that has files, in the order of topics."""
    for topic, queue_id, directory in compacted_names(root):
        files = offset_files(directory)
        first, end, messages = 0, 0, 0
        for path in files:
            for entry in _entries(root, topic, queue_id, path):
                first = entry.queue_offset if messages == 0 else first
                end = entry.queue_offset + 1
                messages += 1
        size = sum(file_size(path) or 0 for path in files)
        yield CompactedQueue(topic, queue_id, first, end, messages, len(files), size, (directory / "compacting" / "replace").exists())


def kept_messages(root: Path, topic: str | None = None) -> Iterator[Message | Damage]:
    """Every message that has an entry, or what is wrong with its record. Of one topic, or of all."""
    for name, queue_id, directory in compacted_names(root):
        if topic is None or name == topic:
            for path in offset_files(directory):
                yield from _kept_in(root, name, queue_id, path)


def queue_directories(root: Path, topic: str, queue_id: int) -> tuple[Path, Path]:
    """The directories of a queue's records and of its entries."""
    return root / DIRECTORY / RECORDS / topic / str(queue_id), root / DIRECTORY / ENTRIES / topic / str(queue_id)


def damaged_queue(root: Path, damage: Damage) -> tuple[str, int] | None:
    """The compacted queue whose files are damaged; None if it is the file of positions."""
    parts = Path(damage.file).parts[len((root / DIRECTORY).parts) :]
    return (parts[1], int(parts[2])) if len(parts) == 4 else None


def _kept_in(root: Path, topic: str, queue_id: int, path: Path) -> Iterator[Message | Damage]:
    try:
        records = path.open("rb")
    except FileNotFoundError:  # a compaction of a live store has replaced it
        return
    with records:
        length = os.fstat(records.fileno()).st_size
        for entry in _entries(root, topic, queue_id, path):
            if entry.place < 0 or entry.place + entry.size > length:
                yield Damage(KIND, str(path), entry.place, entry.size, "the entry points behind the end of the file of records")
                continue
            records.seek(entry.place)
            try:
                yield decode_message(records.read(entry.size))
            except RocketpyError as error:
                yield Damage(KIND, str(path), entry.place, entry.size, str(error))


def compacted_names(root: Path) -> Iterator[tuple[str, int, Path]]:
    """Topic, queue and records' directory of every compacted queue, in the order of topics. None of their files is read."""
    for topic in sorted(listed(root / DIRECTORY / RECORDS)):
        for path in sorted((path for path in listed(topic) if is_numbered(path)), key=lambda path: int(path.name)):
            yield topic.name, int(path.name), path


def _entries(root: Path, topic: str, queue_id: int, records: Path) -> Iterator[_Entry]:
    """The entries that have been written. The entry that marks the end of a full file has no size."""
    path = root / DIRECTORY / ENTRIES / topic / str(queue_id) / records.name
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while block := file.read(_ENTRIES_AT_ONCE * _ENTRY.size):
            for position, size, _, _, offset, _, _, _ in _ENTRY.iter_unpack(block[: len(block) // _ENTRY.size * _ENTRY.size]):
                if size <= 0:
                    return
                yield _Entry(position - int(records.name), size, offset)
