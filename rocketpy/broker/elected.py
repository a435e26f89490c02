"""Which replication and which standing a broker gets. Its role is decided by a controller, by the DLedger group of its log, or by its own
configuration. RocketMQ: BrokerController, DefaultMessageStore (5.3.3 broker/, store/).
"""

from __future__ import annotations

from collections.abc import Callable

from .._core.base import LogTap
from .._core.broker import Broker
from .._core.store import MessageStore
from ..config import Config
from ..ha.auto_switch import AutoSwitchHaService
from ..ha.ledger import LedgerHa
from ..ha.service import HaService, HaSettings
from .controlled import Elected, begin_controlled, make_replicas, start_replicas
from .group_roles import GroupRoles
from .grouped import begin_grouped, make_group_roles, start_group_roles
from .housekeeping import Housekeeping
from .parts import Parts
from .replicas_manager import Replicas
from .settings import is_elected
from .slave_synchronize import SlaveSynchronize


def begin_elected(config: Config) -> None:
    """Whatever role it had, the broker is nobody's master before the others say so."""
    if config.boolean("enableControllerMode"):
        begin_controlled(config)
    elif config.boolean("enableDLegerCommitLog"):
        begin_grouped(config)


def make_ha(config: Config, store: MessageStore, native: Broker, log_tap: LogTap | None) -> HaService:
    """The kind of replication that the configuration asks for. Raises InvalidArgument for a bad configuration of a DLedger group."""
    if config.boolean("enableControllerMode"):
        return AutoSwitchHaService(config, store, native, log_tap=log_tap)
    if config.boolean("enableDLegerCommitLog"):
        return LedgerHa(config, store, native, config.integer("brokerId"), log_tap=log_tap)
    return HaService(HaSettings.of(config), store, native, log_tap=log_tap)


def make_elected(parts: Parts, synchronize: SlaveSynchronize | None, cut: Callable[[int], None]) -> Elected | None:
    """None for a broker whose role is configured. cut: as for Replicas."""
    ha = parts.ha
    parts.registration.is_isolated = is_elected(parts.config)
    if isinstance(ha, AutoSwitchHaService):
        return make_replicas(parts, ha, cut)
    if isinstance(ha, LedgerHa) and synchronize is not None:
        return make_group_roles(parts, ha, synchronize)
    return None


async def start_elected(elected: Elected | None, parts: Parts, synchronize: SlaveSynchronize | None, housekeeping: Housekeeping) -> None:
    """The last step of a start. A broker that has a role is registered when this returns. Raises as Replicas.start and GroupRoles.start."""
    ha = parts.ha
    if synchronize is None:
        return
    if isinstance(elected, Replicas) and isinstance(ha, AutoSwitchHaService):
        await start_replicas(elected, parts, ha, synchronize, housekeeping)
    elif isinstance(elected, GroupRoles) and isinstance(ha, LedgerHa):
        await start_group_roles(elected, parts, ha, synchronize, housekeeping)
