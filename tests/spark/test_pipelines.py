"""Each pipeline through its main, on messages in a real broker, its result compared with what was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import InvalidArgument, NotFound
from rocketpy._core.store import MessageStore
from tests.spark.servers import Cluster, copy_store, send
from tests.spark.test_batch import numbered

Read = Callable[..., Any]


def test_the_lake_has_every_message_once_with_typed_json(spark: Any, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    from rocketpy.spark.pipelines import lake

    cluster.send(topic, [(i % 4, json.dumps({"id": i, "name": f"n{i}", "in-side": {"a b": i}}).encode(), "") for i in range(99)])
    cluster.send(topic, [(0, b"no JSON", ""), (3, b'{"id": 99}', "")])
    arguments = ["-n", cluster.name_server, "-t", topic, "--out", str(tmp_path / "lake"), "--checkpoint", str(tmp_path / "checkpoint")]
    assert lake.main([*arguments, "--json", "infer", "--option", "maxOffsetsPerTrigger=60", "--option", "startingOffsets=earliest"]) == 0
    assert sorted(
        row.x for row in spark.read.parquet(str(tmp_path / "lake")).selectExpr("json.`in-side`.`a b` as x").dropna().collect()
    ) == [*range(99)]
    cluster.send(topic, [(0, b'{"id": 100, "name": "late"}', "")])
    assert lake.main([*arguments, "--json", "id long, name string", "--compact", str(tmp_path / "small")]) == 0
    rows = spark.read.parquet(str(tmp_path / "small"))
    assert sorted(row.id for row in rows.select("json.id").dropna().collect()) == list(range(101)) and rows.count() == 102
    assert len(list((tmp_path / "small").glob("topic=*/day=*/*.parquet"))) == len(list((tmp_path / "small").glob("topic=*/day=*")))
    # what the first run knew of the bodies is still there
    assert sorted(row.x for row in rows.selectExpr("json.`in-side`.`a b` as x").dropna().collect()) == [*range(99)]


def test_a_compacted_lake_keeps_the_names_of_its_topics(spark: Any, tmp_path: Path) -> None:
    from rocketpy.spark.pipelines import lake

    rows = spark.range(3).selectExpr("'007' as topic", "date'2026-11-22' as day", "id")
    rows.write.partitionBy("topic", "day").parquet(str(tmp_path / "lake"))
    assert lake.compact(spark, str(tmp_path / "lake"), str(tmp_path / "small")) == 3
    assert [path.name for path in (tmp_path / "small").glob("topic=*/day=*")] == ["day=2026-11-22"]
    assert (tmp_path / "small" / "topic=007").is_dir()
    rows.selectExpr("topic", "day", "string(id) as id").write.mode("append").partitionBy("topic", "day").parquet(str(tmp_path / "lake"))
    with pytest.raises(InvalidArgument, match=r'do not fit together: .*"(BIGINT|STRING)" and .*; another --json type'):
        lake.compact(spark, str(tmp_path / "lake"), str(tmp_path / "smaller"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="has no file yet"):
        lake.compact(spark, str(tmp_path / "empty"), str(tmp_path / "smaller"))


def test_an_inferred_schema_takes_any_name_that_json_may_have(spark: Any) -> None:
    from pyspark.sql import functions as f

    from rocketpy.spark.pipelines import lake

    body = {"a b": {"c:d": 1, "e`f": [{"g<h": "x"}]}, "i`j": 2}
    rows = spark.createDataFrame([(bytearray(json.dumps(body).encode()),)], "body binary").withColumn(
        "storeTimestamp", f.current_timestamp()
    )
    assert lake.shape(rows, lake.infer_schema(spark, rows)).first().json.asDict(recursive=True) == body


def test_traffic_counts_every_message_and_byte(spark: Any, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    from rocketpy.spark.pipelines import traffic

    cluster.send(topic, numbered(60))
    assert traffic.main(["-n", cluster.name_server, "-t", topic, "-o", str(tmp_path / "traffic.html")]) == 0
    text = (tmp_path / "traffic.html").read_text()
    assert topic in text and "<svg" in text and "<td" in text


def test_lag_and_delay_are_what_offsets_and_traces_say(
    spark: Any, read: Read, cluster: Cluster, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rocketpy.spark.cluster import Cluster as View
    from rocketpy.spark.cluster import Endpoint, Queue
    from rocketpy.spark.pipelines import lag, traffic

    cluster.send(topic, numbered(40))
    assert read(topic=topic, consumerGroup="late-group").count() == 40  # a first pull makes the group
    view = View(Endpoint((cluster.name_server,)))
    view.commit_offsets("late-group", {Queue(topic, "broker-a", queue): 4 for queue in range(4)})
    assert [row[-1] for row in lag.lag_of(view, [topic], ["late-group"])] == [6, 6, 6, 6]
    assert lag.main(["-n", cluster.name_server, "-t", topic, "-g", "late-group", "-o", str(tmp_path / "lag.html")]) == 0
    assert "late-group" in (tmp_path / "lag.html").read_text()
    assert lag.main(["-n", cluster.name_server, "-t", topic, "-g", "lade-group", "-o", str(tmp_path / "none.html")]) == 0
    assert f"lade-group: has committed no offset of {topic}" in capsys.readouterr().out

    def record(*parts: object) -> str:
        return "\x01".join(str(part) for part in parts) + "\x02"

    old = record("Pub", 2000, "r", "g", "orders", "ID2", "", "", "h:1", 10, 3, 0, "false")  # of a client that names no broker's id
    junk = record("Pub", "soon", "r", "g") + record("Pub") + "none" + record("SubBefore", 2250, "r", "readers", "req", "ID2", "one", "")
    sends = traffic.per_producer(spark.createDataFrame([((old + junk + old.replace("false", "true")).encode(),)], "body binary"))
    assert [(row.producerGroup, row.topic, row.sends, row.failed) for row in sends.collect()] == [("g", "orders", 2, 1)]
    traces = (
        junk
        + record("Pub", 1000, "r", "g", "orders", "ID1", "", "", "h:1", 10, 3, 0, "off", "true")
        + record("SubBefore", 1250, "r", "readers", "req", "ID1", 0, "")
    )
    rows = lag.delays(spark.createDataFrame([(traces.encode(),)], "body binary")).collect()
    assert [(row.topic, row.consumerGroup, row.deliveries, row["p50"]) for row in rows] == [("orders", "readers", 1, 250.0)]


def test_traces_are_read_of_the_same_time_and_not_by_the_offsets_of_the_topics(
    spark: Any, cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rocketpy.spark.job import arguments
    from rocketpy.spark.pipelines import trace

    cluster.send(topic, numbered(4))
    monkeypatch.setattr(trace, "TRACE_TOPIC", topic)
    late = ("--option", f"startingTimestamp={2**41}")
    given = ["-n", cluster.name_server, "-t", "Other", "--option", 'startingOffsets={"Other":{"broker-a":{"0":1}}}']
    assert trace.trace_table(spark, arguments("x", "").parse_args([*given, "--option", "subExpression=odd"])).count() == 4
    assert trace.trace_table(spark, arguments("x", "").parse_args([*given, *late])).count() == 0


def test_dead_letters_are_replayed_by_choice_to_where_they_came_from(read: Read, cluster: Cluster, topic: str) -> None:
    from pyspark.sql import functions as f

    from rocketpy.spark.pipelines import dlq

    letters = [(0, b"letter %d" % i, f"TAGS\x01{'red' if i < 3 else 'blue'}\x02DLQ_ORIGIN_TOPIC\x01{topic}_origin\x02") for i in range(10)]
    letters[0] = (0, b"letter 0", f"{letters[0][2]}REPLAYED_FROM_DLQ\x01g 0A\x02")  # it was there before
    cluster.create_topic(f"{topic}_origin", 1)
    send(cluster.broker, topic, letters)  # stands in for %DLQ%g
    found = dlq.letters(read(topic=topic, propertiesAsMap="true").withColumn("topic", f.lit("%DLQ%g")))
    assert {(row.group, row.originTopic) for row in found.collect()} == {("g", f"{topic}_origin")}
    dlq.replay(found.filter("tags = 'red'"), cluster.name_server, None, {"startingTimestamp": "0", "retryTimeoutMs": "10s"})
    rows = read(topic=f"{topic}_origin", propertiesAsMap="true").collect()
    assert sorted(bytes(row.body) for row in rows) == [b"letter 0", b"letter 1", b"letter 2"]
    assert all(row.properties["REPLAYED_FROM_DLQ"].startswith("g ") and "DLQ_ORIGIN_TOPIC" not in row.properties for row in rows)


def test_a_transformation_writes_what_its_expressions_say(spark: Any, read: Read, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    from rocketpy.spark.pipelines import transform

    cluster.send(topic, numbered(40))
    cluster.create_topic(f"{topic}_up", 2)
    arguments = ["-n", cluster.name_server, "-t", topic, "--to", f"{topic}_up", "--checkpoint", str(tmp_path / "checkpoint")]
    assert (
        transform.main([*arguments, "--select", "upper(cast(body as string)) as body", "--select", "keys", "--where", "tags = 'odd'"]) == 0
    )
    rows = read(topic=f"{topic}_up").collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(body.upper() for _, body, texts in numbered(40) if "odd" in texts)


def test_a_copy_keeps_queues_and_maps_offsets(spark: Any, read: Read, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    from rocketpy.spark.pipelines import copy

    with Cluster(tmp_path / "other") as other:
        cluster.send(topic, numbered(40))
        other.create_topic(topic)
        other.send(topic, [(0, b"no copy", "COPIED_FROM\x01somewhere@else@twice\x02")])
        arguments = ["-n", cluster.name_server, "-t", topic, "--to-name-server", other.name_server]
        assert copy.main([*arguments, "--map", str(tmp_path / "map"), "--checkpoint", str(tmp_path / "checkpoint")]) == 0
        theirs = spark.read.format("rocketmq").options(nameServer=other.name_server, topic=topic).load()
        assert sorted((row.queueId, bytes(row.body)) for row in theirs.filter("body <> 'no copy'").collect()) == sorted(
            (queue, body) for queue, body, _ in numbered(40)
        )
        mapped = spark.read.parquet(str(tmp_path / "map")).collect()
        assert sorted((row.sourceQueueId, row.sourceOffset) for row in mapped) == [
            (queue, offset) for queue in range(4) for offset in range(10)
        ]
        assert all(row.sourceQueueId == row.targetQueueId for row in mapped)


def test_an_audit_of_a_sound_store_finds_nothing_and_of_a_broken_one_the_break(
    spark: Any, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    from rocketpy.spark.pipelines import audit

    cluster.send(topic, numbered(40))
    copied = copy_store(cluster.store, tmp_path / "store")
    assert audit.main([str(copied), "-o", str(tmp_path / "sound.html")]) == 0
    record = spark.read.format("rocketmq-store").options(storePath=str(copied), topic=topic).load().filter("keys = 'k9'").collect()[0]
    with next(iter(sorted((copied / "commitlog").iterdir()))).open("r+b") as file:
        file.seek(record.commitLogOffset + 60)
        tail = file.read(200)
        file.seek(record.commitLogOffset + 60 + tail.index(b"body 9"))
        file.write(b"BODY")
    records, entries = audit.tables(spark, str(copied), None)
    found = audit.findings(records, entries, audit.queued_records(records, entries))
    assert [row.commitLogOffset for row in found["broken"]] == [record.commitLogOffset]
    assert [row.queueOffset for row in found["entry without record"]] == [record.queueOffset]


def test_an_audit_takes_messages_of_a_deleted_topic_for_no_fault(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rocketpy.spark.pipelines import audit

    with MessageStore(tmp_path / "store", commit_log_file_size=64 << 10) as store:
        for topic in ("Kept", "Gone", "Anew"):
            store.append(topic, 0, b"before")
        for topic in ("Gone", "Anew"):
            store.delete_topic(topic)
        store.append("Anew", 0, b"after")
    assert audit.main([str(tmp_path / "store"), "-o", str(tmp_path / "audit.html")]) == 0
    assert "2 records are in no queue" in capsys.readouterr().out and "2 records are in no queue" in (tmp_path / "audit.html").read_text()


def test_the_doctor_finds_everything_well_here(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    from rocketpy.cli import spark_doctor

    assert spark_doctor.main(["-n", cluster.name_server]) == 0
    assert cluster.broker in capsys.readouterr().out
