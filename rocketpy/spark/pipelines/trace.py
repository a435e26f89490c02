"""Trace messages as tables: what clients with tracing on write to RMQ_SYS_TRACE_TOPIC.
RocketMQ: TraceDataEncoder (5.3.3 client/trace/): records end with \\x02, fields with \\x01.

Anybody may write there: what is not a number is null, what is not a record is left out.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..job import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
OF_TOPICS = frozenset(
    {
        "startingoffsets", "endingoffsets", "startingoffsetsbytimestamp", "endingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy",
        "subexpression", "consumergroup", "group", "rocketmq.client.consumergroup",
    }
)  # fmt: skip
"""Options that say something about the topics of a pipeline, and nothing about the trace topic."""


def trace_table(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """The trace topic, over the time that the pipeline's topics are read."""
    kept = [(name, value) for name, value in options.option if name.lower() not in OF_TOPICS]
    chosen = argparse.Namespace(**{**vars(options), "option": kept})
    return table(spark, chosen, topics=TRACE_TOPIC, startingOffsetsByTimestampStrategy="latest")


def _records(traces: DataFrame, kind: str) -> DataFrame:
    from pyspark.sql import functions as f

    records = traces.select(f.explode(f.split(f.col("body").cast("string"), "\x02")).alias("record"))
    return records.select(f.split("record", "\x01").alias("p")).filter(f.col("p")[0] == kind)


def published(traces: DataFrame) -> DataFrame:
    """at (ms), producerGroup, topic, msgId, bytes, costMs, isSuccess; also from old clients, whose records lack the broker's id."""
    return _records(traces, "Pub").selectExpr(
        "try_cast(get(p, 1) as long) as at", "get(p, 3) as producerGroup", "get(p, 4) as topic", "get(p, 5) as msgId",
        "try_cast(get(p, 9) as long) as bytes", "try_cast(get(p, 10) as long) as costMs",
        "coalesce(get(p, if(size(p) = 13, 12, 13)), 'true') = 'true' as isSuccess",
    ).filter("at is not null")  # fmt: skip


def delivered(traces: DataFrame) -> DataFrame:
    """at (ms), consumerGroup, requestId, msgId, retryTimes."""
    return _records(traces, "SubBefore").selectExpr(
        "try_cast(get(p, 1) as long) as at", "get(p, 3) as consumerGroup", "get(p, 4) as requestId", "get(p, 5) as msgId",
        "try_cast(get(p, 6) as int) as retryTimes",
    ).filter("at is not null")  # fmt: skip
