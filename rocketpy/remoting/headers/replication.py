"""Headers between brokers and controllers: members, elections, in-sync sets, HA addresses.
RocketMQ: remoting/protocol/header/** (5.3.3, with the additions of 5.5.0). Attribute names are the wire names in snake case.
"""

from __future__ import annotations

from ..codes import RequestCode
from .base import I32, I64, Header, wire_header


@wire_header(RequestCode.ADD_BROKER)
class AddBrokerRequestHeader(Header):
    config_path: str | None = None


@wire_header(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
class AlterSyncStateSetRequestHeader(Header):
    broker_name: str | None = None
    master_broker_id: I64 | None = None
    master_epoch: I32 | None = None
    invoke_time: I64 = 0


@wire_header()
class AlterSyncStateSetResponseHeader(Header):
    new_sync_state_set_epoch: I32 = 0


@wire_header(RequestCode.CONTROLLER_APPLY_BROKER_ID)
class ApplyBrokerIdRequestHeader(Header):
    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: I64 | None = None
    register_check_code: str | None = None


@wire_header()
class ApplyBrokerIdResponseHeader(Header):
    cluster_name: str | None = None
    broker_name: str | None = None


@wire_header(RequestCode.CLEAN_BROKER_DATA)
class CleanControllerBrokerDataRequestHeader(Header):
    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: I64 = 0


@wire_header(RequestCode.CONTROLLER_ELECT_MASTER)
class ElectMasterRequestHeader(Header):
    cluster_name: str
    broker_name: str
    broker_id: I64
    designate_elect: bool
    invoke_time: I64 | None = None


@wire_header()
class ElectMasterResponseHeader(Header):
    master_broker_id: I64 | None = None
    master_address: str | None = None
    master_epoch: I32 | None = None
    sync_state_set_epoch: I32 | None = None


@wire_header(RequestCode.EXCHANGE_BROKER_HA_INFO)
class ExchangeHAInfoRequestHeader(Header):
    master_ha_address: str | None = None
    master_flush_offset: I64 | None = None
    master_address: str | None = None


@wire_header()
class ExchangeHAInfoResponseHeader(Header):
    master_ha_address: str | None = None
    master_flush_offset: I64 | None = None
    master_address: str | None = None


@wire_header()
class GetMetaDataResponseHeader(Header):
    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


@wire_header(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
class GetNextBrokerIdRequestHeader(Header):
    cluster_name: str | None = None
    broker_name: str | None = None


@wire_header()
class GetNextBrokerIdResponseHeader(Header):
    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: I64 | None = None


@wire_header(RequestCode.CONTROLLER_GET_REPLICA_INFO)
class GetReplicaInfoRequestHeader(Header):
    broker_name: str | None = None


@wire_header()
class GetReplicaInfoResponseHeader(Header):
    master_broker_id: I64 | None = None
    master_address: str | None = None
    master_epoch: I32 | None = None


@wire_header(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
class NotifyBrokerRoleChangedRequestHeader(Header):
    master_address: str | None = None
    master_epoch: I32 | None = None
    sync_state_set_epoch: I32 | None = None
    master_broker_id: I64 | None = None


@wire_header(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class NotifyMinBrokerIdChangeRequestHeader(Header):
    min_broker_id: I64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


@wire_header(RequestCode.CONTROLLER_REGISTER_BROKER)
class RegisterBrokerToControllerRequestHeader(Header):
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: I64 | None = None
    broker_address: str | None = None
    invoke_time: I64 = 0


@wire_header()
class RegisterBrokerToControllerResponseHeader(Header):
    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: I64 | None = None
    master_address: str | None = None
    master_epoch: I32 | None = None
    sync_state_set_epoch: I32 | None = None


@wire_header(RequestCode.REMOVE_BROKER)
class RemoveBrokerRequestHeader(Header):
    broker_name: str
    broker_cluster_name: str
    broker_id: I64


@wire_header(RequestCode.RESET_MASTER_FLUSH_OFFSET)
class ResetMasterFlushOffsetHeader(Header):
    master_flush_offset: I64
