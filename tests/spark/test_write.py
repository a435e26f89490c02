"""Batch and streaming writes into a real broker, read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.servers import Cluster
from tests.spark.test_batch import numbered

Read = Callable[..., Any]


def save(frame: Any, cluster: Cluster, **options: Any) -> None:
    frame.write.format("rocketmq").mode("append").option("nameServer", cluster.name_server).options(**options).save()


def test_rows_written_are_rows_read(spark: Any, read: Read, cluster: Cluster, topic: str) -> None:
    frame = spark.range(1000).selectExpr(
        "cast(concat('body ', id) as binary) as body",
        "concat('t', id % 3) as tags",
        "concat('k', id) as keys",
        "map('n', string(id)) as properties",
    )
    save(frame, cluster, topic=topic, batchSize=100)
    rows = read(topic=topic).collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(b"body %d" % i for i in range(1000))
    for row in rows:
        number = bytes(row.body).decode().split()[1]
        assert (row.tags, row.keys, json.loads(row.properties)["n"]) == (f"t{int(number) % 3}", f"k{number}", number)
    assert len({row.msgId for row in rows}) == 1000
    assert len({row.queueId for row in rows}) == 4


def test_a_table_that_was_read_can_be_written_to_another_topic(spark: Any, read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    cluster.create_topic(f"{topic}_copy", 4)
    save(read(topic=topic), cluster, topic=f"{topic}_copy")
    copied = read(topic=f"{topic}_copy").collect()
    assert sorted((bytes(row.body), row.queueId) for row in copied) == sorted((body, queue) for queue, body, _ in numbered(40))


def test_messages_of_a_group_stay_in_one_queue_and_in_order(spark: Any, read: Read, cluster: Cluster, topic: str) -> None:
    frame = spark.range(600, numPartitions=1).selectExpr("string(id) as body", "concat('g', id % 5) as messageGroup")
    save(frame, cluster, topic=topic, batchSize=7)
    by_group: dict[int, list[Any]] = {}
    for row in sorted(read(topic=topic).collect(), key=lambda row: row.queueOffset):
        by_group.setdefault(int(bytes(row.body)) % 5, []).append(row)
    for rows in by_group.values():
        assert len({row.queueId for row in rows}) == 1
        assert [int(bytes(row.body)) for row in rows] == sorted(int(bytes(row.body)) for row in rows)


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        (["string(id) as text"], {"topic": "x"}, "column `body` is required"),
        (["string(id) as body"], {}, "option 'topic' or a column `topic`"),
        (["id as body"], {"topic": "x"}, "column `body` is bigint"),
        (["string(id) as body", "'a' as tag"], {"topic": "x"}, "did you mean `tags`"),
        (["cast(null as string) as body"], {"topic": "x"}, "row 0: body is null"),
        (["string(id) as body", "99 as delayLevel"], {"topic": "x"}, "row 0: delayLevel 99"),
        (["string(id) as body"], {"topic": "x", "startingOffsets": "latest"}, "there is no option 'startingOffsets' for write"),
        (["string(id) as body"], {"topic": "NoSuchTopic", "retryTimeoutMs": "500"}, "'NoSuchTopic' is not known"),
    ],
)
def test_rows_that_cannot_be_sent_are_one_clear_error(
    spark: Any, cluster: Cluster, columns: list[str], options: dict[str, str], text: str
) -> None:
    cluster.create_topic("x")
    with pytest.raises(Exception) as caught:
        save(spark.range(3, numPartitions=1).selectExpr(*columns), cluster, **options)
    assert text.lower() in str(caught.value).lower()


def test_queues_and_flags_of_rows_are_kept(spark: Any, read: Read, cluster: Cluster, topic: str) -> None:
    frame = spark.range(100).selectExpr("string(id) as body", "int(id % 3) as queueId", "int(id) as flag")
    options = {"maxInFlight": 1, "producerGroup": "makers", "timeoutMs": 5000, "batchSize": 7}
    save(frame, cluster, topic=topic, **options)
    rows = read(topic=topic).collect()
    assert sorted((int(bytes(row.body)), row.queueId, row.flag) for row in rows) == [(i, i % 3, i) for i in range(100)]


def test_rows_of_several_topics_go_to_the_topic_of_their_column(spark: Any, read: Read, cluster: Cluster, topic: str) -> None:
    for number in range(2):
        cluster.create_topic(f"{topic}_{number}", 2)
    save(spark.range(100).selectExpr("string(id) as body", f"concat('{topic}_', id % 2) as topic"), cluster)
    for number in range(2):
        assert sorted(int(bytes(row.body)) for row in read(topic=f"{topic}_{number}").collect()) == list(range(number, 100, 2))


def test_several_writes_of_one_epoch_are_all_there(spark: Any, read: Read, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.send(topic, numbered(40))
    cluster.create_topic(f"{topic}_out", 2)
    source = spark.readStream.format("rocketmq").options(nameServer=cluster.name_server, topic=topic, startingOffsets="earliest")

    def each(rows: Any, _: int) -> None:
        for tag in ("even", "odd"):
            save(rows.filter(f"tags = '{tag}'").select("body"), cluster, topic=f"{topic}_out")

    query = source.load().writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    assert sorted(bytes(row.body) for row in read(topic=f"{topic}_out").collect()) == sorted(body for _, body, _ in numbered(40))


@pytest.mark.parametrize(("idempotent", "count"), [("true", 400), ("false", 800)])
def test_an_epoch_that_runs_again_adds_nothing_unless_told_otherwise(
    spark: Any, read: Read, cluster: Cluster, topic: str, tmp_path: Path, idempotent: str, count: int
) -> None:
    cluster.send(topic, numbered(400))
    cluster.create_topic(f"{topic}_out", 4)
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        source = spark.readStream.format("rocketmq").option("nameServer", cluster.name_server).option("topic", topic)
        frame = source.option("startingOffsets", "earliest").load().select("body", "tags", "keys")
        sink = frame.writeStream.format("rocketmq").option("nameServer", cluster.name_server).option("topic", f"{topic}_out")
        query = (
            sink.option("batchSize", 32)
            .option("idempotent", idempotent)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None

    run()
    assert read(topic=f"{topic}_out").count() == 400
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()  # as if the driver had died before it noted the epoch
    run()
    assert read(topic=f"{topic}_out").count() == count
