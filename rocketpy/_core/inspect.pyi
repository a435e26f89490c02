"""Stub of rocketpy._core.inspect: reads the directories of a store from outside (csrc/store/store_verify.h, log_scan.h)."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from typing_extensions import disjoint_base

from .base import NativeObject
from .results import Damage as Damage
from .store import Message

DAMAGE_KINDS: Final[dict[int, str]]

@disjoint_base
class VerifyRun: ...

def nothing(*values: object) -> None: ...
def verify_store(
    root_path: str,
    *,
    commit_log_path: str | None = None,
    check_crc: bool = True,
    slot_count: int = 0,
    entry_count_max: int = 0,
    on_damage: Callable[[Damage], Any] | None = None,
    on_progress: Callable[[int, int], Any] | None = None,
) -> dict[str, int]:
    """Checks a stopped store; returns the fields of rp_verify_counts. on_progress gets the bytes done and the total. An exception of a
    callback ends the run and is raised here. Raises NotFound if there is no store."""

@disjoint_base
class LogScan(NativeObject, Iterator[Message | Damage]):
    """Iterates over the records of one commit log file, and the damage between them."""

    def __init__(self, path: str, *, begin_offset: int = ..., end_offset: int = ..., check_crc: bool = True) -> None:
        """Raises InvalidArgument if the name is not an offset, NotFound, StoreIOError."""
    def __iter__(self) -> LogScan: ...
    def __next__(self) -> Message | Damage: ...
    @property
    def offset(self) -> int:
        """Physical offset of the next byte to read."""
    def close(self) -> None: ...
