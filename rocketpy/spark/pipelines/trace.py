"""Trace messages as tables: what clients with tracing on write to RMQ_SYS_TRACE_TOPIC.
RocketMQ: TraceDataEncoder (5.3.3 client/trace/): records end with \\x02, fields with \\x01.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


def _records(traces: DataFrame, kind: str) -> DataFrame:
    from pyspark.sql import functions as f

    records = traces.select(f.explode(f.split(f.col("body").cast("string"), "\x02")).alias("record"))
    return records.select(f.split("record", "\x01").alias("p")).filter(f.col("p")[0] == kind)


def published(traces: DataFrame) -> DataFrame:
    """at (ms), producerGroup, topic, msgId, bytes, costMs, isSuccess."""
    return _records(traces, "Pub").selectExpr(
        "cast(get(p, 1) as long) as at", "get(p, 3) as producerGroup", "get(p, 4) as topic", "get(p, 5) as msgId",
        "cast(get(p, 9) as long) as bytes", "cast(get(p, 10) as long) as costMs", "coalesce(get(p, 13), 'true') = 'true' as isSuccess",
    )  # fmt: skip


def delivered(traces: DataFrame) -> DataFrame:
    """at (ms), consumerGroup, requestId, msgId, retryTimes."""
    return _records(traces, "SubBefore").selectExpr(
        "cast(get(p, 1) as long) as at", "get(p, 3) as consumerGroup", "get(p, 4) as requestId", "get(p, 5) as msgId",
        "cast(get(p, 6) as int) as retryTimes",
    )  # fmt: skip
