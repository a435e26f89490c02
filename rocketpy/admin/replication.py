"""Masters and slaves: gaps, sync state sets, epochs. RocketMQ: tools/command/ha/, GetBrokerEpochSubCommand (5.5.0)."""

from __future__ import annotations

from typing import Any

from ..remoting.codes import RequestCode
from .beside import ask_beside
from .command_line import Given
from .controllers import controllers_of, leader_of
from .errors import AdminError
from .output import Columns, Output
from .rounds import rounds
from .session import Session
from .texts import human_time, java

SLAVES = Columns(
    "slaves",
    "%-32s  %-16s %16s %16s %16s %16s",
    "%-32s  %-16s %16s %16s %16s %16s",
    {
        "#SlaveAddr": "address",
        "#SlaveAckOffset": "slaveAckOffset",
        "#Diff": "diff",
        "#TransferSpeed(KB/s)": "transferredBytesPerSecond",
        "#Status": "inSync",
        "#TransferFromWhere": "transferFromWhere",
    },
)


async def ha_status(session: Session, given: Given, out: Output) -> None:
    await rounds(session, given, out, _ha_round)


async def _ha_round(session: Session, given: Given, out: Output) -> None:
    async def ask(part: Session, address: str) -> dict[str, Any]:
        return await part.members(address, RequestCode.GET_BROKER_HA_STATUS)

    def show(address: str, value: dict[str, Any]) -> None:
        if value.get("master"):
            _show_master(out, address, value)
        else:
            _show_slave(out, value.get("haClientRuntimeInfo") or {})
        out.add("brokers", {"address": address, **value})

    await ask_beside(session, await session.masters_to_ask(given), ask, show)


def _show_master(out: Output, address: str, value: dict[str, Any]) -> None:
    slaves = [each for each in value.get("haConnectionInfo") or () if isinstance(each, dict)]
    out.line(
        f"\n#MasterAddr\t{address}\n#MasterCommitLogMaxOffset\t{value.get('masterCommitLogMaxOffset')}\n#SlaveNum\t{len(slaves)}\n"
        f"#InSyncSlaveNum\t{value.get('inSyncSlaveNums')}"
    )
    out.line(SLAVES.head % tuple(SLAVES.names))
    for each in sorted(slaves, key=lambda slave: str(slave.get("addr"))):
        speed = int(each.get("transferredByteInSecond") or 0)
        status = "OK" if each.get("inSync") else "Fall Behind"
        cells = (
            each.get("addr"),
            each.get("slaveAckOffset"),
            each.get("diff"),
            f"{speed / 1024:.2f}",
            status,
            each.get("transferFromWhere"),
        )
        out.line(SLAVES.form % cells)


def _show_slave(out: Output, value: dict[str, Any]) -> None:
    speed = int(value.get("transferredByteInSecond") or 0)
    out.line(f"\n#MasterAddr\t{java(value.get('masterAddr'))}")
    out.line(f"#CommitLogMaxOffset\t{value.get('maxOffset')}")
    out.line(f"#TransferSpeed(KB/s)\t{speed / 1024:.2f}")
    out.line(f"#LastReadTime\t{human_time(int(value.get('lastReadTimestamp') or 0))}")
    out.line(f"#LastWriteTime\t{human_time(int(value.get('lastWriteTimestamp') or 0))}")
    out.line(f"#MasterFlushOffset\t{value.get('masterFlushOffset')}")


async def get_sync_state_set(session: Session, given: Given, out: Output) -> None:
    await rounds(session, given, out, _sync_round)


async def _sync_round(session: Session, given: Given, out: Output) -> None:
    names = [given.text("b")] if given.has("b") else list((await session.cluster()).names(given.text("c")))
    leader = await leader_of(session, controllers_of(given))
    value = await session.members(leader, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, names)
    table = value.get("replicasInfoTable") or {}
    if not any(name in table for name in names):  # some of a cluster may be without a controller
        which = repr(given.text("b")) if given.has("b") else f"of cluster {given.text('c')}"
        session.note(AdminError(f"the controllers know no broker {which}", address=leader))
    for name in sorted(table):
        row = table[name]
        in_sync, behind = row.get("inSyncReplicas") or [], row.get("notInSyncReplicas") or []
        out.line(
            f"\n#brokerName\t{name}\n#MasterBrokerId\t{java(row.get('masterBrokerId'))}\n#MasterAddr\t{java(row.get('masterAddress'))}\n"
            f"#MasterEpoch\t{java(row.get('masterEpoch'))}\n#SyncStateSetEpoch\t{java(row.get('syncStateSetEpoch'))}\n"
            f"#SyncStateSetNums\t{len(in_sync)}"
        )
        for label, replicas in (("InSyncReplica", in_sync), ("NotInSyncReplica", behind)):
            for each in replicas:
                out.line(f"\n{label}:\t{_replica_text(each)}")
        out.add("brokers", {"brokerName": name, **row})


def _replica_text(replica: dict[str, Any]) -> str:
    """ReplicaIdentity.toString."""
    return (
        f"ReplicaIdentity{{brokerName='{java(replica.get('brokerName'))}', brokerId={java(replica.get('brokerId'))}, "
        f"brokerAddress='{java(replica.get('brokerAddress'))}', alive={java(replica.get('alive'))}}}"
    )


async def get_broker_epoch(session: Session, given: Given, out: Output) -> None:
    await rounds(session, given, out, _epoch_round)


async def _epoch_round(session: Session, given: Given, out: Output) -> None:
    cluster = await session.cluster()
    if given.has("b"):
        addresses = [address for _, address in sorted(cluster.broker(given.text("b")).broker_addrs.items())]
    else:
        addresses = cluster.addresses(given.text("c"))

    async def ask(part: Session, address: str) -> dict[str, Any]:
        return await part.members(address, RequestCode.GET_BROKER_EPOCH_CACHE)

    def show(address: str, value: dict[str, Any]) -> None:
        out.put(
            f"\n#clusterName\t{value.get('clusterName')}\n#brokerName\t{value.get('brokerName')}\n#brokerAddr\t{address}\n"
            f"#brokerId\t{value.get('brokerId')}"
        )
        epochs = value.get("epochList") or []
        for number, epoch in enumerate(epochs, 1):
            end = value.get("maxOffset") if number == len(epochs) else epoch.get("endOffset")
            out.put(f"\n#Epoch: EpochEntry{{epoch={epoch.get('epoch')}, startOffset={epoch.get('startOffset')}, endOffset={end}}}")
        out.line()
        out.add("brokers", {"address": address, **value})

    await ask_beside(session, addresses, ask, show)
