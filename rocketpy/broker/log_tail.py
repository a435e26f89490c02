"""What tells a log from another one that is as long: where it ends, and the CRC of the bytes before that.

A record holds its place, its time and the CRC of its body, and logs that part do not meet again: with one tail they are one log up to it.

    {"end": 4711, "size": 4096, "crc": 3405691582}    up to TAIL_BYTES, all in one file
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from .json_members import integer_member

TAIL_BYTES: Final = 4096
LOG_TAIL: Final = "logTail"
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
    def of(cls, log: Log, end: int, file_size: int) -> Self:
        """Up to `end`. May wait for the disk. Raises OffsetOutOfRange for what the log does not hold, or not any more."""
        size = min(TAIL_BYTES, (end - 1) % file_size + 1) if end > 0 else 0
        return cls(end, size, _crc(log, end, size))

    def is_of(self, log: Log) -> bool:
        """Whether that log has these bytes there. As `of`; also for what it has in two files."""
        return _crc(log, self.end, self.size) == self.crc

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


def _crc(log: Log, end: int, size: int) -> int:
    return zlib.crc32(log.read(end - size, size)) if size else 0
