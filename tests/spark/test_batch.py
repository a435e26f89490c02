"""Batch reads of a real broker through a real Spark."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

from rocketpy.spark.cluster import Cluster as View
from rocketpy.spark.cluster import Endpoint, Queue
from tests.spark.servers import Cluster, send

Read = Callable[..., Any]


def bodies(frame: Any) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())


def numbered(count: int, queues: int = 4) -> list[tuple[int, bytes, str]]:
    """Messages over the queues, with a tag by parity and a key each."""
    return [(i % queues, b"body %d" % i, f"TAGS\x01{'even' if i // queues % 2 == 0 else 'odd'}\x02KEYS\x01k{i}\x02") for i in range(count)]


def test_every_message_is_a_row_with_its_place_and_content(read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(1000))
    rows = read(topic=topic).collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(body for _, body, _ in numbered(1000))
    assert rows[0].__fields__[:9] == [
        "topic", "flag", "body", "properties", "brokerName", "queueId", "queueOffset", "bornTimestamp", "storeTimestamp",
    ]  # fmt: skip
    by_place = {(row.queueId, row.queueOffset): row for row in rows}
    for i, (queue, body, _) in enumerate(numbered(1000)):
        row = by_place[(queue, i // 4)]
        assert bytes(row.body) == body and row.keys == f"k{i}" and row.topic == topic and row.brokerName == "broker-a"
        assert json.loads(row.properties)["KEYS"] == f"k{i}"
        assert row.bodyCrc == zlib.crc32(body) & 0x7FFFFFFF


def test_a_topic_without_messages_is_an_empty_table(read: Read, topic: str) -> None:
    assert read(topic=topic).count() == 0


def test_offsets_bound_what_is_read(read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(400))
    start = {topic: {"broker-a": {"0": 10, "1": -2, "2": -1}}}
    end = {topic: {"broker-a": {"0": 20, "1": 5}}}
    rows = read(topic=topic, startingOffsets=json.dumps(start), endingOffsets=json.dumps(end)).collect()
    assert sorted((row.queueId, row.queueOffset) for row in rows) == (
        [(0, offset) for offset in range(10, 20)] + [(1, offset) for offset in range(5)] + [(3, offset) for offset in range(100)]
    )


def test_partitions_follow_queues_and_the_hints(read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(400))
    assert read(topic=topic).rdd.getNumPartitions() == 4
    assert read(topic=topic, minPartitions=8).rdd.getNumPartitions() == 8
    split = read(topic=topic, maxRecordsPerPartition=30)
    assert split.rdd.getNumPartitions() == 16
    assert bodies(split) == sorted(body for _, body, _ in numbered(400))


@pytest.fixture
def pushdown(spark: Any) -> Iterator[None]:
    """Spark hands filters over."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_tags_are_filtered_by_the_broker_and_by_filters_of_the_query(read: Read, cluster: Cluster, topic: str, pushdown: None) -> None:
    cluster.send(topic, numbered(400))
    assert {row.tags for row in read(topic=topic, subExpression="odd").collect()} == {"odd"}
    assert read(topic=topic, subExpression="odd || even").count() == 400
    assert read(topic=topic, filterPushdown="true").filter("tags = 'odd'").count() == 200
    assert read(topic=topic, subExpression="never").count() == 0


def test_properties_are_filtered_by_the_broker(read: Read, cluster: Cluster, topic: str, pushdown: None) -> None:
    cluster.send(topic, numbered(400))
    sql = {"topic": topic, "filterType": "SQL92", "subExpression": "TAGS = 'odd' OR KEYS IS NULL"}
    with pytest.raises(Exception, match="does not support consumer to filter message by SQL92"):
        read(**sql).count()
    cluster.configure("enablePropertyFilter=true")
    try:
        assert {row.tags for row in read(**sql).collect()} == {"odd"}
        assert read(**sql).count() == 200
        assert read(**sql, filterPushdown="true").filter("tags = 'even'").count() == 0
        assert read(**{**sql, "subExpression": "TAGS IN ('never')"}).count() == 0
    finally:
        cluster.configure("enablePropertyFilter=false")


