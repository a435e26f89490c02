"""Stub of rocketpy._core.ha: replication of the commit log to slaves and from a master (csrc/ha)."""

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
    """Owns one rp_epoch_cache: which part of the log was written in which epoch (storePathEpochFile). Close it after the HaMaster and
    the HaSlave."""

    def __init__(self, path: str | os.PathLike[str], *, log: Any | None = None) -> None: ...
    def fit(self, begin: int, end: int) -> None:
        """Drops entries that do not fit a log [begin, end). To be called once, before the first role. Raises StoreIOError, DiskFull."""
    def entries(self) -> list[tuple[int, int, int]]:
        """(epoch, start offset, end offset) in ascending order of epochs; the last one ends at 2**63 - 1."""
    @property
    def last_epoch(self) -> int:
        """-1 if there are no entries."""
    def truncate_prefix(self, offset: int) -> None:
        """To be called when retention has deleted the log below offset. Raises StoreIOError, DiskFull."""
    def close(self) -> None: ...

@disjoint_base
class HaMaster(NativeObject):
    """Owns one rp_ha_master: listens for slaves and sends them the log. Close it after the servers, and before broker and store."""

    def __init__(
        self, store: MessageStore, broker: Broker | None = None, *, epochs: EpochCache | None = None, log: Any | None = None, **options: Any
    ) -> None:
        """options are the fields of rp_ha_master_options. Acks of slaves_required slaves complete the broker's parked responses. With
        epochs it is run by a controller: broker_id and all_in_sync_state_set are required too; it serves nobody, and the store takes no
        appends, until lead()."""
    def lead(self, epoch: int, broker_ids: Collection[int]) -> None:
        """Makes it the master of that epoch and SyncStateSet from the log's end on. If others are in the set and all_in_sync_state_set
        is on, messages that are in no queue yet wait for them; otherwise all messages are in the queues when this returns. To be called
        after HaSlave.let_go(), and before sends are accepted. Raises OffsetOutOfRange for an epoch before the last one, StoreCorrupt,
        StoreIOError, DiskFull: then it does not lead, and may be called again; InvalidArgument: the set."""
    def step_down(self) -> None:
        """When this returns the store takes no appends and slaves are disconnected. To be called after sends are refused, and before
        HaSlave.set_master()."""
    def agree(self, broker_ids: Collection[int]) -> None:
        """Sets the SyncStateSet to the controller's, also after a proposal that it refused. Raises InvalidArgument."""
    def propose(self, broker_ids: Collection[int]) -> None:
        """To be called before the controller is asked for another set: until agree(), both sets must hold what is acknowledged. Ask the
        controller once slaves() says of every new member that it has_caught_up (anew: it may still lack what was acknowledged before the
        proposal); members that leave need no wait. Raises InvalidArgument."""
    def sync_state_set(self) -> list[int]:
        """The set that was agreed last."""
    @property
    def confirm_offset(self) -> int:
        """What all of the set hold; the log's end while this broker is alone in it, or without all_in_sync_state_set."""
    @property
    def set_fd(self) -> int:
        """An eventfd, owned by this object: readable from when a slave outside the set has caught up, or one of the set has gone, until
        it is read; slaves() then tells which. -1 without epochs."""
    @property
    def port(self) -> int: ...
    def require(self, slaves_required: int, slaves_min: int = 0, fewer_gap_bytes: int = 0) -> None:
        """Sets how many slaves must hold a message before a SYNC_MASTER response is sent, how many must be in sync and, unless 0, from
        which gap on a slave is not in sync and fewer will do. Raises InvalidArgument."""
    def limit_flow(self, bytes_per_second: int) -> None:
        """Limits what is sent to each slave from now on; 0: no limit."""
    def set_pace(self, *, transfer_bytes: int, heartbeat_interval_ms: int, housekeeping_interval_ms: int) -> None:
        """Changes these options from now on; transfer_bytes only for slaves that connect later. Raises InvalidArgument."""
    def slaves(self) -> list[dict[str, Any]]:
        """One dict for each connected slave: the fields of rp_ha_slave_row (offsets in bytes, times in wall clock ms). With a controller
        also broker_id, is_learner, is_in_set, has_caught_up (may be proposed) and caught_up_ms (monotonic clock: a slave that has not
        caught up for haMaxTimeSlaveNotCatchup should leave the set)."""
    def stats(self) -> dict[str, Any]:
        """The fields of rp_ha_master_stats."""
    def close(self) -> None: ...

@disjoint_base
class HaSlave(NativeObject):
    """Owns one rp_ha_slave: follows a master and writes its log into the store. Nothing else may append meanwhile."""

    def __init__(self, store: MessageStore, *, epochs: EpochCache | None = None, log: Any | None = None, **options: Any) -> None:
        """options are the fields of rp_ha_slave_options. With epochs it is run by a controller: broker_id is required too."""
    def let_go(self) -> None:
        """As set_master(None), but nothing of the old master is stored after this returns. Blocks for at most connect_timeout_ms. To be
        called before HaMaster.lead()."""
    def set_master(self, address: str | None) -> None:
        """ "ip:port" of the master's HA listener, None for no master. Raises InvalidArgument."""
    def set_intervals(self, report_interval_ms: int, housekeeping_interval_ms: int) -> None:
        """Changes these options from now on. Raises InvalidArgument."""
    @property
    def transfer_fd(self) -> int:
        """An eventfd, owned by this object: readable from when a transfer or a queue began until it is read."""
    def stats(self) -> dict[str, Any]:
        """The fields of rp_ha_slave_stats; state is one of SLAVE_STATES. In the state TRUNCATE call
        MessageStore.cut_at_open(truncate_to), then close the store and open it again."""
    def close(self) -> None: ...
