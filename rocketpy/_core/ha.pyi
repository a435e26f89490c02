"""Stub of rocketpy._core.ha: the commit log's way to slaves and from a master (csrc/ha)."""

from typing import Any, Final

from typing_extensions import disjoint_base

from .base import NativeObject
from .broker import Broker
from .store import MessageStore

SLAVE_STATES: Final[tuple[str, ...]]

@disjoint_base
class HaMaster(NativeObject):
    """Owner of one rp_ha_master: listens for slaves and sends them the log. Close it after the servers and before broker and store."""

    def __init__(self, store: MessageStore, broker: Broker | None = None, *, log: Any | None = None, **options: Any) -> None:
        """options are the fields of rp_ha_master_options. Acks of slaves_required slaves complete the broker's parked responses."""
    @property
    def port(self) -> int: ...
    def require(self, slaves_required: int, slaves_min: int = 0, fewer_gap_bytes: int = 0) -> None:
        """How many slaves must hold a message before a SYNC_MASTER response leaves, how many be in sync, and, unless 0, from which gap on
        one is not and fewer will do. Raises InvalidArgument."""
    def limit_flow(self, bytes_per_second: int) -> None:
        """How much each slave may be sent, from now on; 0: no limit."""
    def set_pace(self, *, transfer_bytes: int, heartbeat_interval_ms: int, housekeeping_interval_ms: int) -> None:
        """As at the opening, from now on; transfer_bytes for slaves that connect. Raises InvalidArgument."""
    def slaves(self) -> list[dict[str, Any]]:
        """One dict per connected slave: the fields of rp_ha_slave_row (offsets in bytes, times in wall clock ms)."""
    def stats(self) -> dict[str, Any]:
        """The fields of rp_ha_master_stats."""
    def close(self) -> None: ...

@disjoint_base
class HaSlave(NativeObject):
    """Owner of one rp_ha_slave: follows a master and writes its log into the store. Nothing else may append meanwhile."""

    def __init__(self, store: MessageStore, *, log: Any | None = None, **options: Any) -> None:
        """options are the fields of rp_ha_slave_options."""
    def set_master(self, address: str | None) -> None:
        """ "ip:port" of the master's HA listener, None for no master. Raises InvalidArgument."""
    def set_intervals(self, report_interval_ms: int, housekeeping_interval_ms: int) -> None:
        """As at the opening, from now on. Raises InvalidArgument."""
    @property
    def transfer_fd(self) -> int:
        """An eventfd, readable since a transfer or a queue began until it is read; this object's until it is closed."""
    def stats(self) -> dict[str, Any]:
        """The fields of rp_ha_slave_stats; state is one of SLAVE_STATES."""
    def close(self) -> None: ...
