"""Exceptions of the native core: one class for each status of csrc/base/error.h. A class registers itself with its status.

Each exception carries what an operator needs: file, offset, cause (the message) and errno.
"""

from __future__ import annotations

from typing import Any

BY_STATUS: dict[int, type[RocketpyError]] = {}


class RocketpyError(Exception):
    """Root of everything rocketpy raises on purpose. `class X(RocketpyError, status=…)` is raised for that status."""

    status = 0

    def __init_subclass__(cls, *, status: int | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if status is not None:
            cls.status = status
            BY_STATUS[status] = cls

    def __init__(self, message: str = "", *, file: str = "", offset: int = -1, os_errno: int = 0) -> None:
        super().__init__(message)
        self.file = file
        self.offset = offset
        self.os_errno = os_errno

    def __str__(self) -> str:
        place = f" [{self.file}{f' at {self.offset}' if self.offset >= 0 else ''}]" if self.file else ""
        return f"{super().__str__()}{place}"


class InvalidArgument(RocketpyError, ValueError, status=-1):
    """An argument or option is out of its range."""


class NoMemory(RocketpyError, MemoryError, status=-2):
    """Allocation failed."""


class StoreIOError(RocketpyError, OSError, status=-3):
    """A read, write, sync or map failed; os_errno says how."""


class DiskFull(RocketpyError, status=-4):
    """No space, or a quota is used up; goes away when space returns."""


class TimedOut(RocketpyError, TimeoutError, status=-5):
    """The time limit passed; the operation may still complete."""


class Busy(RocketpyError, status=-6):
    """A bound (queue, memory, connections) is reached."""


class Closed(RocketpyError, status=-7):
    """The object or connection is closed."""


class StoreCorrupt(RocketpyError, status=-8):
    """Bytes on disk are not what the format promises."""


class NotFound(RocketpyError, LookupError, status=-9):
    """No such file, topic, queue, entry or connection."""


class TooLarge(RocketpyError, status=-10):
    """A size is past its limit."""


class StoreLocked(RocketpyError, status=-11):
    """Another process holds the store."""


class AlreadyExists(RocketpyError, status=-12):
    """It is there already."""


class StoreReadOnly(RocketpyError, status=-13):
    """The store takes no writes (failed sync, role, permission)."""


class OffsetOutOfRange(RocketpyError, status=-14):
    """An offset is outside of what there is."""


class ProtocolError(RocketpyError, status=-15):
    """Bytes from the wire are not what the protocol promises."""


class Unsupported(RocketpyError, status=-16):
    """The kernel or build lacks it."""


class NetworkError(RocketpyError, ConnectionError, status=-17):
    """Connect, send or receive failed."""


class UsedAfterFork(RocketpyError, status=-18):
    """Used after fork in the child."""


def error_for(status: int, message: str, file: str = "", offset: int = -1, os_errno: int = 0) -> RocketpyError:
    """The exception for a negative status; RocketpyError itself for a number the table does not know."""
    return BY_STATUS.get(status, RocketpyError)(message, file=file, offset=offset, os_errno=os_errno)
