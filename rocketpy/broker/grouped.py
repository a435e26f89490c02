"""What a broker in a DLedger group (enableDLegerCommitLog) has in addition: its standing in the group.
RocketMQ: BrokerController (5.3.3 broker/).
"""

from __future__ import annotations

import logging
from typing import Final

from ..awake_clock import monotonic_ms
from ..config import Config
from ..dledger.log_node import LogNode
from ..ha.ledger import LedgerHa, broker_id_of
from .group_roles import GroupRoles
from .housekeeping import Housekeeping
from .ledger_options import member_settings
from .parts import Parts
from .role_services import RoleServices
from .settings import SLAVE
from .slave_synchronize import SlaveSynchronize

log = logging.getLogger(__name__)

START_WAIT_S: Final = 3.0


def begin_grouped(config: Config) -> None:
    """Whatever role it had, the broker is nobody's master before the group says so."""
    config.override("brokerRole", SLAVE)
    config.override("brokerId", broker_id_of(config.text("dLegerSelfId")))


def make_group_roles(parts: Parts, ha: LedgerHa, synchronize: SlaveSynchronize) -> GroupRoles:
    """Makes the roles of a DLedger group. `ha` has been started."""
    assert ha.server is not None
    return GroupRoles(LogNode(member_settings(parts.config), ha.ledger, ha.server), ha, synchronize, parts.address, monotonic_ms)


async def start_group_roles(
    roles: GroupRoles, parts: Parts, ha: LedgerHa, synchronize: SlaveSynchronize, housekeeping: Housekeeping
) -> None:
    """Returns with a role; or without one as long as no majority of the group is up. Raises as GroupRoles.start."""
    services = RoleServices(parts, roles, synchronize, housekeeping.checks)
    ha.describe = roles.counters
    await roles.start(services.steps(begins_anew=True))
    if not await roles.has_role(START_WAIT_S):
        settings = roles.node.settings
        log.warning(
            "group %s of %s has no leader yet; this broker starts as nobody's master, and serves nobody before there is one",
            settings.group,
            ";".join(f"{member}-{address}" for member, address in settings.peers.items()),
        )
