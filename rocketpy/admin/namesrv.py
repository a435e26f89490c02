"""Name servers: values, settings, which brokers may be written to. RocketMQ: tools/command/namesrv/ (5.5.0)."""

from __future__ import annotations

import re

from ..remoting.codes import RequestCode
from ..remoting.headers import AddWritePermOfBrokerRequestHeader, WipeWritePermOfBrokerRequestHeader
from .command_line import Given
from .errors import AdminError
from .name_values import delete_value, put_value
from .output import Output
from .properties import one_line, settings_of
from .session import Session


async def update_kv_config(session: Session, given: Given, out: Output) -> None:
    await put_value(session, given.text("s"), given.text("k"), given.text("v"))
    if not session.troubles:
        out.done("create or update kv config to namespace success.", namespace=given.text("s"), key=given.text("k"), value=given.text("v"))


async def delete_kv_config(session: Session, given: Given, out: Output) -> None:
    await delete_value(session, given.text("s"), given.text("k"))
    if not session.troubles:
        out.done("delete kv config from namespace success.", namespace=given.text("s"), key=given.text("k"))


async def get_namesrv_config(session: Session, given: Given, out: Output) -> None:
    async def show(address: str) -> None:
        settings = await settings_of(session, address, RequestCode.GET_NAMESRV_CONFIG)
        out.line(f"============{address}============")
        for name, value in settings.items():
            out.line(f"{name:50}=  {value}")
        out.add("nameServers", {"address": address, "settings": settings})

    await session.each(session.named(), show)


async def update_namesrv_config(session: Session, given: Given, out: Output) -> None:
    key, value = given.text("k"), given.text("v")
    body = one_line(key, value)

    async def change(address: str) -> None:
        await session.call(address, RequestCode.UPDATE_NAMESRV_CONFIG, None, body)
        out.add("done", {"address": address, "key": key, "value": value})

    await session.each(session.named(), change)
    if not session.troubles:
        out.line(f"update name server config success![{', '.join(session.named())}]\n{key} : {value}")


async def wipe_write_perm(session: Session, given: Given, out: Output) -> None:
    header = WipeWritePermOfBrokerRequestHeader(broker_name=given.text("b"))
    await _write_perm(session, given, out, "wipe", RequestCode.WIPE_WRITE_PERM_OF_BROKER, header.encode(), "wipeTopicCount")


async def add_write_perm(session: Session, given: Given, out: Output) -> None:
    header = AddWritePermOfBrokerRequestHeader(broker_name=given.text("b"))
    await _write_perm(session, given, out, "add", RequestCode.ADD_WRITE_PERM_OF_BROKER, header.encode(), "addTopicCount")


async def _write_perm(
    session: Session, given: Given, out: Output, verb: str, code: RequestCode, fields: dict[str, str], counted: str
) -> None:
    name = given.text("b")

    async def change(address: str) -> None:
        try:
            response = await session.call(address, code, fields)
        except AdminError:
            out.line(f"{verb} write perm of broker[{name}] in name server[{address}] Failed")
            raise
        count = response.fields.get(counted, "0")
        line = f"{verb} write perm of broker[{name}] in name server[{address}] OK, {count}"
        out.done(line, nameServer=address, brokerName=name, topics=int(count) if re.fullmatch("[0-9]{1,18}", count) else None)
        if count == "0":
            remedy = "clusterList shows the names of the brokers there are"
            raise AdminError(f"no topic of a broker {name!r} is known there", remedy=remedy, address=address, request=code)

    await session.each(session.named(), change)
