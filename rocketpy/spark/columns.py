"""The columns of the tables: their Spark types, in the order that is part of the product (the rocketmq-spark connector's nine first);
and those that a sink takes. What a row becomes, and what it cannot be, is decided in csrc/arrow/sink_message.h."""

from __future__ import annotations

import difflib

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .._core.arrow import COLUMN_NAMES
from .._core.errors import InvalidArgument

AUDIT_COLUMNS = ("valid", "damage")

TYPES: dict[str, DataType] = {
    **{name: StringType() for name in COLUMN_NAMES},
    **{name: IntegerType() for name in ("flag", "queueId", "bodyCrc", "sysFlag", "reconsumeTimes")},
    **{name: LongType() for name in ("queueOffset", "commitLogOffset", "preparedTransactionOffset")},
    **{name: TimestampType() for name in ("bornTimestamp", "storeTimestamp")},
    "body": BinaryType(),
    "valid": BooleanType(),
}

CONSUME_QUEUE_SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("queueId", IntegerType()),
        StructField("queueOffset", LongType()),
        StructField("commitLogOffset", LongType()),
        StructField("size", IntegerType()),
        StructField("tagsCode", LongType()),
    ]
)
INDEX_SCHEMA = StructType(
    [
        StructField("file", StringType()),
        StructField("entry", IntegerType()),
        StructField("keyHash", IntegerType()),
        StructField("commitLogOffset", LongType()),
        StructField("storeTimestamp", TimestampType()),
        StructField("previousEntry", IntegerType()),
    ]
)


def record_schema(*, properties_as_map: bool = False, audit: bool = False) -> StructType:
    """The schema of a record table."""
    names = [name for name in COLUMN_NAMES if audit or name not in AUDIT_COLUMNS]
    types = {**TYPES, "properties": MapType(StringType(), StringType()) if properties_as_map else StringType()}
    return StructType([StructField(name, types[name]) for name in names])


def check_columns(wanted: StructType, known: StructType) -> tuple[str, ...]:
    """The names of a schema given by the user (`.schema("topic string, …")`), which picks columns. Raises InvalidArgument."""
    types = {field.name: field.dataType for field in known.fields}
    for field in wanted.fields:
        if field.name not in types:
            raise InvalidArgument(f"there is no column {field.name!r}; there are: {', '.join(types)}")
        if field.dataType != types[field.name]:
            raise InvalidArgument(f"column {field.name!r} is {types[field.name].simpleString()}, not {field.dataType.simpleString()}")
    return tuple(field.name for field in wanted.fields)


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
