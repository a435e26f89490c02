"""Stub of rocketpy._core.inspect: store directories read from outside (csrc/store/store_verify.h, log_scan.h)."""

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
    """Checks a stopped store; returns the fields of rp_verify_counts. on_progress gets bytes done and in all. An exception of a
    callback ends the run and is raised here. Raises NotFound without a store there."""

@disjoint_base
class LogScan(NativeObject, Iterator[Message | Damage]):
    """The records of one commit log file, with what is damaged in between."""

    def __init__(self, path: str, *, begin_offset: int = ..., end_offset: int = ..., check_crc: bool = True) -> None:
        """Raises InvalidArgument for a name that is no offset, NotFound, StoreIOError."""
    def __iter__(self) -> LogScan: ...
    def __next__(self) -> Message | Damage: ...
    @property
    def offset(self) -> int:
        """Physical offset of the next byte to look at."""
    def close(self) -> None: ...