def test_filters_on_place_are_handed_to_the_source(read: Read, cluster: Cluster, topic: str, pushdown: None) -> None:
    cluster.send(topic, numbered(400))
    wanted = "queueId in (1, 2) and queueOffset >= 10 and queueOffset < 12"
    for pushed, partitions in (("true", 2), ("false", 4)):
        frame = read(topic=topic, filterPushdown=pushed).filter(wanted)
        assert frame.rdd.getNumPartitions() == partitions
        assert sorted((row.queueId, row.queueOffset) for row in frame.collect()) == [(1, 10), (1, 11), (2, 10), (2, 11)]
    assert read(topic=topic, filterPushdown="true").filter("topic = 'other'").count() == 0


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_a_table_has_all_its_rows_after_one_query_has_filtered_it(
    spark: Any, read: Read, cluster: Cluster, topic: str, pushdown: None, enabled: str
) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
    cluster.send(topic, numbered(400))
    table = read(topic=topic)
    assert table.filter("queueId = 1 and queueOffset < 10").count() == 10
    assert table.count() == 400
    assert table.filter("queueId = 1").unionAll(table.filter("queueId = 2")).count() == 200


@pytest.fixture
def two_times(read: Read, cluster: Cluster, topic: str) -> int:
    """A topic with 40 messages before and 80 at or after the returned time."""
    cluster.send(topic, numbered(40))
    border = int(max(row.storeTimestamp for row in read(topic=topic).collect()).timestamp() * 1000) + 2
    while time.time() * 1000 <= border + 1:
        pass
    cluster.send(topic, numbered(80))
    return border


def test_times_bound_what_is_read(read: Read, topic: str, two_times: int, pushdown: None) -> None:
    assert read(topic=topic, endingTimestamp=two_times).count() == 40
    assert read(topic=topic, startingTimestamp=two_times).count() == 80
    for pushed in ("true", "false"):
        assert read(topic=topic, filterPushdown=pushed).filter(f"storeTimestamp >= timestamp_millis({two_times})").count() == 80
        assert read(topic=topic, filterPushdown=pushed).filter(f"storeTimestamp < timestamp_millis({two_times})").count() == 40


def test_queues_may_have_times_of_their_own(read: Read, topic: str, two_times: int) -> None:
    times = json.dumps({topic: {"broker-a": {"0": two_times, "1": 0}}})
    found = read(topic=topic, startingOffsetsByTimestamp=times).groupBy("queueId").count().collect()
    assert {row.queueId: row["count"] for row in found} == {0: 20, 1: 30, 2: 30, 3: 30}
    found = read(topic=topic, endingOffsetsByTimestamp=times).groupBy("queueId").count().collect()
    assert {row.queueId: row["count"] for row in found} == {0: 10, 2: 30, 3: 30}


