"""Rows of a sink as messages: which columns it takes, how a row is encoded, what a row cannot be.
RocketMQ: MessageDecoder.encodeMessage, MessageConst (5.3.3 common/message/).
"""

from __future__ import annotations

import difflib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._core.arrow import COLUMN_NAMES
from .._core.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SINK_COLUMNS: dict[str, tuple[str, ...]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string",),
    "properties": ("map<string,string>", "string"),
    "flag": ("int",),
    "queueId": ("int",),
    "delayLevel": ("int",),
    "deliverTimeMs": ("bigint", "int"),
    "messageGroup": ("string",),
}
# What a broker or client writes into a message by itself: not carried over from one that was read.
OWN_PROPERTIES = frozenset(
    {"UNIQ_KEY", "WAIT", "MIN_OFFSET", "MAX_OFFSET", "MSG_REGION", "TRACE_ON", "CLUSTER", "__CRC32#", "TRAN_MSG", "REAL_TOPIC", "REAL_QID"}
)  # fmt: skip
PROPERTIES_SIZE_MAX = 32767
DELAY_LEVEL_MAX = 18


def check_sink_schema(schema: StructType, topic: str | None) -> None:
    """Raises InvalidArgument: a column is missing, unknown or of the wrong type."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "body" not in types:
        raise InvalidArgument(f"the column `body` is required (binary or string); the query has: {', '.join(types)}")
    if topic is None and "topic" not in types:
        raise InvalidArgument("say where to: option 'topic' or a column `topic`")
    for name, type_name in types.items():
        if name in SINK_COLUMNS:
            if type_name not in SINK_COLUMNS[name]:
                raise InvalidArgument(f"column `{name}` is {type_name}; a sink takes {' or '.join(SINK_COLUMNS[name])}")
        elif name not in COLUMN_NAMES:  # a table that was read may be written as it is
            near = difflib.get_close_matches(name, list(SINK_COLUMNS), 1)
            hint = f"did you mean `{near[0]}`?" if near else f"a sink takes: {', '.join(SINK_COLUMNS)}"
            raise InvalidArgument(f"a sink has no column `{name}`; {hint}")


@dataclass(slots=True)
class Message:
    """One row, ready to be sent."""

    row: int
    topic: str
    body: bytes
    properties: dict[str, str]
    flag: int = 0
    queue_id: int | None = None
    group: str | None = None

    @property
    def is_alone(self) -> bool:
        """RocketMQ takes no delayed messages in a batch."""
        return "DELAY" in self.properties or "TIMER_DELIVER_MS" in self.properties

    def encode_properties(self) -> bytes:
        text = "".join(f"{name}\x01{value}\x02" for name, value in self.properties.items()).encode()
        if len(text) > PROPERTIES_SIZE_MAX:
            raise InvalidArgument(f"row {self.row}: properties of {len(text)} bytes; a message takes {PROPERTIES_SIZE_MAX}")
        return text

    def encode(self) -> bytes:
        """As one message of a batch's body."""
        texts = self.encode_properties()
        size = 22 + len(self.body) + len(texts)
        return b"".join((struct.pack(">iiiii", size, 0, 0, self.flag, len(self.body)), self.body, struct.pack(">h", len(texts)), texts))


def messages_of(batch: pa.RecordBatch, topic: str | None, first_row: int) -> Iterator[Message]:
    """The rows of a batch. Raises InvalidArgument that names the row."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in SINK_COLUMNS}
    nothing = [None] * batch.num_rows
    rows = zip(*(columns.get(name, nothing) for name in SINK_COLUMNS), strict=True)
    for row, (body, own_topic, tags, keys, properties, flag, queue_id, level, deliver_ms, group) in enumerate(rows, first_row):
        target = topic or own_topic
        if body is None:
            raise InvalidArgument(f"row {row}: body is null")
        if not target:
            raise InvalidArgument(f"row {row}: topic is null or empty, and there is no option 'topic'")
        texts = _properties(row, properties)
        if tags is not None:
            texts["TAGS"] = tags
        if keys is not None:
            texts["KEYS"] = keys
        if group is not None:
            texts["__SHARDINGKEY"] = group
        _delay(row, texts, level, deliver_ms)
        _check_texts(row, texts)
        yield Message(row, target, body.encode() if isinstance(body, str) else body, texts, flag or 0, queue_id, group)


def _properties(row: int, given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except json.JSONDecodeError as error:
            raise InvalidArgument(f"row {row}: properties are no JSON object: {error}") from None
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"row {row}: properties are no JSON object")
    pairs = given.items() if isinstance(given, Mapping) else given
    return {str(name): str(value) for name, value in pairs if value is not None and name not in OWN_PROPERTIES}


def _delay(row: int, texts: dict[str, str], level: int | None, deliver_ms: int | None) -> None:
    if level is not None and deliver_ms is not None:
        raise InvalidArgument(f"row {row}: delayLevel and deliverTimeMs exclude each other")
    if level is not None and level != 0:
        if not 1 <= level <= DELAY_LEVEL_MAX:
            raise InvalidArgument(f"row {row}: delayLevel {level} is not 1 to {DELAY_LEVEL_MAX}")
        texts["DELAY"] = str(level)
    if deliver_ms is not None:
        texts["TIMER_DELIVER_MS"] = str(deliver_ms)


def _check_texts(row: int, texts: dict[str, str]) -> None:
    for name, value in texts.items():
        if "\x01" in name or "\x02" in name or "\x01" in value or "\x02" in value:
            raise InvalidArgument(f"row {row}: property {name!r} holds a separator byte (1 or 2)")
