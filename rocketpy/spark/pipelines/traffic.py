"""traffic: messages and bytes per topic and minute, and sends and deliveries per group and minute where trace messages tell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..._core.errors import NotFound
from ..cluster import Cluster, Endpoint, name_server_addresses
from ..job import arguments, say, session, table
from ..report import Report
from .trace import TRACE_TOPIC, delivered, published, trace_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def per_topic(messages: DataFrame) -> DataFrame:
    """topic, minute, messages, bytes."""
    return messages.groupBy("topic", "minute").agg({"*": "count", "size": "sum"}).withColumnsRenamed(
        {"count(1)": "messages", "sum(size)": "bytes"}
    ).orderBy("topic", "minute")  # fmt: skip


def per_group(traces: DataFrame) -> DataFrame:
    """consumerGroup, minute, deliveries."""
    rows = delivered(traces).selectExpr("consumerGroup", "date_trunc('minute', timestamp_millis(at)) as minute")
    return rows.groupBy("consumerGroup", "minute").count().withColumnRenamed("count", "deliveries").orderBy("consumerGroup", "minute")


def per_producer(traces: DataFrame) -> DataFrame:
    """producerGroup, topic, minute, sends, failed, as clients saw them."""
    rows = published(traces).selectExpr("producerGroup", "topic", "date_trunc('minute', timestamp_millis(at)) as minute", "isSuccess")
    counts = rows.selectExpr("*", "if(isSuccess, 0, 1) as fault").groupBy("producerGroup", "topic", "minute")
    return counts.agg({"*": "count", "fault": "sum"}).withColumnsRenamed({"count(1)": "sends", "sum(fault)": "failed"}).orderBy(
        "producerGroup", "topic", "minute"
    )  # fmt: skip


def has_topic(name_server: str, topic: str) -> bool:
    try:
        return bool(Cluster(Endpoint(name_server_addresses(name_server), 3.0, 1.0)).queues([topic]))
    except NotFound:
        return False


def main(argv: list[str] | None = None) -> int:
    options = arguments("traffic", "Messages and bytes per topic, group and minute.", report=True).parse_args(argv)
    spark = session("traffic")
    messages = table(spark, options).selectExpr(
        "topic", "date_trunc('minute', storeTimestamp) as minute", "octet_length(body) as size"
    )  # fmt: skip
    rows = per_topic(messages).select("topic", "minute", "messages", "bytes").collect()
    report = Report("Traffic")
    lines: dict[str, list[tuple[float, float]]] = {}
    totals: Counter[str] = Counter()
    for row in rows:
        lines.setdefault(row.topic, []).append((row.minute.timestamp(), float(row.messages)))
        totals[row.topic] += row.messages
    report.lines("Messages per minute", lines, "time →")
    report.bars("Messages per topic", totals.most_common())
    report.table("Per topic and minute", ["topic", "minute", "messages", "bytes"], [tuple(row) for row in rows])
    if has_topic(options.name_server, TRACE_TOPIC):
        traces = trace_table(spark, options).select("body").persist()
        groups = per_group(traces).collect()
        report.table("Deliveries per group and minute", ["group", "minute", "deliveries"], [tuple(row) for row in groups])
        producers = per_producer(traces).select("producerGroup", "topic", "minute", "sends", "failed").collect()
        columns = ["producer group", "topic", "minute", "sends", "failed"]
        report.table("Sends per producer group and minute", columns, [tuple(row) for row in producers])
        traces.unpersist()
    else:
        report.note("No trace topic: sends and deliveries per group are not known. Turn message tracing on in the clients.")
    say(f"{totals.total()} messages of {len(totals)} topics; report: {report.write(options.report)}")
    return 0
