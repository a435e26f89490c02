"""The broker's end of replication in a DLedger group: the members' log takes the place of master and slaves. It answers the same questions
as HaService.
RocketMQ: DLedgerCommitLog (5.3.3 store/dledger/), which has no HAService.

dledger/log_node.py decides who leads; the role of the broker follows, and `leads` with it.

Threads  one event loop; the entries flow in native threads (csrc/ha/dledger_log.h).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from .._core.base import LogTap
from .._core.broker import Broker
from .._core.dledger_log import DLedgerLog
from .._core.errors import OffsetOutOfRange, RocketpyError, TimedOut
from .._core.remoting import Server
from .._core.store import MessageStore
from ..config import Config
from ..dledger.settings import parse_peers
from ..remoting.client import split_address
from ..remoting.listener_options import server_options
from .service import NOWHERE, DurableLog, HaService, HaSettings, LogMark, StoreLog

TLS_DISABLED: Final = 0
"""Members of RocketMQ speak plainly, whatever tlsMode says."""
OVER_MS: Final = 200
BATCH_BYTES: Final = 256 * 1024
"""The size of a push with enableBatchPush."""


class _MembersLog(StoreLog):
    """The log of a group's member, as the files of positions rely on it.

    A leader's positions rest on what it has appended since it began to lead. When it stops leading, they stay as they are for a moment, and
    another leader may already have cut this log. So a mark belongs to the log as it was while it was led. Nobody waits long for a commit
    that may never come: one after this member's part in the group, or its lead, has ended.
    """

    def __init__(self, store: MessageStore, leads: Callable[[], bool]) -> None:
        """`leads`: whether this broker leads the native log at the moment."""
        super().__init__(store)
        self._leads = leads
        self._led_cuts: int | None = None
        self.is_over = False

    def begin_lead(self) -> None:
        self._led_cuts = super().mark().cuts

    def end_lead(self) -> None:
        """To be called once the positions have been taken back to what the log holds."""
        self._led_cuts = None

    def mark(self) -> LogMark:
        mark, led_cuts = super().mark(), self._led_cuts
        return mark if led_cuts is None or led_cuts == mark.cuts else LogMark(NOWHERE, led_cuts)

    def wait_durable(self, mark: LogMark, timeout_ms: int) -> None:
        is_over = self.is_over or (self._led_cuts is not None and not self._leads())
        super().wait_durable(mark, min(timeout_ms, OVER_MS) if is_over else timeout_ms)


class LedgerHa(HaService):
    """Replication within a DLedger group. It is opened with the store, because the log exists before anybody leads it."""

    def __init__(self, config: Config, store: MessageStore, native: Broker, broker_id: int, *, log_tap: LogTap | None = None) -> None:
        """broker_id: this member's id while it does not lead. Raises InvalidArgument for a bad list of peers or group name."""
        super().__init__(HaSettings.of(config), store, native, log_tap=log_tap)
        self._config = config
        self.broker_id = broker_id
        self.leads = False
        """Whether this broker is a master, which lasts a moment longer than the lead of the log."""
        self.describe: Callable[[], Mapping[str, str]] = dict
        """What else brokerStatus shows about the member."""
        self._is_to_copy: Callable[[], None] | None = None
        self._members_log = _MembersLog(store, self._is_led)
        self.server: Server | None = None
        """The server of the members' port, from start on."""
        self.ledger = DLedgerLog(
            store,
            native,
            log=log_tap,
            group=config.text("dLegerGroup"),
            self_id=config.text("dLegerSelfId"),
            peers=config.text("dLegerPeers"),
            batch_bytes=BATCH_BYTES if config.boolean("enableBatchPush") else 0,
            sync=int(config.text("flushDiskType") == "SYNC_FLUSH"),
        )

    def _is_led(self) -> bool:
        return bool(self.ledger.state()["is_leader"])

    @property
    def is_slave(self) -> bool:
        return not self.leads

    def lead(self) -> None:
        """Everything that the log held is committed; from now on what is appended belongs to this master."""
        self._members_log.begin_lead()
        self.leads = True

    def step_down(self) -> None:
        """The positions are now those of what is committed. Idempotent."""
        self.leads = False
        self._members_log.end_lead()

    def connection(self) -> int | None:
        """The term of the leader that this member follows, None without one. A leader has everything that is in our queues."""
        state = self.ledger.state()
        is_heard = not state["is_leader"] and state["leader_id"] and state["heard_ms"]
        return int(state["term"]) if is_heard and not self.leads else None

    def start(self) -> None:
        """Listens for the other members, who get no answers before the server has started. Raises NetworkError if the port is taken."""
        self.start_offset = self.log_end()
        port = split_address(parse_peers(self._config.text("dLegerPeers"))[self._config.text("dLegerSelfId")])[1]
        options = server_options(self._config, port, reactors=1, thread_name="dledger")
        options["tls_mode"] = TLS_DISABLED
        self.server = Server(handler=self.ledger, log=self._log_tap, **options)

    @property
    def durable_log(self) -> DurableLog:
        return self._members_log

    def is_uncommitted(self, error: RocketpyError) -> bool:
        return isinstance(error, (TimedOut, OffsetOutOfRange))

    def end_part(self) -> None:
        """This member neither leads nor follows from now on."""
        self._members_log.is_over = True

    def watch(self, is_to_copy: Callable[[], None]) -> None:
        """Keeps the callback for `followed`."""
        self._is_to_copy = is_to_copy

    def unwatch(self) -> None:
        self._is_to_copy = None

    def followed(self) -> None:
        """To be called when another leader is followed, or when a queue's first message has arrived."""
        if self._is_to_copy is not None:
            self._is_to_copy()

    def close(self) -> None:
        """Idempotent; blocks until the native threads have ended."""
        if self.server is not None:
            self.server.stop(0)
        self.ledger.close()
        if self.server is not None:
            self.server.close()

    def follow(self, ha_address: str | None) -> None:
        """Does nothing: the group decides where the log comes from."""

    def log_end(self) -> int:
        """The end of the committed part of the log. What lies behind it is in no queue, and may be cut off."""
        return int(self.ledger.state()["committed_offset"])

    def gap(self) -> str:
        """Why this member's log cannot follow its leader's: the entries between the end of one and the start of the other exist nowhere any
        more. Empty if it can follow. It does not begin anew by itself, because it may hold the last copy of its messages, which consumers
        may still have to read."""
        state = self.ledger.state()
        if state["gap_index"] < 0:
            return ""
        return (
            f"the log of {state['leader_id']} begins at entry {state['gap_index']}, this one ends at {state['end_index']}: "
            "stop this broker, move its storePathRootDir away and start it again"
        )

    def slave_lag_bytes(self) -> int | None:
        if not self.leads:
            return None
        end = self.ledger.state()["end_offset"]
        return max((end - max(0, row["matched_offset"]) for row in self.ledger.followers()), default=None)

    def slaves_with(self, offset: int) -> int:
        """As many slaves as a majority needs, once the log is committed up to `offset`, else 0. Which members have it does not matter."""
        return self.settings.slave_acks if self.log_end() >= offset else 0

    def queue_count(self) -> int:
        return int(self._store.stats()["queue_count"])

    def holders(self) -> frozenset[int]:
        """On a leader, the broker ids of the members that accept its entries."""
        rows = self.ledger.followers() if self.leads else []
        return frozenset(broker_id_of(row["id"]) for row in rows if row["is_connected"] and row["is_appending"])

    # ---- for operators ----

    def counters(self) -> dict[str, str]:
        state = self.ledger.state()
        lines = {
            "brokerRole": "SYNC_MASTER" if self.leads else "SLAVE",
            "dLedgerTerm": str(state["term"]),
            "dLedgerLeader": str(state["leader_id"]),
            "dLedgerEndIndex": str(state["end_index"]),
            "dLedgerCommittedIndex": str(state["committed_index"]),
            "dLedgerPushesTaken": str(state["pushes_taken"]),
            "dLedgerPushesRefused": str(state["pushes_refused"]),
            "dLedgerCuts": str(state["cuts"]),
            "dLedgerWritable": str(bool(state["is_writable"])).lower(),
        }
        if self.leads:
            rows = self.ledger.followers()
            lines["dLedgerFollowers"] = ",".join(f"{row['id']}:{row['matched_index']}" for row in rows)
            lines["dLedgerLastErrors"] = "; ".join(f"{row['id']}: {row['last_error']}" for row in rows if row["last_error"])
        return {**lines, **self.describe()}

    def gauges(self) -> Mapping[str, tuple[str, int]]:
        state = self.ledger.state()
        return {
            "rocketmq_dledger_term": ("Term of the group's log", state["term"]),
            "rocketmq_dledger_leader": ("1 while this member leads", state["is_leader"]),
            "rocketmq_dledger_end_index": ("The last entry", state["end_index"]),
            "rocketmq_dledger_committed_index": ("The last entry that a majority holds", state["committed_index"]),
        }

    def _connections(self, end: int) -> list[dict[str, Any]]:
        if not self.leads:
            return []
        return [
            {
                "addr": row["address"],
                "diff": max(0, end - max(0, row["matched_offset"])),
                "inSync": self._is_in_sync(row, end),
                "slaveAckOffset": row["matched_offset"],
                "transferFromWhere": row["matched_offset"],
                "transferredByteInSecond": 0,
            }
            for row in self.ledger.followers()
            if row["is_connected"]
        ]

    def _is_in_sync(self, row: Mapping[str, Any], end: int) -> bool:
        return bool(row["is_appending"]) and end - max(0, row["matched_offset"]) < self.settings.gap_not_in_sync_bytes

    def _client_info(self) -> dict[str, Any]:
        state = self.ledger.state()
        heard_ms = state["heard_ms"]
        return {
            "lastReadTimestamp": time.time_ns() // 1_000_000 - (time.monotonic_ns() // 1_000_000 - heard_ms) if heard_ms else 0,
            "lastWriteTimestamp": 0,
            "masterAddr": str(state["leader_id"]),
            "masterFlushOffset": 0,
            "maxOffset": state["end_offset"],
            "transferredByteInSecond": 0,
        }


def broker_id_of(member: str) -> int:
    """The broker id of a member that does not lead: 1 for n0, 2 for n1. Raises ValueError for names that RocketMQ does not accept."""
    return int(member[1:]) + 1
