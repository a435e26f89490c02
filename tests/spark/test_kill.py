"""A stream, and the broker under it, killed at random: the lake has every message exactly once. ROCKETPY_KILLS times (default 10)."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'rocketpy-mq[spark]'")

from pyspark.errors import PySparkException
from pyspark.sql.functions import udf

from rocketpy._core.errors import RocketpyError
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from tests.processes import BROKER_PORTS, free_port
from tests.spark.servers import Child, Cluster, create_topic, send
from tests.spark.test_batch import numbered

KILLS = int(os.environ.get("ROCKETPY_KILLS", "10"))
ROOT = Path(__file__).resolve().parents[2]


def job(name_server: str, topic: str, directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.lake_job", name_server, topic, str(directory)]
    with (directory / "job.log").open("ab") as output:
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)


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


def batches(directory: Path) -> int:
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*"))) if (directory / "checkpoint" / "commits").exists() else 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_stream_killed_at_random_writes_every_message_once(spark: Any, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("ROCKETPY_SEED", random.randrange(2**31)))
    print(f"seed {seed}")
    dice = random.Random(seed)
    sent = kills = 0
    ended = threading.Event()
    while kills < KILLS:
        cluster.send(topic, numbered(2000))
        sent += 1
        running = job(cluster.name_server, topic, tmp_path)
        wanted = batches(tmp_path) + dice.randrange(1, 5)
        while running.poll() is None and batches(tmp_path) < wanted:
            ended.wait(0.01)
        ended.wait(dice.random() / 2)
        if running.poll() is None:
            os.killpg(running.pid, 9)  # the job is the leader of a session of its own: its JVM goes too
            running.wait(30)
            kills += 1
        assert sent <= 3 * KILLS, (tmp_path / "job.log").read_text()[-3000:]
    final = job(cluster.name_server, topic, tmp_path)
    assert final.wait(300) == 0, (tmp_path / "job.log").read_text()[-3000:]
    assert contents(spark, tmp_path) == expected(sent, 2000)
    print(f"{kills} kills, {batches(tmp_path)} batches, {2000 * sent} messages")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[str, str, Child]]:
    """A name server and a broker in processes of their own: (name server, broker address, broker process)."""
    name_port, port = free_port(), free_port(BROKER_PORTS)
    config = tmp_path / "broker.conf"
    config.write_text(
        f"brokerName=broker-a\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort={port}\nhaListenPort={free_port()}\nnamesrvAddr=127.0.0.1:{name_port}\n"
        f"storePathRootDir={tmp_path / 'store'}\nlogPath={tmp_path / 'logs'}\nmappedFileSizeCommitLog=16777216\n"
    )
    naming = tmp_path / "namesrv.conf"
    naming.write_text(f"listenPort={name_port}\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path / 'kv.json'}\nlogPath={tmp_path / 'logs'}\n")
    names = Child("namesrv", tmp_path, ["namesrv", "-c", str(naming)])
    broker = Child("broker", tmp_path, ["broker", "-c", str(config)])
    names.start()
    names.wait_for(r"(boot success)")
    broker.start()
    broker.wait_for(r"(boot success)")
    yield f"127.0.0.1:{name_port}", f"127.0.0.1:{port}", broker
    broker.kill()
    names.kill()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broker_killed_under_a_stream_costs_and_repeats_nothing(spark: Any, pair: tuple[str, str, Child], tmp_path: Path) -> None:
    name_server, address, broker = pair
    create_topic(address, "Killed")
    send(address, "Killed", numbered(1000 * (KILLS + 1)))
    source = spark.readStream.format("rocketmq").options(nameServer=name_server, topic="Killed", startingOffsets="earliest")
    rows = source.options(maxOffsetsPerTrigger="500", retryTimeoutMs="120s").load().select("queueId", "queueOffset", "body")
    sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start(str(tmp_path / "lake"))
    waiting = threading.Event()
    for kill in range(KILLS):
        while query.isActive and batches(tmp_path) < 1 + 2 * kill:
            waiting.wait(0.01)
        assert query.isActive, query.exception()
        broker.kill()
        broker.start()
    query.awaitTermination(600)
    assert query.exception() is None and not query.isActive
    assert contents(spark, tmp_path) == expected(1, 1000 * (KILLS + 1))


@pytest.mark.timeout(300)
def test_a_broker_that_dies_and_stays_dead_is_one_clear_error(spark: Any, pair: tuple[str, str, Child]) -> None:
    name_server, address, broker = pair
    create_topic(address, "Dead", 1)
    send(address, "Dead", numbered(100, 1))
    frame = spark.read.format("rocketmq").options(nameServer=name_server, topic="Dead", retryTimeoutMs="1500").load()
    assert frame.count() == 100
    broker.kill()
    started = time.monotonic()
    with pytest.raises(PySparkException, match=r"does not answer|no broker answered|is not known|no broker of topic"):
        frame.count()
    assert time.monotonic() - started < 60


@pytest.mark.timeout(300)
def test_a_broker_that_dies_while_it_is_read_is_one_clear_error_and_no_partial_result(spark: Any, pair: tuple[str, str, Child]) -> None:
    name_server, address, broker = pair
    create_topic(address, "Dies", 1)
    send(address, "Dies", [(0, bytes(6000), "")] * 8000)
    assert broker.popen is not None
    victim = broker.popen.pid
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
def test_a_stream_goes_on_at_the_slave_when_the_master_dies(spark: Any, pair: tuple[str, str, Child], tmp_path: Path) -> None:
    name_server, address, master = pair
    port = free_port(BROKER_PORTS)
    config = tmp_path / "slave.conf"
    config.write_text(
        f"brokerName=broker-a\nbrokerId=1\nbrokerRole=SLAVE\nslaveReadEnable=true\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort={port}\nhaListenPort={free_port()}\n"
        f"namesrvAddr={name_server}\nstorePathRootDir={tmp_path / 'slave-store'}\nlogPath={tmp_path / 'slave-logs'}\n"
        "mappedFileSizeCommitLog=16777216\n"
    )
    create_topic(address, "Switched")
    send(address, "Switched", numbered(2000))
    slave = Child("slave", tmp_path, ["broker", "-c", str(config)])
    slave.start()
    try:
        slave.wait_for(r"(boot success)")
        arrived = threading.Event()
        for _ in range(240):  # until the slave has everything, and is where readers look for it
            if end_offsets(f"127.0.0.1:{port}", "Switched") == [500] * 4 and f"127.0.0.1:{port}" in addresses(name_server, "Switched"):
                break
            arrived.wait(0.25)
        at_slave = spark.read.format("rocketmq").options(nameServer=name_server, topic="Switched", readFrom="slave").load()
        assert at_slave.count() == 2000
        source = spark.readStream.format("rocketmq").options(nameServer=name_server, topic="Switched", startingOffsets="earliest")
        rows = source.options(maxOffsetsPerTrigger="400", retryTimeoutMs="60s").load().select("queueId", "queueOffset", "body")
        sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start(str(tmp_path / "lake"))
        while query.isActive and batches(tmp_path) < 1:
            arrived.wait(0.02)
        master.kill()
        query.awaitTermination(240)
        assert query.exception() is None and not query.isActive
        assert contents(spark, tmp_path) == expected(1, 2000)
    finally:
        slave.kill()
