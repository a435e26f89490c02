"""lag: how far consumer groups are behind, and how long messages take from producer to consumer (from trace messages)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cluster import Cluster, Endpoint, name_server_addresses
from ..job import arguments, name_list, say, session
from ..report import Report
from .trace import TRACE_TOPIC, delivered, published, trace_table
from .traffic import has_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PERCENTILES = (0.5, 0.9, 0.99, 1.0)


def lag_of(cluster: Cluster, topics: list[str], groups: list[str]) -> list[tuple[str, str, str, int, int, int, int]]:
    """(group, topic, broker, queue, committed, end, lag) for every queue with a committed offset."""
    queues = cluster.queues(topics)
    ends = cluster.max_offsets(queues)
    rows = []
    for group in groups:
        for queue, offset in sorted(cluster.group_offsets(queues, group).items()):
            rows.append((group, queue.topic, queue.broker_name, queue.queue_id, offset, ends[queue], max(0, ends[queue] - offset)))
    return rows


def delays(traces: DataFrame) -> DataFrame:
    """topic, consumerGroup, deliveries, and percentiles of the delay in ms, for first deliveries."""
    from pyspark.sql import functions as f

    sent = published(traces).groupBy("msgId", "topic").agg(f.min("at").alias("sentAt"))  # the first try counts
    taken = delivered(traces).filter("retryTimes = 0").groupBy("msgId", "consumerGroup").agg(f.min("at").alias("takenAt"))
    joined = sent.join(taken, "msgId").withColumn("delayMs", f.col("takenAt") - f.col("sentAt"))
    wanted = [f.percentile("delayMs", f.lit(share)).alias(f"p{share * 100:g}") for share in PERCENTILES]
    return joined.groupBy("topic", "consumerGroup").agg(f.count("*").alias("deliveries"), *wanted).orderBy("topic", "consumerGroup")


def main(argv: list[str] | None = None) -> int:
    parser = arguments("lag", "Consumer lag, and end-to-end delay from trace messages.", report=True)
    parser.add_argument("-g", "--groups", required=True, metavar="GROUP,…", type=name_list, help="consumer groups, separated by commas")
    options = parser.parse_args(argv)
    topics, groups = options.topics.split(","), options.groups.split(",")
    rows = lag_of(Cluster(Endpoint(name_server_addresses(options.name_server))), topics, groups)
    report = Report("Consumer lag")
    known = [group for group in groups if any(row[0] == group for row in rows)]
    totals = [(group, float(sum(row[-1] for row in rows if row[0] == group))) for group in known]
    report.bars("Messages behind, per group", sorted(totals, key=lambda total: -total[1]))
    report.table("Per queue", ["group", "topic", "broker", "queue", "committed", "end", "lag"], rows)
    if has_topic(options.name_server, TRACE_TOPIC):
        found = delays(trace_table(session("lag"), options)).collect()
        columns = ["topic", "group", "deliveries", *(f"p{share * 100:g} ms" for share in PERCENTILES)]
        report.table("Delay from producer to consumer", columns, [tuple(row) for row in found])
    else:
        report.note("No trace topic: delays are not known. Turn message tracing on in the clients.")
    for group, behind in totals:
        say(f"{group}: {behind:,.0f} behind")
    for group in groups:
        if group not in known:
            say(f"{group}: has committed no offset of {options.topics}")
            report.note(f"{group} has committed no offset of {options.topics}.")
    say(f"report: {report.write(options.report)}")
    return 0
