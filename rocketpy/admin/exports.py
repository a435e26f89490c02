"""Writes what a cluster is made of into JSON files. RocketMQ: tools/command/export/ (5.5.0). A file is written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ..broker.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from ..remoting.codes import CURRENT_VERSION, RequestCode
from ..remoting.json_codec import write_fastjson
from ..remoting.route import MASTER_ID, BrokerData
from ..state_file import sync_directory
from .beside import ask_beside
from .brokers import runtime_table
from .clients import connections_in, consumers_of
from .cluster import ClusterInfo
from .clusters import number, totals
from .command_line import Given
from .errors import AdminError, UsageError
from .groups import groups_at
from .output import Output
from .progress import note_unless_idle
from .properties import settings_of
from .session import Session
from .stats import broker_stats, day_sum, minute_rate
from .texts import version_text

DIRECTORY = "/tmp/rocketmq/export"
PREDEFINED_GROUPS = frozenset(
    (
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    )
)
PERMS = range(8)
SETTINGS = (
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
)


def write_file(directory: str, name: str, value: dict[str, Any]) -> Path:
    """Writes a file under a temporary name that nobody can foresee, because everybody may be allowed to write to the directory; it gets its
    own name when it is complete. Raises OSError."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=place, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(write_fastjson(value, pretty=True))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(place / name)
        sync_directory(place)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
    return place / name


def _said(out: Output, path: Path, value: dict[str, Any], end: str = "") -> None:
    out.put(f"export {path} success{end}")
    out.set(file=str(path), **value)


def _led(session: Session, cluster: ClusterInfo, name: str) -> list[BrokerData]:
    """The brokers of a cluster that have a master, at least one: an existing file says more than an export of no broker. Raises
    AdminError."""
    session.note_masterless(cluster, name)
    found = [broker for broker in cluster.groups(name) if MASTER_ID in broker.broker_addrs]
    if not found:
        raise AdminError(f"no broker of cluster {name} has a master: no file is written", remedy="clusterList shows who is there")
    return found


async def user_topics(session: Session, address: str, with_special: bool) -> dict[str, Any]:
    """A broker's whole answer except system topics. Raises AdminError."""
    value = await session.members(address, RequestCode.GET_ALL_TOPIC_CONFIG, times=2)
    system = await session.members(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, times=2)
    hidden = SYSTEM_TOPICS | {str(topic) for topic in system.get("topicList") or ()}
    table = value.get("topicConfigTable") or {}
    return {**value, "topicConfigTable": {name: topic for name, topic in table.items() if _is_users(name, topic, hidden, with_special)}}


def _is_users(name: str, topic: dict[str, Any], hidden: frozenset[str] | set[str], with_special: bool) -> bool:
    if name in hidden or name.startswith(SYSTEM_TOPIC_PREFIX) or topic.get("perm", 6) not in PERMS:
        return False
    return with_special or not name.startswith((RETRY_PREFIX, DLQ_PREFIX))


async def user_groups(session: Session, address: str) -> dict[str, dict[str, Any]]:
    """Raises AdminError."""
    groups = await groups_at(session, address)
    return {name: group for name, group in groups.items() if name not in PREDEFINED_GROUPS and not name.startswith(SYSTEM_GROUP_PREFIX)}


def add_up(tables: list[dict[str, Any]], *members: str) -> dict[str, Any]:
    """One table made of several brokers' tables: the last entry of each name counts, with these members summed over all."""
    whole: dict[str, Any] = {}
    for table in tables:
        for name, entry in table.items():
            before = whole.get(name, {})
            whole[name] = {**entry, **{member: int(entry.get(member) or 0) + int(before.get(member) or 0) for member in members}}
    return whole


async def export_metadata(session: Session, given: Given, out: Output) -> None:
    directory, with_special = given.text("f", DIRECTORY), given.has("s")
    if given.has("b"):
        address = given.text("b")
        if given.has("t"):
            value = await user_topics(session, address, with_special)
            _said(out, write_file(directory, "topic.json", value), value)
        elif given.has("g"):
            value = await session.members(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, times=2)
            value = {**value, "subscriptionGroupTable": await user_groups(session, address)}
            _said(out, write_file(directory, "subscriptionGroup.json", value), value)
        else:
            raise UsageError("with -b either -t/--topic or -g/--subscriptionGroup is needed")
        return
    masters = [broker.broker_addrs[MASTER_ID] for broker in _led(session, await session.cluster(), given.text("c"))]
    value = {"exportTime": session.clock()}
    if not given.has("g") or given.has("t"):
        topics = [(await user_topics(session, address, with_special))["topicConfigTable"] for address in masters]
        value["topicConfigTable"] = add_up(topics, "writeQueueNums", "readQueueNums")
    if not given.has("t"):
        value["subscriptionGroupTable"] = add_up([await user_groups(session, address) for address in masters], "retryQueueNums")
    name = "topic.json" if given.has("t") else "subscriptionGroup.json" if given.has("g") else "metadata.json"
    _said(out, write_file(directory, name, value), value, "\n")


