"""Stub of rocketpy._core.load: the native load generator (csrc/load/load.h) and the floors (csrc/load/floor.h)."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypedDict, Unpack, type_check_only

from typing_extensions import disjoint_base

from .base import NativeObject

LATENCY_NAMES: Final[tuple[str, ...]]
"""The keys of a result's latency, by rp_load_latency_kind."""

@type_check_only
class LoadOptions(TypedDict, total=False):
    """The fields of rp_load_options, with their units and defaults in csrc/load/load.h."""

    address: str | None
    topic: str | None
    producer_group: str | None
    consumer_group: str | None
    tags: str | None
    ledger_path: str | None
    mode: int
    serialize_type: int
    send_code: int
    pull_start: int
    queue_count: int
    connections: int
    pull_connections: int
    in_flight: int
    batch_size: int
    pull_batch: int
    threads: int
    message_size: int
    count: int
    duration_ms: int
    warm_up_ms: int
    rate: float
    connect_timeout_ms: int
    request_timeout_ms: int
    reconnect_timeout_ms: int
    drain_timeout_ms: int
    suspend_ms: int
    spin_us: int
    run_id: int
    repeat: int
    skip_verify: int
    check_order: int
    no_unique_key: int
    keep_ledger: int

@disjoint_base
class Load(NativeObject):
    """One run against one broker address, in threads of its own. Keyword names are the fields of rp_load_options."""

    def __init__(self, *, start_offsets: Sequence[int] | None = None, **options: Unpack[LoadOptions]) -> None:
        """Resolves the address and, for pulls, asks the broker for offsets. Raises InvalidArgument, NetworkError, ProtocolError…"""
    def start(self) -> None: ...
    def progress(self) -> dict[str, int]:
        """The fields of rp_load_progress: sent, acknowledged, errors, bytes_sent, received, bytes_received, failures, …"""
    def wait(self, timeout_s: float) -> bool:
        """True when finished; looks at signals every 100 ms."""
    def stop(self) -> None: ...
    def result(self) -> dict[str, Any]:
        """The fields of rp_load_result: totals (dict), error_codes (list of dicts code/count/remark), latency (dict of dicts:
        publish, publish_delay, end_to_end, fetch; values in ns), queues (list of dicts, the fields of rp_load_queue) and the
        scalars; after the run."""
    def percentile(self, kind: int, percent: float) -> int:
        """ns; kind is an rp_load_latency_kind: 0 publish, 1 publish_delay, 2 end_to_end, 3 fetch."""
    def save_ledger(self, path: str) -> None: ...
    def close(self) -> None: ...

class FloorRate(NamedTuple):
    """What a bare loop achieved (rp_floor_rate)."""

    rounds: int
    bytes: int
    elapsed_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int

@disjoint_base
class Floor(NativeObject):
    """The bare epoll server, in a thread of its own."""

    def __init__(self, path: str, file_size: int = 0, port: int = 0, spin_us: int = 0) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def frames(self) -> int: ...
    def close(self) -> None: ...

def floor_sync(path: str, size: int, duration_ms: int) -> FloorRate: ...
def floor_sendfile(path: str, chunk: int, duration_ms: int) -> FloorRate: ...
