"""The broker's end of replication behind a controller: one object that leads or follows, as it is told, without a restart.
RocketMQ: AutoSwitchHAService (5.3.3 store/ha/autoswitch/).

    open(id) ─► neither leads nor follows ─┬─ lead(epoch, set) ────────► rp_ha_master serves slaves, the store takes appends
                        ▲                  └─ step_down, follow(address) ─► rp_ha_slave writes what its master sends
                        └─ both, any number of times

Threads  one event loop calls it; lead and step_down block and are called in a thread of its executor, one at a time.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from .._core.base import LogTap
from .._core.broker import Broker
from .._core.ha import EpochCache, HaMaster, HaSlave
from .._core.store import MessageStore
from ..config import Config
from .service import HaService, HaSettings


class AutoSwitchHaService(HaService):
    """Replication of a broker whose role a controller decides. Unlike in HaService, listening starts with `open`, once the broker's id is
    known."""

    def __init__(self, config: Config, store: MessageStore, native: Broker, *, log_tap: LogTap | None = None) -> None:
        super().__init__(HaSettings.of(config), store, native, log_tap=log_tap)
        root = Path(config.text("storePathRootDir"))
        self._epoch_path = Path(config.text("storePathEpochFile") or root / "epochFileCheckpoint")
        self._waits_for_all = config.boolean("allAckInSyncStateSet")
        self._from_last_file = config.boolean("syncFromLastFile")
        self._is_learner = config.boolean("asyncLearner")
        self._epochs: EpochCache | None = None
        self._leads = False
        self._expired = 0
        self._is_to_copy: Callable[[], None] | None = None
        self._set_changed: Callable[[], None] | None = None
        self.describe: Callable[[], Mapping[str, str]] = dict
        """What else brokerStatus shows about the role."""
        self.broker_id = -1

    @property
    def is_slave(self) -> bool:
        return not self._leads

    @property
    def last_epoch(self) -> int:
        """The last epoch in the log; -1 if no master ever wrote to it."""
        return self._epochs.last_epoch if self._epochs is not None else -1

    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, offset in the log at which it began), in order."""
        return [(epoch, begin) for epoch, begin, _ in self._epochs.entries()] if self._epochs is not None else []

    def start(self) -> None:
        """Only reads the epochs, because the broker's id is not known yet. Raises StoreIOError, DiskFull."""
        self.start_offset = self.log_end()
        self._epochs = EpochCache(self._epoch_path, log=self._log_tap)
        self._epochs.fit(self._store.stats()["commit_log_min_offset"], self.start_offset)

    def open(self, broker_id: int) -> None:
        """Listens for slaves, who are not served before `lead`. Idempotent. Raises NetworkError if the HA port is taken."""
        if self._master is not None:
            return
        settings = self.settings
        self.broker_id = broker_id
        self._master = HaMaster(
            self._store,
            self._native,
            epochs=self._epochs,
            log=self._log_tap,
            appenders_send=1,
            **settings.of_master(),
            broker_id=broker_id,
            all_in_sync_state_set=int(self._waits_for_all),
        )
        self._slave = HaSlave(
            self._store,
            epochs=self._epochs,
            log=self._log_tap,
            report_interval_ms=settings.heartbeat_interval_ms,
            housekeeping_interval_ms=settings.housekeeping_interval_ms,
            broker_id=broker_id,
            from_last_file=int(self._from_last_file),
            is_learner=int(self._is_learner),
        )
        self._listen()

    # ---- roles ----

    def lead(self, epoch: int, broker_ids: Collection[int]) -> None:
        """Makes this broker the master of an epoch, with these brokers in sync. To be called again for a newer epoch. Blocks. Raises
        OffsetOutOfRange if the epoch is older than the log's last, and what the disk may raise."""
        assert self._master is not None and self._slave is not None
        self._slave.let_go()
        self._followed = None
        self._master.lead(epoch, broker_ids)
        self._master.agree(broker_ids)  # it may have led in that epoch already
        self._leads = True

    def step_down(self) -> None:
        """Ends the lead, and the following too. When it returns, nothing is appended, sent to slaves or received any more. Blocks.
        Idempotent."""
        if self._master is not None and self._slave is not None:
            self._leads = False
            self._master.step_down()
            self._slave.let_go()
            self._followed = None

    def agree(self, broker_ids: Collection[int]) -> None:
        """As HaMaster.agree. Does nothing while this broker does not lead."""
        if self._master is not None and self._leads:
            self._master.agree(broker_ids)

    def propose(self, broker_ids: Collection[int]) -> None:
        if self._master is not None and self._leads:
            self._master.propose(broker_ids)

    def follow(self, ha_address: str | None) -> None:
        if not self._leads:
            super().follow(ha_address)

    @property
    def cut_offset(self) -> int | None:
        """Where a slave's log has to be cut before the slave can follow; None if it need not be. Opening the store again makes the cut, and
        removes all that was derived from the messages behind it."""
        stats = self._slave.stats() if self._slave is not None else {}
        return int(stats["truncate_to"]) if stats.get("state") == "TRUNCATE" else None

    @property
    def confirm_offset(self) -> int:
        """The offset up to which all brokers of the in-sync set have the log; on a slave, the one that its master reports."""
        if self._master is not None and self._leads:
            return self._master.confirm_offset
        return max(0, int(self._slave.stats()["confirm_offset"])) if self._slave is not None else 0

    def forget_expired(self) -> None:
        """Drops the epochs whose part of the log has been deleted. Blocks. Raises StoreIOError, DiskFull."""
        begin = self._store.stats()["commit_log_min_offset"]
        if self._epochs is not None and begin > self._expired:
            self._epochs.truncate_prefix(begin)
            self._expired = begin

    def followers(self) -> list[dict[str, Any]]:
        """The slaves that have said who they are. `caught_up_age_ms`: how many ms ago a slave last held the whole log, None if it never
        did."""
        if self._master is None or not self._leads:
            return []
        now_ms = time.monotonic_ns() // 1_000_000
        return [
            {**row, "caught_up_age_ms": max(0, now_ms - row["caught_up_ms"]) if row["caught_up_ms"] > 0 else None}
            for row in self._master.slaves()
            if row["broker_id"] >= 0
        ]

    # ---- events ----

    def watch(self, is_to_copy: Callable[[], None]) -> None:
        self._is_to_copy = is_to_copy
        self._listen()

    def watch_set(self, set_changed: Callable[[], None]) -> None:
        """Calls `set_changed` when a slave outside the in-sync set has caught up, or when one of the set has gone."""
        self._set_changed = set_changed
        self._listen()

    def _listen(self) -> None:
        """Watches the descriptors, once both the master's and the slave's side exist."""
        if self._slave is None or self._master is None:
            return
        watched = [(self._slave.transfer_fd, self._is_to_copy), (self._master.set_fd, self._set_changed)]
        loop = asyncio.get_running_loop()
        self.unwatch()
        open_fds = [fd for fd, tell in watched if tell is not None]
        for fd, tell in watched:
            if tell is not None:
                loop.add_reader(fd, functools.partial(_told, fd, tell))
        self._stop_watching = lambda: [loop.remove_reader(fd) for fd in open_fds]

    def close(self) -> None:
        super().close()
        if self._epochs is not None:
            self._epochs.close()

    # ---- for operators ----

    def runtime_info(self) -> dict[str, Any]:
        """`inSync` means: in the set. As in RocketMQ, inSyncSlaveNums is the size of the set without the master, connected or not."""
        info = super().runtime_info()
        if self._leads and self._master is not None:
            info["inSyncSlaveNums"] = max(0, len(self._master.sync_state_set()) - 1)
        return info

    def counters(self) -> dict[str, str]:
        lines = self._master_counters() if self._leads else self._slave_counters()
        role = "SYNC_MASTER" if self._leads else "SLAVE"
        own = {"brokerRole": role, "brokerEpoch": str(self.last_epoch), "confirmOffset": str(self.confirm_offset)}
        return {**lines, **own, **self.describe()}

    def _is_in_sync(self, row: Mapping[str, Any], end: int) -> bool:
        return bool(row["is_in_set"])


def _told(fd: int, tell: Callable[[], None]) -> None:
    os.eventfd_read(fd)
    tell()
