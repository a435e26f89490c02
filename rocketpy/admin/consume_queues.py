"""Consume queues, and what RocketMQ keeps in RocksDB. RocketMQ: tools/command/queue/, metadata/, ExportPopRecordCommand (5.5.0)."""

from __future__ import annotations

from ..remoting.codes import RequestCode
from ..remoting.headers import (
    CheckRocksdbCqWriteProgressRequestHeader,
    ExportRocksDBConfigToJsonRequestHeader,
    QueryConsumeQueueRequestHeader,
)
from ..remoting.json_codec import write_fastjson
from ..remoting.route import MASTER_ID
from .command_line import Given
from .errors import AdminError, UsageError
from .output import Output
from .properties import settings_of
from .session import WITH_B, Session
from .texts import java

RULE = "======================================"
THIRTY_DAYS_MS = 30 * 24 * 3600 * 1000
CHECK_FAILED = 3
"""CheckRocksdbCqWriteResult.CheckStatus.CHECK_ERROR."""
CONFIG_TYPES = ("topics", "subscriptionGroups", "consumerOffsets")
_ENTRY = ("physicOffset", "physicSize", "tagsCode", "extendDataJson", "bitMap", "eval", "msg")
_QUOTED = ("extendDataJson", "bitMap", "msg")


async def query_cq(session: Session, given: Given, out: Output) -> None:
    topic, index = given.text("t"), given.number("i")
    address = given.text("b")
    if not address:
        route = await session.route(topic)
        masters = [broker.broker_addrs[MASTER_ID] for broker in route.broker_datas if MASTER_ID in broker.broker_addrs]
        if not masters:
            raise AdminError("No topic route data!", remedy="-b HOST:PORT asks a slave")
        address = masters[0]
    header = QueryConsumeQueueRequestHeader(
        topic=topic, queue_id=given.number("q"), index=index, count=given.number("c", 10), consumer_group=given.maybe("g")
    )
    value = await session.members(address, RequestCode.QUERY_CONSUME_QUEUE, header)
    if value.get("subscriptionData") is not None:
        out.line(f"Subscription data: \n{write_fastjson(value['subscriptionData'], pretty=True).decode()}")
        out.line(RULE)
    if value.get("filterData") is not None:
        out.line(f"Filter data: \n{value['filterData']}")
        out.line(RULE)
    out.line(f"Queue data: \nmax: {value.get('maxQueueIndex') or 0}, min: {value.get('minQueueIndex') or 0}")
    out.line(RULE)
    for number, entry in enumerate(value.get("queueData") or (), index):
        parts = (f"{name}='{java(entry.get(name))}'" if name in _QUOTED else f"{name}={java(entry.get(name, 0))}" for name in _ENTRY)
        out.line(f"idx: {number}\nConsumeQueueData{{{', '.join(parts)}}}\n{RULE}")
    out.set(**value)


async def check_rocksdb_cq(session: Session, given: Given, out: Output) -> None:
    cluster = await session.cluster()
    session.note_masterless(cluster, given.text("c"))
    since = given.number("cf", session.clock() - THIRTY_DAYS_MS)
    header = CheckRocksdbCqWriteProgressRequestHeader(topic=given.text("t"), check_store_time=since)
    names = {
        cluster.brokers[name].broker_addrs.get(MASTER_ID, ""): name for name in cluster.names(given.text("c")) if name in cluster.brokers
    }

    async def check(address: str) -> None:
        value = await session.members(address, RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, header, times=2)
        if value.get("checkStatus") == CHECK_FAILED:
            raise AdminError(
                f"{names[address]} check error, please check log... errInfo: {value.get('checkResult')}",
                address=address,
                request=RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
            )
        out.put(f"{names[address]} check doing, please wait and get the result from log... \n")
        out.add("brokers", {"brokerName": names[address], "address": address, **value})

    await session.each([address for address in names if address], check)


async def rocksdb_config_to_json(session: Session, given: Given, out: Output) -> None:
    """Makes the broker write the JSON into its own config directory. mqadmin's other way, to open RocksDB's files itself, is not
    supported."""
    if not (given.has("b") or given.has("c")):
        cause = (
            "-p is not served: RocketMQ's RocksDB files cannot be read without its library" if given.has("p") else "missing: -c/--cluster"
        )
        raise UsageError(f"{cause}; -b HOST:PORT or -c CLUSTER lets the broker do it")
    kinds = given.words("t", ";") or list(CONFIG_TYPES)
    unknown = [kind for kind in kinds if kind.lower() not in (known.lower() for known in CONFIG_TYPES)]
    if unknown:
        raise UsageError(f"Invalid configType: {';'.join(unknown)} please input topics/subscriptionGroups/consumerOffsets")
    header = ExportRocksDBConfigToJsonRequestHeader(config_type=";".join(kinds))
    out.line("Use [rpc mode] call broker to export to json file ")

    async def export(address: str) -> None:
        await session.call(address, RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, header, times=6)
        out.add("done", {"address": address, "configType": kinds})

    at_cluster = given.has("c") or not given.has("b")
    addresses = await session.masters_of(given.text("c"), WITH_B) if at_cluster else [given.text("b")]
    await session.each(addresses, export)
    if not session.troubles:
        out.put("broker export done.")


async def export_pop_record(session: Session, given: Given, out: Output) -> None:
    is_dry = given.has("d") and given.text("d").lower() == "false"  # the wrong way round, as in mqadmin: scripts rely on it

    async def export(address: str) -> None:
        name = (await settings_of(session, address, RequestCode.GET_BROKER_CONFIG)).get("brokerName", "")
        if not is_dry:
            await session.call(address, RequestCode.POP_ROLLBACK, times=6)
            out.add("done", {"brokerName": name, "address": address})
        out.line(f"Export broker records, brokerName={name}, brokerAddr={address}, dryRun={java(is_dry)}")

    await session.each(await session.brokers(given), export)
