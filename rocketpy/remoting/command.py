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
    """The fields in the form that the codec takes."""
    return fields.encode() if isinstance(fields, Header) else fields


@dataclass(frozen=True, slots=True)
class Response:
    """A handler's answer. Encoding, opaque and flags are taken from the request."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    fields: Fields = None
    body: bytes = b""


class CommandError(RocketpyError):
    """A response other than SUCCESS. Handlers raise it to answer with a code, the client raises it for such an answer."""

    def __init__(self, code: int, remark: str | None = None, *, address: str = "") -> None:
        super().__init__(remark or response_name(code))
        self.code = code
        self.remark = remark
        self.address = address

    def __str__(self) -> str:
        """In the form of MQBrokerException, so that operators' searches for it keep working."""
        place = f" BROKER: {self.address}" if self.address else ""
        return f"CODE: {int(self.code)}  DESC: {self.remark or response_name(self.code)}{place}"


def check_success(response: Command, address: str = "") -> Command:
    """Returns the response. Raises CommandError if its code is not SUCCESS."""
    if response.code != ResponseCode.SUCCESS:
        raise CommandError(response.code, response.remark, address=address)
    return response