async def export_configs(session: Session, given: Given, out: Output) -> None:
    cluster, cluster_name = await session.cluster(), given.text("c")
    configs: dict[str, Any] = {}
    for broker in _led(session, cluster, cluster_name):
        settings = await settings_of(session, broker.broker_addrs[MASTER_ID], RequestCode.GET_BROKER_CONFIG)
        configs[settings.get("brokerName", broker.broker_name)] = {name: settings[name] for name in SETTINGS if name in settings}
    scale = {
        "namesrvSize": len(session.named()),
        "masterBrokerSize": len(configs),
        "slaveBrokerSize": sum(len(slaves) for _, slaves in cluster.masters_and_slaves(cluster_name)),
    }
    value = {"brokerConfigs": configs, "clusterScale": scale}
    _said(out, write_file(given.text("f", DIRECTORY), "configs.json", value), value)


async def _clients_in(session: Session, groups: dict[str, Any], known: dict[str, set[str]]) -> list[str]:
    """Language and release of every consumer. known: those of groups that were asked for; most are at every master."""

    async def ask(part: Session, group: str) -> list[dict[str, Any]]:
        try:
            return connections_in(await consumers_of(part, group))
        except AdminError as error:  # nobody is connected, most of the time
            note_unless_idle(part, error)
            return []

    def add(group: str, connections: list[dict[str, Any]]) -> None:
        known[group] = {f"{each.get('language')}%{version_text(int(each.get('version') or 0))}" for each in connections}

    await ask_beside(session, [group for group in groups if group not in known], ask, add)
    return sorted(set().union(*(known[group] for group in groups)))


async def _report(session: Session, address: str, known: dict[str, set[str]]) -> dict[str, Any]:
    """The report about one master. known: of _clients_in. Raises AdminError."""
    table = await runtime_table(session, address)
    settings = await settings_of(session, address, RequestCode.GET_BROKER_CONFIG)
    groups = await user_groups(session, address)
    topics = (await user_topics(session, address, False))["topicConfigTable"]
    halves = await broker_stats(session, address, "TOPIC_PUT_NUMS", "RMQ_SYS_TRANS_HALF_TOPIC")
    delays = await broker_stats(session, address, "TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX")
    incoming, outgoing = totals(table)[:2]
    quota = {
        "diskRatio": {name: table.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
        "tps": {
            "normalInTps": number(table, "putTps"),
            "normalOutTps": number(table, "getTransferredTps"),
            "transInTps": minute_rate(halves),
            "scheduleInTps": minute_rate(delays),
        },
        "oneDayNum": {
            "normalOneDayInNum": incoming,
            "normalOneDayOutNum": outgoing,
            "transOneDayInNum": day_sum(halves),
            "scheduleOneDayInNum": day_sum(delays),
        },
        "messageAverageSize": table.get("putMessageAverageSize"),
        "topicSize": len(topics),
        "groupSize": len(groups),
    }
    return {
        "runtimeEnv": {"cpuNum": settings.get("clientCallbackExecutorThreads"), "totalMemKBytes": table.get("totalMemKBytes")},
        "runtimeQuota": quota,
        "runtimeVersion": {"rocketmqVersion": version_text(CURRENT_VERSION), "clientInfo": await _clients_in(session, groups, known)},
    }


async def export_metrics(session: Session, given: Given, out: Output) -> None:
    reports: dict[str, Any] = {}
    known: dict[str, set[str]] = {}
    session.keep_answers()
    for broker in _led(session, await session.cluster(), given.text("c")):
        reports[broker.broker_name] = await _report(session, broker.broker_addrs[MASTER_ID], known)
    quotas = [report["runtimeQuota"] for report in reports.values()]
    rates = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
    counts = ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")
    whole = {
        "totalTps": {f"total{name[0].upper()}{name[1:]}": sum(quota["tps"][name] for quota in quotas) for name in rates},
        "totalOneDayNum": {name: sum(quota["oneDayNum"][name] for quota in quotas) for name in counts},
    }
    value = {"evaluateReport": reports, "totalData": whole}
    _said(out, write_file(given.text("f", DIRECTORY), "metrics.json", value), value)
