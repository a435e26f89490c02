"""What each request to a controller does: header and body in, a decision or a heartbeat's entry, answer out. No sockets.
RocketMQ: ControllerRequestProcessor (5.3.3 controller/processor/).

Heartbeats, the group's metadata and the configuration are answered by every controller, the rest by the leader alone.

Beyond RocketMQ: when a heartbeat asks for an answer, the leader names the set's master and its epochs (masterBrokerId, masterEpoch,
syncStateSetEpoch) as it knows them. Unlike the other answers, this one is not confirmed by the group first (event_scheduler.py).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..config import Config
from ..remoting.bodies import BodyError, read_integer
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import Response
from ..remoting.config_requests import ConfigRequests, black_list
from ..remoting.headers import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    BrokerHeartbeatRequestHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetReplicaInfoRequestHeader,
    RegisterBrokerToControllerRequestHeader,
)
from ..remoting.json_codec import JsonError, read_json, read_object
from .broker_lives import LIVES_MAX, BrokerLives
from .consensus import Consensus
from .counters import Counters, Handler
from .decisions import TEXT_MAX, Decision, Decisions, RoleNotice
from .event_scheduler import EventScheduler
from .events import read_ids
from .replicas_info import ReplicasInfo

if TYPE_CHECKING:
    from .._core.remoting import Request

log = logging.getLogger(__name__)

BROKER_NAMES_MAX = 10_000
"""Of one GET_SYNC_STATE_DATA."""
_ALWAYS_BLACK = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})


@dataclass(frozen=True, slots=True)
class Effects:
    """What requests cause besides their answer."""

    notify: Callable[[RoleNotice], None]
    store_config: Callable[[Mapping[str, str]], Awaitable[None]]
    """Writes an update into the configuration's file. Raises RocketpyError."""


