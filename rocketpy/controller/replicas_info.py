"""The replicated tables: which brokers a set has, who is its master, who is in sync. Events in, nothing else changes them.
RocketMQ: ReplicasInfoManager.applyEvent, BrokerReplicaInfo, SyncStateInfo (5.3.3 controller/impl/manager/).

    ApplyBrokerId       new name  → a set with this one broker, no master, nobody in sync, both epochs 0
                        known     → the broker is added, unless its id is taken
    UpdateBrokerAddress a known broker → its address
    ElectMaster         a master  → master epoch + 1, in-sync set {master}, its epoch + 1
                        none      → master epoch + 1, no master; who was in sync stays so
    AlterSyncStateSet             → this set, its epoch + 1
    CleanBrokerData     ids       → forgotten, and out of the in-sync set; a table without brokers goes
                        none      → the set is forgotten

Every member of a group, RocketMQ's controllers among them, applies the same events in the same order. So an event is not judged here; it
was judged before it was written (decisions.py). The transitions are RocketMQ's to the letter, even where they look odd: members and in-sync
sets are two tables, and cleaning may leave a set in one of them only (`contains` asks both).

Threads  one event loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from .events import AlterSyncStateSetEvent, ApplyBrokerIdEvent, CleanBrokerDataEvent, ElectMasterEvent, Event, UpdateBrokerAddressEvent

FIRST_BROKER_ID = 1


@dataclass(frozen=True, slots=True)
class Replica:
    """A broker's address, and the secret which proves that the id is its own."""

    address: str
    register_check_code: str


@dataclass(slots=True)
class Replicas:
    """The brokers of a set, by id."""

    cluster_name: str
    broker_name: str
    next_broker_id: int = FIRST_BROKER_ID
    by_id: dict[int, Replica] = field(default_factory=dict)

    def add(self, broker_id: int, replica: Replica) -> None:
        self.by_id[broker_id] = replica
        self.next_broker_id += 1

    def free_broker_id(self) -> int:
        """An id that no broker has. RocketMQ only counts additions, and offers an id that is taken if they did not arrive in order. It is
        not the one after the greatest: a broker that had taken the very last id would leave none for those that come later."""
        return next(broker_id for broker_id in itertools.count(self.next_broker_id) if broker_id not in self.by_id)

    def address(self, broker_id: int | None) -> str | None:
        replica = self.by_id.get(broker_id) if broker_id is not None else None
        return replica.address if replica is not None else None

    def addresses(self) -> dict[int, str]:
        return {broker_id: replica.address for broker_id, replica in self.by_id.items()}


@dataclass(slots=True)
class SyncState:
    """Who leads a set, and who has all of its messages."""

    cluster_name: str
    broker_name: str
    master_epoch: int = 0
    sync_state_set_epoch: int = 0
    sync_state_set: frozenset[int] = frozenset()
    master_broker_id: int | None = None

    def set_master(self, broker_id: int | None) -> None:
        self.master_broker_id = broker_id
        self.master_epoch += 1

    def set_in_sync(self, broker_ids: frozenset[int]) -> None:
        self.sync_state_set = broker_ids
        self.sync_state_set_epoch += 1


@dataclass(frozen=True, slots=True)
class BrokerSet:
    """Both halves of an existing broker set."""

    replicas: Replicas
    sync: SyncState


class ReplicasInfo:
    """The tables. Readers get the live objects and must not change them."""

    def __init__(self) -> None:
        self._replicas: dict[str, Replicas] = {}
        self._sync: dict[str, SyncState] = {}

    def __len__(self) -> int:
        """How many names are in either table."""
        return len(self._replicas.keys() | self._sync.keys())

    def get(self, broker_name: str) -> BrokerSet | None:
        """The set, if it has both halves."""
        replicas, sync = self._replicas.get(broker_name), self._sync.get(broker_name)
        return BrokerSet(replicas, sync) if replicas is not None and sync is not None else None

    def replicas(self, broker_name: str) -> Replicas | None:
        """The brokers of a name, even if it has lost its in-sync set."""
        return self._replicas.get(broker_name)

    def sets(self) -> Iterator[BrokerSet]:
        """All sets that have both halves."""
        return (each for name in self._sync if (each := self.get(name)) is not None)

    def apply(self, event: Event) -> None:
        """Applies the next event of the log."""
        match event:
            case AlterSyncStateSetEvent():
                if (found := self.get(event.broker_name)) is not None:
                    found.sync.set_in_sync(event.new_sync_state_set)
            case ApplyBrokerIdEvent():
                self._apply_broker_id(event)
            case ElectMasterEvent():
                if (found := self.get(event.broker_name)) is not None:
                    found.sync.set_master(event.new_master_broker_id)
                    if event.new_master_broker_id is not None:
                        found.sync.set_in_sync(frozenset({event.new_master_broker_id}))
            case CleanBrokerDataEvent():
                self._clean(event)
            case UpdateBrokerAddressEvent():
                replicas = self._replicas.get(event.broker_name)
                replica = replicas.by_id.get(event.broker_id) if replicas is not None else None
                if replicas is not None and replica is not None:
                    replicas.by_id[event.broker_id] = Replica(event.broker_address, replica.register_check_code)

    def _apply_broker_id(self, event: ApplyBrokerIdEvent) -> None:
        replica = Replica(event.broker_address, event.register_check_code)
        found = self.get(event.broker_name)
        if found is None:
            replicas = self._replicas[event.broker_name] = Replicas(event.cluster_name, event.broker_name)
            replicas.add(event.new_broker_id, replica)
            self._sync[event.broker_name] = SyncState(event.cluster_name, event.broker_name)
        elif event.new_broker_id not in found.replicas.by_id:
            found.replicas.add(event.new_broker_id, replica)

    def _clean(self, event: CleanBrokerDataEvent) -> None:
        name = event.broker_name
        if not event.broker_ids:
            self._replicas.pop(name, None)
            self._sync.pop(name, None)
            return
        found = self.get(name)
        if found is None:
            return
        for broker_id in event.broker_ids:
            found.replicas.by_id.pop(broker_id, None)
        found.sync.sync_state_set -= event.broker_ids
        if not found.replicas.by_id:
            del self._replicas[name]
        if not found.sync.sync_state_set:
            del self._sync[name]
