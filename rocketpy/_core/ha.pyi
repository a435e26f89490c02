"""Stub of rocketpy._core.ha: the commit log's way to slaves and from a master (csrc/ha)."""

import os
from collections.abc import Collection
from typing import Any, Final

from typing_extensions import disjoint_base

from .base import NativeObject
from .broker import Broker
from .store import MessageStore

SLAVE_STATES: Final[tuple[str, ...]]

@disjoint_base
class EpochCache(NativeObject):
    """Owner of one rp_epoch_cache: whose part of the log is whose (storePathEpochFile). Close it after the HaMaster and the HaSlave."""

    def __init__(self, path: str | os.PathLike[str], *, log: Any | None = None) -> None: ...
    def fit(self, begin: int, end: int) -> None:
        """Drops what does not fit a log [begin, end): once, before the first role. Raises StoreIOError, DiskFull."""
    def entries(self) -> list[tuple[int, int, int]]:
        """(epoch, start offset, end offset) by rising epoch; the last one's end is 2**63 - 1."""
    @property
    def last_epoch(self) -> int:
        """-1 without entries."""
    def truncate_prefix(self, offset: int) -> None:
        """Retention has come to offset. Raises StoreIOError, DiskFull."""
    def close(self) -> None: ...

@disjoint_base
class HaMaster(NativeObject):
    """Owner of one rp_ha_master: listens for slaves and sends them the log. Close it after the servers and before broker and store."""

    def __init__(
        self, store: MessageStore, broker: Broker | None = None, *, epochs: EpochCache | None = None, log: Any | None = None, **options: Any
    ) -> None:
        """options are the fields of rp_ha_master_options. Acks of slaves_required slaves complete the broker's parked responses. With
        epochs it is one behind a controller: give broker_id and all_in_sync_state_set too; it serves nobody, and the store takes no
        appends, until lead()."""
    def lead(self, epoch: int, broker_ids: Collection[int]) -> None:
        """Master of that epoch and SyncStateSet from the log's end on. With others in the set and all_in_sync_state_set what is in no queue
        by now waits for them; alone all there is is in the queues. After HaSlave.let_go(), before sends are accepted. Raises
        OffsetOutOfRange for an epoch before the last one, StoreCorrupt, StoreIOError, DiskFull: then it does not lead and may be asked
        again; InvalidArgument: the set."""
    def step_down(self) -> None:
        """The store takes no appends and slaves are gone when this returns. After sends are refused, before HaSlave.set_master()."""
    def agree(self, broker_ids: Collection[int]) -> None:
        """The SyncStateSet as the controller has it, also as the answer to a proposal that was refused. Raises InvalidArgument."""
    def propose(self, broker_ids: Collection[int]) -> None:
        """Before the controller is asked for another set: from now until agree() both have to hold what is acknowledged. Ask it once
        slaves() says of every newcomer that it has_caught_up (again: what was acknowledged before the proposal it may still lack); no
        need to wait for whoever leaves. Raises InvalidArgument."""
    def sync_state_set(self) -> list[int]:
        """As agreed last."""
    @property
    def confirm_offset(self) -> int:
        """What all of the set hold; the log's end while this broker is alone in it, and without all_in_sync_state_set."""
    @property
    def set_fd(self) -> int:
        """An eventfd, readable since a slave outside the set has caught up or one of the set has gone, until it is read; slaves() then
        says who. This object's until it is closed. -1 without epochs."""
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
        """One dict per connected slave: the fields of rp_ha_slave_row (offsets in bytes, times in wall clock ms). Behind a controller
        also broker_id, is_learner, is_in_set, has_caught_up (may be proposed) and caught_up_ms (by the monotonic clock: a slave that has
        not caught up for haMaxTimeSlaveNotCatchup is to leave the set)."""
    def stats(self) -> dict[str, Any]:
        """The fields of rp_ha_master_stats."""
    def close(self) -> None: ...

@disjoint_base
class HaSlave(NativeObject):
    """Owner of one rp_ha_slave: follows a master and writes its log into the store. Nothing else may append meanwhile."""

    def __init__(self, store: MessageStore, *, epochs: EpochCache | None = None, log: Any | None = None, **options: Any) -> None:
        """options are the fields of rp_ha_slave_options. With epochs it is one behind a controller: give broker_id too."""
    def let_go(self) -> None:
        """As set_master(None), and nothing of the old master is stored after this. Blocks for connect_timeout_ms at most. Before
        HaMaster.lead()."""
    def set_master(self, address: str | None) -> None:
        """ "ip:port" of the master's HA listener, None for no master. Raises InvalidArgument."""
    def set_intervals(self, report_interval_ms: int, housekeeping_interval_ms: int) -> None:
        """As at the opening, from now on. Raises InvalidArgument."""
    @property
    def transfer_fd(self) -> int:
        """An eventfd, readable since a transfer or a queue began until it is read; this object's until it is closed."""
    def stats(self) -> dict[str, Any]:
        """The fields of rp_ha_slave_stats; state is one of SLAVE_STATES. TRUNCATE: MessageStore.cut_at_open(truncate_to), then the store
        has to be closed and opened again."""
    def close(self) -> None: ...
