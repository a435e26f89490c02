"""The entries of the controllers' log: what was decided about a broker set, in RocketMQ's bytes.
RocketMQ: EventMessage and its classes, EventSerializer, EventType (5.3.3 controller/impl/event/).

    entry = event type, 2 bytes big-endian | JSON of the event as fastjson 1 writes it
    empty entry: no event, but everything before it is committed

RocketMQ's controllers in the same group replay our entries, and we replay theirs: the bytes must be equal, except for the order of ids
above 15 in a set. An entry that cannot be read is not an event (None), on every member alike: it changes no table and stops no member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..remoting.bodies import BodyError, read_integer, read_text
from ..remoting.json_codec import JsonError, read_object, write_fastjson

TYPE_SIZE = 2


@dataclass(frozen=True, slots=True)
class AlterSyncStateSetEvent:
    """From now on this is the in-sync set of a broker set."""

    broker_name: str
    new_sync_state_set: frozenset[int]


@dataclass(frozen=True, slots=True)
class ApplyBrokerIdEvent:
    """A broker gets this id in its set. The first one creates the set."""

    cluster_name: str
    broker_name: str
    broker_address: str
    new_broker_id: int
    register_check_code: str


@dataclass(frozen=True, slots=True)
class ElectMasterEvent:
    """The set has a new master, which alone is in sync. None: the old master is down, and no broker could follow."""

    broker_name: str
    new_master_broker_id: int | None = None


@dataclass(frozen=True, slots=True)
class CleanBrokerDataEvent:
    """These brokers are forgotten; None: the whole set is."""

    broker_name: str
    broker_ids: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class UpdateBrokerAddressEvent:
    """A broker has another address."""

    cluster_name: str
    broker_name: str
    broker_address: str
    broker_id: int


Event = AlterSyncStateSetEvent | ApplyBrokerIdEvent | ElectMasterEvent | CleanBrokerDataEvent | UpdateBrokerAddressEvent


def encode_event(event: Event) -> bytes:
    """The log entry of an event."""
    type_id, type_name, members = _members(event)
    return type_id.to_bytes(TYPE_SIZE, "big") + write_fastjson({**members, "brokerName": event.broker_name, "eventType": type_name})


def decode_event(entry: bytes) -> Event | None:
    """The event in an entry; None for an empty entry, one of an unknown type, and a damaged one."""
    if len(entry) <= TYPE_SIZE:
        return None
    try:
        return _event(int.from_bytes(entry[:TYPE_SIZE], "big"), read_object(entry[TYPE_SIZE:]))
    except (JsonError, BodyError):
        return None


def _members(event: Event) -> tuple[int, str, dict[str, Any]]:
    match event:
        case AlterSyncStateSetEvent():
            return 1, "ALTER_SYNC_STATE_SET_EVENT", {"newSyncStateSet": sorted(event.new_sync_state_set)}
        case ApplyBrokerIdEvent():
            return (
                2,
                "APPLY_BROKER_ID_EVENT",
                {
                    "brokerAddress": event.broker_address,
                    "clusterName": event.cluster_name,
                    "newBrokerId": event.new_broker_id,
                    "registerCheckCode": event.register_check_code,
                },
            )
        case ElectMasterEvent():
            elected = event.new_master_broker_id is not None
            return 3, "ELECT_MASTER_EVENT", {"newMasterBrokerId": event.new_master_broker_id, "newMasterElected": elected}
        case CleanBrokerDataEvent():
            return 5, "CLEAN_BROKER_DATA_EVENT", {"brokerIdSetToClean": None if event.broker_ids is None else sorted(event.broker_ids)}
        case UpdateBrokerAddressEvent():
            members = {"brokerAddress": event.broker_address, "brokerId": event.broker_id, "clusterName": event.cluster_name}
            return 6, "UPDATE_BROKER_ADDRESS", members


def _event(type_id: int, members: Mapping[str, Any]) -> Event | None:
    name = read_text(members, "brokerName")
    match type_id:
        case 1:
            return AlterSyncStateSetEvent(name, read_ids(members.get("newSyncStateSet") or ()))
        case 2:
            return ApplyBrokerIdEvent(
                read_text(members, "clusterName"),
                name,
                read_text(members, "brokerAddress"),
                read_integer(members, "newBrokerId"),
                read_text(members, "registerCheckCode"),
            )
        case 3:
            elected = members.get("newMasterElected") in (True, "true") and members.get("newMasterBrokerId") is not None
            return ElectMasterEvent(name, read_integer(members, "newMasterBrokerId") if elected else None)
        case 5:
            ids = members.get("brokerIdSetToClean")
            return CleanBrokerDataEvent(name, read_ids(ids) if ids else None)
        case 6:
            address = read_text(members, "brokerAddress")
            return UpdateBrokerAddressEvent(read_text(members, "clusterName"), name, address, read_integer(members, "brokerId"))
    return None


def read_ids(value: Any) -> frozenset[int]:
    """A set of broker ids as JSON has it. Raises BodyError."""
    if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)):
        return frozenset(read_integer({"brokerId": each}, "brokerId", -1) for each in value)
    raise BodyError(f"expected a list of broker ids, found {str(value)[:64]!r}")
