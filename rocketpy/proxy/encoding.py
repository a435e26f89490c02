"""What is sent to brokers: properties and batches as they want them. RocketMQ: MessageDecoder (5.3.3 common/message/)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

PAIR_END, NAME_END = "\x02", "\x01"
COMPRESSED, PREPARED = 1, 1 << 2
"""Of the system flag."""


def write_properties(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}{NAME_END}{value}{PAIR_END}" for name, value in properties.items())


def write_batch(messages: Iterable[tuple[bytes, Mapping[str, str]]]) -> bytes:
    """The body of SEND_BATCH_MESSAGE. Each message has its size; magic, CRC and flag, which nobody reads; its body and its properties."""
    records = []
    for body, properties in messages:
        text = write_properties(properties).encode()
        size = 4 * 5 + len(body) + 2 + len(text)
        records.append(struct.pack(">IIIII", size, 0, 0, 0, len(body)) + body + struct.pack(">H", len(text)) + text)
    return b"".join(records)
