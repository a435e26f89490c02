"""Records as a broker stores them, read by plain pulls: whole, so that two products can be compared byte by byte.

What may differ between two runs of one product is evened out: addresses, physical offsets, the time of storing, and the order of
properties, which RocketMQ takes from a hash map. The sizes of records tell that nothing else was added.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace

from . import wire

PULL, MAX_OFFSET = 11, 30
_HEAD = struct.Struct(">IIIiiqqiq4s4xq4s4xiqI")
"""From the record's size to the body's; of the two addresses without their ports."""
_LONG_TOPIC = 0xDAA320AB
"""The magic of records whose topic's length takes two bytes."""


@dataclass(frozen=True, slots=True)
class Record:
    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties: str

    @property
    def pairs(self) -> dict[str, str]:
        pairs = [pair.split("\x01", 1) for pair in self.properties.split("\x02") if pair]
        assert len(dict(pairs)) == len(pairs), f"a property is there twice: {self.properties!r}"
        return dict(pairs)

    def evened(self) -> Record:
        pairs = sorted(pair for pair in self.properties.split("\x02"))
        text = re.sub("(ORIGIN_MESSAGE_ID)\x01[0-9A-F]{32}", "\\1", "\x02".join(pairs))
        return replace(self, physical_offset=0, store_timestamp=0, properties=text)


def _record(data: bytes, at: int) -> Record:
    *head, body_size = _HEAD.unpack_from(data, at)
    place = at + _HEAD.size
    body = data[place : place + body_size]
    place += body_size
    width = 2 if head[1] == _LONG_TOPIC else 1
    topic_size = int.from_bytes(data[place : place + width])
    place += width
    topic = data[place : place + topic_size].decode()
    place += topic_size
    (properties_size,) = struct.unpack_from(">H", data, place)
    place += 2 + properties_size
    assert place == at + head[0], "the record is as long as it says"
    return Record(*head, body, topic, data[place - properties_size : place].decode())


def parse(body: bytes) -> list[Record]:
    """What an answer holds."""
    found, at = [], 0
    while at < len(body):
        found.append(_record(body, at))
        at += found[-1].size
    return found


def queue_end(address: str, topic: str, queue_id: int) -> int:
    reply = wire.call(address, MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})
    return int(reply.fields["offset"]) if reply.code == 0 else 0


def records(address: str, topic: str, queue_id: int) -> list[Record]:
    """All of a queue from 0 on."""
    found: list[Record] = []
    while len(found) < queue_end(address, topic, queue_id):
        fields = {
            "consumerGroup": "readers", "topic": topic, "queueId": str(queue_id), "queueOffset": str(len(found)), "maxMsgNums": "32",
            "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            "expressionType": "TAG",
        }  # fmt: skip
        reply = wire.call(address, PULL, fields)
        assert reply.code == 0, (topic, queue_id, len(found), reply)
        found += parse(reply.body)
        assert [each.queue_offset for each in found] == list(range(len(found)))
    return found
