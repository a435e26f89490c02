"""What tells a log from another one that is as long: where it ends, and the CRC of the bytes before that.

A record holds its place, its time and the CRC of its body, and logs that part do not meet again: with one tail they are one log up to it.
Only a record's first bytes tell it from the same message that its producer sent again, and the padding at a file's end tells nothing; so a
tail has more bytes than a record and such padding.

    {"end": 4711, "size": 4711, "crc": 3405691582}    up to TAIL_BYTES, as far as both logs have them
    {"end": 4711, "size": 0, "crc": 0}                they have nothing in common; one log begins at `end`
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from .json_members import integer_member

TAIL_BYTES: Final = 16 << 20
_PIECE_BYTES: Final = 1 << 20
LOG_TAIL: Final = "logTail"
LOG_BEGIN: Final = "logBegin"
"""With logEnd: the bounds of the log of a master that asks for the tail."""
_END, _SIZE, _CRC = "end", "size", "crc"


class Log(Protocol):
    """The part of MessageStore that is needed here."""

    def read(self, commit_log_offset: int, size: int | None = None) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LogTail:
    end: int
    size: int
    crc: int

    @classmethod
    def of(cls, log: Log, begin: int, end: int, file_size: int) -> Self:
        """What is common to the log and another one: from `begin` up to `end`; nothing if that comes first. May wait for the disk. Raises
        OffsetOutOfRange for what the log does not hold, or not any more."""
        end = max(begin, end)
        size = min(TAIL_BYTES, end - begin)
        return cls(end, size, _crc(log, end, size, file_size))

    def is_of(self, log: Log, file_size: int) -> bool:
        """Whether that log has these bytes there. As `of`."""
        return _crc(log, self.end, self.size, file_size) == self.crc

    def to_json(self) -> dict[str, int]:
        return {_END: self.end, _SIZE: self.size, _CRC: self.crc}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Raises ValueError."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{LOG_TAIL} is {type(value).__name__}, expected an object")
        end, size, crc = (integer_member(value, name, None, LOG_TAIL) for name in (_END, _SIZE, _CRC))
        if not 0 <= size <= min(end, TAIL_BYTES):
            raise ValueError(f"{LOG_TAIL} has {size} bytes up to {end}, expected {TAIL_BYTES} at most")
        return cls(end, size, crc)


def _crc(log: Log, end: int, size: int, file_size: int) -> int:
    """`file_size`: no read reaches over the end of a file."""
    crc, at = 0, end - size
    while at < end:
        count = min(end - at, _PIECE_BYTES, file_size - at % file_size)
        crc, at = zlib.crc32(log.read(at, count), crc), at + count
    return crc
