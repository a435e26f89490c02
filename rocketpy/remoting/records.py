"""Records of the commit log as brokers answer them, one after the other.
RocketMQ: MessageDecoder.decodesBatch, decodeMessage (5.3.3 common/)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from .._core.errors import ProtocolError, RocketpyError
from .._core.results import Message
from .._core.store import decode_message, host_bytes

SIZE_BYTES = 4
UNWRAPPED = 0xC0
"""Sys flags of a batch in one record (csrc/store/inner_batch.h)."""

_INNER_HEAD = struct.Struct(">12xiI")
"""The head of a message in a batch: flag and body size, after fields that no client looks at."""


def read_records(body: bytes) -> list[Message]:
    """All records in these bytes. Raises ProtocolError if they are not records."""
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


def place_id(store_host: str, log_offset: int) -> str:
    """The message id that names a message by where it is stored. RocketMQ: MessageDecoder.createMessageId."""
    host, is_v6 = host_bytes(store_host)
    return (host[: 20 if is_v6 else 8] + log_offset.to_bytes(8, signed=True)).hex().upper()


def unwrapped(records: list[Message]) -> Iterator[Message]:
    """The messages that consumers get from records: a batch becomes its messages, each at its own queue offset. Raises ProtocolError."""
    for record in records:
        if record.sys_flag & UNWRAPPED == UNWRAPPED:
            yield from _inner_messages(record)
        else:
            yield record


def _inner_messages(record: Message) -> Iterator[Message]:
    batch, at, number = record.body, 0, 0
    while at < len(batch):
        try:
            flag, size = _INNER_HEAD.unpack_from(batch, at)
            body_at, properties_at = at + _INNER_HEAD.size, at + _INNER_HEAD.size + size + 2
            (properties_size,) = struct.unpack_from(">H", batch, properties_at - 2)
        except struct.error as error:
            raise ProtocolError(f"the batch at commit log offset {record.commit_log_offset} is cut off: {error}") from error
        at = properties_at + properties_size
        if at > len(batch):
            raise ProtocolError(f"the batch at commit log offset {record.commit_log_offset} is cut off")
        pairs = (pair.partition("\x01") for pair in batch[properties_at:at].decode("utf-8", "replace").split("\x02"))
        properties = {name: value for name, _, value in pairs if name and value}
        body = batch[body_at : body_at + size]
        yield record._replace(queue_offset=record.queue_offset + number, flag=flag, body=body, properties=properties)
        number += 1
