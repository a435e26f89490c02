"""Streaming reads: checkpoints, limits, new queues, retention, offsets committed to the broker."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from tests.processes import wait_until
from tests.spark.servers import Cluster
from tests.spark.test_batch import numbered

Drain = Callable[..., list[Any]]


@pytest.fixture
def drain(spark: Any, cluster: Cluster, topic: str, tmp_path: Path) -> Drain:
    """Runs the stream to what is there now (availableNow) and returns every row its lake has."""

    def run(**options: Any) -> list[Any]:
        source = spark.readStream.format("rocketmq").option("nameServer", cluster.name_server).option("topic", topic)
        frame = source.options(**{"startingOffsets": "earliest", **options}).load().select("queueId", "queueOffset", "body")
        lake, checkpoint = str(tmp_path / "lake"), str(tmp_path / "checkpoint")
        query = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(lake)
        query.awaitTermination(120)
        if query.exception() is not None:
            raise query.exception()
        run.progress = [json.loads(p.json) for p in query.recentProgress]  # type: ignore[attr-defined]
        return spark.read.parquet(lake).collect()

    return run


def places(rows: list[Any]) -> list[tuple[int, int]]:
    return sorted((row.queueId, row.queueOffset) for row in rows)


def test_a_stream_goes_on_where_its_checkpoint_ends(drain: Drain, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(100))
    assert places(drain()) == [(queue, offset) for queue in range(4) for offset in range(25)]
    cluster.send(topic, numbered(60))
    assert places(drain()) == [(queue, offset) for queue in range(4) for offset in range(40)]


def test_a_limit_makes_several_batches_of_the_same_rows(drain: Drain, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(100))
    assert len(drain(maxOffsetsPerTrigger=40)) == 100
    assert [batch["numInputRows"] for batch in drain.progress if batch["numInputRows"]] == [40, 40, 20]  # type: ignore[attr-defined]


def test_a_limit_in_bytes_makes_batches_of_about_that_size(drain: Drain, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, [(i % 4, bytes(1000), "") for i in range(100)])
    assert len(drain(maxBytesPerTrigger="25k")) == 100
    sizes = [batch["numInputRows"] for batch in drain.progress if batch["numInputRows"]]  # type: ignore[attr-defined]
    assert len(sizes) >= 4 and max(sizes) <= 26, sizes


def test_a_batch_waits_for_volume_but_not_for_ever(spark: Any, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    source = spark.readStream.format("rocketmq").option("nameServer", cluster.name_server).option("topic", topic)
    rows = source.options(startingOffsets="earliest", minOffsetsPerTrigger=40, maxTriggerDelay="4s").load().select("queueOffset")
    sink = rows.writeStream.format("memory").queryName("waiting").option("checkpointLocation", str(tmp_path))
    cluster.send(topic, numbered(40))
    query = sink.trigger(processingTime="100 milliseconds").start()
    try:
        wait_until(lambda: spark.table("waiting").count() == 40, 60, "the first batch, which waits for nothing")
        since = time.monotonic()
        cluster.send(topic, numbered(8))
        wait_until(lambda: spark.table("waiting").count() == 48, 60, "the batch that is too small")
        assert time.monotonic() - since > 1
    finally:
        query.stop()


def test_a_stream_starts_at_a_time(drain: Drain, cluster: Cluster, topic: str, read: Callable[..., Any]) -> None:
    cluster.send(topic, numbered(40))
    border = int(max(row.storeTimestamp for row in read(topic=topic).collect()).timestamp() * 1000) + 2
    while time.time() * 1000 <= border + 1:
        pass
    cluster.send(topic, numbered(20))
    assert places(drain(startingTimestamp=border)) == [(queue, offset) for queue in range(4) for offset in range(10, 15)]


def test_queues_added_later_are_read_from_their_start(drain: Drain, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    drain(startingOffsets="latest")
    cluster.create_topic(topic, 6)
    cluster.send(topic, [(5, b"new", ""), (0, b"more", "")])
    assert sorted(bytes(row.body) for row in drain(startingOffsets="latest")) == [b"more", b"new"]


def test_offsets_are_committed_to_the_group_when_asked(drain: Drain, cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    drain(consumerGroup="spark-readers", commitOffsets="true")
    cluster.send(topic, numbered(4))
    drain(consumerGroup="spark-readers", commitOffsets="true")

    async def committed() -> int:
        async with RemotingClient() as client:
            fields = {"consumerGroup": "spark-readers", "topic": topic, "queueId": "0"}
            return int((await client.call(cluster.broker, RequestCode.QUERY_CONSUMER_OFFSET, fields)).fields["offset"])

    assert asyncio.run(committed()) == 10  # of the batch before the last: Spark commits a batch when the next one is planned


def test_a_stream_whose_topic_was_made_anew_says_so(drain: Drain, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.send(topic, numbered(40))
    drain()
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))[-1]
    offsets.write_text(re.sub(r": ?10\b", ":99", offsets.read_text()))
    (offsets.parent / f".{offsets.name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="before 99, which it had reached"):
        drain()


def test_ending_offsets_are_refused_in_a_stream(drain: Drain, topic: str) -> None:
    with pytest.raises(Exception, match="not for a stream query") as caught:
        drain(endingOffsets="latest")
    assert "InvalidArgument" in str(caught.value) and "UnboundLocalError" not in str(caught.value)
