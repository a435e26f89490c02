"""Exceptions of the native core: one class per status of csrc/base/error.h, one table, one check.

Each carries what an operator needs: file, offset, cause (the message) and the errno behind it.
"""

from __future__ import annotations


class RocketpyError(Exception):
    """Root of everything rocketpy raises on purpose."""

    status = 0

    def __init__(self, message: str = "", *, file: str = "", offset: int = -1, os_errno: int = 0) -> None:
        super().__init__(message)
        self.file = file
        self.offset = offset
        self.os_errno = os_errno

    def __str__(self) -> str:
        place = f" [{self.file}{f' at {self.offset}' if self.offset >= 0 else ''}]" if self.file else ""
        return f"{super().__str__()}{place}"


class InvalidArgument(RocketpyError, ValueError):
    status = -1


class NoMemory(RocketpyError, MemoryError):
    status = -2


class StoreIOError(RocketpyError, OSError):
    status = -3


class DiskFull(RocketpyError):
    status = -4


class TimedOut(RocketpyError, TimeoutError):
    status = -5


class Busy(RocketpyError):
    status = -6


class Closed(RocketpyError):
    status = -7


class StoreCorrupt(RocketpyError):
    status = -8


class NotFound(RocketpyError, LookupError):
    status = -9


class TooLarge(RocketpyError):
    status = -10


class StoreLocked(RocketpyError):
    status = -11


class AlreadyExists(RocketpyError):
    status = -12


class StoreReadOnly(RocketpyError):
    status = -13


class OffsetOutOfRange(RocketpyError):
    status = -14


class ProtocolError(RocketpyError):
    status = -15


class Unsupported(RocketpyError):
    status = -16


class NetworkError(RocketpyError, ConnectionError):
    status = -17


class UsedAfterFork(RocketpyError):
    status = -18


BY_STATUS: dict[int, type[RocketpyError]] = {
    cls.status: cls
    for cls in (
        InvalidArgument,
        NoMemory,
        StoreIOError,
        DiskFull,
        TimedOut,
        Busy,
        Closed,
        StoreCorrupt,
        NotFound,
        TooLarge,
        StoreLocked,
        AlreadyExists,
        StoreReadOnly,
        OffsetOutOfRange,
        ProtocolError,
        Unsupported,
        NetworkError,
        UsedAfterFork,
    )
}


def error_for(status: int, message: str, file: str = "", offset: int = -1, os_errno: int = 0) -> RocketpyError:
    """The exception for a negative status; RocketpyError itself for a number the table does not know."""
    return BY_STATUS.get(status, RocketpyError)(message, file=file, offset=offset, os_errno=os_errno)
