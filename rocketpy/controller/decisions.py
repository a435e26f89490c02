"""Decides from a controller's tables, and from which brokers live, what it answers and which event must be committed first. Changes
nothing.
RocketMQ: ReplicasInfoManager's requests (5.3.3 controller/impl/manager/): same codes, remarks and checks in the same order.

What is stricter here, because a stranger's request could otherwise take a broker set away from its brokers:
  * The first master must be a broker of the set; RocketMQ elects any number it is given.
  * That nobody could be elected is written once, and never for a set that had no master yet: it would lose its right to a first master.
  * brokerId -1, nobody in particular, cannot be designated; in RocketMQ that deposes a master that lives.
  * Brokers are not cleaned out of a set if nobody in sync would be left: the rest would take no requests any more, in RocketMQ for good.
  * brokerControllerIdsToClean counts with isCleanLivingBroker too; RocketMQ forgets the whole set then.
  * Names, addresses and codes have at most TEXT_MAX characters, the tables at most BROKER_SETS_MAX sets of REPLICAS_MAX brokers.
  * An election that takes a broker from outside the in-sync set says so in the log and in its remark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..remoting.codes import ResponseCode
from ..remoting.headers import (
    AlterSyncStateSetRequestHeader,
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdRequestHeader,
    ApplyBrokerIdResponseHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    Header,
    RegisterBrokerToControllerRequestHeader,
    RegisterBrokerToControllerResponseHeader,
)
from ..remoting.json_codec import write_fastjson, write_json
from .broker_lives import BrokerLife
from .elect_policy import elect
from .events import AlterSyncStateSetEvent, ApplyBrokerIdEvent, CleanBrokerDataEvent, ElectMasterEvent, Event, UpdateBrokerAddressEvent
from .replicas_info import FIRST_BROKER_ID, BrokerSet, ReplicasInfo

BROKER_SETS_MAX = 10_000
REPLICAS_MAX = 100
TEXT_MAX = 1024

Life = Callable[[str, str, int], BrokerLife | None]
"""What is known of a broker that lives, by cluster, set and id."""


@dataclass(frozen=True, slots=True)
class RoleNotice:
    """Who leads a broker set now, to be told to its brokers."""

    cluster_name: str
    broker_name: str
    addresses: dict[int, str]
    master_broker_id: int
    master_address: str
    master_epoch: int
    sync_state_set_epoch: int
    sync_state_set: frozenset[int]


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer, and the event that must be committed before the answer is given."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    fields: Header | None = None
    body: bytes = b""
    event: Event | None = None
    notice: RoleNotice | None = None


class Decisions:
    """One function per request."""

    def __init__(self, tables: ReplicasInfo, life: Life, unclean_is_allowed: Callable[[], bool]) -> None:
        self._tables = tables
        self._life = life
        self._unclean_is_allowed = unclean_is_allowed

    # ---- members ----

    def next_broker_id(self, header: GetNextBrokerIdRequestHeader) -> Decision:
        cluster, name = header.cluster_name or "", header.broker_name or ""
        if complaint := _complaint(clusterName=cluster, brokerName=name):
            fields = GetNextBrokerIdResponseHeader(cluster_name=header.cluster_name, broker_name=header.broker_name)
            return Decision(ResponseCode.CONTROLLER_INVALID_REQUEST, complaint, fields)
        replicas = self._tables.replicas(name)
        next_id = replicas.free_broker_id() if replicas is not None else FIRST_BROKER_ID
        fields = GetNextBrokerIdResponseHeader(cluster_name=header.cluster_name, broker_name=header.broker_name, next_broker_id=next_id)
        return Decision(fields=fields)

    def apply_broker_id(self, header: ApplyBrokerIdRequestHeader) -> Decision:
        cluster, name, code = header.cluster_name or "", header.broker_name or "", header.register_check_code or ""
        broker_id = -1 if header.applied_broker_id is None else header.applied_broker_id
        fields = ApplyBrokerIdResponseHeader(cluster_name=header.cluster_name, broker_name=header.broker_name)
        if complaint := _complaint(clusterName=cluster, brokerName=name, registerCheckCode=code):
            return Decision(ResponseCode.CONTROLLER_INVALID_REQUEST, complaint, fields)
        replicas = self._tables.replicas(name)
        if replicas is None:
            if broker_id != FIRST_BROKER_ID:
                remark = f"Broker-set: {name} hasn't been registered in controller, but broker try to apply brokerId: {broker_id}"
                return Decision(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, fields)
            if len(self._tables) >= BROKER_SETS_MAX:
                remark = f"{BROKER_SETS_MAX} broker sets are kept at most; clean those that are not needed (cleanBrokerMetadata)"
                return Decision(ResponseCode.CONTROLLER_INVALID_REQUEST, remark, fields)
        else:
            replica = replicas.by_id.get(broker_id)
            if broker_id < FIRST_BROKER_ID or (replica is not None and replica.register_check_code != code):
                remark = f"Fail to apply brokerId: {broker_id} in broker-set: {name}"
                return Decision(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, fields)
            if replica is None and len(replicas.by_id) >= REPLICAS_MAX:
                remark = f"{REPLICAS_MAX} brokers of a set are kept at most; clean those that are not needed (cleanBrokerMetadata)"
                return Decision(ResponseCode.CONTROLLER_INVALID_REQUEST, remark, fields)
        found = self._tables.get(name)
        if found is not None and broker_id in found.replicas.by_id:
            return Decision(fields=fields)
        return Decision(fields=fields, event=ApplyBrokerIdEvent(cluster, name, code.split(";")[0], broker_id, code))

    def register_broker(self, header: RegisterBrokerToControllerRequestHeader) -> Decision:
        name, address = header.broker_name or "", header.broker_address or ""
        fields = RegisterBrokerToControllerResponseHeader(cluster_name=header.cluster_name, broker_name=header.broker_name)
        if complaint := _complaint(brokerName=name, brokerAddress=address):
            return Decision(ResponseCode.CONTROLLER_INVALID_REQUEST, complaint, fields)
        found = self._tables.get(name)
        if found is None:
            remark = f"Broker-set: {name} hasn't been registered in controller"
            return Decision(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, fields)
        broker_id = -1 if header.broker_id is None else header.broker_id
        if broker_id not in found.replicas.by_id:
            remark = f"BrokerId: {broker_id} hasn't been registered in broker-set: {name}"
            return Decision(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, fields)
        master = found.sync.master_broker_id
        if master is not None and self._lives(found, master):
            fields = RegisterBrokerToControllerResponseHeader(
                cluster_name=header.cluster_name,
                broker_name=header.broker_name,
                master_broker_id=master,
                master_address=found.replicas.address(master),
                master_epoch=found.sync.master_epoch,
                sync_state_set_epoch=found.sync.sync_state_set_epoch,
            )
        moved = address != found.replicas.address(broker_id)
        event = UpdateBrokerAddressEvent(found.replicas.cluster_name, name, address, broker_id) if moved else None
        return Decision(fields=fields, body=_sync_state_set(found), event=event)

    def clean_broker_data(self, header: CleanControllerBrokerDataRequestHeader) -> Decision:
        name = header.broker_name
        found = self._tables.get(name)
        asked = (header.broker_controller_ids_to_clean or "").strip()
        try:
            ids = frozenset(_broker_id(each) for each in asked.split(";")) if asked else None
        except ValueError as error:
            return _not_cleaned(f"Please set the option <brokerControllerIdsToClean> according to the format, exception: {error}")
        if ids is not None and len(ids) > REPLICAS_MAX:
            return _not_cleaned(f"{len(ids)} brokers were named, a set has {REPLICAS_MAX} at most")
        if found is None:
            return _not_cleaned(f"Broker {name} is not existed,clean broker data failure.")
        if not header.is_clean_living_broker:
            if ids is None and found.sync.master_broker_id is not None:
                return _not_cleaned(f"Broker {name} is still alive, clean up failure")
            for broker_id in sorted(ids or ()):
                if self._lives(found, broker_id):
                    return _not_cleaned(f"Broker [{name},  {broker_id}] is still alive, clean up failure")
        if ids is not None and found.replicas.by_id.keys() - ids and not found.sync.sync_state_set - ids:
            remark = f"nobody in sync would be left in broker set {name}: elect another master before, or clean the whole set (without ids)"
            return _not_cleaned(remark)
        return Decision(event=CleanBrokerDataEvent(name, ids))

    # ---- who leads, who is in sync ----

    def replica_info(self, header: GetReplicaInfoRequestHeader) -> Decision:
        found = self._tables.get(header.broker_name or "")
        if found is None:
            fields = GetReplicaInfoResponseHeader()
            return Decision(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, "Broker metadata is not existed", fields)
        master = found.sync.master_broker_id
        fields = GetReplicaInfoResponseHeader(
            master_broker_id=master, master_address=found.replicas.address(master), master_epoch=found.sync.master_epoch
        )
        return Decision(fields=fields, body=_sync_state_set(found))

    def sync_state_data(self, broker_names: Iterable[str]) -> Decision:
        """RocketMQ: BrokerReplicasInfo, for the names that are known."""
        found = (each for name in dict.fromkeys(broker_names) if (each := self._tables.get(name)) is not None)
        return Decision(body=write_fastjson({"replicasInfoTable": {each.sync.broker_name: self._replicas_info(each) for each in found}}))

    def alter_sync_state_set(self, header: AlterSyncStateSetRequestHeader, new_set: frozenset[int], set_epoch: int) -> Decision:
        name = header.broker_name or ""
        found = self._tables.get(name)
        failed = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
        if found is None:
            return _not_altered(failed, "Broker metadata is not existed")
        sync = found.sync
        if new_set == sync.sync_state_set:
            return _not_altered(failed, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet")
        reject = "Rejecting alter syncStateSet request because the "
        if sync.master_broker_id is None or sync.master_broker_id != header.master_broker_id:
            leader, asker = _shown(sync.master_broker_id), _shown(header.master_broker_id)
            return _not_altered(ResponseCode.CONTROLLER_INVALID_MASTER, f"{reject}current leader is:{{{leader}}}, not {{{asker}}}")
        if sync.master_epoch != header.master_epoch:
            remark = f"{reject}current master epoch is:{{{sync.master_epoch}}}, not {{{_shown(header.master_epoch)}}}"
            return _not_altered(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark)
        if sync.sync_state_set_epoch != set_epoch:
            remark = f"{reject}current syncStateSet epoch is:{{{sync.sync_state_set_epoch}}}, not {{{set_epoch}}}"
            return _not_altered(ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark)
        for broker_id in sorted(new_set):
            if broker_id not in found.replicas.by_id:
                return _not_altered(ResponseCode.CONTROLLER_INVALID_REPLICAS, f"{reject}replicas {{{broker_id}}} don't exist")
            if not self._lives(found, broker_id):
                return _not_altered(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"{reject}replicas {{{broker_id}}} don't alive")
        if sync.master_broker_id not in new_set:
            remark = f"{reject}newSyncStateSet don't contains origin leader {{{sync.master_broker_id}}}"
            return _not_altered(failed, remark)
        epoch = sync.sync_state_set_epoch + 1
        return Decision(
            fields=AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=epoch),
            body=_encoded_set(new_set, epoch),
            event=AlterSyncStateSetEvent(name, new_set),
        )

    def elect_master(self, header: ElectMasterRequestHeader) -> Decision:
        """brokerId -1: the controller itself asks, because the master is down."""
        found = self._tables.get(header.broker_name)
        if found is None:
            return _nobody(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "Broker hasn't been registered")
        sync, asker = found.sync, header.broker_id
        if _is_first_election(found) and asker != -1:
            if asker not in found.replicas.by_id:
                remark = f"BrokerId: {asker} hasn't been registered in broker-set: {header.broker_name}"
                return _nobody(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark)
            return _elected(found, asker)
        others = found.replicas.by_id.keys() - sync.sync_state_set if self._unclean_is_allowed() else ()
        chosen = elect(
            sync.sync_state_set,
            others,
            lambda broker_id: self._life(found.replicas.cluster_name, found.replicas.broker_name, broker_id),
            master=sync.master_broker_id,
            wanted=asker if header.designate_elect and asker != -1 else None,
        )
        if chosen is not None and chosen.broker_id == sync.master_broker_id:
            return _master_stays(found)
        if chosen is not None:
            return _elected(found, chosen.broker_id, is_unclean=chosen.is_unclean)
        if asker != -1:
            return _nobody(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "Failed to elect a new master")
        event = ElectMasterEvent(header.broker_name) if sync.master_broker_id is not None else None
        remark = "Old master has down and failed to elect a new broker master"
        return _nobody(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, remark, event)

    def _lives(self, found: BrokerSet, broker_id: int) -> bool:
        return self._life(found.replicas.cluster_name, found.replicas.broker_name, broker_id) is not None

    def _replicas_info(self, found: BrokerSet) -> dict[str, Any]:
        in_sync: list[dict[str, Any]] = []
        not_in_sync: list[dict[str, Any]] = []
        for broker_id, address in sorted(found.replicas.addresses().items()):
            (in_sync if broker_id in found.sync.sync_state_set else not_in_sync).append(
                {
                    "alive": self._lives(found, broker_id),
                    "brokerAddress": address,
                    "brokerId": broker_id,
                    "brokerName": found.replicas.broker_name,
                }
            )
        return {
            "inSyncReplicas": in_sync,
            "masterAddress": found.replicas.address(found.sync.master_broker_id),
            "masterBrokerId": found.sync.master_broker_id,
            "masterEpoch": found.sync.master_epoch,
            "notInSyncReplicas": not_in_sync,
            "syncStateSetEpoch": found.sync.sync_state_set_epoch,
        }


def _is_first_election(found: BrokerSet) -> bool:
    """Whether nobody has led the set yet: its master epoch is 0, or nobody is in sync. Only the latter still shows it once a controller of
    RocketMQ has written that nobody could be elected."""
    return found.sync.master_epoch == 0 or not found.sync.sync_state_set


def _elected(found: BrokerSet, broker_id: int, *, is_unclean: bool = False) -> Decision:
    replicas, sync = found.replicas, found.sync
    address = replicas.address(broker_id) or ""
    in_sync = frozenset({broker_id})
    notice = RoleNotice(
        cluster_name=replicas.cluster_name,
        broker_name=replicas.broker_name,
        addresses=replicas.addresses(),
        master_broker_id=broker_id,
        master_address=address,
        master_epoch=sync.master_epoch + 1,
        sync_state_set_epoch=sync.sync_state_set_epoch + 1,
        sync_state_set=in_sync,
    )
    # Ids in quotes: mqadmin 5.5.0 passes over this object with fastjson 2, which refuses bare ones, its own controller's too.
    group = {"brokerAddrs": notice.addresses, "brokerName": replicas.broker_name, "cluster": replicas.cluster_name}
    unclean = f"unclean election: broker {broker_id} was not in sync ({sorted(sync.sync_state_set)} were), messages may be lost"
    return Decision(
        remark=unclean if is_unclean else None,
        fields=ElectMasterResponseHeader(
            master_broker_id=broker_id,
            master_address=address,
            master_epoch=notice.master_epoch,
            sync_state_set_epoch=notice.sync_state_set_epoch,
        ),
        body=write_json({"brokerMemberGroup": group, "syncStateSet": sorted(in_sync)}),
        event=ElectMasterEvent(replicas.broker_name, broker_id),
        notice=notice,
    )


def _master_stays(found: BrokerSet) -> Decision:
    master = found.sync.master_broker_id
    return Decision(
        ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
        f"The old master {master} is still alive, not need to elect new master for broker {found.replicas.broker_name}",
        ElectMasterResponseHeader(
            master_broker_id=master,
            master_address=found.replicas.address(master),
            master_epoch=found.sync.master_epoch,
            sync_state_set_epoch=found.sync.sync_state_set_epoch,
        ),
        write_fastjson({"syncStateSet": sorted(found.sync.sync_state_set)}),
    )


def _nobody(code: int, remark: str, event: Event | None = None) -> Decision:
    return Decision(code, remark, ElectMasterResponseHeader(), event=event)


def _not_altered(code: int, remark: str) -> Decision:
    return Decision(code, remark, AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=0))


def _not_cleaned(remark: str) -> Decision:
    return Decision(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark)


def _sync_state_set(found: BrokerSet) -> bytes:
    return _encoded_set(found.sync.sync_state_set, found.sync.sync_state_set_epoch)


def _encoded_set(broker_ids: frozenset[int], epoch: int) -> bytes:
    """RocketMQ: SyncStateSet."""
    return write_fastjson({"syncStateSet": sorted(broker_ids), "syncStateSetEpoch": epoch})


def _complaint(**texts: str) -> str:
    """What is wrong with a request's texts; empty if nothing is."""
    for name, text in texts.items():
        if not text:
            return f"the custom field <{name}> is null"
        if len(text) > TEXT_MAX:
            return f"{name} has {len(text)} characters, {TEXT_MAX} at most are taken"
    return ""


def _broker_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"{text[:64]!r} is not a broker id")
    return int(text)


def _shown(value: int | None) -> str:
    """A value as Java prints it."""
    return "null" if value is None else str(value)
