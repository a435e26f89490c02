"""Bodies that brokers and name servers exchange: data versions, topic configurations, registrations.
RocketMQ: DataVersion, TopicConfig, TopicConfigAndMappingSerializeWrapper, RegisterBrokerBody (5.3.3 remoting/protocol/, common/).

A registration is JSON, or "compressed", which is a zlib stream of pieces, each behind its length in 4 bytes:
    data version JSON | count of topics, per topic a line | filter servers JSON | from 5.0 on: count of mappings, per mapping JSON
where a topic's line is `name readQueues writeQueues perm filterType attributesJSON`, in blanks.

Everything read here came over the network: types are checked; counts of topics and the JSON among what was inflated are bounded by the
bytes that were sent, inflated size by INFLATED_MAX, INFLATED_FREE and INFLATION_MAX.
"""

from __future__ import annotations

import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .codes import VERSION_5_0_0
from .headers import HeaderError
from .json_codec import TOLERANT_MAX, Allowance, JsonError, read_json, read_object, unknown_members, write_fastjson, write_json

INFLATED_MAX = 128 * 1024 * 1024
INFLATED_FREE = 16 * 1024 * 1024
"""How much any body may inflate to, however small it is: a few topics with the same long attributes inflate a thousandfold."""
INFLATION_MAX = 256
"""How many times what was sent is the JSON in it, and all of a larger one. 100,000 topics that differ in a number alone and have the
same 500 bytes of attributes inflate 133-fold."""
PERM_READ, PERM_WRITE, PERM_INHERIT = 4, 2, 1
_TOPIC_MEMBERS = frozenset(
    ("attributes", "order", "perm", "readQueueNums", "topicFilterType", "topicName", "topicSysFlag", "writeQueueNums")
)
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class BodyError(HeaderError):
    """A body that cannot be read. The message is the remark for the peer."""


def read_integer(members: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A whole number, or its text, which fastjson accepts too."""
    value = members.get(name)
    if value is None:
        return default
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise BodyError(f"{name}: expected a whole number, found {str(value)[:64]!r}")
    return value


def read_text(members: Mapping[str, Any], name: str, default: str = "") -> str:
    value = members.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise BodyError(f"{name}: expected text, found {str(value)[:64]!r}")
    return value


def read_mapping(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = members.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BodyError(f"{name}: expected an object, found {str(value)[:64]!r}")
    return value


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The version of a table that somebody has. Two copies are the same when all three numbers agree."""

    timestamp: int = 0
    counter: int = 0
    state_version: int = 0

    def next(self, state_version: int = 0, now_ms: int | None = None) -> DataVersion:
        """The version after a change."""
        return DataVersion(_now_ms() if now_ms is None else now_ms, self.counter + 1, state_version)

    def to_json(self) -> dict[str, Any]:
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> DataVersion:
        return cls(read_integer(members, "timestamp"), read_integer(members, "counter"), read_integer(members, "stateVersion"))

    def encode(self) -> bytes:
        return write_json(self.to_json())

    @classmethod
    def decode(cls, body: bytes) -> DataVersion:
        """Raises BodyError."""
        try:
            return cls.from_json(read_object(body))
        except JsonError as error:
            raise BodyError(f"DataVersion: {error}") from None


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic as its broker keeps it."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ | PERM_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Members of releases that are newer than this one."""

    def to_json(self) -> dict[str, Any]:
        return {
            **self.extra,
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic_name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any], name: str = "") -> TopicConfig:
        """Raises BodyError. `name` is used if the object does not name its topic."""
        return cls(
            topic_name=read_text(members, "topicName", name),
            read_queue_nums=read_integer(members, "readQueueNums", 16),
            write_queue_nums=read_integer(members, "writeQueueNums", 16),
            perm=read_integer(members, "perm", PERM_READ | PERM_WRITE),
            topic_filter_type=read_text(members, "topicFilterType", "SINGLE_TAG"),
            topic_sys_flag=read_integer(members, "topicSysFlag"),
            order=members.get("order") in (True, "true"),
            attributes={str(key): str(value) for key, value in read_mapping(members, "attributes").items() if value is not None},
            extra=unknown_members(members, _TOPIC_MEMBERS),
        )

    def to_line(self) -> str:
        """The form in compressed registrations, which leaves out the sys flag and the order flag."""
        attributes = write_fastjson(dict(self.attributes)).decode("utf-8")
        return f"{self.topic_name} {self.read_queue_nums} {self.write_queue_nums} {self.perm} {self.topic_filter_type} {attributes}"

    @classmethod
    def from_line(cls, line: str, allowance: Allowance) -> TopicConfig:
        """Raises BodyError."""
        parts = line.split(" ", 5)
        if len(parts) < 5:
            raise BodyError(f"TopicConfig: expected at least 5 words, found {line[:64]!r}")
        numbers = dict(zip(("readQueueNums", "writeQueueNums", "perm"), parts[1:4], strict=True))
        attributes: Any = {}
        if len(parts) == 6:
            try:
                attributes = read_json(parts[5], tolerant_max=allowance)
            except JsonError:
                attributes = {}  # RocketMQ ignores attributes that it cannot read; no name server needs them
        if not isinstance(attributes, dict):
            attributes = {}
        return cls.from_json({**numbers, "topicName": parts[0], "topicFilterType": parts[4], "attributes": attributes})


