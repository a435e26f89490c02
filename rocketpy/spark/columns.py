"""The columns of the tables: their Spark types, in the order that is part of the product (the rocketmq-spark connector's nine first)."""

from __future__ import annotations

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
