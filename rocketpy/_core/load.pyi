"""Stub of rocketpy._core.load: the native load generator (csrc/load/load.h) and the floors (csrc/load/floor.h)."""

from collections.abc import Sequence
from typing import Any, Final, Unpack

from typing_extensions import disjoint_base

from .base import NativeObject
from .options import LoadOptions as LoadOptions
from .results import FloorRate as FloorRate

LATENCY_NAMES: Final[tuple[str, ...]]
"""The keys of a result's latency, in the order of rp_load_latency_kind."""

@disjoint_base
class Load(NativeObject):
    """One run against one broker address, on its own threads. Keyword names are the fields of rp_load_options."""

    def __init__(self, *, start_offsets: Sequence[int] | None = None, **options: Unpack[LoadOptions]) -> None:
        """Resolves the address and, for pulls, asks the broker for offsets. Raises InvalidArgument, NetworkError, ProtocolError…"""
    def start(self) -> None: ...
    def progress(self) -> dict[str, int]:
        """The fields of rp_load_progress: sent, acknowledged, errors, bytes_sent, received, bytes_received, failures, …"""
    def wait(self, timeout_s: float) -> bool:
        """Returns whether the run has finished. Checks for signals every 100 ms."""
    def stop(self) -> None: ...
    def result(self) -> dict[str, Any]:
        """The fields of rp_load_result, after the run: totals (dict), error_codes (list of dicts code/count/remark), latency (dict of
        dicts: publish, publish_delay, end_to_end, fetch; values in ns), queues (list of dicts, the fields of rp_load_queue) and the
        scalars."""
    def percentile(self, kind: int, percent: float) -> int:
        """Returns ns; kind is an rp_load_latency_kind: 0 publish, 1 publish_delay, 2 end_to_end, 3 fetch."""
    def save_ledger(self, path: str) -> None: ...
    def close(self) -> None: ...

FLOOR_KINDS: Final[dict[str, int]]

@disjoint_base
class Floor(NativeObject):
    """The bare epoll server, on its own thread. Raises InvalidArgument if kind is not in FLOOR_KINDS."""

    def __init__(self, path: str, file_size: int = 0, port: int = 0, spin_us: int = 0, *, kind: str = "reused") -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def frames(self) -> int: ...
    def close(self) -> None: ...

def floor_sync(path: str, size: int, duration_ms: int) -> FloorRate: ...
def floor_replicated(path: str, size: int, duration_ms: int) -> FloorRate: ...
def floor_sendfile(path: str, chunk: int, duration_ms: int) -> FloorRate: ...