@dataclass(frozen=True, slots=True)
class RegisterBrokerBody:
    """What a broker tells a name server about its topics. Mappings of static topics are passed on as they came."""

    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = DataVersion()
    filter_servers: tuple[str, ...] = ()
    queue_mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def encode(self, *, compressed: bool = False) -> bytes:
        return self._encode_compressed() if compressed else self._encode_json()

    @classmethod
    def decode(cls, body: bytes, *, compressed: bool = False, version: int = VERSION_5_0_0) -> RegisterBrokerBody:
        """Raises BodyError. `version` is the broker's release: since 5.0 a compressed body ends with queue mappings."""
        try:
            return cls._decode_compressed(body, version) if compressed else cls._decode_json(body)
        except (JsonError, BodyError) as error:
            raise BodyError(f"Failed to decode RegisterBrokerBody: {error}") from None

    @classmethod
    def decode_topics(cls, body: bytes) -> RegisterBrokerBody:
        """Reads the body of brokers before 3.0.11: the topics alone."""
        try:
            return cls._from_wrapper(read_object(body), ())
        except (JsonError, BodyError) as error:
            raise BodyError(f"Failed to decode TopicConfigSerializeWrapper: {error}") from None

    def _encode_json(self) -> bytes:
        wrapper = {
            "dataVersion": self.data_version.to_json(),
            "mappingDataVersion": DataVersion().to_json(),
            "topicConfigTable": {name: topic.to_json() for name, topic in self.topics.items()},
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {name: dict(mapping) for name, mapping in self.queue_mappings.items()},
        }
        return write_json({"filterServerList": list(self.filter_servers), "topicConfigSerializeWrapper": wrapper})

    def _encode_compressed(self) -> bytes:
        pieces = [_piece(self.data_version.encode()), struct.pack(">i", len(self.topics))]
        pieces += [_piece(topic.to_line().encode("utf-8")) for topic in self.topics.values()]
        pieces += [_piece(write_json(list(self.filter_servers))), struct.pack(">i", len(self.queue_mappings))]
        pieces += [_piece(write_json(mapping)) for mapping in self.queue_mappings.values()]
        return zlib.compress(b"".join(pieces), zlib.Z_BEST_COMPRESSION)

    @classmethod
    def _decode_json(cls, body: bytes) -> RegisterBrokerBody:
        members = read_object(body)
        return cls._from_wrapper(read_mapping(members, "topicConfigSerializeWrapper"), _filter_servers(members.get("filterServerList")))

    @classmethod
    def _from_wrapper(cls, wrapper: Mapping[str, Any], filter_servers: tuple[str, ...]) -> RegisterBrokerBody:
        table = read_mapping(wrapper, "topicConfigTable")
        mappings = read_mapping(wrapper, "topicQueueMappingInfoMap")
        return cls(
            _LazyTopics(table, _topic_of_json),
            DataVersion.from_json(read_mapping(wrapper, "dataVersion")),
            filter_servers,
            {name: read_mapping(mappings, name) for name in mappings},
        )

    @classmethod
    def _decode_compressed(cls, body: bytes, version: int) -> RegisterBrokerBody:
        pieces = _Pieces(_inflate(body), len(body))
        allowance = Allowance(INFLATION_MAX * len(body), min(len(body), TOLERANT_MAX))
        data_version = DataVersion.from_json(read_object(pieces.take(), tolerant_max=allowance))
        lines = (pieces.take_text() for _ in range(pieces.count()))
        topics = {line.partition(" ")[0]: line for line in lines}
        try:
            filter_servers = _filter_servers(read_json(pieces.take(), tolerant_max=allowance))
        except JsonError:
            filter_servers = ()
        mappings: dict[str, Mapping[str, Any]] = {}
        if version >= VERSION_5_0_0:
            for _ in range(pieces.count()):
                mapping = read_object(pieces.take(), tolerant_max=allowance)
                mappings[read_text(mapping, "topic")] = mapping
        return cls(_LazyTopics(topics, partial(_topic_of_line, allowance)), data_version, filter_servers, mappings)


