"""copy: topics into another cluster under the same names, each message into the queue of the same number, with a map of offsets.

Every copy carries COPIED_FROM = broker@queue@offset. The map (Parquet: topic, source and target broker, queue and offset) is read off the
target, so it holds whatever happened on the way; with it consumers move: seek to the target offset of the last source offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..job import add_trigger, arguments, run_stream, say, session, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARK = "COPIED_FROM"


def marked(rows: DataFrame) -> DataFrame:
    """The columns of the sink; properties is a map."""
    from pyspark.sql import functions as f

    place = f.concat_ws("@", "brokerName", f.col("queueId").cast("string"), f.col("queueOffset").cast("string"))
    rest = f.map_filter("properties", lambda name, _: name != MARK)
    properties = f.map_concat(rest, f.create_map(f.lit(MARK), place))
    return rows.select("topic", "body", "tags", "keys", "flag", "queueId", properties.alias("properties"))


def offset_map(spark: SparkSession, name_server: str, topics: str) -> DataFrame:
    """Where every copied message came from, and where it is now."""
    from pyspark.sql import functions as f

    copies = spark.read.format("rocketmq").options(nameServer=name_server, topics=topics, propertiesAsMap="true").load()
    mark, place = f.col("properties")[MARK], "^(.+)@([0-9]+)@([0-9]+)$"
    return copies.filter(mark.rlike(place)).select(
        "topic",
        f.regexp_extract(mark, place, 1).alias("sourceBroker"),
        f.regexp_extract(mark, place, 2).try_cast("int").alias("sourceQueueId"),
        f.regexp_extract(mark, place, 3).try_cast("long").alias("sourceOffset"),
        f.col("brokerName").alias("targetBroker"),
        f.col("queueId").alias("targetQueueId"),
        f.col("queueOffset").alias("targetOffset"),
    )


def main(argv: list[str] | None = None) -> int:
    parser = arguments("copy", "Copy topics into another cluster; the topics must exist there with as many queues.")
    parser.add_argument("--to-name-server", required=True, metavar="HOST:PORT", help="name servers of the target")
    parser.add_argument("--map", required=True, metavar="DIR", help="where the map of offsets goes (Parquet)")
    add_trigger(parser)
    options = parser.parse_args(argv)
    spark = session("copy")
    rows = marked(stream(spark, options, propertiesAsMap="true"))
    count = run_stream(rows.writeStream.format("rocketmq").options(nameServer=options.to_name_server), options)
    offset_map(spark, options.to_name_server, options.topics).write.mode("overwrite").parquet(options.map)
    say(f"{count} messages read; map of offsets: {options.map}")
    return 0
