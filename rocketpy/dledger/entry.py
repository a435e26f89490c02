"""One entry of the log and its bytes, the same in a data file and to every member. DLedger: DLedgerEntry, DLedgerEntryCoder (0.3.2).

    magic 4 │ size 4 │ index 8 │ term 8 │ pos 8 │ channel 4 │ chainCrc 4 │ bodyCrc 4 │ body size 4 │ body      big-endian

pos is where the entry lies in the data files. It is the same for every member, since their logs are equal byte for byte. DLedger never
fills bodyCrc in; rocketpy does, and takes 0 as "not given". Two entries are compared without their CRCs.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from .._core.errors import StoreCorrupt

MAGIC = 1
BLANK_MAGIC = -1
"""In place of an entry: the rest of this file is empty."""
HEADER = struct.Struct(">iiqqqiiii")
INDEX_UNIT = struct.Struct(">iqiqq")
"""An IndexUnit as it lies in the index files."""


class IndexUnit(NamedTuple):
    """An entry's slot in the index files: where the entry lies in the data files."""

    magic: int
    pos: int
    size: int
    entry_index: int
    term: int


@dataclass(frozen=True, slots=True)
class Entry:
    index: int
    term: int
    pos: int
    body: bytes
    magic: int = MAGIC
    channel: int = 0
    chain_crc: int = 0
    body_crc: int = 0

    @property
    def size(self) -> int:
        return HEADER.size + len(self.body)

    @property
    def end_pos(self) -> int:
        return self.pos + self.size

    def is_same_as(self, other: Entry) -> bool:
        return (self.index, self.term, self.pos, self.magic, self.channel, self.body) == (
            other.index,
            other.term,
            other.pos,
            other.magic,
            other.channel,
            other.body,
        )

    def has_whole_body(self) -> bool:
        return self.body_crc in (0, crc_of(self.body))

    def encode(self) -> bytes:
        sizes = (self.channel, self.chain_crc, self.body_crc, len(self.body))
        return HEADER.pack(self.magic, self.size, self.index, self.term, self.pos, *sizes) + self.body

    def index_unit(self) -> bytes:
        return INDEX_UNIT.pack(self.magic, self.pos, self.size, self.index, self.term)


def crc_of(body: bytes) -> int:
    """The CRC as a signed int of Java; never 0, which means that there is none."""
    crc = zlib.crc32(body) or 1
    return crc - (1 << 32) if crc >= 1 << 31 else crc


def decode_entry(data: bytes) -> Entry:
    """Raises StoreCorrupt."""
    if len(data) < HEADER.size:
        raise StoreCorrupt(f"{len(data)} bytes are no entry")
    magic, size, index, term, pos, channel, chain_crc, body_crc, body_size = HEADER.unpack_from(data)
    if magic != MAGIC or body_size < 0 or size != HEADER.size + body_size or size > len(data) or index < 0 or term < 0:
        raise StoreCorrupt(f"no entry: magic {magic}, size {size}, body {body_size}, index {index}, term {term}")
    entry = Entry(index, term, pos, bytes(data[HEADER.size : size]), magic, channel, chain_crc, body_crc)
    if not entry.has_whole_body():
        raise StoreCorrupt(f"the body of entry {index} does not match its CRC")
    return entry