def _topic_of_json(value: Any, name: str) -> TopicConfig:
    return TopicConfig.from_json(read_mapping({name: value}, name), name)


def _topic_of_line(allowance: Allowance, line: str, name: str) -> TopicConfig:
    return TopicConfig.from_line(line, allowance)


class _LazyTopics(Mapping[str, TopicConfig]):
    """Topics that are decoded only when they are looked at, because a broker repeats thousands of them every 30 s that nobody needs again.
    Each look spends some of the body's allowance. Access raises BodyError."""

    __slots__ = ("_read", "_table")

    def __init__(self, table: dict[str, Any], read: Callable[[Any, str], TopicConfig]) -> None:
        self._table = table
        self._read = read

    def __getitem__(self, name: str) -> TopicConfig:
        value = self._table[name]
        try:
            return self._read(value, name)
        except BodyError as error:
            raise BodyError(f"Failed to decode RegisterBrokerBody: {error}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def keys(self) -> KeysView[str]:
        return self._table.keys()


def _filter_servers(value: Any) -> tuple[str, ...]:
    return tuple(str(server) for server in value) if isinstance(value, list) else ()


def _piece(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _inflate(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    size_max = min(INFLATED_MAX, max(INFLATED_FREE, INFLATION_MAX * len(body)))
    try:
        inflated = stream.decompress(body, size_max)
    except zlib.error as error:
        raise BodyError(f"not a zlib stream: {error}") from None
    if not stream.eof:
        if not stream.unconsumed_tail:
            raise BodyError("End of compressed data has reached")
        raise BodyError(f"more than {size_max} bytes inflated, the most of {len(body)} that were sent: set compressedRegister=false there")
    return inflated


class _Pieces:
    """A cursor over length-prefixed pieces of a body."""

    def __init__(self, data: bytes, sent: int) -> None:
        """`sent`: how many bytes the pieces were inflated from."""
        self._data = data
        self._at = 0
        self._sent = sent

    def count(self) -> int:
        """Reads how many pieces follow. Each takes at least 4 bytes here and one byte of what was sent, since no two have the same name."""
        count, count_max = self._number(), min((len(self._data) - self._at) // 4, self._sent)
        if not 0 <= count <= count_max:
            raise BodyError(f"{count} entries announced at byte {self._at - 4}, at most {count_max} of {self._sent} bytes that were sent")
        return count

    def take(self) -> bytes:
        size = self._number()
        if not 0 <= size <= len(self._data) - self._at:
            raise BodyError(f"a piece of {size} bytes announced at byte {self._at - 4} of {len(self._data)}")
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def take_text(self) -> str:
        try:
            return self.take().decode("utf-8")
        except UnicodeDecodeError as error:
            raise BodyError(f"text is not UTF-8: {error.reason}") from None

    def _number(self) -> int:
        if len(self._data) - self._at < 4:
            raise BodyError("End of compressed data has reached")
        self._at += 4
        return int.from_bytes(self._data[self._at - 4 : self._at], "big", signed=True)