class ControllerRequests:
    """The handlers; `handlers` maps request codes to them."""

    def __init__(
        self,
        config: Config,
        consensus: Consensus,
        scheduler: EventScheduler,
        tables: ReplicasInfo,
        lives: BrokerLives,
        effects: Effects,
        counters: Counters,
    ) -> None:
        self._config = config
        self._consensus = consensus
        self._scheduler = scheduler
        self._tables = tables
        self._lives = lives
        self._effects = effects
        self._counters = counters
        self._decisions = Decisions(tables, lives.life, lambda: self._unclean_is_allowed)
        self._reads_are_logged = config.boolean("isProcessReadEvent")
        self._read_settings()
        config.subscribe(lambda changes: self._read_settings())
        configuration = ConfigRequests(config, lambda: self._black_list, effects.store_config)
        handlers: dict[RequestCode, Handler] = {
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: self.alter_sync_state_set,
            RequestCode.CONTROLLER_ELECT_MASTER: self.elect_master,
            RequestCode.CONTROLLER_REGISTER_BROKER: self.register_broker,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self.get_replica_info,
            RequestCode.CONTROLLER_GET_METADATA_INFO: self.get_metadata,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self.get_sync_state_data,
            RequestCode.BROKER_HEARTBEAT: self.hear_broker,
            RequestCode.UPDATE_CONTROLLER_CONFIG: configuration.update,
            RequestCode.GET_CONTROLLER_CONFIG: configuration.get,
            RequestCode.CLEAN_BROKER_DATA: self.clean_broker_data,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: self.get_next_broker_id,
            RequestCode.CONTROLLER_APPLY_BROKER_ID: self.apply_broker_id,
        }
        self.handlers: dict[int, Handler] = {code: counters.timed(code, handler) for code, handler in handlers.items()}

    def _read_settings(self) -> None:
        self._unclean_is_allowed = self._config.boolean("enableElectUncleanMaster")
        self._brokers_are_told = self._config.boolean("notifyBrokerRoleChanged")
        self._black_list = black_list(self._config, _ALWAYS_BLACK)

    # ---- the leader's ----

    async def alter_sync_state_set(self, request: Request) -> Response:
        header = AlterSyncStateSetRequestHeader.decode(request.fields)
        try:
            members = read_object(request.body)
            new_set, epoch = read_ids(members.get("syncStateSet")), read_integer(members, "syncStateSetEpoch")
        except (JsonError, BodyError) as error:
            return Response(ResponseCode.CONTROLLER_INVALID_REQUEST, f"SyncStateSet: {error}")
        return await self._run(lambda: self._decisions.alter_sync_state_set(header, new_set, epoch))

    async def elect_master(self, request: Request) -> Response:
        header = ElectMasterRequestHeader.decode(request.fields)
        return _response(await self.elect(header))

    async def elect(self, header: ElectMasterRequestHeader) -> Decision:
        """Holds an election, and has the result told to the brokers."""
        decision = await self._scheduler.run(lambda: self._decisions.elect_master(header))
        self._counters.elected(header.broker_name, self._tables, decision)
        if decision.notice is not None:
            said = logging.INFO if decision.remark is None else logging.WARNING
            text = "Elect new master %d for broker %s, master epoch %d%s"
            notice = decision.notice
            unclean = f": {decision.remark}" if decision.remark else ""
            log.log(said, text, notice.master_broker_id, notice.broker_name, notice.master_epoch, unclean)
            if self._brokers_are_told:
                self._effects.notify(notice)
        return decision

    async def register_broker(self, request: Request) -> Response:
        header = RegisterBrokerToControllerRequestHeader.decode(request.fields)
        return await self._run(lambda: self._decisions.register_broker(header))

    async def apply_broker_id(self, request: Request) -> Response:
        header = ApplyBrokerIdRequestHeader.decode(request.fields)
        return await self._run(lambda: self._decisions.apply_broker_id(header))

    async def clean_broker_data(self, request: Request) -> Response:
        header = CleanControllerBrokerDataRequestHeader.decode(request.fields)
        log.info("cleanBrokerData called by %s: %s", request.remote_address, header)
        return await self._run(lambda: self._decisions.clean_broker_data(header))

    async def get_next_broker_id(self, request: Request) -> Response:
        header = GetNextBrokerIdRequestHeader.decode(request.fields)
        return await self._run(lambda: self._decisions.next_broker_id(header), read_is_logged=self._reads_are_logged)

    async def get_replica_info(self, request: Request) -> Response:
        header = GetReplicaInfoRequestHeader.decode(request.fields)
        return await self._run(lambda: self._decisions.replica_info(header), read_is_logged=self._reads_are_logged)

    async def get_sync_state_data(self, request: Request) -> Response:
        try:
            names = read_json(request.body) if request.body else None
        except JsonError as error:
            return Response(ResponseCode.CONTROLLER_INVALID_REQUEST, f"broker names: {error}")
        if not isinstance(names, list) or not names or len(names) > BROKER_NAMES_MAX:
            return Response(ResponseCode.CONTROLLER_INVALID_REQUEST, f"expected a list of 1 to {BROKER_NAMES_MAX} broker names")
        return await self._run(lambda: self._decisions.sync_state_data(map(str, names)), read_is_logged=self._reads_are_logged)

    async def _run(self, decide: Callable[[], Decision], *, read_is_logged: bool = False) -> Response:
        return _response(await self._scheduler.run(decide, read_is_logged=read_is_logged))

    # ---- everybody's ----

    def hear_broker(self, request: Request) -> Response:
        header = BrokerHeartbeatRequestHeader.decode(request.fields)
        if header.broker_id is None:
            return Response(ResponseCode.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId")
        if max(len(header.cluster_name), len(header.broker_name)) > TEXT_MAX:
            return Response(ResponseCode.CONTROLLER_INVALID_REQUEST, f"clusterName or brokerName has more than {TEXT_MAX} characters")
        if not self._lives.hear(header, request.connection_id):
            return Response(ResponseCode.SYSTEM_BUSY, f"{LIVES_MAX} brokers are heard at most")
        return Response(remark="Heart beat success", fields=self._epochs(header.broker_name))

    def _epochs(self, broker_name: str) -> dict[str, str] | None:
        """Who leads a set, as far as a leader with settled tables knows; None if that is not known."""
        found = self._tables.get(broker_name) if self._scheduler.is_settled else None
        if found is None or found.sync.master_broker_id is None:
            return None
        return {
            "masterBrokerId": str(found.sync.master_broker_id),
            "masterEpoch": str(found.sync.master_epoch),
            "syncStateSetEpoch": str(found.sync.sync_state_set_epoch),
        }

    def get_metadata(self, request: Request) -> Response:
        consensus = self._consensus
        fields = GetMetaDataResponseHeader(
            group=consensus.group,
            controller_leader_id=consensus.leader_id,
            controller_leader_address=consensus.leader_address,
            is_leader=consensus.is_leader,
            peers="".join(f"{member}:{address};" for member, address in consensus.peers.items()),
        )
        return Response(fields=fields)


def _response(decision: Decision) -> Response:
    return Response(decision.code, decision.remark, decision.fields, decision.body)
