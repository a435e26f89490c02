"""The broker's end of replication: a master listens for slaves, a slave follows the master it is told of.
RocketMQ: HAService, DefaultHAService, HARuntimeInfo (5.3.3 store/ha/).

    master  rp_ha_master: sends the log, counts acks, completes parked responses
    slave   rp_ha_slave: receives the log; the address comes with each registration, from the name server

Threads  one event loop; the bytes flow in native threads (csrc/ha).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from .._core.base import LogTap
from .._core.broker import Broker
from .._core.errors import InvalidArgument, RocketpyError
from .._core.ha import HaMaster, HaSlave
from .._core.store import MessageStore
from ..config import Config
from ..remoting.listen_address import numeric_address

log = logging.getLogger(__name__)

MAX_TRANSFER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HaSettings:
    """Replication as configured. Sizes are in bytes, intervals in ms."""

    is_slave: bool
    is_sync: bool
    slave_acks: int
    """Slaves that must hold a message before it is acknowledged; 0: nobody is waited for. Behind a controller, with allAckInSyncStateSet, 1
    stands for all of the set."""
    bind_address: str
    port: int
    slaves_required: int
    slaves_min: int
    fewer_gap_bytes: int
    transfer_bytes: int
    heartbeat_interval_ms: int
    housekeeping_interval_ms: int
    gap_not_in_sync_bytes: int
    flow_bytes_per_second: int
    commit_log_file_size: int

    @staticmethod
    def of(config: Config) -> HaSettings:
        """The settings of a configuration.

        SYNC_MASTER waits for at least one slave; with RocketMQ 5's default inSyncReplicas=1 it would wait for none. With
        enableSlaveActingMaster a send that would wait for more slaves than are in sync is refused, or, with enableAutoInSyncReplicas, waits
        for those that are. A heartbeat is sent at least twice in a housekeeping interval: with longer pauses the other end would drop the
        connection again and again.
        """
        housekeeping_ms = config.integer("haHousekeepingInterval")
        may_act, may_be_fewer = config.boolean("enableSlaveActingMaster"), config.boolean("enableAutoInSyncReplicas")
        gap_bytes = config.integer("haMaxGapNotInSync")
        replicas, replicas_min = config.integer("inSyncReplicas"), config.integer("minInSyncReplicas")
        is_sync = config.text("brokerRole") == "SYNC_MASTER"
        acks = max(1, replicas - 1)
        if config.boolean("enableControllerMode"):  # where inSyncReplicas=1 waits for nobody
            acks = 1 if config.boolean("allAckInSyncStateSet") else replicas - 1
        if config.boolean("enableDLegerCommitLog"):  # one stands for a majority of the group
            acks, replicas, replicas_min, may_act = 1, 1, 1, False
        bytes_per_second = config.integer("maxHaTransferByteInSecond")
        return HaSettings(
            is_slave=config.text("brokerRole") == "SLAVE",
            is_sync=is_sync,
            slave_acks=acks if is_sync else 0,
            bind_address=config.text("bindAddress"),
            port=config.integer("haListenPort"),
            slaves_required=max(1, replicas - 1),
            slaves_min=(max(replicas_min, replicas) if may_act and not may_be_fewer else replicas_min) - 1,
            fewer_gap_bytes=gap_bytes if may_act and may_be_fewer else 0,
            transfer_bytes=config.integer("haTransferBatchSize"),
            heartbeat_interval_ms=min(config.integer("haSendHeartbeatInterval"), max(1, housekeeping_ms // 2)),
            housekeeping_interval_ms=housekeeping_ms,
            gap_not_in_sync_bytes=gap_bytes,
            flow_bytes_per_second=bytes_per_second if config.boolean("haFlowControlEnable") else 0,
            commit_log_file_size=config.integer("mappedFileSizeCommitLog"),
        )

    def of_master(self) -> dict[str, Any]:
        """The options of a HaMaster. Raises NetworkError for an invalid address."""
        return {
            "commit_log_file_size": self.commit_log_file_size,
            "bind_address": numeric_address("bindAddress", self.bind_address),
            "port": self.port,
            "transfer_bytes": min(self.transfer_bytes, MAX_TRANSFER_BYTES),
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "housekeeping_interval_ms": self.housekeeping_interval_ms,
            "flow_bytes_per_second": self.flow_bytes_per_second,
            "slaves_required": self.slaves_required,
            "slaves_min": self.slaves_min,
            "fewer_gap_bytes": self.fewer_gap_bytes,
        }


NOWHERE: Final = 1 << 62
"""An end that no log comes to."""


@dataclass(frozen=True, slots=True)
class LogMark:
    """Where a log ended, and how often it had been cut. As long as that number stays the same, the bytes below `end` are the same."""

    end: int
    cuts: int = 0


class DurableLog(Protocol):
    """What those who write files of positions need of the log."""

    def mark(self) -> LogMark:
        """The log's end at this moment. To be taken after the positions that rest on what was appended. The end is NOWHERE while some of
        that may have been taken back."""

    def wait_durable(self, mark: LogMark, timeout_ms: int) -> None:
        """Returns once the log is on disk up to the mark and nobody can take that back. Blocks. Raises what MessageStore.wait_flushed
        raises."""


class StoreLog:
    """The log of a broker from which nobody takes anything back."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def mark(self) -> LogMark:
        stats = self._store.stats()
        return LogMark(stats["commit_log_end_offset"], stats["commit_log_cuts"])

    def wait_durable(self, mark: LogMark, timeout_ms: int) -> None:
        self._store.wait_flushed(mark.end, timeout_ms, mark.cuts)


