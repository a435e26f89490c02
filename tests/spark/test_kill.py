"""A stream, and the broker under it, killed at random: the lake has every message exactly once. ROCKETPY_KILLS rounds (default 3)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import BROKER_PORTS, free_port
from tests.spark.servers import Child, Cluster, create_topic, send
from tests.spark.test_batch import numbered

ROUNDS = int(os.environ.get("ROCKETPY_KILLS", "3"))
ROOT = Path(__file__).resolve().parents[2]


def job(name_server: str, topic: str, directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.lake_job", name_server, topic, str(directory)]
    with (directory / "job.log").open("ab") as output:
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)


def places(spark: Any, directory: Path) -> list[tuple[int, int]]:
    return sorted((row.queueId, row.queueOffset) for row in spark.read.parquet(f"{directory}/lake").collect())


def batches(directory: Path) -> int:
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*"))) if (directory / "checkpoint" / "commits").exists() else 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_stream_killed_at_random_writes_every_message_once(spark: Any, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("ROCKETPY_SEED", random.randrange(2**31)))
    print(f"seed {seed}")
    dice = random.Random(seed)
    sent = 0
    for _ in range(ROUNDS):
        cluster.send(topic, numbered(2000))
        sent += 500
        before = batches(tmp_path)
        running = job(cluster.name_server, topic, tmp_path)
        wanted = before + dice.randrange(0, 6)
        ended = threading.Event()
        while running.poll() is None and batches(tmp_path) < wanted:
            ended.wait(0.02)
        ended.wait(dice.random())
        if running.poll() is None:
            os.killpg(running.pid, 9)  # the job is the leader of a session of its own: its JVM goes too
            running.wait(30)
    final = job(cluster.name_server, topic, tmp_path)
    assert final.wait(300) == 0, (tmp_path / "job.log").read_text()[-3000:]
    assert places(spark, tmp_path) == [(queue, offset) for queue in range(4) for offset in range(sent)]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[str, str, Child]]:
    """A name server and a broker in processes of their own: (name server, broker address, broker process)."""
    name_port, port = free_port(), free_port(BROKER_PORTS)
    config = tmp_path / "broker.conf"
    config.write_text(
        f"brokerName=broker-a\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort={port}\nhaListenPort={free_port()}\nnamesrvAddr=127.0.0.1:{name_port}\n"
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


@pytest.mark.timeout(600)
def test_a_broker_killed_under_a_stream_costs_and_repeats_nothing(spark: Any, pair: tuple[str, str, Child], tmp_path: Path) -> None:
    name_server, address, broker = pair
    create_topic(address, "Killed")
    send(address, "Killed", numbered(4000))
    source = spark.readStream.format("rocketmq").options(nameServer=name_server, topic="Killed", startingOffsets="earliest")
    rows = source.options(maxOffsetsPerTrigger="500", retryTimeoutMs="120s").load().select("queueId", "queueOffset")
    sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.trigger(availableNow=True).start(str(tmp_path / "lake"))
    waiting = threading.Event()
    for kill in range(2):
        while query.isActive and batches(tmp_path) < 1 + 2 * kill:
            waiting.wait(0.02)
        broker.kill()
        broker.start()
    query.awaitTermination(240)
    assert query.exception() is None and not query.isActive
    assert places(spark, tmp_path) == [(queue, offset) for queue in range(4) for offset in range(1000)]


@pytest.mark.timeout(300)
def test_a_broker_that_dies_and_stays_dead_is_one_clear_error(spark: Any, pair: tuple[str, str, Child]) -> None:
    name_server, address, broker = pair
    create_topic(address, "Dead", 1)
    send(address, "Dead", numbered(100, 1))
    frame = spark.read.format("rocketmq").options(nameServer=name_server, topic="Dead", retryTimeoutMs="1500").load()
    assert frame.count() == 100
    broker.kill()
    with pytest.raises(Exception, match=r"does not answer|no broker answered|is not known|no broker of topic"):
        frame.count()


@pytest.mark.timeout(600)
def test_a_stream_goes_on_at_the_slave_when_the_master_dies(spark: Any, pair: tuple[str, str, Child], tmp_path: Path) -> None:
    name_server, address, master = pair
    port = free_port(BROKER_PORTS)
    config = tmp_path / "slave.conf"
    config.write_text(
        f"brokerName=broker-a\nbrokerId=1\nbrokerRole=SLAVE\nslaveReadEnable=true\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort={port}\nhaListenPort={free_port()}\n"
        f"namesrvAddr={name_server}\nstorePathRootDir={tmp_path / 'slave-store'}\nlogPath={tmp_path / 'slave-logs'}\n"
        "mappedFileSizeCommitLog=16777216\n"
    )
    create_topic(address, "Switched")
    send(address, "Switched", numbered(2000))
    slave = Child("slave", tmp_path, ["broker", "-c", str(config)])
    slave.start()
    try:
        slave.wait_for(r"(boot success)")
        at_slave = spark.read.format("rocketmq").options(nameServer=name_server, topic="Switched", readFrom="slave", retryTimeoutMs="60s")
        arrived = threading.Event()
        for _ in range(60):  # until the slave is registered and has everything
            if at_slave.load().count() == 2000:
                break
            arrived.wait(0.5)
        source = spark.readStream.format("rocketmq").options(nameServer=name_server, topic="Switched", startingOffsets="earliest")
        rows = source.options(maxOffsetsPerTrigger="400", retryTimeoutMs="60s").load().select("queueId", "queueOffset")
        sink = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.trigger(availableNow=True).start(str(tmp_path / "lake"))
        while query.isActive and batches(tmp_path) < 1:
            arrived.wait(0.02)
        master.kill()
        query.awaitTermination(240)
        assert query.exception() is None and not query.isActive
        assert places(spark, tmp_path) == [(queue, offset) for queue in range(4) for offset in range(500)]
    finally:
        slave.kill()
