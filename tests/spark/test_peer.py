"""The same sources on RocketMQ 5.5.0 itself: its name server, its broker, its files, its dead letters."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpy.remoting.codes import RequestCode
from tests.interop import wire
from tests.interop.products import Broker, Cluster, NameServer, Peer
from tests.processes import wait_until
from tests.spark.servers import copy_store, send
from tests.spark.test_batch import numbered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def peer(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("peer")
    product = Peer()
    names = NameServer(product, home / "namesrv").start()
    broker = Broker(product, home / "broker", names.address)
    try:
        broker.start(names)
        yield Cluster(names, [broker])
    finally:
        broker.kill()
        names.kill()


def load(spark: Any, peer: Cluster, topic: str, **options: Any) -> Any:
    return spark.read.format("rocketmq").options(nameServer=peer.address, topic=topic, **options).load()


def contents(rows: list[Any]) -> list[tuple[int, int, bytes, str, str]]:
    return sorted((row.queueId, row.queueOffset, bytes(row.body), row.tags, row.keys) for row in rows)


def test_batches_and_streams_carry_every_message_both_ways(spark: Any, peer: Cluster, tmp_path: Path) -> None:
    peer.create_topic("Theirs")
    peer.create_topic("Copy")
    send(peer.broker.address, "Theirs", numbered(2000))
    rows = load(spark, peer, "Theirs").collect()
    places = [(i % 4, i // 4, f"body {i}".encode(), "even" if i // 4 % 2 == 0 else "odd", f"k{i}") for i in range(2000)]
    assert contents(rows) == sorted(places)
    assert load(spark, peer, "Theirs", subExpression="odd").count() == 1000

    source = spark.readStream.format("rocketmq").options(nameServer=peer.address, topic="Theirs", startingOffsets="earliest")
    stream = source.option("maxOffsetsPerTrigger", 700).load().select("body", "tags", "keys", "queueId")
    sink = stream.writeStream.format("rocketmq").options(nameServer=peer.address, topic="Copy", batchSize=50)
    query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    copied = load(spark, peer, "Copy").collect()
    assert sorted((bytes(row.body), row.queueId) for row in copied) == sorted((bytes(row.body), row.queueId) for row in rows)
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()  # as if the driver had died before it noted its epochs
    again = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    again.awaitTermination(120)
    assert again.exception() is None and load(spark, peer, "Copy").count() == 2000


def test_delayed_rows_come_when_their_time_has_come(spark: Any, peer: Cluster) -> None:
    peer.create_topic("Later")
    frame = spark.range(20, numPartitions=1).selectExpr(
        "string(id) as body",
        "if(id < 10, 1, null) as delayLevel",
        "if(id < 10, null, unix_millis(current_timestamp()) + 10000) as deliverTimeMs",
    )
    frame.write.format("rocketmq").mode("append").options(nameServer=peer.address, topic="Later").save()
    assert load(spark, peer, "Later").count() < 20
    wait_until(lambda: load(spark, peer, "Later").count() == 20, 60, "delayed messages")
    assert sorted(int(bytes(row.body)) for row in load(spark, peer, "Later").collect()) == list(range(20))


@pytest.mark.parametrize("delay", ["delayLevel", "deliverTimeMs"])
def test_delayed_rows_of_an_earlier_try_are_not_sent_again(peer: Cluster, delay: str) -> None:
    import pyarrow as pa

    from rocketpy.spark.sender import RowIds
    from tests.spark.test_sender import is_indexed, write

    peer.create_topic("Delayed")
    ids = RowIds(uuid.uuid4().hex[:24].upper(), True)
    value = pa.array([18], pa.int32()) if delay == "delayLevel" else pa.array([int(time.time() * 1000) + 600_000], pa.int64())
    columns = {"body": ["later"], delay: value}
    assert write(peer.address, "Delayed", ids, 10, **columns).skipped == 0
    places = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
    wait_until(lambda: any(is_indexed(peer.broker.address, name, f"{ids.prefix}00000000") for name in places), 30, "an index entry")
    assert write(peer.address, "Delayed", ids, 10, **columns).skipped == 1


def test_times_find_the_first_message_in_their_queues(spark: Any, peer: Cluster) -> None:
    peer.create_topic("Timed", 2)
    for turn in range(3):
        send(peer.broker.address, "Timed", numbered(400, 2))
        end = time.time() * 1000 + 20
        while turn < 2 and time.time() * 1000 < end:
            pass
    stamps = sorted(
        {int(row.storeTimestamp.timestamp() * 1000 + 0.5) for row in load(spark, peer, "Timed").select("storeTimestamp").collect()}
    )
    rows = load(spark, peer, "Timed").select("storeTimestamp").collect()
    for border in (stamps[0], stamps[len(stamps) // 2], stamps[-1]):
        wanted = sum(int(row.storeTimestamp.timestamp() * 1000 + 0.5) >= border for row in rows)
        found = load(spark, peer, "Timed", startingTimestamp=border, startingOffsetsByTimestampStrategy="latest").count()
        assert (found, load(spark, peer, "Timed", endingTimestamp=border).count()) == (wanted, 1200 - wanted)
    with pytest.raises(Exception, match="no message stored at"):
        load(spark, peer, "Timed", startingTimestamp=stamps[-1] + 10_000).count()


def test_their_files_hold_what_their_broker_gives(spark: Any, peer: Cluster, tmp_path: Path) -> None:
    peer.create_topic("Filed")
    send(peer.broker.address, "Filed", numbered(400))
    pulled = load(spark, peer, "Filed").orderBy("queueId", "queueOffset").collect()
    copy = copy_store(peer.broker.store, tmp_path / "store")
    files = spark.read.format("rocketmq-store").options(storePath=str(copy), topic="Filed", brokerName="broker-a").load()
    assert files.orderBy("queueId", "queueOffset").collect() == pulled and len(pulled) == 400


def test_an_unknown_topic_is_one_clear_error(spark: Any, peer: Cluster) -> None:
    with pytest.raises(Exception, match="'NoSuchTopic' is not known"):
        load(spark, peer, "NoSuchTopic", retryTimeoutMs="1s").count()


def test_dead_letters_are_counted_and_replayed(spark: Any, peer: Cluster, tmp_path: Path) -> None:
    from rocketpy.spark.pipelines import dlq

    peer.create_topic("Work", 1)
    send(peer.broker.address, "Work", numbered(20, 1))
    for row in load(spark, peer, "Work").collect():
        fields = {
            "offset": str(row.commitLogOffset), "group": "workers", "delayLevel": "-1", "originMsgId": row.msgId, "originTopic": "Work",
        }  # fmt: skip
        assert wire.call(peer.broker.address, RequestCode.CONSUMER_SEND_MSG_BACK, fields).code == 0
    arguments = ["-n", peer.address, "-g", "workers", "-o", str(tmp_path / "dlq.html"), "--option", "retryTimeoutMs=10s"]
    wait_until(lambda: bool(peer.route("%DLQ%workers")), 60, "the dead letter topic's route")
    assert dlq.main([*arguments, "--where", "tags = 'odd'", "--replay"]) == 0
    assert "<svg" in (tmp_path / "dlq.html").read_text() and ">10<" in (tmp_path / "dlq.html").read_text()
    rows = load(spark, peer, "Work").collect()
    bodies = [b"body %d" % i for i in range(20)]
    assert sorted(bytes(row.body) for row in rows) == sorted(bodies + bodies[1::2])
