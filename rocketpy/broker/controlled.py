"""What a broker behind a controller (enableControllerMode) has in addition: its standing with the controller, and the requests about it.
RocketMQ: BrokerController, AdminBrokerProcessor.getBrokerEpochCache, .notifyBrokerRoleChanged (5.3.3 broker/).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from .._core.remoting import Request
from ..awake_clock import monotonic_ms
from ..config import Config
from ..ha.auto_switch import AutoSwitchHaService
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.look_up import LookUps
from ..remoting.replica_bodies import epoch_cache_body
from ..remoting.service import Handler
from .addresses import looked_up
from .broker_metadata import BrokerMetadataFiles
from .controller_calls import ControllerCalls
from .housekeeping import Housekeeping
from .metadata_acks import CATCH_UP, MetadataAcks, versions
from .parts import HandlerTable, Parts, now_ms
from .replica_state import Role
from .replicas_manager import Replicas
from .role_services import RoleServices
from .settings import SLAVE, replica_settings
from .slave_synchronize import SlaveSynchronize

log = logging.getLogger(__name__)

START_WAIT_S: Final = 3.0


class _ControlledLog:
    """The log's part in a change of roles, behind a controller."""

    def __init__(self, ha: AutoSwitchHaService, on_lead: Callable[[Role], Awaitable[None]]) -> None:
        """on_lead: called when this broker leads the log, before sends are accepted."""
        self._ha = ha
        self._on_lead = on_lead

    @property
    def broker_id(self) -> int:
        return self._ha.broker_id

    def tables_epoch(self, role: Role) -> int:
        return role.epoch

    async def lead(self, role: Role) -> None:
        ids = sorted(role.sync_state_set.ids | {role.master_id})
        await asyncio.get_running_loop().run_in_executor(None, self._ha.lead, role.epoch, ids)
        await self._on_lead(role)

    def check_leads(self, role: Role) -> None:
        """Does nothing: other brokers hear from the controller who leads."""

    async def step_down(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._ha.step_down)


def begin_controlled(config: Config) -> None:
    """Whatever role it had, the broker is nobody's master before the controller says so."""
    config.override("brokerRole", SLAVE)
    config.override("brokerId", -1)


def make_replicas(parts: Parts, ha: AutoSwitchHaService, cut: Callable[[int], None]) -> Replicas:
    """cut: as of Replicas."""
    config, identity = parts.config, parts.registration.identity
    identity_path = config.text("storePathBrokerIdentity") or Path(config.text("storePathRootDir")) / "brokerIdentity"
    look_up = (
        functools.partial(looked_up, look_ups=LookUps(), what="controller") if config.boolean("fetchControllerAddrByDnsLookup") else None
    )
    return Replicas(
        replica_settings(config, identity.address),
        ControllerCalls(parts.client, identity.cluster_name, identity.broker_name, identity.address),
        BrokerMetadataFiles(Path(identity_path)),
        ha,
        parts.native.renew_lease,
        cut,
        monotonic_ms,
        now_ms,
        look_up,
    )


async def start_replicas(
    replicas: Replicas, parts: Parts, ha: AutoSwitchHaService, synchronize: SlaveSynchronize, housekeeping: Housekeeping
) -> None:
    """Returns with a role; or without one if the controllers are slow to give it. Raises as Replicas.start."""
    services = RoleServices(parts, _ControlledLog(ha, replicas.led), synchronize, housekeeping.checks)
    ha.describe = replicas.counters
    await replicas.start(services.steps())
    if not await replicas.has_role(START_WAIT_S):
        log.warning(
            "no controller of %s has given this broker a role within %g s; it starts without one, and serves nobody before it has it",
            ";".join(replicas.controllers),
            START_WAIT_S,
        )


class Elected(Protocol):
    """The broker's role as others decide it: Replicas behind a controller, GroupRoles in a DLedger group."""

    async def stop(self) -> None: ...
    def hint(self) -> None: ...
    def lost(self, address: str) -> None: ...
    def heard_of_master(self, master_address: str | None, ha_address: str | None) -> None: ...
    def others_in_sync(self) -> frozenset[int]: ...


def acknowledged_by_replicas(handlers: dict[int, Handler], parts: Parts, replicas: Elected | None) -> dict[int, Handler]:
    """Where masters are elected, requests that change tables wait until a possible next master has the change."""
    return handlers if replicas is None else MetadataAcks(parts, replicas.others_in_sync).guard(handlers)


class ReplicaAdmin:
    """Handlers of both requests. `replicas` is None if the broker's role is configured."""

    def __init__(self, parts: Parts, replicas: Elected | None) -> None:
        self._parts = parts
        self._replicas = replicas

    def handlers(self) -> HandlerTable:
        return {RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs, RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self._role_changed}

    def _epochs(self, request: Request) -> Response:
        parts = self._parts
        ha, settings = parts.ha, parts.settings
        if not isinstance(ha, AutoSwitchHaService):
            raise CommandError(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
        body = epoch_cache_body(settings.cluster_name, settings.broker_name, settings.broker_id, ha.epochs(), ha.log_end())
        return Response(body=body)

    async def _role_changed(self, request: Request) -> Response:
        """A hint, whoever sent it: makes this broker ask the controller or, with CATCH_UP from our master, copy what the master has."""
        if self._replicas is not None and CATCH_UP in request.fields:
            await self._parts.catch_up(with_users=True)
            return Response(fields=versions(self._parts))
        if self._replicas is not None:
            log.info("Receive notifyBrokerRoleChanged request, request:%s", dict(request.fields))
            self._replicas.hint()
        return Response()
