"""What a broker has more of behind a controller (enableControllerMode): its standing there, and the requests that are about it.
RocketMQ: BrokerController, AdminBrokerProcessor.getBrokerEpochCache, .notifyBrokerRoleChanged (5.3.3 broker/).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .._core.remoting import Request
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
from .parts import HandlerTable, Parts, monotonic_ms, now_ms
from .replicas_manager import Replicas
from .role_services import RoleServices
from .settings import SLAVE, replica_settings
from .slave_synchronize import SlaveSynchronize

log = logging.getLogger(__name__)

START_WAIT_S: Final = 3.0


def begin_controlled(config: Config) -> None:
    """Whoever it was, it is nobody's master before the controller says so."""
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
    """Returns with a role, or without one when the controllers are slow to give one. Raises as Replicas.start."""
    services = RoleServices(parts, ha, synchronize, housekeeping.checks, replicas.led)
    ha.describe = replicas.counters
    await replicas.start(services.steps())
    if not await replicas.has_role(START_WAIT_S):
        log.warning(
            "no controller of %s has given this broker a role within %g s; it starts without one, and serves nobody before it has it",
            ";".join(replicas.controllers),
            START_WAIT_S,
        )


def acknowledged_by_replicas(handlers: dict[int, Handler], parts: Parts, replicas: Replicas | None) -> dict[int, Handler]:
    """Behind a controller, changes of tables wait for who may be the next master."""
    return handlers if replicas is None else MetadataAcks(parts, replicas.others_in_sync).guard(handlers)


class ReplicaAdmin:
    """Handlers of both requests; `replicas` None: a broker without a controller."""

    def __init__(self, parts: Parts, replicas: Replicas | None) -> None:
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
        """A hint, whoever sent it: the controller is asked. Of a master of ours: copy what it has."""
        if self._replicas is not None and CATCH_UP in request.fields:
            await self._parts.catch_up(with_users=True)
            return Response(fields=versions(self._parts))
        if self._replicas is not None:
            log.info("Receive notifyBrokerRoleChanged request, request:%s", dict(request.fields))
            self._replicas.hint()
        return Response()
