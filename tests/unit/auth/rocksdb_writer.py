"""Small RocksDB directories as RocketMQ's brokers leave them, written by the format's rules; tests/interop/test_auth.py has real ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

BLOCK = 32 << 10
Change = tuple[bytes, bytes | None]
"""A key with its value; None deletes it."""


def masked_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % (1 << 32)


def varint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data, value = data + bytes([value & 0x7F | 0x80]), value >> 7
    return data + bytes([value])


def text(data: bytes) -> bytes:
    return varint(len(data)) + data


def record_file(payloads: Sequence[bytes], recycled: int | None = None) -> bytes:
    """A manifest or a log; recycled: the log number that each record names."""
    data = b""
    head = 7 if recycled is None else 11
    for payload in payloads:
        rest, is_first = payload, True
        while rest or is_first:
            left = BLOCK - len(data) % BLOCK
            if left < head:
                data, left = data + bytes(left), BLOCK
            part, rest = rest[: left - head], rest[left - head :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[is_first, not rest]
            extra = b"" if recycled is None else struct.pack("<I", recycled)
            body = bytes([kind + (4 if extra else 0)]) + extra + part
            data += struct.pack("<IH", masked_crc32c(body), len(part)) + body
            is_first = False
    return data


def batch(sequence: int, *changes: Change) -> bytes:
    data = struct.pack("<QI", sequence, len(changes))
    for key, value in changes:
        data += b"\0" + text(key) if value is None else b"\1" + text(key) + text(value)
    return data


def block(entries: Sequence[tuple[int, bytes, bytes]]) -> bytes:
    """Entries: shared bytes, the key's end, what follows it (a value behind its length; a block's handle)."""
    data = b"".join(varint(shared) + varint(len(end)) + rest.replace(b"KEY", end, 1) for shared, end, rest in entries)
    data += struct.pack("<II", 0, 1) + b"\0"
    return data + struct.pack("<I", masked_crc32c(data))


def table(entries: Sequence[tuple[int, bytes, bytes | None]], version: int = 5, checksum: int = 1) -> bytes:
    """A table of one block for each two entries: sequence number, key, value."""
    data, index = b"", []
    for first in range(0, len(entries), 2):
        before, lines = b"", []
        for sequence, key, value in entries[first : first + 2]:
            inner = key + struct.pack("<Q", sequence << 8 | (value is not None))
            shared = next(size for size in range(len(before), -1, -1) if inner.startswith(before[:size]))
            lines.append((shared, inner[shared:], varint(len(value or b"")) + b"KEY" + (value or b"")))
            before = inner
        found = block(lines)
        index.append((0, entries[min(first + 1, len(entries) - 1)][1], b"KEY" + varint(len(data)) + varint(len(found) - 5)))
        data += found
    handle = varint(len(data)) + varint(len(block(index)) - 5)
    footer = (bytes([checksum]) + varint(0) + varint(0) + handle).ljust(41, b"\0") + struct.pack("<IQ", version, 0x88E241B785F4CFF7)
    return data + block(index) + footer


def new_table(number: int) -> bytes:
    return varint(103) + varint(0) + varint(number) + varint(0) + text(b"a") + text(b"z") + varint(0) + varint(0) + varint(1)


def write_rocksdb(
    directory: Path, logs: dict[int, bytes], tables: dict[int, bytes], log_number: int = 0, sequence: int = 0, *edits: bytes
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    first = varint(1) + text(b"leveldb.BytewiseComparator") + varint(8193) + text(b"an id")
    edit = varint(2) + varint(log_number) + varint(3) + varint(99) + varint(4) + varint(sequence) + b"".join(map(new_table, tables))
    (directory / "MANIFEST-000005").write_bytes(record_file([first, edit, *edits]))
    (directory / "CURRENT").write_text("MANIFEST-000005\n")
    for number, data in logs.items():
        (directory / f"{number:06}.log").write_bytes(data)
    for number, data in tables.items():
        (directory / f"{number:06}.sst").write_bytes(data)
    return directory
