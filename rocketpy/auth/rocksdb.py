"""A small RocksDB directory read whole, without RocksDB: keys and values of its default column family.
RocketMQ: ConfigRocksDBStorage, ConfigHelper.createConfigColumnFamilyOptions (5.5.0 common/), which keep such tables uncompressed.

    CURRENT ─ name of ─► MANIFEST-n   edits: which tables there are, and from which log on the rest lies
    NNNNNN.sst                        tables: blocks of sorted keys, an index of the blocks, a footer of 53 bytes
    NNNNNN.log                        write-ahead logs: batches of puts and deletions, each with its sequence number

    record of a manifest or a log, in blocks of 32 KiB:  crc32c 4 ─ length 2 ─ type 1 ─ [log number 4] ─ data
    block of a table:                                    entries ─ restarts 4 each ─ their count 4 │ compression 1 ─ crc32c 4
    entry:                                               shared ─ unshared ─ value length (varints) ─ key's end ─ value
    key of a table:                                      key ─ 8 bytes: sequence << 8 | kind
    footer:                                              checksum kind 1 ─ handles of meta index and index, 40 in all ─ version 4 ─ magic 8

Everything is little endian. Of each key the entry with the highest sequence number counts. A log is read up to a record that reaches past
its end, which is what a kill leaves; in a file that RocksDB uses again, up to what is left of the log that it was. Any other damage is
refused: behind it there may be changes that count. So is what is not known here (compression, other checksums, merges, partitioned
indexes): half a table is none. Whoever writes the directory must have ended.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAX_FILE_BYTES = 16 << 20
"""Of one file; users and rights take some hundred bytes each."""
_LOG_BLOCK = 32 << 10
_MAGIC = 0x88E241B785F4CFF7
_FOOTER = 53
_DELETION, _VALUE, _SINGLE_DELETION = 0, 1, 7
_FAMILY_DELETION, _FAMILY_VALUE, _FAMILY_SINGLE_DELETION = 4, 5, 8
"""The same in a log, with the number of the column family before the key."""
_LOG_DATA, _GAP = 3, 13
"""What a batch may hold besides changes: a note for whoever reads the log, and nothing."""
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_RECYCLED = 4  # added to these four: the record names its log's number
_SKIPPED_RECORDS = (10, 11)  # sizes of timestamps, which nobody has
_LOG_NUMBER, _LEVEL_POINTER, _DELETED_TABLE, _NEW_TABLE, _FAMILY, _FAMILY_ADDED = 2, 5, 6, 103, 200, 201
_EDIT_TEXTS = (1, _FAMILY_ADDED)  # 1: the comparator's name
_EDIT_NUMBERS = (3, 4, 9, 10, 203, 204)  # next file, last sequence, previous and oldest log, highest family, group of edits
_FAMILY_DROPPED = 202
_MAY_BE_IGNORED = 1 << 13  # a bit of kinds that older releases pass over


class RocksDbError(ValueError):
    """Names the file and what is wrong with it."""


@dataclass(slots=True)
class _Entries:
    """What the directory holds, each entry with its sequence number."""

    _entries: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)

    @property
    def values(self) -> dict[bytes, bytes]:
        return {key: value for key, (_, value) in sorted(self._entries.items()) if value is not None}

    def put(self, sequence: int, key: bytes, value: bytes | None) -> None:
        """`value`: None deletes."""
        if sequence >= self._entries.get(key, (-1, None))[0]:
            self._entries[key] = sequence, value


def read_rocksdb(directory: Path) -> dict[bytes, bytes]:
    """The values by key, sorted. Raises RocksDbError, OSError."""
    current = directory / "CURRENT"
    name = _read(current).decode("ascii", "replace").strip()
    if not name.startswith("MANIFEST-") or "/" in name:
        raise RocksDbError(f"{current}: names no manifest")
    manifest = _Manifest()
    path = directory / name
    for record in _records(path, _read(path)):
        _attempt(path, manifest.apply, _Bytes(record))
    found = _Entries()
    for number in sorted(manifest.tables):
        path = directory / f"{number:06}.sst"
        _attempt(path, _read_table, found, _read(path))
    logs = {int(each.stem): each for each in directory.glob("*.log") if each.stem.isdigit()}
    for number in sorted(logs):
        if number >= manifest.log_number:
            for record in _records(logs[number], _read(logs[number]), number):
                _attempt(logs[number], _read_batch, found, _Bytes(record))
    return found.values


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise RocksDbError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    return data


def _attempt(path: Path, read: Callable[..., None], *arguments: object) -> None:
    try:
        read(*arguments)
    except (ValueError, IndexError, struct.error) as error:
        raise RocksDbError(f"{path}: {error}") from None


class _Bytes:
    """Numbers and byte strings taken from the front of a buffer. Raises ValueError behind its end."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data, self.position = data, start
        self._end = len(data) if end is None else end

    def __bool__(self) -> bool:
        return self.position < self._end

    def take(self, count: int) -> bytes:
        if count > self._end - self.position:
            raise ValueError(f"{count} bytes at {self.position} reach past the end at {self._end}")
        self.position += count
        return self._data[self.position - count : self.position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError(f"no number at {self.position}")

    def text(self) -> bytes:
        return self.take(self.varint())


class _Manifest:
    """The tables and the first log that are left when all edits are applied."""

    def __init__(self) -> None:
        self.tables: set[int] = set()
        self.log_number = 0

    def apply(self, edit: _Bytes) -> None:
        family, log_number = 0, None
        added: set[int] = set()
        deleted: set[int] = set()
        while edit:
            tag = edit.varint()
            if tag in _EDIT_TEXTS or tag & _MAY_BE_IGNORED:
                edit.text()
            elif tag == _LOG_NUMBER:
                log_number = edit.varint()
            elif tag in _EDIT_NUMBERS:
                edit.varint()
            elif tag == _LEVEL_POINTER:
                edit.varint(), edit.text()
            elif tag == _DELETED_TABLE:
                edit.varint()
                deleted.add(edit.varint())
            elif tag == _NEW_TABLE:
                added.add(_new_table(edit))
            elif tag == _FAMILY:
                family = edit.varint()
            elif tag != _FAMILY_DROPPED:
                raise ValueError(f"an edit of kind {tag}")
        if family == 0:
            self.tables = self.tables - deleted | added
            self.log_number = self.log_number if log_number is None else log_number


def _new_table(edit: _Bytes) -> int:
    """Its number."""
    edit.varint()  # level
    number = edit.varint()
    edit.varint(), edit.text(), edit.text(), edit.varint(), edit.varint()  # size, both ends, their sequence numbers
    while edit.varint() != 1:
        edit.text()
    return number


def _records(path: Path, data: bytes, log_number: int | None = None) -> Iterator[bytes]:
    """Whole records. A manifest (log_number None) has to be whole; a log may end within a record, or, in a file that is used again, where
    another log's bytes begin."""
    parts: list[bytes] = []
    position, is_used_again = 0, False
    while True:
        left = _LOG_BLOCK - position % _LOG_BLOCK
        if left < 7:
            position += left
        header = data[position : position + 7]
        if len(header) < 7 or not (any(header) or any(data[position:])):
            break
        checksum, length, kind = struct.unpack("<IHB", header)
        recycled = _FULL + _RECYCLED <= kind <= _LAST + _RECYCLED
        is_used_again |= recycled and position == 0
        start = position + (11 if recycled else 7)
        end, block_end = start + length, position - position % _LOG_BLOCK + _LOG_BLOCK
        content = data[position + 6 : end]
        if end > min(len(data), block_end) or checksum != _masked_crc32c(content):
            if log_number is not None and (len(data) < end <= block_end or is_used_again):
                return
            raise RocksDbError(f"{path}: the record at {position} is damaged")
        if recycled:
            if log_number is None or int.from_bytes(content[1:5], "little") != log_number & 0xFFFFFFFF:
                return  # of the log that the file was before
            kind -= _RECYCLED
        position = end
        if kind == _FULL:
            yield content[-length:] if length else b""
        elif kind in (_FIRST, _MIDDLE, _LAST):
            parts = [*(parts if kind != _FIRST else []), data[start:position]]
            if kind == _LAST:
                yield b"".join(parts)
        elif kind not in _SKIPPED_RECORDS and kind < 128:
            raise RocksDbError(f"{path}: the record at {start} is of kind {kind}")


def _read_batch(found: _Entries, batch: _Bytes) -> None:
    sequence, count = batch.number(8), batch.number(4)
    for number in range(sequence, sequence + count):
        kind = batch.number(1)
        while kind in (_LOG_DATA, _GAP):  # these have no sequence number
            if kind == _LOG_DATA:
                batch.text()
            kind = batch.number(1)
        has_family = kind in (_FAMILY_DELETION, _FAMILY_VALUE, _FAMILY_SINGLE_DELETION)
        if not has_family and kind not in (_DELETION, _VALUE, _SINGLE_DELETION):
            raise ValueError(f"a change of kind {kind}")
        family = batch.varint() if has_family else 0
        key = batch.text()
        value = batch.text() if kind in (_VALUE, _FAMILY_VALUE) else None
        if family == 0:
            found.put(number, key, value)


def _read_table(found: _Entries, data: bytes) -> None:
    footer = data[-_FOOTER:]
    version, magic = struct.unpack("<IQ", footer[-12:])
    if magic != _MAGIC or footer[0] != 1 or version not in (4, 5):
        raise ValueError(f"magic {magic:#x}, checksums of kind {footer[0]}, version {version}; expected {_MAGIC:#x}, 1 and 4 or 5")
    handles = _Bytes(footer, 1, 41)
    handles.varint(), handles.varint()
    index, end = _block(data, handles.varint(), handles.varint())
    entries = _Bytes(index, 0, end)
    while entries:
        shared, length = entries.varint(), entries.varint()
        if shared:
            raise ValueError("an index of another kind")
        entries.take(length)
        _read_block(found, *_block(data, entries.varint(), entries.varint()))


def _block(data: bytes, start: int, size: int) -> tuple[bytes, int]:
    """The block, and where its entries end."""
    block = data[start : start + size + 5]
    if len(block) < size + 5 or size < 8:
        raise ValueError(f"the block of {size} bytes at {start} is not whole")
    if block[size] != 0:
        raise ValueError(f"the block at {start} is compressed, by kind {block[size]}")
    if int.from_bytes(block[-4:], "little") != _masked_crc32c(block[:-4]):
        raise ValueError(f"the block at {start} is damaged")
    restarts = int.from_bytes(block[size - 4 : size], "little")
    if 4 * restarts + 4 > size:
        raise ValueError(f"the block at {start} has {restarts} restarts")
    return block, size - 4 - 4 * restarts


def _read_block(found: _Entries, block: bytes, end: int) -> None:
    entries = _Bytes(block, 0, end)
    key = b""
    while entries:
        shared, unshared, length = entries.varint(), entries.varint(), entries.varint()
        key = key[:shared] + entries.take(unshared)
        value = entries.take(length)
        sequence, kind = divmod(int.from_bytes(key[-8:], "little"), 256)
        if kind not in (_DELETION, _VALUE, _SINGLE_DELETION) or len(key) < 8:
            raise ValueError(f"an entry of kind {kind}")
        found.put(sequence, key[:-8], value if kind == _VALUE else None)


def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC32C = _crc32c_table()


def _masked_crc32c(data: bytes) -> int:
    """As RocksDB writes it: rotated, and moved by a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
