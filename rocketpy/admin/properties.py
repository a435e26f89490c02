"""Settings as servers send and take them, lines of key=value. RocketMQ: MixAll.properties2String, string2Properties (5.5.0)."""

from __future__ import annotations

from ..config import ConfigError, properties_text, read_properties
from ..remoting.codes import RequestCode
from .errors import AdminError
from .session import Session


def one_line(key: str, value: str) -> bytes:
    """Returns the setting. Raises AdminError if it would be more than one."""
    if not key or any(mark in key + value for mark in "\r\n") or "=" in key:
        raise AdminError(f"{key!r} and {value!r} cannot be one line key=value")
    return f"{key}={value}\n".encode()


async def settings_of(session: Session, address: str, code: RequestCode) -> dict[str, str]:
    """A server's settings, in order. Raises AdminError."""
    response = await session.call(address, code)
    try:
        entries = read_properties(properties_text(response.body))
    except ConfigError as error:
        raise AdminError(f"the settings cannot be read: {error}", address=address, request=code) from error
    return {entry.key: entry.value for entry in sorted(entries, key=lambda entry: entry.key)}
