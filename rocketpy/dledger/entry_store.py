"""The log of one member on disk: data files, index files, a checkpoint. DLedger: DLedgerMmapFileStore (0.3.2), whose files these are.

    dledger-ID/data/00…0    entries one behind the other; one that does not fit begins the next file, behind a blank
    dledger-ID/index/00…0   32 bytes for every entry: where it is. Made again from the data when they differ
    dledger-ID/checkpoint   endIndex, committedIndex for DLedger; syncedIndex is ours: at least so much is there, or entries were lost

An entry counts once sync() has returned; append() alone promises nothing. Opening the store reads the last data files through, checks the
place and CRC of every entry, and cuts off what lies behind the last whole one: it was written, but never synced and never acknowledged.
An entry that is missing below syncedIndex was acknowledged. Then StoreCorrupt is raised, because a member that votes without that entry
could lose it for the whole group.

Threads  one at a time. Bounds: entries of entry_size_max.
Errors   those of entry_files.py; NotFound for an index that is not there; StoreCorrupt.
"""

from __future__ import annotations

import fcntl
import logging
import os

from .._core.errors import NotFound, ProtocolError, StoreCorrupt, StoreLocked, TooLarge
from .entry import BLANK_MAGIC, HEADER, INDEX_UNIT, Entry, IndexUnit, crc_of, decode_entry
from .entry_files import EntryFiles, read_properties, store_errors, write_file
from .settings import GroupSettings

log = logging.getLogger(__name__)

BLANK_SIZE_MIN = 8
RECOVERED_FILES = 3


