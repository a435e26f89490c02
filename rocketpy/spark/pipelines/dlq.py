"""dlq: what lies in the dead letter queues of consumer groups, and sending a part of it back to where it came from.

A message of %DLQ%GROUP carries its topic in DLQ_ORIGIN_TOPIC or RETRY_TOPIC. Replay writes the messages that match --where to that topic
(or --to), with the property REPLAYED_FROM_DLQ naming the group and the message's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..job import arguments, name_list, say, session, table
from ..options import Use, is_refused
from ..report import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PREFIX = "%DLQ%"
MARK = "REPLAYED_FROM_DLQ"


def letters(rows: DataFrame) -> DataFrame:
    """The table of dead letters with `group` and `originTopic`; properties is a map."""
    from pyspark.sql import functions as f

    origin = f.coalesce(f.col("properties")["DLQ_ORIGIN_TOPIC"], f.col("properties")["RETRY_TOPIC"])
    return rows.withColumn("group", f.expr(f"substring(topic, {len(PREFIX) + 1})")).withColumn("originTopic", origin)


def main(argv: list[str] | None = None) -> int:
    parser = arguments("dlq", "What is in dead letter queues; with --replay send a part of it again.", topic=False, report=True)
    parser.add_argument("-g", "--groups", required=True, metavar="GROUP,…", type=name_list, help="consumer groups, separated by commas")
    parser.add_argument("--where", metavar="SQL", help="only these, such as \"tags = 'red' and reconsumeTimes < 20\"")
    parser.add_argument("--replay", action="store_true", help="send what matches to its topic again")
    parser.add_argument("--to", metavar="TOPIC", help="replay into this topic instead")
    options = parser.parse_args(argv)
    spark = session("dlq")
    topics = ",".join(PREFIX + group for group in options.groups.split(","))
    found = letters(table(spark, options, topics=topics, propertiesAsMap="true"))
    if options.where:
        found = found.filter(options.where)
    rows = found.groupBy("group", "originTopic", "tags").count().orderBy("count", ascending=False).collect()
    report = Report("Dead letters")
    report.bars("Letters per group and topic", [(f"{row.group} {row.originTopic}", float(row["count"])) for row in rows])
    report.table("By group, topic and tag", ["group", "topic", "tag", "letters"], [tuple(row) for row in rows])
    latest = found.orderBy("storeTimestamp", ascending=False).limit(100).select("group", "originTopic", "keys", "msgId", "storeTimestamp")
    report.table("Latest", ["group", "topic", "keys", "message id", "stored"], [tuple(row) for row in latest.collect()])
    say(f"{sum(row['count'] for row in rows)} letters; report: {report.write(options.report)}")
    if options.replay:
        replay(found, options.name_server, options.to, dict(options.option))
        say("replayed")
    return 0


def replay(found: DataFrame, name_server: str, target: str | None, more: Mapping[str, str]) -> None:
    """Sends the dead letters again. more: options of the read; those that a sink has as well apply here."""
    from pyspark.sql import functions as f

    own = (MARK, "RETRY_TOPIC", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "DELAY", "REAL_TOPIC", "REAL_QID", "ORIGIN_MESSAGE_ID")
    kept = f.map_filter("properties", lambda name, _: ~name.isin(*own))
    mark = f.create_map(f.lit(MARK), f.concat_ws(" ", "group", "msgId"))
    where_to = f.lit(target) if target else f.col("originTopic")
    rows = found.select("body", where_to.alias("topic"), "tags", "keys", "flag", f.map_concat(kept, mark).alias("properties"))
    shared = {name: value for name, value in more.items() if not is_refused(name, Use.WRITE)}
    rows.write.format("rocketmq").mode("append").options(nameServer=name_server, **shared).save()
