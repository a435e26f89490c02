"""Controllers: who leads them, settings, elections. RocketMQ: tools/command/controller/ (5.5.0)."""

from __future__ import annotations

import re

from ..remoting.codes import RequestCode
from ..remoting.headers.base import HeaderError
from ..remoting.headers.replication import (
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetMetaDataResponseHeader,
)
from ..remoting.json_codec import JsonError, read_object
from .command_line import Given
from .errors import AdminError, UsageError
from .output import Output
from .properties import one_line, settings_of
from .session import Session
from .texts import java


async def metadata_of(session: Session, address: str) -> GetMetaDataResponseHeader:
    """Raises AdminError."""
    response = await session.call(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
    try:
        return GetMetaDataResponseHeader.decode(response.fields)
    except HeaderError as error:
        raise AdminError(str(error), address=address, request=RequestCode.CONTROLLER_GET_METADATA_INFO) from error


def controllers_of(given: Given) -> list[str]:
    """Raises UsageError."""
    return given.named("a", "controller", ";")


async def leader_of(session: Session, addresses: list[str]) -> str:
    """The leader, according to the first of some controllers that answers. Raises AdminError."""
    fault: AdminError | None = None
    for address in addresses:
        try:
            leader = (await metadata_of(session, address)).controller_leader_address
        except AdminError as error:
            fault = error
            continue
        if leader:
            return leader
        fault = AdminError("the controllers have no leader now", address=address, request=RequestCode.CONTROLLER_GET_METADATA_INFO)
    assert fault is not None
    raise fault


async def get_controller_metadata(session: Session, given: Given, out: Output) -> None:
    found = await metadata_of(session, given.text("a"))
    peers = [peer for peer in (found.peers or "").split(";") if peer]
    out.put(f"\n#ControllerGroup\t{java(found.group)}")
    out.put(f"\n#ControllerLeaderId\t{java(found.controller_leader_id)}")
    out.put(f"\n#ControllerLeaderAddress\t{java(found.controller_leader_address)}")
    for peer in peers:
        out.put(f"\n#Peer:\t{peer}")
    out.line()
    out.set(
        group=found.group,
        controllerLeaderId=found.controller_leader_id,
        controllerLeaderAddress=found.controller_leader_address,
        isLeader=found.is_leader,
        peers=peers,
    )


async def get_controller_config(session: Session, given: Given, out: Output) -> None:
    async def show(address: str) -> None:
        settings = await settings_of(session, address, RequestCode.GET_CONTROLLER_CONFIG)
        out.line(f"============{address}============")
        for name, value in settings.items():
            out.line(f"{name:50}=  {value}")
        out.add("controllers", {"address": address, "settings": settings})

    await session.each(controllers_of(given), show)


async def update_controller_config(session: Session, given: Given, out: Output) -> None:
    key, value = given.text("k"), given.text("v")
    body, addresses = one_line(key, value), controllers_of(given)

    async def change(address: str) -> None:
        await session.call(address, RequestCode.UPDATE_CONTROLLER_CONFIG, None, body)
        out.add("done", {"address": address, "key": key, "value": value})

    await session.each(addresses, change)
    if not session.troubles:
        out.line(f"update controller config success![{', '.join(addresses)}]\n{key} : {value}")


async def elect_master(session: Session, given: Given, out: Output) -> None:
    cluster, name = given.text("c"), given.text("bn")
    header = ElectMasterRequestHeader(
        cluster_name=cluster, broker_name=name, broker_id=given.number("b"), designate_elect=True, invoke_time=session.clock()
    )
    leader = await leader_of(session, controllers_of(given))
    response = await session.call(leader, RequestCode.CONTROLLER_ELECT_MASTER, header, times=2)
    try:
        answer = ElectMasterResponseHeader.decode(response.fields)
        members = read_object(response.body) if response.body else {}
    except (HeaderError, JsonError) as error:
        raise AdminError(str(error), address=leader, request=RequestCode.CONTROLLER_ELECT_MASTER) from error
    out.put(f"\n#ClusterName\t{cluster}\n#BrokerName\t{name}\n#BrokerMasterAddr\t{java(answer.master_address)}")
    out.line(f"\n#MasterEpoch\t{java(answer.master_epoch)}\n#SyncStateSetEpoch\t{java(answer.sync_state_set_epoch)}")
    for broker_id, address in sorted((members.get("brokerAddrs") or {}).items()):
        out.line(f"\t#Broker\t{broker_id}\t{address}")
    out.set(
        clusterName=cluster,
        brokerName=name,
        masterAddress=answer.master_address,
        masterEpoch=answer.master_epoch,
        syncStateSetEpoch=answer.sync_state_set_epoch,
        brokerAddrs=members.get("brokerAddrs"),
    )


async def clean_broker_metadata(session: Session, given: Given, out: Output) -> None:
    ids = given.maybe("b")
    if ids is not None and not re.fullmatch(r"\d+(;\d+)*", ids):
        raise UsageError("please set the option <brokerControllerIdsToClean> according to the format")
    if not given.has("l") and not given.text("c"):
        raise UsageError("cleanLivingBroker option is false, clusterName option can not be empty.")
    header = CleanControllerBrokerDataRequestHeader(
        cluster_name=given.maybe("c"),
        broker_name=given.text("bn"),
        broker_controller_ids_to_clean=ids,
        is_clean_living_broker=given.has("l"),
        invoke_time=session.clock(),
    )
    leader = await leader_of(session, controllers_of(given))
    await session.call(leader, RequestCode.CLEAN_BROKER_DATA, header, times=2)
    out.done(f"clear broker {given.text('bn')} metadata from controller success! ", brokerName=given.text("bn"), ids=ids)
