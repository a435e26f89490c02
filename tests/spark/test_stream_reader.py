"""What a stream makes of queues that are cut, closed or of another topic, asked of the reader itself: no Spark, but a real broker."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from rocketpy._core.errors import NotFound, OffsetOutOfRange
from rocketpy.spark.cluster import Cluster as View
from rocketpy.spark.options import Use, parse_options
from rocketpy.spark.rows import RowSettings
from rocketpy.spark.stream import QueueStreamReader
from tests.processes import wait_until
from tests.spark.servers import Cluster, send
from tests.spark.test_batch import numbered

Offsets = dict[str, Any]
EVERYTHING = ReadAllAvailable()


def reader(cluster: Cluster, **options: str) -> QueueStreamReader:
    given = {"nameServer": cluster.name_server, "startingOffsets": "earliest", **options}
    return QueueStreamReader(parse_options(given, frozenset({Use.STREAM})), ("queueId", "queueOffset"))


def read(source: QueueStreamReader, start: Offsets, end: Offsets) -> list[tuple[int, int]]:
    batches = [batch for part in source.partitions(start, end) for batch in source.read(part)]
    return sorted((row["queueId"], row["queueOffset"]) for batch in batches for row in batch.to_pylist())


def offsets(topic: str, *ends: int) -> Offsets:
    return {topic: {"broker-a": {str(queue): end for queue, end in enumerate(ends)}}}


def test_a_topic_made_anew_is_an_error_or_goes_on_at_its_end(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    reached = offsets(topic, 99, 99, 10, 10)
    with pytest.raises(OffsetOutOfRange, match="@0 ends at offset 10, before 99, which it had reached"):
        reader(cluster, topic=topic).latestOffset(reached, EVERYTHING)
    source = reader(cluster, topic=topic, failOnDataLoss="false")
    back = source.latestOffset(reached, EVERYTHING)
    assert back == offsets(topic, 10, 10, 10, 10) and source.partitions(reached, back) == []
    cluster.send(topic, numbered(4))
    assert read(source, back, source.latestOffset(back, EVERYTHING)) == [(queue, 10) for queue in range(4)]


def test_a_planned_batch_that_was_cut_is_an_error_or_what_is_left_of_it(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    start, end = offsets(topic, 8, 8, 8, 8), offsets(topic, 99, 10, 10, 10)
    with pytest.raises(OffsetOutOfRange, match="@0 ends at offset 10, before 99"):
        reader(cluster, topic=topic).partitions(start, end)
    assert len(read(reader(cluster, topic=topic, failOnDataLoss="false"), start, end)) == 8


def test_a_checkpoint_of_another_topic_is_an_error(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(4))
    for options in ({"topic": topic}, {"topicPattern": f"{topic}.*"}):
        with pytest.raises(OffsetOutOfRange, match="a query that read topic Before, which this one does not"):
            reader(cluster, **options).latestOffset(offsets("Before", 5), EVERYTHING)
    source = reader(cluster, topic=topic, failOnDataLoss="false")
    assert source.latestOffset(offsets("Before", 5), EVERYTHING) == {**offsets("Before", 5), **offsets(topic, 1, 1, 1, 1)}


def test_queues_that_were_closed_are_an_error_or_stand_still(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    cluster.create_topic(topic, 2)
    wait_until(lambda: len(View(reader(cluster, topic=topic).settings.endpoint).queues([topic])) == 2, 30, "the route of two queues")
    start = offsets(topic, 9, 10, 9, 10)
    with pytest.raises(OffsetOutOfRange, match="@2 is closed, what it has from offset 9 on cannot be read"):
        reader(cluster, topic=topic).latestOffset(start, EVERYTHING)
    assert reader(cluster, topic=topic, failOnDataLoss="false").latestOffset(start, EVERYTHING) == offsets(topic, 10, 10, 9, 10)


def test_a_broker_that_is_away_is_told_once_and_when_it_is_back(cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster.send(topic, numbered(4))
    source = reader(cluster, topic=topic)
    gone = {topic: {**offsets(topic, 0, 0, 0, 0)[topic], "broker-b": {"0": 5}}}
    for start in (gone, gone, offsets(topic, 0, 0, 0, 0)):
        assert source.latestOffset(start, EVERYTHING)[topic]["broker-a"] == {str(queue): 1 for queue in range(4)}
    assert [record.message.rpartition(": ")[2] for record in caplog.records if record.name == "rocketpy.spark.stream"] == [
        "broker-b",
        "none any more",
    ]


def test_a_pattern_whose_topics_are_away_for_a_moment_stands_still(cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.send(topic, numbered(4))
    source = reader(cluster, topicPattern=f"{topic}.*")
    start = source.initialOffset()
    monkeypatch.setattr(View, "topics", lambda self: [])  # a name server that has just started
    assert source.latestOffset(start, EVERYTHING) == start
    with pytest.raises(NotFound, match="no topic matches topicPattern"):
        reader(cluster, topicPattern=f"{topic}.*").initialOffset()


def test_a_pattern_reads_what_is_readable_and_no_topic_of_the_servers(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(f"{topic}_closed", 0)
    cluster.create_topic("TBW102s")
    cluster.send(topic, numbered(4))
    found = set(reader(cluster, topicPattern=".*").initialOffset())
    assert {topic, "TBW102s"} <= found and f"{topic}_closed" not in found
    assert not any(name.startswith(("TBW102_", "rmq_sys_", "RMQ_SYS_", "broker-a", "DefaultCluster")) or name == "TBW102" for name in found)
    assert set(reader(cluster, topicPattern="rmq_sys_wheel.*").initialOffset()) == {"rmq_sys_wheel_timer"}


def test_a_misspelt_topic_is_told_at_once_when_a_run_is_to_end_too(cluster: Cluster, topic: str) -> None:
    source = reader(cluster, topic=f"{topic}s")
    source.prepareForTriggerAvailableNow()
    with pytest.raises(NotFound, match="is not known at name server"):
        source.initialOffset()


def test_a_run_that_is_to_end_reads_what_there_was_when_it_began(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(4))
    source = reader(cluster, topic=topic)
    source.prepareForTriggerAvailableNow()
    first = source.latestOffset(source.initialOffset(), EVERYTHING)
    cluster.send(topic, numbered(4))
    assert source.latestOffset(first, EVERYTHING) == first == offsets(topic, 1, 1, 1, 1)


def test_times_that_no_calendar_has_are_null(cluster: Cluster, topic: str) -> None:
    for born in (2**63 - 1, -(2**62), 10**15, 1000):
        send(cluster.broker, topic, [(0, b"", "")], g=str(born))
    source = reader(cluster, topic=topic)
    source.settings = replace(source.settings, rows=RowSettings(("bornTimestamp",)))
    (part,) = source.partitions(source.initialOffset(), offsets(topic, 4, 0, 0, 0))
    born = [row["bornTimestamp"] for batch in source.read(part) for row in batch.to_pylist()]
    assert born == [None, None, None, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]


def test_a_first_batch_waits_for_nothing_and_a_later_one_for_volume(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(4))
    source = reader(cluster, topic=topic, minOffsetsPerTrigger="8")
    limit = source.getDefaultReadLimit()
    first = source.latestOffset(source.initialOffset(), limit)
    assert first == offsets(topic, 1, 1, 1, 1)
    cluster.send(topic, numbered(4))
    assert source.latestOffset(first, limit) == first
    cluster.send(topic, numbered(4))
    assert source.latestOffset(first, limit) == offsets(topic, 3, 3, 3, 3)


def test_a_topic_that_nobody_may_read_is_an_error_not_an_empty_table(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 0)
    wait_until(lambda: not View(reader(cluster, topic=topic).settings.endpoint, topics_exist=True).queues([topic]), 30, "the empty route")
    with pytest.raises(NotFound, match="has no readable queue"):
        reader(cluster, topic=topic).initialOffset()