class EntryStore:
    def __init__(self, settings: GroupSettings) -> None:
        self.begin_index = -1
        self.end_index = -1
        self.end_term = -1
        self._settings = settings
        self._directory = settings.directory
        self._data = EntryFiles(self._directory / "data", settings.data_file_size)
        self._index = EntryFiles(self._directory / "index", settings.index_file_size)
        self._end_pos = 0
        self._synced_index = -1
        self._checkpoint: tuple[int, int] | None = None
        self._lock = -1

    def open(self) -> None:
        """Locks the directory and recovers the log. Raises StoreLocked when another process has it."""
        self._take_lock()
        try:
            self._data.open()
            self._index.open()
            self._recover()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leaves the files as they are. Idempotent."""
        self._data.close()
        self._index.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def append(self, term: int, body: bytes) -> Entry:
        """Writes the next entry of this member's own."""
        pos = self._next_pos(HEADER.size + len(body))
        entry = Entry(self.end_index + 1, term, pos, body, body_crc=crc_of(body))
        self._write(entry)
        return entry

    def append_entry(self, entry: Entry) -> None:
        """Writes the next entry as the leader sent it. Raises ProtocolError for one that does not follow the last."""
        if entry.index != self.end_index + 1 or entry.term < self.end_term or entry.pos != self._next_pos(entry.size):
            raise ProtocolError(
                f"entry {entry.index} of term {entry.term} for {entry.pos} does not follow {self.end_index} of term {self.end_term}, which "
                f"ends at {self._end_pos}; members of a group have data files of one size"
            )
        self._write(entry)

    def sync(self) -> None:
        self._data.sync()
        self._synced_index = self.end_index

    def get(self, index: int) -> Entry:
        unit = self._unit(index)
        entry = decode_entry(self._data.read(unit.pos, unit.size))
        if entry.index != index or entry.pos != unit.pos:
            raise StoreCorrupt(f"entry {index} is not where the index says", file=str(self._data.directory), offset=unit.pos)
        return entry

    def term_of(self, index: int) -> int:
        """The term of that entry; -1 for index -1, the place before the first entry."""
        return -1 if index == -1 else self._unit(index).term

    def cut(self, last_index: int) -> None:
        """Removes all entries behind last_index, with -1 all there are. They are gone for good when this returns."""
        if last_index >= self.end_index:
            return
        end_pos = self.get(last_index).end_pos if last_index >= 0 else 0
        self._synced_index = min(self._synced_index, last_index)
        self.write_checkpoint(last_index)  # before the entries go: they are not lost then, they were given up
        self._data.cut(end_pos)
        self._index.cut((last_index + 1) * INDEX_UNIT.size)
        self._set_end(last_index, self.get(last_index).term if last_index >= 0 else -1, end_pos)

    def write_checkpoint(self, committed: int) -> None:
        state = (self._synced_index, committed)
        if state == self._checkpoint:
            return
        text = f"endIndex={self._synced_index}\ncommittedIndex={committed}\nsyncedIndex={self._synced_index}\n"
        write_file(self._settings.checkpoint_path, text)
        self._checkpoint = state

    def _write(self, entry: Entry) -> None:
        if entry.size > self._settings.entry_size_max:
            raise TooLarge(f"an entry of {entry.size} bytes is above {self._settings.entry_size_max}")
        if entry.pos > self._end_pos:
            rest = entry.pos - self._end_pos
            self._data.write(self._end_pos, BLANK_MAGIC.to_bytes(4, "big", signed=True) + rest.to_bytes(4, "big"))
            self._index.sync()  # recovery reads the last data files only, and trusts the index of those before
        self._data.write(entry.pos, entry.encode())
        self._index.write(entry.index * INDEX_UNIT.size, entry.index_unit())
        self._set_end(entry.index, entry.term, entry.end_pos)

    def _next_pos(self, size: int) -> int:
        """The position at which an entry of that size goes."""
        file_size = self._settings.data_file_size
        if size + BLANK_SIZE_MIN > file_size:
            raise TooLarge(f"an entry of {size} bytes does not fit into a file of {file_size}")
        rest = file_size - self._end_pos % file_size
        return self._end_pos if size + BLANK_SIZE_MIN <= rest else self._end_pos + rest

    def _set_end(self, index: int, term: int, end_pos: int) -> None:
        self.end_index, self.end_term, self._end_pos = index, term, end_pos
        if index == -1:
            self.begin_index = -1
        elif self.begin_index == -1:
            self.begin_index = index

    def _unit(self, index: int) -> IndexUnit:
        if not self.begin_index <= index <= self.end_index or index < 0:
            raise NotFound(f"entry {index} is not in {self.begin_index}…{self.end_index}")
        data = self._index.read(index * INDEX_UNIT.size, INDEX_UNIT.size)
        if len(data) < INDEX_UNIT.size:
            raise StoreCorrupt(f"the index does not reach entry {index}", file=str(self._index.directory))
        return IndexUnit._make(INDEX_UNIT.unpack(data))

    def _recover(self) -> None:
        offsets = self._data.offsets
        if offsets:
            self._find_begin(offsets)
            if self._end_pos < offsets[-1] - self._data.file_size:
                raise StoreCorrupt(
                    f"no whole entry at {self._end_pos}, but files follow up to {offsets[-1]}", file=str(self._data.directory)
                )
        checkpoint = read_properties(self._settings.checkpoint_path) or {}
        synced = checkpoint.get("syncedIndex", "")
        if synced.isascii() and synced.isdigit() and (len(synced) > 19 or int(synced) > self.end_index):
            raise StoreCorrupt(
                f"the log ends at entry {self.end_index}, but {synced} were on disk once: entries were lost or damaged. Move the member's "
                "directory away and let it join anew while a majority of the others is up",
                file=str(self._data.directory),
            )
        self._data.cut(self._end_pos)
        self._index.cut((self.end_index + 1) * INDEX_UNIT.size)
        self._data.sync()
        self._index.sync()
        self._synced_index = self.end_index
        log.info(
            "the log in %s holds entries %d to %d, the last of term %d", self._directory, self.begin_index, self.end_index, self.end_term
        )

    def _find_begin(self, offsets: list[int]) -> None:
        """Reads the last RECOVERED_FILES data files entry by entry. For the files before them the index is trusted."""
        start = max(0, len(offsets) - RECOVERED_FILES)
        while start > 0 and self._entry_at(offsets[start]) is None:
            start -= 1
        first = self._entry_at(offsets[0])
        pos = offsets[start]
        term = 0
        expected: int | None = None
        while (entry := self._entry_at(pos)) is not None or self._is_blank(pos):
            if entry is None:
                pos += self._data.file_size - pos % self._data.file_size
                continue
            if (expected is not None and entry.index != expected) or entry.term < term:
                break
            place = entry.index * INDEX_UNIT.size
            if self._index.read(place, INDEX_UNIT.size) != entry.index_unit():
                self._index.write(place, entry.index_unit())
            self._set_end(entry.index, entry.term, entry.end_pos)
            pos, term, expected = entry.end_pos, entry.term, entry.index + 1
        if first is not None and self.end_index >= 0:
            self.begin_index = first.index

    def _entry_at(self, pos: int) -> Entry | None:
        head = self._data.read(pos, HEADER.size)
        if len(head) < HEADER.size:
            return None
        size = HEADER.unpack(head)[1]
        if not HEADER.size <= size <= self._data.file_size:
            return None
        try:
            entry = decode_entry(self._data.read(pos, size))
        except StoreCorrupt:
            return None
        return entry if entry.pos == pos else None

    def _is_blank(self, pos: int) -> bool:
        return self._data.read(pos, 4) == BLANK_MAGIC.to_bytes(4, "big", signed=True)

    def _take_lock(self) -> None:
        path = self._directory / "lock"
        with store_errors(path):
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise StoreLocked("another process runs this member", file=str(self._directory)) from None
