"""Records of the commit log as brokers answer them, one after the other. RocketMQ: MessageDecoder.decodesBatch (5.3.3 common/)."""

from __future__ import annotations

from .._core.errors import ProtocolError, RocketpyError
from .._core.results import Message
from .._core.store import decode_message

SIZE_BYTES = 4


def read_records(body: bytes) -> list[Message]:
    """All of them. Raises ProtocolError for other bytes."""
    found = []
    begin = 0
    while begin < len(body):
        end = begin + int.from_bytes(body[begin : begin + SIZE_BYTES])
        if end - begin <= SIZE_BYTES or end > len(body):
            raise ProtocolError(f"a message of {end - begin} bytes at byte {begin} of {len(body)}")
        try:
            found.append(decode_message(body[begin:end], check_crc=False))
        except RocketpyError as error:
            raise ProtocolError(f"the message at byte {begin} cannot be read: {error}") from error
        begin = end
    return found
