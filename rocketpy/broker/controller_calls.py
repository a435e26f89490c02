"""What a broker asks of its controller.
RocketMQ: BrokerOuterAPI (5.3.3 broker/out/), the part that concerns controllers.

Calls go to the leader of the controllers. `leader` finds it, the heartbeat goes to all of them and is not answered, and `ha_address` asks a
master. Errors: RocketpyError, among them CommandError for a refusal; HeaderError (a ValueError) for an answer that cannot be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Fields, check_success
from ..remoting.headers import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    BrokerHeartbeatRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    ExchangeHAInfoRequestHeader,
    ExchangeHAInfoResponseHeader,
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    RegisterBrokerToControllerRequestHeader,
    RegisterBrokerToControllerResponseHeader,
)
from ..remoting.replica_bodies import SyncStateSet

TIMEOUT_S: Final = 3.0
LOOK_TIMEOUT_S: Final = 1.0
"""For one controller of several to say who leads; the next one is asked then."""


class ControllerClient(Protocol):
    """The part of RemotingClient that is needed here."""

    async def invoke(self, address: str, code: int, fields: Fields = ..., body: bytes = ..., *, timeout_s: float = ...) -> Command: ...
    async def invoke_oneway(self, address: str, code: int, fields: Fields = ..., body: bytes = ..., *, timeout_s: float = ...) -> None: ...


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """What a controller says about a broker's replicas. master_id is None if there is no master."""

    master_id: int | None
    master_address: str
    master_epoch: int
    sync_state_set: SyncStateSet


@dataclass(frozen=True, slots=True)
class ReplicaBeat:
    """What a heartbeat says about this broker's log."""

    broker_id: int
    epoch: int
    max_offset: int
    confirm_offset: int
    timeout_ms: int
    priority: int


class ControllerCalls:
    """One broker's requests to the controllers, under its names and its address."""

    def __init__(self, client: ControllerClient, cluster_name: str, broker_name: str, address: str) -> None:
        self._client = client
        self._cluster_name = cluster_name
        self._broker_name = broker_name
        self._address = address

    async def leader(self, controllers: Iterable[str]) -> str | None:
        """The address of the leader, according to the first controller that knows it; None if none does."""
        for address in controllers:
            try:
                answer = await self._client.invoke(address, RequestCode.CONTROLLER_GET_METADATA_INFO, timeout_s=LOOK_TIMEOUT_S)
                header = GetMetaDataResponseHeader.decode(check_success(answer, address).fields)
            except (RocketpyError, ValueError):
                continue
            if header.controller_leader_address:
                return header.controller_leader_address
        return None

    async def next_broker_id(self, leader: str) -> int | None:
        header = GetNextBrokerIdRequestHeader(cluster_name=self._cluster_name, broker_name=self._broker_name)
        answer = await self._call(leader, RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header)
        return GetNextBrokerIdResponseHeader.decode(answer.fields).next_broker_id

    async def apply_broker_id(self, leader: str, broker_id: int, check_code: str) -> None:
        """Asks for the broker id. Raises CommandError CONTROLLER_BROKER_ID_INVALID if somebody else has it."""
        header = ApplyBrokerIdRequestHeader(
            cluster_name=self._cluster_name, broker_name=self._broker_name, applied_broker_id=broker_id, register_check_code=check_code
        )
        await self._call(leader, RequestCode.CONTROLLER_APPLY_BROKER_ID, header)

    async def register(self, leader: str, broker_id: int) -> ReplicaInfo:
        request = RegisterBrokerToControllerRequestHeader(
            cluster_name=self._cluster_name, broker_name=self._broker_name, broker_id=broker_id, broker_address=self._address
        )
        answer = await self._call(leader, RequestCode.CONTROLLER_REGISTER_BROKER, request)
        header = RegisterBrokerToControllerResponseHeader.decode(answer.fields)
        ids = SyncStateSet.decode(answer.body).ids
        sync_state_set = SyncStateSet(ids, header.sync_state_set_epoch or 0)
        return ReplicaInfo(header.master_broker_id, header.master_address or "", header.master_epoch or 0, sync_state_set)

    async def replica_info(self, leader: str) -> ReplicaInfo:
        """Asks for the replicas. Raises CommandError CONTROLLER_BROKER_METADATA_NOT_EXIST if the controller does not know this broker."""
        answer = await self._call(
            leader, RequestCode.CONTROLLER_GET_REPLICA_INFO, GetReplicaInfoRequestHeader(broker_name=self._broker_name)
        )
        header = GetReplicaInfoResponseHeader.decode(answer.fields)
        return ReplicaInfo(header.master_broker_id, header.master_address or "", header.master_epoch or 0, SyncStateSet.decode(answer.body))

    async def elect(self, leader: str, broker_id: int) -> ReplicaInfo:
        """Asks to be elected; the answer names the broker that is. Raises CommandError if none can be."""
        request = ElectMasterRequestHeader(
            cluster_name=self._cluster_name, broker_name=self._broker_name, broker_id=broker_id, designate_elect=False
        )
        answer = await self._client.invoke(leader, RequestCode.CONTROLLER_ELECT_MASTER, request, timeout_s=TIMEOUT_S)
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            raise CommandError(answer.code, answer.remark, address=leader)
        header = ElectMasterResponseHeader.decode(answer.fields)
        sync_state_set = SyncStateSet(SyncStateSet.decode(answer.body).ids, header.sync_state_set_epoch or 0)
        return ReplicaInfo(header.master_broker_id, header.master_address or "", header.master_epoch or 0, sync_state_set)

    async def alter_sync_state_set(self, leader: str, master_id: int, master_epoch: int, wanted: SyncStateSet) -> SyncStateSet:
        """Asks for another in-sync set. Returns the set that is then in force. The epoch in `wanted` is that of the set to be replaced."""
        header = AlterSyncStateSetRequestHeader(broker_name=self._broker_name, master_broker_id=master_id, master_epoch=master_epoch)
        answer = await self._call(leader, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, wanted.encode())
        return SyncStateSet.decode(answer.body)

    async def ha_address(self, master: str) -> str | None:
        """Asks a master where its slaves connect to. None if it is not a master."""
        answer = await self._call(master, RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoRequestHeader())
        return ExchangeHAInfoResponseHeader.decode(answer.fields).master_ha_address

    async def beat(self, controllers: Iterable[str], beat: ReplicaBeat) -> None:
        """Sends the heartbeat to every controller, since any of them may become the leader. Those that cannot be reached are skipped."""
        header = BrokerHeartbeatRequestHeader(
            cluster_name=self._cluster_name,
            broker_addr=self._address,
            broker_name=self._broker_name,
            broker_id=beat.broker_id,
            epoch=beat.epoch,
            max_offset=beat.max_offset,
            confirm_offset=beat.confirm_offset,
            heartbeat_timeout_mills=beat.timeout_ms,
            election_priority=beat.priority,
        )
        await asyncio.gather(*(self._beat_one(address, header) for address in controllers))

    async def _beat_one(self, address: str, header: BrokerHeartbeatRequestHeader) -> None:
        try:
            await self._client.invoke_oneway(address, RequestCode.BROKER_HEARTBEAT, header, timeout_s=LOOK_TIMEOUT_S)
        except RocketpyError:
            pass  # the leader's silence is noticed by the requests that it answers

    async def _call(self, leader: str, code: RequestCode, fields: Fields, body: bytes = b"") -> Command:
        return check_success(await self._client.invoke(leader, code, fields, body, timeout_s=TIMEOUT_S), leader)
