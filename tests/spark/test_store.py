"""Store directories as tables, live and damaged, compared with what the broker says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.servers import Cluster, copy_store
from tests.spark.test_batch import numbered

Read = Callable[..., Any]


def load(spark: Any, path: Path, **options: Any) -> Any:
    return spark.read.format("rocketmq-store").options(storePath=str(path), **options).load()


def test_the_files_hold_the_rows_the_broker_gives(spark: Any, read: Read, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(400))
    wire = read(topic=topic).orderBy("queueId", "queueOffset").collect()
    files = load(spark, cluster.store, topic=topic, brokerName="broker-a", splitBytes="50000").orderBy("queueId", "queueOffset").collect()
    assert files == wire and len(files) == 400


def test_a_commit_log_of_its_own_directory_and_small_batches_change_nothing(
    spark: Any, read: Read, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.send(topic, numbered(40))
    copy = copy_store(cluster.store, tmp_path / "store")
    (copy / "commitlog").rename(tmp_path / "log")
    options = {"topic": topic, "brokerName": "broker-a", "commitLogPath": tmp_path / "log", "batchRows": 7, "batchBytes": 500}
    files = load(spark, copy, **options, propertiesAsMap="true", decompress="false")
    wire = read(topic=topic, propertiesAsMap="true")
    place = ("queueId", "queueOffset")
    assert files.orderBy(*place).collect() == wire.orderBy(*place).collect() and files.count() == 40


def test_queue_entries_point_at_the_records(spark: Any, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    records = load(spark, cluster.store, topic=topic).select("queueId", "queueOffset", "commitLogOffset")
    entries = load(spark, cluster.store, topic=topic, table="consumequeue").select("queueId", "queueOffset", "commitLogOffset")
    assert sorted(records.collect()) == sorted(entries.collect()) and entries.count() == 40


def test_index_entries_point_at_records_with_keys(spark: Any, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    index = load(spark, cluster.store, table="index").select("commitLogOffset").distinct()
    records = load(spark, cluster.store, topic=topic)
    assert records.join(index, "commitLogOffset").count() == 40


def test_damage_is_an_error_or_with_audit_a_row(spark: Any, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.send(topic, numbered(40))
    copy = copy_store(cluster.store, tmp_path / "store")
    victim = load(spark, copy, topic=topic).filter("keys = 'k7'").collect()[0]
    segment = next(iter(sorted((copy / "commitlog").iterdir())))
    with segment.open("r+b") as file:
        file.seek(victim.commitLogOffset + 30)
        place = (file.read(600)).index(b"body 7")
        file.seek(victim.commitLogOffset + 30 + place)
        file.write(b"bodY 7")
    with pytest.raises(Exception, match="audit=true"):
        load(spark, copy, topic=topic).count()
    audit = load(spark, copy, topic=topic, audit="true")
    assert audit.filter("valid").count() == 39
    damage = audit.filter("not valid").collect()
    assert [row.commitLogOffset for row in damage] == [victim.commitLogOffset] and damage[0].damage


def test_a_directory_that_is_none_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="is not a directory"):
        load(spark, tmp_path / "nothing").count()
