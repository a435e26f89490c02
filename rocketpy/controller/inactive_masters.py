"""Which broker sets need an election: those whose master is down while another broker lives, and those that have no master but a
living broker that is in sync.
RocketMQ: ReplicasInfoManager.scanNeedReelectBrokerSets (5.3.3 controller/impl/manager/).

A master that this controller has heard and that is now silent or disconnected is down. One that it has not heard yet gets HEARD_WITHIN_MS
from the moment this controller leads, because after a restart its slaves may simply have been quicker; RocketMQ deposes it at the first
look. In RocketMQ the brokers of a set without a master ask for an election themselves, once they are told so; here they need not.
"""

from __future__ import annotations

from .broker_lives import DEFAULT_TIMEOUT_MS, BrokerIdentity, BrokerLives
from .replicas_info import BrokerSet, ReplicasInfo

HEARD_WITHIN_MS = DEFAULT_TIMEOUT_MS


def sets_without_master(tables: ReplicasInfo, lives: BrokerLives, leads_for_ms: int) -> list[BrokerSet]:
    """The sets for which an election is asked for, `leads_for_ms` after this controller began to lead."""
    return [found for found in tables.sets() if _needs_election(found, lives, leads_for_ms)]


def _needs_election(found: BrokerSet, lives: BrokerLives, leads_for_ms: int) -> bool:
    master, cluster, name = found.sync.master_broker_id, found.sync.cluster_name, found.sync.broker_name
    if master is None:
        return any(lives.life(cluster, name, broker_id) is not None for broker_id in found.sync.sync_state_set)
    if lives.life(cluster, name, master) is not None:
        return False
    if leads_for_ms < HEARD_WITHIN_MS and not lives.has_gone(BrokerIdentity(cluster, name, master)):
        return False
    return any(lives.life(found.replicas.cluster_name, name, broker_id) is not None for broker_id in found.replicas.by_id)
