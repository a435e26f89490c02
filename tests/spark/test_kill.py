"""A stream, and the broker under it, killed at random: the lake has every message exactly once. ROCKETPY_KILLS times (default 10)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

from pyspark.errors import PySparkException
from pyspark.sql.functions import udf

from rocketpy._core.errors import RocketpyError
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from tests.crash.broker_process import BrokerProcess, NameServerProcess
from tests.processes import wait_until
from tests.spark.killed_lake import KILLS, ROUND_MESSAGES, KilledLake, batches
from tests.spark.lake_job import start_lake
from tests.spark.servers import create_topic, send
from tests.spark.test_batch import numbered


def contents(spark: Any, directory: Path) -> list[tuple[int, int, bytes]]:
    return sorted((row.queueId, row.queueOffset, bytes(row.body)) for row in spark.read.parquet(f"{directory}/lake").collect())


def expected(rounds: int, count: int) -> list[tuple[int, int, bytes]]:
    """What a topic has to which numbered(count) was sent so many times: (queue, offset, body)."""
    each = count // 4
    return sorted((i % 4, turn * each + i // 4, b"body %d" % i) for turn in range(rounds) for i in range(count))


def end_offsets(broker: str, topic: str, queues: int = 4) -> list[int]:
    """What this very broker has; nothing when it does not know the topic."""

    async def work() -> list[int]:
        async with RemotingClient() as client:
            fields = [{"topic": topic, "queueId": str(queue)} for queue in range(queues)]
            return [int((await client.call(broker, RequestCode.GET_MAX_OFFSET, each)).fields["offset"]) for each in fields]

    try:
        return asyncio.run(work())
    except RocketpyError:
        return []


def addresses(name_server: str, topic: str) -> list[str]:
    from rocketpy.spark.cluster import Cluster as View
    from rocketpy.spark.cluster import Endpoint

    return [address for each in View(Endpoint((name_server,))).addresses(topic).values() for address in each]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_stream_killed_at_random_writes_every_message_once(spark: Any, killed_lake: KilledLake) -> None:
    print(f"seed {killed_lake.seed}")
    kills, sent = killed_lake.result()
    final = start_lake(spark, killed_lake.name_server, killed_lake.topic, str(killed_lake.directory))
    assert final.awaitTermination(300) and final.exception() is None
    assert contents(spark, killed_lake.directory) == expected(sent, ROUND_MESSAGES)
    print(f"{kills} kills, {batches(killed_lake.directory)} batches, {ROUND_MESSAGES * sent} messages")


def broker_process(directory: Path, names: NameServerProcess, **keys: object) -> BrokerProcess:
    """One of broker-a."""
    return BrokerProcess(directory, brokerName="broker-a", namesrvAddr=names.address, mappedFileSizeCommitLog=16 << 20, **keys)


@dataclass(frozen=True)
class Pair:
    """A name server and a broker in processes of their own."""

    names: NameServerProcess
    broker: BrokerProcess


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    names = NameServerProcess(tmp_path / "namesrv")
    made = Pair(names, broker_process(tmp_path / "broker", names))
    servers = (made.names, made.broker)
    try:
        for server in servers:
            server.start()
        yield made
    finally:
        for server in reversed(servers):
            server.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broker_killed_under_a_stream_costs_and_repeats_nothing(spark: Any, pair: Pair, tmp_path: Path) -> None:
    name_server, address = pair.names.address, pair.broker.address
    create_topic(address, "Killed")
    send(address, "Killed", numbered(1000 * (KILLS + 1)))
    source = spark.readStream.format("rocketmq").options(nameServer=name_server, topic="Killed", startingOffsets="earliest")
    rows = source.options(maxOffsetsPerTrigger="500", retryTimeoutMs="120s").load().select("queueId", "queueOffset", "body")
    sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start(str(tmp_path / "lake"))
    for kill in range(KILLS):
        wait_until(lambda count=1 + 2 * kill: not query.isActive or batches(tmp_path) >= count, 120, "another batch", every=0.01)
        assert query.isActive, query.exception()
        pair.broker.kill()
        pair.broker.start()
    query.awaitTermination(600)
    assert query.exception() is None and not query.isActive
    assert contents(spark, tmp_path) == expected(1, 1000 * (KILLS + 1))


@pytest.mark.timeout(300)
def test_a_broker_that_dies_and_stays_dead_is_one_clear_error(spark: Any, pair: Pair) -> None:
    name_server, address = pair.names.address, pair.broker.address
    create_topic(address, "Dead", 1)
    send(address, "Dead", numbered(100, 1))
    frame = spark.read.format("rocketmq").options(nameServer=name_server, topic="Dead", retryTimeoutMs="1500").load()
    assert frame.count() == 100
    pair.broker.kill()
    started = time.monotonic()
    with pytest.raises(PySparkException, match=r"does not answer|no broker answered|is not known|no broker of topic"):
        frame.count()
    assert time.monotonic() - started < 60


@pytest.mark.timeout(300)
def test_a_broker_that_dies_while_it_is_read_is_one_clear_error_and_no_partial_result(spark: Any, pair: Pair) -> None:
    name_server, address = pair.names.address, pair.broker.address
    create_topic(address, "Dies", 1)
    send(address, "Dies", [(0, bytes(6000), "")] * 8000)
    victim = pair.broker.pid
    options = {"nameServer": name_server, "topic": "Dies", "retryTimeoutMs": "1500", "batchRows": "50"}

    def kill_at_the_first_row(offset: int, _: bytes) -> int:
        if offset == 0:
            os.kill(victim, 9)
        return offset

    frame = spark.read.format("rocketmq").options(**options).load()
    started = time.monotonic()
    with pytest.raises(PySparkException, match=r"reading Dies@broker-a@0: offset \d+: .* \[no broker answered for 1.5 s; read offsets 0"):
        frame.select(udf(kill_at_the_first_row, "long", useArrow=False)("queueOffset", "body")).collect()
    assert time.monotonic() - started < 60


@pytest.mark.timeout(600)
def test_a_stream_goes_on_at_the_slave_when_the_master_dies(spark: Any, pair: Pair, tmp_path: Path) -> None:
    name_server, address = pair.names.address, pair.broker.address
    slave = broker_process(tmp_path / "slave", pair.names, brokerId=1, brokerRole="SLAVE", slaveReadEnable=True)
    create_topic(address, "Switched")
    send(address, "Switched", numbered(2000))
    slave.start()
    try:
        wait_until(lambda: end_offsets(slave.address, "Switched") == [500] * 4, 60, "the slave has everything")
        wait_until(lambda: slave.address in addresses(name_server, "Switched"), 60, "the slave is where readers look for it")
        at_slave = spark.read.format("rocketmq").options(nameServer=name_server, topic="Switched", readFrom="slave").load()
        assert at_slave.count() == 2000
        source = spark.readStream.format("rocketmq").options(nameServer=name_server, topic="Switched", startingOffsets="earliest")
        rows = source.options(maxOffsetsPerTrigger="400", retryTimeoutMs="60s").load().select("queueId", "queueOffset", "body")
        sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start(str(tmp_path / "lake"))
        wait_until(lambda: not query.isActive or batches(tmp_path) >= 1, 120, "the first batch")
        pair.broker.kill()
        query.awaitTermination(240)
        assert query.exception() is None and not query.isActive
        assert contents(spark, tmp_path) == expected(1, 2000)
    finally:
        slave.stop()
