"""One broker, or all of a cluster: status, settings, cleaning. RocketMQ: tools/command/broker/, container/ (5.5.0)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from ..remoting.codes import RequestCode
from ..remoting.headers import AddBrokerRequestHeader, RemoveBrokerRequestHeader, ResetMasterFlushOffsetHeader
from ..remoting.json_codec import JsonError, read_object, write_fastjson
from .beside import ask_beside, show_beside
from .cluster import NO_MASTER
from .command_line import Given
from .errors import AdminError, UsageError
from .output import Output
from .properties import one_line, settings_of
from .session import Session
from .texts import human_second

ENGINES = {"R": "ROCKSDB_TIMELINE", "F": "FILE_TIME_WHEEL"}


async def runtime_table(session: Session, address: str) -> dict[str, str]:
    """What a broker reports about itself. Raises AdminError."""
    value = await session.members(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    table = value.get("table")
    return {str(name): str(each) for name, each in sorted(table.items())} if isinstance(table, dict) else {}


async def broker_status(session: Session, given: Given, out: Output) -> None:
    def show(address: str, table: dict[str, str]) -> None:
        for name, value in table.items():
            out.line(f"{name:32}: {value}" if given.has("b") else f"{address:24} {name:32}: {value}")
        out.add("brokers", {"address": address, "table": table})

    await ask_beside(session, await session.brokers(given), runtime_table, show)


Work = Callable[[Session, Output, str], Awaitable[None]]


async def with_titles(session: Session, given: Given, out: Output, work: Work, lead: str = "") -> None:
    """Does the work at the broker of -b, or at every master and slave of -c beside each other, each under a title."""
    if given.has("b"):
        places = [(given.text("b"), given.text("b"))]
    else:
        places = []
        for master, slaves in (await session.cluster()).masters_and_slaves(given.text("c")):
            places.append((f"Master: {master}", master))
            places += [(f"My Master: {master}=====Slave: {slave}", slave) for slave in slaves]

    async def show(part: Session, aside: Output, place: tuple[str, str]) -> None:
        title, address = place
        aside.line(f"{lead}============{title}============")
        if address != NO_MASTER:
            await work(part, aside, address)

    await show_beside(session, out, places, show)


async def get_broker_config(session: Session, given: Given, out: Output) -> None:
    async def show(part: Session, aside: Output, address: str) -> None:
        settings = await settings_of(part, address, RequestCode.GET_BROKER_CONFIG)
        for name, value in settings.items():
            aside.line(f"{name:50}=  {value}")
        aside.line()
        aside.add("brokers", {"address": address, "settings": settings})

    await with_titles(session, given, out, show)


async def update_broker_config(session: Session, given: Given, out: Output) -> None:
    body = one_line(given.text("k"), given.text("v"))

    async def change(address: str) -> None:
        response = await session.call(address, RequestCode.UPDATE_BROKER_CONFIG, None, body)
        out.done(
            f"update broker config success, {address}",
            address=address,
            key=given.text("k"),
            value=given.text("v"),
            remark=response.remark,
        )
        if response.remark:  # rocketpy's brokers say which change is not in force, or does not last, and why
            out.line(f"{address}: {response.remark}")

    await session.each(await (session.brokers(given) if given.has("a") else session.masters(given)), change)


async def _everywhere(session: Session, given: Given, out: Output, code: RequestCode) -> None:
    """Sends a request to the broker of -b, or to all of a cluster, or of all clusters."""
    if given.has("b"):
        addresses = [given.text("b")]
    else:
        cluster = await session.cluster()
        names = [given.text("c")] if given.has("c") else list(cluster.clusters)
        addresses = [address for name in names for address in cluster.addresses(name)]

    async def work(address: str) -> None:
        await session.call(address, code, times=2)
        out.add("done", {"address": address})

    await session.each(addresses, work)
    if not addresses:
        which = f" of cluster {given.text('c')}" if given.has("c") else ""
        session.note(AdminError(f"the name servers know no broker{which}", remedy="-b HOST:PORT names one"))
    out.put("false" if session.troubles else "success")


async def clean_expired_cq(session: Session, given: Given, out: Output) -> None:
    await _everywhere(session, given, out, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)


async def clean_unused_topic(session: Session, given: Given, out: Output) -> None:
    await _everywhere(session, given, out, RequestCode.CLEAN_UNUSED_TOPIC)


async def delete_expired_commit_log(session: Session, given: Given, out: Output) -> None:
    await _everywhere(session, given, out, RequestCode.DELETE_EXPIRED_COMMITLOG)


async def set_commit_log_read_ahead_mode(session: Session, given: Given, out: Output) -> None:
    mode = given.text("m")
    if mode not in ("0", "1"):
        raise UsageError("set the read mode error; 0 is default, 1 random read")

    async def change(part: Session, aside: Output, address: str) -> None:
        response = await part.call(address, RequestCode.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": mode})
        aside.done(f"commitLog set readAhead mode rstStr{response.remark or 'null'}", address=address, remark=response.remark)

    await with_titles(session, given, out, change, " ")


def readable_cold_flow(value: dict[str, Any]) -> dict[str, Any]:
    """The table with its times as readable texts."""
    table = value.get("runtimeTable")
    shown = dict(value)
    if isinstance(table, dict):
        shown["runtimeTable"] = {group: _with_times(row) if isinstance(row, dict) else row for group, row in table.items()}
    return shown


def _with_times(row: dict[str, Any]) -> dict[str, Any]:
    renamed = {"lastColdReadTimeMills": "lastColdReadTimeFormat", "createTimeMills": "createTimeFormat"}
    shown = {name: each for name, each in row.items() if name not in renamed}
    return shown | {text: human_second(int(row.get(name) or 0)) for name, text in renamed.items()}


async def get_cold_data_flow_ctr_info(session: Session, given: Given, out: Output) -> None:
    async def show(part: Session, aside: Output, address: str) -> None:
        response = await part.call(address, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
        if not response.body:
            aside.line(f"Broker[{address}] has no cold ctr table !")
            return
        try:
            value = read_object(response.body)
        except JsonError as error:
            raise AdminError(
                f"the answer cannot be read: {error}", address=address, request=RequestCode.GET_COLD_DATA_FLOW_CTR_INFO
            ) from error
        aside.line(write_fastjson(readable_cold_flow(value), pretty=True).decode())
        aside.add("brokers", {"address": address, **value})

    await with_titles(session, given, out, show, " ")


async def update_cold_data_flow(session: Session, given: Given, out: Output) -> None:
    body = one_line(given.text("g"), given.text("v"))

    async def change(address: str) -> None:
        await session.call(address, RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, None, body)
        out.done(f"updateColdDataFlowCtrGroupConfig success, {address}", address=address)

    await session.each(await session.masters(given), change)


async def remove_cold_data_flow(session: Session, given: Given, out: Output) -> None:
    async def remove(address: str) -> None:
        await session.call(address, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, None, given.text("g").encode())
        out.done(f"remove broker cold read threshold success, {address}", address=address)

    await session.each(await session.masters(given), remove)


async def reset_master_flush_offset(session: Session, given: Given, out: Output) -> None:
    offset = given.number("o")
    header = ResetMasterFlushOffsetHeader(master_flush_offset=offset)
    await session.call(given.text("b"), RequestCode.RESET_MASTER_FLUSH_OFFSET, header)
    out.done(f"reset master flush offset to {offset} success", address=given.text("b"), offset=offset)


async def switch_timer_engine(session: Session, given: Given, out: Output) -> None:
    engine = ENGINES.get(given.text("e"))
    if engine is None:
        raise UsageError("switchTimerEngine engineType must be R or F")

    async def switch(address: str) -> None:
        await session.call(address, RequestCode.SWITCH_TIMER_ENGINE, {"E_T": given.text("e")})
        out.done(f"switchTimerEngine to {engine} success, {address}", address=address, engine=engine)

    await session.each(await session.masters(given), switch)


async def add_broker(session: Session, given: Given, out: Output) -> None:
    await session.call(given.text("c"), RequestCode.ADD_BROKER, AddBrokerRequestHeader(config_path=given.text("b")), times=2)
    out.done(f"add broker to {given.text('c')} success", address=given.text("c"))


async def remove_broker(session: Session, given: Given, out: Output) -> None:
    cluster, _, rest = given.text("b").partition(":")
    name, _, broker_id = rest.rpartition(":")
    if not cluster or not name or not re.fullmatch("[0-9]{1,18}", broker_id):
        raise UsageError(f"-b/--brokerIdentity: {given.text('b')!r} is not CLUSTER:BROKERNAME:BROKERID")
    header = RemoveBrokerRequestHeader(broker_cluster_name=cluster, broker_name=name, broker_id=int(broker_id))
    await session.call(given.text("c"), RequestCode.REMOVE_BROKER, header, times=2)
    out.done(f"remove broker from {given.text('c')} success", address=given.text("c"))
