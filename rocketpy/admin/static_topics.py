"""Static topics: made, grown, moved to other brokers.
RocketMQ: UpdateStaticTopicSubCommand, RemappingStaticTopicSubCommand, MQAdminUtils (5.5.0 tools/).

    updateStaticTopic      every broker asked ─ plan ─ files .before, .after ─ every broker told
    remappingStaticTopic   the same, but in this order: brokers that get queues, which then take messages without an offset ─ brokers that
                           give queues, which then take no more ─ the ends of the given queues are looked up: there the new ones begin ─
                           brokers that get queues, with these offsets ─ the rest

A run that breaks off leaves brokers that disagree about the epoch, and the next run refuses such brokers. `-mf FILE.after` finishes the run
that broke off. mqadmin has that option, too, but does not read the file.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..broker.names import topic_fault
from ..remoting.codes import RequestCode
from ..remoting.headers import CreateTopicRequestHeader
from ..remoting.headers.admin import AUTO_CREATE_TOPIC
from ..remoting.json_codec import JsonError, read_json, write_fastjson
from ..remoting.queue_mapping import MappingFault, led_queues
from ..remoting.route import MASTER_ID
from .cluster import ClusterInfo
from .command_line import Given
from .errors import AdminError
from .exports import write_file
from .global_queues import topic_at
from .mapping_plans import (
    CREATE_OR_UPDATE,
    Brokers,
    Plan,
    adopted,
    check_agreement,
    complete,
    mapping_of,
    placed,
    plan_move,
    plan_queues,
)
from .output import Output
from .session import Session
from .topics import topic_stats


async def update_static_topic(session: Session, given: Given, out: Output) -> None:
    topic = _topic(given)
    cluster = await session.cluster()
    try:
        if given.has("mf"):
            plan = _read_plan(given.text("mf"), topic)
        else:
            plan = await _planned_queues(session, given, out, cluster, topic)
        plan = complete(plan, _same_clusters(cluster, plan.brokers))
    except MappingFault as error:
        raise AdminError(str(error)) from error
    _check_masters(cluster, plan.brokers)
    for name in plan.brokers:
        await _tell(session, cluster, plan, name, is_forced=given.truth("fr"))
    out.set(mapping=plan.to_json())


async def _planned_queues(session: Session, given: Given, out: Output, cluster: ClusterInfo, topic: str) -> Plan:
    targets = _targets(given, cluster)
    queues = given.number("qn", least=1)
    brokers = await known_topics(session, cluster, topic)
    agreed = check_agreement(topic, brokers)
    now_ms = session.clock()
    _write(out, Plan(topic, CREATE_OR_UPDATE, agreed[0] if agreed else now_ms, brokers), "before", "old")
    plan = plan_queues(topic, queues, targets | brokers.keys(), brokers, now_ms, lambda names: random.sample(names, len(names)))
    _write(out, plan, "after", "new")
    return plan


async def remapping_static_topic(session: Session, given: Given, out: Output) -> None:
    topic = _topic(given)
    cluster = await session.cluster()
    try:
        if given.has("mf"):
            plan = adopted(_read_plan(given.text("mf"), topic), await known_topics(session, cluster, topic))
        else:
            plan = await _planned_move(session, given, out, cluster, topic)
            plan = complete(plan, _same_clusters(cluster, plan.brokers))
        plan = await _move(session, cluster, plan, is_forced=given.truth("fr"))
    except MappingFault as error:
        raise AdminError(str(error)) from error
    out.set(mapping=plan.to_json())


async def _planned_move(session: Session, given: Given, out: Output, cluster: ClusterInfo, topic: str) -> Plan:
    targets = _targets(given, cluster)
    _check_masters(cluster, targets)
    brokers = await known_topics(session, cluster, topic)
    agreed = check_agreement(topic, brokers)
    if agreed is None:
        raise AdminError("No topic route to do the remapping", remedy="updateStaticTopic makes a static topic")
    _write(out, Plan(topic, CREATE_OR_UPDATE, agreed[0], brokers), "before", "old")
    plan = plan_move(topic, targets, brokers, session.clock())
    _write(out, plan, "after", "old")  # mqadmin's word for the new one
    return plan


async def _move(session: Session, cluster: ClusterInfo, plan: Plan, *, is_forced: bool) -> Plan:
    _check_masters(cluster, plan.brokers)
    for name in (*sorted(plan.map_in), *sorted(plan.map_out)):
        await _tell(session, cluster, plan, name, is_forced=is_forced)
    offsets, _ = await topic_stats(session, plan.topic, [_master(cluster, name) for name in sorted(plan.map_out)])
    ends = {(str(queue["brokerName"]), int(queue["queueId"])): int(row.get("maxOffset") or 0) for queue, row in offsets.items()}
    plan = placed(plan, ends)
    for name in (*sorted(plan.map_in), *sorted(plan.brokers.keys() - plan.map_in - plan.map_out)):
        await _tell(session, cluster, plan, name, is_forced=is_forced)
    return plan


async def _tell(session: Session, cluster: ClusterInfo, plan: Plan, name: str, *, is_forced: bool) -> None:
    known = plan.brokers[name]
    config = known.config
    header = CreateTopicRequestHeader(
        topic=plan.topic,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        force=is_forced,
    )
    body = write_fastjson(mapping_of(name, known).to_json())
    await session.call(_master(cluster, name), RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, body)


async def known_topics(session: Session, cluster: ClusterInfo, topic: str) -> Brokers:
    """The topic as each broker that has it knows it. Raises AdminError."""
    found = {}
    for name, broker in cluster.brokers.items():
        if MASTER_ID in broker.broker_addrs and (known := await topic_at(session, broker.broker_addrs[MASTER_ID], topic)) is not None:
            found[name] = known
    return found


def _topic(given: Given) -> str:
    topic = given.text("t").strip()
    if (fault := topic_fault(topic)) is not None:  # first: it is part of the names of files
        raise AdminError(fault)
    return topic


def _targets(given: Given, cluster: ClusterInfo) -> set[str]:
    """Raises AdminError."""
    if given.has("b"):
        targets = {name.strip() for name in given.words("b")}
    else:
        targets = {name for each in given.words("c") for name in cluster.clusters.get(each.strip(), ())}
    if not targets - {""}:
        raise AdminError("Find none brokers, do nothing")
    return targets - {""}


def _same_clusters(cluster: ClusterInfo, names: Iterable[str]) -> set[str]:
    wanted = set(names)
    return {each for members in cluster.clusters.values() if wanted & set(members) for each in members}


def _check_masters(cluster: ClusterInfo, names: Iterable[str]) -> None:
    """Checks the masters before anything is changed. Raises AdminError."""
    for name in names:
        _master(cluster, name)


def _master(cluster: ClusterInfo, name: str) -> str:
    broker = cluster.brokers.get(name)
    if broker is None or MASTER_ID not in broker.broker_addrs:
        raise AdminError(f"Can't find addr for broker {name}", remedy="clusterList shows the brokers there are")
    return broker.broker_addrs[MASTER_ID]


def _write(out: Output, plan: Plan, suffix: str, which: str) -> None:
    path = write_file(tempfile.gettempdir(), f"{plan.topic}-{plan.epoch}.{suffix}", plan.to_json())
    out.line(f"The {which} mapping data is written to file {path}")
    out.add("files", str(path))


def _read_plan(name: str, topic: str) -> Plan:
    """Reads a mapping data file. Raises AdminError, MappingFault."""
    try:
        value: Any = read_json(Path(name).read_bytes(), tolerant_max=None)
        plan = Plan.from_json(value)
    except (OSError, JsonError, ValueError) as error:
        raise AdminError(f"mapping data file {name}: {error}") from error
    if plan.topic != topic or not plan.brokers:
        raise AdminError(f"mapping data file {name} is of topic {plan.topic or 'none'}, and of {len(plan.brokers)} brokers")
    check_agreement(topic, plan.brokers)
    led_queues([mapping_of(broker, known) for broker, known in plan.brokers.items()], complete=True)
    return plan
