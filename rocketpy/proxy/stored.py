"""Messages as brokers answer them, and the properties of those that are sent.
RocketMQ: MessageDecoder (5.3.3 common/message/).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from .._core.errors import ProtocolError

PAIR_END, NAME_END = "\x02", "\x01"
_HEAD: Final = struct.Struct(">IIIiiqqiq")
"""Size, magic, CRC of the body, queue id, flag, queue offset, log offset, system flag, born time stamp."""
_TAIL: Final = struct.Struct(">iqI")
"""Times consumed, offset of the prepared message, size of the body."""
_LONG_TOPIC: Final = 0xDAA320AB
"""The magic of records whose topic's length takes two bytes."""
BORN_HOST_V6, STORE_HOST_V6, COMPRESSED, PREPARED = 1 << 4, 1 << 5, 1, 1 << 2


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One record of an answer; times in ms since the epoch."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    sys_flag: int
    born_ms: int
    born_host: str
    store_ms: int
    store_host: str
    reconsume_times: int
    body: bytes
    properties: Mapping[str, str]

    @property
    def message_id(self) -> str:
        """What its producer called it."""
        return self.properties.get("UNIQ_KEY", "")


def read_properties(text: str) -> dict[str, str]:
    """Pairs without a value are dropped, as RocketMQ does."""
    pairs = (pair.partition(NAME_END) for pair in text.split(PAIR_END))
    return {name: value for name, separator, value in pairs if separator and name}


def write_properties(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}{NAME_END}{value}{PAIR_END}" for name, value in properties.items())


def _host(data: bytes, at: int, is_v6: bool) -> tuple[str, int]:
    """("address:port", offset behind it)."""
    size = 16 if is_v6 else 4
    end = at + size
    if is_v6:
        address = "[" + ":".join(data[place : place + 2].hex() for place in range(at, end, 2)) + "]"
    else:
        address = ".".join(str(byte) for byte in data[at:end])
    return f"{address}:{int.from_bytes(data[end : end + 4])}", end + 4


def _read(data: bytes, at: int) -> tuple[StoredMessage, int]:
    size, magic, _, queue_id, _, queue_offset, log_offset, sys_flag, born_ms = _HEAD.unpack_from(data, at)
    end = at + size
    if size < _HEAD.size or end > len(data):
        raise ProtocolError(f"a message of {size} bytes at offset {at} of an answer of {len(data)}")
    born_host, place = _host(data, at + _HEAD.size, bool(sys_flag & BORN_HOST_V6))
    (store_ms,) = struct.unpack_from(">q", data, place)
    store_host, place = _host(data, place + 8, bool(sys_flag & STORE_HOST_V6))
    reconsume_times, _, body_size = _TAIL.unpack_from(data, place)
    place += _TAIL.size
    body = data[place : place + body_size]
    place += body_size
    width = 2 if magic == _LONG_TOPIC else 1
    topic_end = place + width + int.from_bytes(data[place : place + width])
    topic = data[place + width : topic_end].decode(errors="replace")
    properties_end = topic_end + 2 + int.from_bytes(data[topic_end : topic_end + 2])
    if properties_end > end:
        raise ProtocolError(f"a message of {size} bytes at offset {at} of an answer is longer than it says")
    properties = read_properties(data[topic_end + 2 : properties_end].decode(errors="replace"))
    return (
        StoredMessage(
            topic, queue_id, queue_offset, log_offset, sys_flag, born_ms, born_host, store_ms, store_host, reconsume_times, body, properties
        ),
        end,
    )


def read_messages(data: bytes) -> list[StoredMessage]:
    """All of an answer's. Raises ProtocolError."""
    found, at = [], 0
    while at < len(data):
        try:
            message, at = _read(data, at)
        except struct.error as error:
            raise ProtocolError(f"an answer of {len(data)} bytes ends within the message at offset {at}") from error
        found.append(message)
    return found


def write_batch(messages: Iterable[tuple[bytes, Mapping[str, str]]]) -> bytes:
    """The body of SEND_BATCH_MESSAGE: of each message size, magic, CRC and flag, which nobody reads, its body and its properties."""
    records = []
    for body, properties in messages:
        text = write_properties(properties).encode()
        size = 4 * 5 + len(body) + 2 + len(text)
        records.append(struct.pack(">IIIII", size, 0, 0, 0, len(body)) + body + struct.pack(">H", len(text)) + text)
    return b"".join(records)
