"""Stub of rocketpy._core.base: what every wrapper shares, and the small functions of csrc/base."""

from os import PathLike
from typing import Any, Self

from typing_extensions import disjoint_base

@disjoint_base
class NativeObject:
    """Owns one C object. close() is explicit and may be repeated; later calls raise Closed, those in a forked child UsedAfterFork."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: Any) -> None: ...
    def __del__(self) -> None: ...

@disjoint_base
class LogTap(NativeObject):
    """The native log ring (csrc/base/log.h), which holds the log lines of C threads. Close it after everything that writes to it."""

    def __init__(self) -> None: ...
    @property
    def event_fd(self) -> int:
        """Readable while lines wait."""
    @property
    def dropped(self) -> int:
        """Lines that were dropped because the ring was full."""
    def take(self, lines_max: int = 256) -> list[tuple[int, int, str]]:
        """Returns (level, wall clock ms, text) of waiting lines, oldest first."""
    def close(self) -> None: ...

def crc32(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Returns the same as zlib.crc32, computed by the native code."""

def crc32_implementation() -> str:
    """Returns the fastest one that this CPU supports: "vpclmulqdq", "pclmulqdq", "armv8" or "portable"."""

def inodes_are_used_up(path: str | PathLike[str]) -> bool:
    """The file system of path, or of the nearest directory that is there for it, has free space but no inodes."""

def making_remedy(os_errno: int, path: str | PathLike[str]) -> str:
    """What to add to the error of a file or directory that could not be made there: "" or, behind a semicolon, that space or inodes
    are used up."""

def report_faults() -> None:
    """Installs a handler of SIGBUS: if the disk fails to give a byte of a mapped file, the process ends with a line that names file and
    byte."""
