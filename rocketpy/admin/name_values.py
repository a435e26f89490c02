"""Values that name servers keep by namespace and key. RocketMQ: MQClientAPIImpl.putKVConfigValue, createOrUpdateOrderConf (5.5.0)."""

from __future__ import annotations

from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import DeleteKVConfigRequestHeader, GetKVConfigRequestHeader, PutKVConfigRequestHeader
from .errors import refused
from .session import Session


async def put_value(session: Session, namespace: str, key: str, value: str) -> None:
    """Sets a value at every name server. Failures are reported at the end."""

    async def put(address: str) -> None:
        await session.call(address, RequestCode.PUT_KV_CONFIG, PutKVConfigRequestHeader(namespace=namespace, key=key, value=value))

    await session.each(session.named(), put)


async def delete_value(session: Session, namespace: str, key: str) -> None:
    async def delete(address: str) -> None:
        await session.call(address, RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequestHeader(namespace=namespace, key=key))

    await session.each(session.named(), delete)


async def get_value(session: Session, namespace: str, key: str) -> str | None:
    """The value; None if there is none. Raises AdminError."""
    code = RequestCode.GET_KV_CONFIG
    response = await session.ask_name_server(code, GetKVConfigRequestHeader(namespace=namespace, key=key))
    if response.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    if response.code != ResponseCode.SUCCESS:
        raise refused(";".join(session.named()), code, response.code, response.remark)
    return response.fields.get("value")


def merged_order(before: str, conf: str) -> str:
    """An order configuration in which the part of one broker is replaced."""
    parts = {part.partition(":")[0]: part for part in before.split(";") if part}
    parts[conf.partition(":")[0]] = conf
    return ";".join(parts.values())
