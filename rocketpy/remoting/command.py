"""What handlers and callers exchange besides the native Command: a response to be, an error with a code, and fields in either shape.
RocketMQ: RemotingCommand (createResponseCommand), MQBrokerException (5.3.3 remoting/, client/).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._core.errors import RocketpyError
from .codes import ResponseCode, response_name
from .headers import Header

if TYPE_CHECKING:
    from .._core.remoting import Command

Fields = Header | Mapping[str, str] | None
"""The fields of a command: a typed header, or names and texts as they travel."""


def encode_fields(fields: Fields) -> Mapping[str, str] | None:
    """The fields as the codec wants them."""
    return fields.encode() if isinstance(fields, Header) else fields


@dataclass(frozen=True, slots=True)
class Response:
    """A handler's answer. The encoding, opaque and flags come from the request."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    fields: Fields = None
    body: bytes = b""


class CommandError(RocketpyError):
    """A response that is not SUCCESS: raised by handlers to answer with a code, by the client for an answer with one."""

    def __init__(self, code: int, remark: str | None = None, *, address: str = "") -> None:
        super().__init__(remark or response_name(code))
        self.code = code
        self.remark = remark
        self.address = address

    def __str__(self) -> str:
        """As MQBrokerException prints itself, so that searches for it keep working."""
        place = f" BROKER: {self.address}" if self.address else ""
        return f"CODE: {int(self.code)}  DESC: {self.remark or response_name(self.code)}{place}"


def check_success(response: Command, address: str = "") -> Command:
    """The response itself, or CommandError when its code is not SUCCESS."""
    if response.code != ResponseCode.SUCCESS:
        raise CommandError(response.code, response.remark, address=address)
    return response