class HaService:
    """Replication of a broker whose role its configuration fixes. Opened after the store; closed after the listeners, before the broker and
    the store."""

    def __init__(self, settings: HaSettings, store: MessageStore, native: Broker, *, log_tap: LogTap | None = None) -> None:
        self.settings = settings
        self._store = store
        self._durable_log: DurableLog = StoreLog(store)
        self._native = native
        self._log_tap = log_tap
        self._master: HaMaster | None = None
        self._slave: HaSlave | None = None
        self._followed: str | None = None
        self.start_offset = 0
        """Where the commit log ended when this broker started."""
        self._stop_watching: Callable[[], object] | None = None

    @property
    def is_slave(self) -> bool:
        return self.settings.is_slave

    @property
    def port(self) -> int:
        """The port that slaves connect to; 0 on a slave."""
        return self._master.port if self._master is not None else 0

    def connection(self) -> int | None:
        """The number, from 1, of the connection to its master over which a slave receives the log; None while it receives none, and on a
        master."""
        stats = self._slave.stats() if self._slave is not None else {}
        return int(stats["connects"]) if stats.get("state") == "TRANSFER" else None

    @property
    def is_stranger(self) -> bool:
        """Whether a slave has messages that no master has proved to have: the master is away, or it has lost or replaced them."""
        return self.is_slave and self.connection() is None and self.log_end() > 0

    def start(self) -> None:
        """Starts to replicate. Raises NetworkError if the HA port is taken."""
        settings = self.settings
        self.start_offset = self.log_end()
        if settings.is_slave:
            self._slave = HaSlave(
                self._store,
                log=self._log_tap,
                report_interval_ms=settings.heartbeat_interval_ms,
                housekeeping_interval_ms=settings.housekeeping_interval_ms,
            )
            return
        self._master = HaMaster(
            self._store,
            self._native,
            log=self._log_tap,
            appenders_send=int(settings.is_sync),
            **settings.of_master(),
        )

    def watch(self, is_to_copy: Callable[[], None]) -> None:
        """Calls `is_to_copy`, in the running event loop, until unwatch: each time a slave's transfer begins (at once if one already has),
        which proves that the master has our log; and when a queue's first message has arrived."""
        if self._slave is None:
            return
        loop, fd = asyncio.get_running_loop(), self._slave.transfer_fd

        def told() -> None:
            os.eventfd_read(fd)
            is_to_copy()

        loop.add_reader(fd, told)
        self._stop_watching = functools.partial(loop.remove_reader, fd)

    def unwatch(self) -> None:
        """Ends the calls. In the same event loop, before close. Idempotent."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None

    def close(self) -> None:
        """Idempotent; blocks until the native thread has ended."""
        for part in (self._master, self._slave):
            if part is not None:
                part.close()

    @property
    def durable_log(self) -> DurableLog:
        """The log that files of positions rely on: positions that rest on appended messages are written once those are durable."""
        return self._durable_log

    def is_uncommitted(self, error: RocketpyError) -> bool:
        """Whether an error says that the messages which a position rests on may still be taken back. Its file then has to stay as it is."""
        return False

    def apply(self, settings: HaSettings) -> None:
        """Applies what may change at run time: everything but the role and the address listened on. Which threads send to slaves also stays
        as it was at the start (appenders_send): for a former asynchronous master that is slower, not wrong.

        Raises InvalidArgument.
        """
        if self._master is not None:
            self._master.require(settings.slaves_required, settings.slaves_min, settings.fewer_gap_bytes)
            self._master.limit_flow(settings.flow_bytes_per_second)
            self._master.set_pace(
                transfer_bytes=min(settings.transfer_bytes, MAX_TRANSFER_BYTES),
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
                housekeeping_interval_ms=settings.housekeeping_interval_ms,
            )
        if self._slave is not None:
            self._slave.set_intervals(settings.heartbeat_interval_ms, settings.housekeeping_interval_ms)
        self.settings = replace(settings, is_slave=self.settings.is_slave, bind_address=self.settings.bind_address, port=self.settings.port)

    def follow(self, ha_address: str | None) -> None:
        """Sets a slave's master to the address that a name server gave. None keeps the present connection: a master that is away may come
        back."""
        if self._slave is None or not ha_address or ha_address == self._followed:
            return
        try:
            self._slave.set_master(ha_address)
        except InvalidArgument as error:
            log.error("Update HA master address failed: %r is nothing a slave can follow: %s", ha_address, error)
            return
        log.info("Update HA master address from %s to %s", self._followed, ha_address)
        self._followed = ha_address

    def slave_lag_bytes(self) -> int | None:
        """How far the slowest slave is behind, in bytes; None without slaves, and on a slave."""
        if self._master is None:
            return None
        slaves = self._master.slaves()
        end = self.log_end()
        return max((end - max(0, row["acked_offset"]) for row in slaves), default=None)

    def slaves_with(self, offset: int) -> int:
        """How many slaves have acknowledged the log up to `offset`."""
        return 0 if self._master is None else sum(row["acked_offset"] >= offset for row in self._master.slaves())

    def runtime_info(self) -> dict[str, Any]:
        """The body of GET_BROKER_HA_STATUS. Offsets are in bytes of the commit log, times in ms of the wall clock."""
        end = self.log_end()
        connections = self._connections(end)
        return {
            "haClientRuntimeInfo": self._client_info(),
            "haConnectionInfo": connections,
            "inSyncSlaveNums": sum(1 for connection in connections if connection["inSync"]),
            "master": not self.is_slave,
            "masterCommitLogMaxOffset": end,
        }

    def counters(self) -> dict[str, str]:
        """Lines for the output of brokerStatus."""
        return self._slave_counters() if self._slave is not None else self._master_counters()

    def gauges(self) -> Mapping[str, tuple[str, int]]:
        """Metrics that only this kind of replication has: their meaning and their value."""
        return {}

    def _slave_counters(self) -> dict[str, str]:
        stats = self._slave.stats() if self._slave is not None else {}
        if not stats:
            return {}
        return {
            "haSlaveState": stats["state"],
            "haMasterAddress": stats["master_address"],
            "haSlaveLastError": stats["last_error"],
            "haSlaveBehindBytes": str(max(0, stats["master_offset"] - stats["max_offset"])),
            "haTransferredByteInSecond": str(stats["bytes_per_second"]),
        }

    def _master_counters(self) -> dict[str, str]:
        if self._master is None:
            return {}
        master, slaves = self._master.stats(), self._master.slaves()
        lag = self.slave_lag_bytes()
        return {
            "haSlaves": str(len(slaves)),
            "haTransferredByteInSecond": str(sum(row["bytes_per_second"] for row in slaves)),
            "haSlaveLagBytes": "-1" if lag is None else str(lag),
            "haBytesSent": str(master["bytes_sent"]),
            "haAcks": str(master["acks"]),
            "haDroppedBadAck": str(master["dropped_bad_ack"]),
            "haDroppedSilent": str(master["dropped_silent"]),
            "haLastDropped": master["last_drop"],
        }

    def log_end(self) -> int:
        """The end of our commit log."""
        return self._store.stats()["commit_log_max_offset"]

    def queued_end(self) -> int:
        """The offset in our commit log below which all messages are in their queues."""
        return self._store.stats()["dispatched_offset"]

    def queue_end(self, topic: str, queue_id: int) -> int:
        """The end of a queue in our log; 0 if there is no such queue."""
        return self._store.next_offset(topic, queue_id)

    def _connections(self, end: int) -> list[dict[str, Any]]:
        if self._master is None:
            return []
        return [
            {
                "addr": row["address"],
                "diff": end - max(0, row["acked_offset"]),
                "inSync": self._is_in_sync(row, end),
                "slaveAckOffset": row["acked_offset"],
                "transferFromWhere": row["next_offset"],
                "transferredByteInSecond": row["bytes_per_second"],
            }
            for row in self._master.slaves()
        ]

    def _is_in_sync(self, row: Mapping[str, Any], end: int) -> bool:
        return bool(row["acked_offset"] >= 0 and end - row["acked_offset"] < self.settings.gap_not_in_sync_bytes)

    def _client_info(self) -> dict[str, Any]:
        stats = self._slave.stats() if self._slave is not None else {}
        return {
            "lastReadTimestamp": stats.get("last_read_ms", 0),
            "lastWriteTimestamp": stats.get("last_write_ms", 0),
            "masterAddr": stats.get("master_address", ""),
            "masterFlushOffset": 0,
            "maxOffset": stats.get("max_offset", 0),
            "transferredByteInSecond": stats.get("bytes_per_second", 0),
        }