def test_a_time_behind_the_last_message_is_an_error_or_the_end(read: Read, topic: str, two_times: int) -> None:
    late = two_times + 3_600_000
    with pytest.raises(Exception, match="set startingOffsetsByTimestampStrategy=latest"):
        read(topic=topic, startingTimestamp=late).count()
    assert read(topic=topic, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest").count() == 0
    assert read(topic=topic, endingTimestamp=late).count() == 120


def test_an_empty_queue_does_not_stand_in_the_way_of_a_time(read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, [(2, b"alone", "")])
    assert read(topic=topic, startingTimestamp=1000).count() == 1


def test_settings_may_have_the_java_clients_names(spark: Any, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    options = {"rocketmq.client.namesrvAddr": cluster.name_server, "rocketmq.client.pullBatchSize": "7", "topic": topic}
    assert spark.read.format("rocketmq").options(**options).load().count() == 40


def test_a_group_starts_where_it_committed(read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    assert read(topic=topic, consumerGroup="half-way").count() == 40
    View(Endpoint((cluster.name_server,))).commit_offsets("half-way", {Queue(topic, "broker-a", 0): 4, Queue(topic, "broker-a", 1): 10})
    assert read(topic=topic, consumerGroup="half-way").count() == 6 + 0 + 10 + 10
    assert read(topic=topic, consumerGroup="half-way", startingOffsets="earliest").count() == 40


def test_several_topics_and_patterns(read: Read, cluster: Cluster, topic: str) -> None:
    for name in (f"{topic}_a", f"{topic}_b"):
        cluster.create_topic(name, 2)
        cluster.send(name, numbered(10, 2))
    assert read(topics=f"{topic}_a, {topic}_b").count() == 20
    assert read(topicPattern=f"{topic}_[ab]").groupBy("topic").count().count() == 2


def test_properties_as_a_map_and_a_schema_that_picks_columns(read: Read, spark: Any, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(8))
    row = read(topic=topic, propertiesAsMap="true").filter("keys = 'k0'").collect()[0]
    assert row.properties["TAGS"] == "even"
    picked = spark.read.format("rocketmq").option("nameServer", cluster.name_server).option("topic", topic)
    frame = picked.schema("queueOffset long, topic string").load()
    assert frame.columns == ["queueOffset", "topic"] and frame.count() == 8


def test_compressed_bodies_are_decompressed_unless_told_otherwise(read: Read, cluster: Cluster, topic: str) -> None:
    import lz4.frame

    plain = b"much the same " * 50
    send(cluster.broker, topic, [(0, zlib.compress(plain), "")], f="1")
    send(cluster.broker, topic, [(1, lz4.frame.compress(plain), "")], f=str(1 | 1 << 8))
    assert bodies(read(topic=topic)) == [plain, plain]
    assert bodies(read(topic=topic, decompress="false")) == sorted([zlib.compress(plain), lz4.frame.compress(plain)])


def test_a_view_of_sql_is_read_and_written(spark: Any, read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(8))
    options = f"OPTIONS (nameServer '{cluster.name_server}', topic '{topic}')"
    spark.sql(f"CREATE TEMPORARY VIEW viewed USING rocketmq {options}")
    assert spark.table("viewed").count() == 8
    spark.sql("INSERT INTO viewed SELECT * FROM viewed")
    assert read(topic=topic).count() == 16
    with pytest.raises(Exception, match="none of the options of CREATE TABLE"):
        spark.sql(f"CREATE TABLE kept USING rocketmq {options}")


def test_a_small_arrow_batch_changes_nothing(read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(400))
    assert bodies(read(topic=topic, batchRows=7, pullBatchSize=5, checkCrc="true", pullTimeoutMs=9000)) == sorted(
        body for _, body, _ in numbered(400)
    )
    assert read(topic=topic, batchBytes=100).count() == 400


# ---- bad input: one clear error each ----


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topic": "NoSuchTopic", "retryTimeoutMs": "1s"}, "'NoSuchTopic' is not known"),
        ({"topic": "x", "startingOfsets": "latest"}, "did you mean 'startingOffsets'"),
        ({"topic": "x", "startingOffsets": "soon"}, "takes earliest, latest or JSON"),
        ({"topic": "x", "topics": "y"}, "give one of the options"),
        ({}, "give one of the options"),
        ({"topic": "x", "maxOffsetsPerTrigger": "5"}, "not for a batch query"),
        ({"topic": "x", "nameServer": "127.0.0.1:1", "retryTimeoutMs": "300"}, "no name server answers"),
        ({"topic": "x", "failOnDataLoss": "perhaps"}, "takes true or false"),
        ({"topic": "x", "rocketmq.client.pullBatchSise": "5"}, "did you mean 'rocketmq.client.pullBatchSize'"),
        ({"topic": "x", "filterType": "XPATH"}, "takes TAG or SQL92"),
        ({"topic": "x", "filterType": "SQL92"}, "filterType SQL92 takes an expression"),
        ({"topic": "x", "filterType": "SQL92", "subExpression": "a ="}, "subExpression 'a =': invalid SQL92 expression, at byte 3"),
        ({"topic": "x", "filterType": "SQL92", "subExpression": "a = 1 b"}, "would not look at what follows the expression, 'b'"),
        ({"topic": "x", "startingOffsetsByTimestamp": '{"x":{"b":{"0":-1}}}'}, "a time in ms since 1970"),
        ({"topic": "x", "nameServer": "nowhere"}, "'nowhere' is not HOST:PORT"),
    ],
)
def test_bad_options_are_one_clear_error(read: Read, options: dict[str, str], text: str) -> None:
    with pytest.raises(Exception) as caught:
        read(**options).count()
    assert text in str(caught.value)


def test_offsets_out_of_range_are_an_error_or_skipped(read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    wanted = json.dumps({topic: {"broker-a": {"0": 0, "1": 10, "2": 10, "3": 10}}})
    beyond = json.dumps({topic: {"broker-a": {"0": 99}}})
    with pytest.raises(Exception, match="ends at offset 10, 99 was asked for"):
        read(topic=topic, startingOffsets=wanted, endingOffsets=beyond).count()
    assert read(topic=topic, startingOffsets=wanted, endingOffsets=beyond, failOnDataLoss="false").count() == 10
