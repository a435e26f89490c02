"""Rules that tie several keys together, and values that follow from others. Pure functions: values in, complaints and replacements out.
(Only a complaint about memory looks at the machine, to name what it has.)
RocketMQ: BrokerStartup.buildBrokerController, MessageStoreConfig.getMappedFileSizeConsumeQueue (5.3.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from .keys import Value
from .memory import memory_of, shares, what_does_not_fit

QUEUE_ENTRY_SIZES = {"mappedFileSizeConsumeQueue": 20, "mapperFileSizeBatchConsumeQueue": 46}
PORT_MAX = 65535
VIP_PORT_DISTANCE = 2  # below the listener
MEMBER = re.compile("[^-;:][0-9]{1,9}")
MEMBERS_MAX = 16
"""The most members of a DLedger group of brokers, as csrc/ha/dledger_log.h allows."""

# What an operator relies on and this release does not have: better no start than a broker without it.
MISSING: dict[str, tuple[Value, str]] = {
    "aclEnable": (True, "anybody could do anything; set authenticationEnabled, authorizationEnabled and migrateAuthFromV1Enabled"),
    "storeType": ("defaultRocksDB", "topics, groups and offsets kept in RocksDB would not be found"),
    "configManagerVersion": ("v2", "topics, groups and offsets kept in RocksDB would not be found"),
}


CHECKED = frozenset({"totalReplicas"})
"""Keys that nothing but a rule reads."""


def check_rules(role: str, values: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """(key, complaint) for every rule that does not hold; the key is the one to change."""
    for name in ("namesrvAddr", "controllerAddr", "haMasterAddress"):
        yield from _check_ports(name, values.get(name))
    if unfit := what_does_not_fit(role, values):
        yield unfit
    if role == "broker":
        yield from _check_broker(values)
    if role == "controller" or values.get("enableControllerInNamesrv"):
        yield from _check_controller(values)
    for name, (value, consequence) in MISSING.items():
        if name in values and values[name] == value:
            shown = value if isinstance(value, str) else str(value).lower()
            yield name, f"{shown} is not supported by this release: {consequence}"


def derive_values(role: str, values: Mapping[str, Value]) -> Iterator[tuple[str, Value, str]]:
    """(key, value, why) for values that are replaced at start: those that RocketMQ replaces silently, and shares of the memory."""
    for key, size in shares(role, values).items():
        if size != values[key]:
            yield key, size, f"memory is {memory_of(_integer(values, 'memory'))}"
    if role != "broker":
        return
    broker_id = _integer(values, "brokerId")
    if values["enableDLegerCommitLog"]:
        if broker_id != -1:
            yield "brokerId", -1, "DLedger elects the master"
    elif not values["enableControllerMode"] and values["brokerRole"] != "SLAVE" and broker_id != 0:
        yield "brokerId", 0, f"brokerRole is {values['brokerRole']}"
    if not _integer(values, "haListenPort") and _integer(values, "listenPort"):
        yield "haListenPort", _integer(values, "listenPort") + 1, ""
    for key, entry_size in QUEUE_ENTRY_SIZES.items():
        size = _integer(values, key)
        if remainder := size % entry_size:
            yield key, size + entry_size - remainder, f"an entry has {entry_size} bytes"


def path_doubt(path: str) -> str:
    """What an operator may not expect about a path; empty if nothing is odd."""
    if path.startswith("~") or "$" in path:
        return f"is taken as it stands, as by RocketMQ: nothing in it is replaced, the directory is {Path(path).absolute()}"
    return f"is relative to the working directory: {Path(path).absolute()}" if path and not path.startswith("/") else ""


def _integer(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    return value if isinstance(value, int) else 0


def _check_ports(name: str, value: Value) -> Iterator[tuple[str, str]]:
    for address in str(value or "").split(";"):
        port = address.strip().rpartition(":")[2]
        if port.isascii() and port.isdigit() and not 0 < int(port) <= PORT_MAX:
            yield name, f"{address.strip()!r} is not valid: expected a port from 1 to 65535"


def _check_controller(values: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    if values["controllerType"] == "jRaft":
        yield "controllerType", "jRaft is not supported by this release: set controllerType=DLedger, controllerDLegerPeers and -SelfId"
        return
    for name in ("controllerDLegerPeers", "controllerDLegerSelfId"):
        if not values[name]:
            yield name, "is needed by a controller, such as controllerDLegerPeers=n0-127.0.0.1:9878 and controllerDLegerSelfId=n0"
            return
    yield from _check_members(values, "controllerDLegerPeers", "controllerDLegerSelfId")


def _check_members(values: Mapping[str, Value], peers_key: str, self_key: str) -> Iterator[tuple[str, str]]:
    peers = [peer.strip() for peer in str(values[peers_key]).split(";") if peer.strip()]
    members = [peer.partition("-")[0].strip() for peer in peers]
    if values[self_key] not in members:
        yield self_key, f"{values[self_key]} is not one of {peers_key}: {', '.join(members)}"
    addresses = [peer.partition("-")[2].strip() for peer in peers]
    for what, given in (("member", members), ("address", addresses)):
        for each in sorted({each for each in given if given.count(each) > 1}):
            yield peers_key, f"names the {what} {each} twice"
    yield from _check_ports(peers_key, values[peers_key])


def _check_ledger(values: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """The rules for a broker whose commit log belongs to a DLedger group."""
    missing = [name for name in ("dLegerGroup", "dLegerPeers", "dLegerSelfId") if not values[name]]
    for name in missing:
        yield name, "is needed with enableDLegerCommitLog=true"
    if missing:
        return
    yield from _check_members(values, "dLegerPeers", "dLegerSelfId")
    peers = [peer.strip() for peer in str(values["dLegerPeers"]).split(";") if peer.strip()]
    by_number: dict[int, str] = {}
    for member in dict.fromkeys(peer.partition("-")[0].strip() for peer in peers):
        if not MEMBER.fullmatch(member):
            yield "dLegerPeers", f"{member!r} is not a letter with a number, such as n0: the number is the member's brokerId - 1"
        elif (other := by_number.setdefault(int(member[1:]), member)) != member:
            yield "dLegerPeers", f"{other} and {member} would both be brokerId {int(member[1:]) + 1}"
    if len(peers) > MEMBERS_MAX:
        yield "dLegerPeers", f"names {len(peers)} members, a group has {MEMBERS_MAX} at most"
    own_port = next((peer.rpartition(":")[2] for peer in peers if peer.partition("-")[0].strip() == values["dLegerSelfId"]), "")
    if own_port and own_port == str(values["listenPort"]):
        yield "dLegerPeers", f"{own_port} is the port of the listener too: members talk to each other by one of their own"
    if "," in str(values["storePathDLedgerCommitLog"] or ""):
        yield "storePathDLedgerCommitLog", "names several directories, this release uses one: move all files of the log into one of them"


def _check_broker(values: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    if values["enableControllerMode"] and values["enableDLegerCommitLog"]:
        yield "enableControllerMode", "enableControllerMode and enableDLegerCommitLog cannot both be true"
    controlled = values["enableControllerMode"] or values["enableDLegerCommitLog"]
    if not controlled and values["brokerRole"] == "SLAVE" and _integer(values, "brokerId") <= 0:
        yield "brokerId", "Slave's brokerId must be > 0"
    if values["enableDLegerCommitLog"]:
        yield from _check_ledger(values)
    if values["enableControllerMode"] and not values["controllerAddr"]:
        yield "controllerAddr", "is needed with enableControllerMode=true"
    total = _integer(values, "totalReplicas")
    for name in ("inSyncReplicas", "minInSyncReplicas"):
        if 1 < total < _integer(values, name):
            yield name, f"{values[name]} is more than totalReplicas={total}: no send would ever be answered SEND_OK"
    if "," in str(values["storePathCommitLog"] or ""):
        yield "storePathCommitLog", "names several directories, this release uses one: move all commit log files into one of them"
    if values["readOnlyCommitLogStorePaths"]:
        yield "readOnlyCommitLogStorePaths", "is not supported by this release: move these commit log files into storePathCommitLog"
    if values["fetchNamesrvAddrByAddressServer"] and not values["namesrvAddr"]:
        yield "fetchNamesrvAddrByAddressServer", "is not supported by this release: nobody would find this broker; set namesrvAddr"
    if ";" in str(values["haMasterAddress"] or ""):
        yield "haMasterAddress", "names several masters: a slave follows one"
    port, ha_port = _integer(values, "listenPort"), _integer(values, "haListenPort")
    if port and port == ha_port:
        yield "haListenPort", f"{port} is the port of the listener too"
    if port - VIP_PORT_DISTANCE == ha_port > 0:
        yield "haListenPort", f"{ha_port} is the port of the VIP channel too, listenPort - {VIP_PORT_DISTANCE}"
    if port == PORT_MAX and not ha_port:
        yield "haListenPort", f"is needed with listenPort={port}: there is no port above it for slaves"
