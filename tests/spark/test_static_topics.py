"""A static topic over two brokers: read by the queues of its brokers, written by its global ones, before and behind a move."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

from rocketpy.cli.admin import run_admin
from rocketpy.remoting.bodies import PERM_WRITE
from rocketpy.spark.cluster import Cluster, Endpoint, Queue
from rocketpy.spark.sender import RowIds
from tests.processes import PATIENCE_S, wait_until
from tests.spark.test_sender import is_indexed, rows, write
from tests.unit.admin.test_static_topics import Two

TOPIC = "spread"


def new_ids() -> RowIds:
    return RowIds(uuid.uuid4().hex[:24].upper(), True)


def numbers(*numbers: int) -> Any:
    import pyarrow as pa

    return pa.array(numbers, pa.int32())


def wait_led(cluster: Cluster, *led: tuple[str, int]) -> None:
    wanted = [Queue(TOPIC, name, number) for name, number in led]
    wait_until(lambda: cluster.queues([TOPIC], PERM_WRITE) == wanted, PATIENCE_S, "the route of both")


def test_a_static_topic_is_read_whole_and_written_by_its_global_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    two = Two(tmp_path)
    try:
        check(two, Cluster(Endpoint((two.names,))), ("-t", TOPIC, "-n", two.names))
    finally:
        two.stop()


def check(two: Two, cluster: Cluster, on_topic: tuple[str, ...]) -> None:
    assert run_admin(["updateStaticTopic", "-b", "broker-a", "-qn", "2", *on_topic]) == 0
    assert run_admin(["updateStaticTopic", "-c", "DefaultCluster", "-qn", "4", *on_topic]) == 0
    wait_led(cluster, ("broker-a", 0), ("broker-a", 1), ("broker-b", 2), ("broker-b", 3))
    ids = new_ids()
    columns: dict[str, Any] = {"body": ["0", "1", "2", "3", "4"], "queueId": numbers(0, 1, 2, 3, 3)}
    places = {"broker-a@0": [0, 0], "broker-a@1": [0, 0], "broker-b@2": [0, 0], "broker-b@3": [0, 1]}
    assert write(two.names, TOPIC, ids, 256, **columns).offsets == {f"{TOPIC}@{queue}": span for queue, span in places.items()}
    wait_until(lambda: is_indexed(two.peers["broker-b"].address, TOPIC, f"{ids.prefix}00000004"), PATIENCE_S, "the index has the last row")
    assert write(two.names, TOPIC, ids, 256, **columns).skipped == 5

    assert run_admin(["remappingStaticTopic", "-b", "broker-b", *on_topic]) == 0
    wait_led(cluster, *(("broker-b", number) for number in range(4)))
    places = {"broker-b@0": [10_000, 10_000], "broker-b@3": [2, 2]}
    sent = write(two.names, TOPIC, new_ids(), 256, body=["5", "6"], queueId=numbers(0, 3))
    assert sent.offsets == {f"{TOPIC}@{queue}": span for queue, span in places.items()}

    names: Any = SimpleNamespace(name_server=two.names)
    assert sorted(int(row["body"]) for row in rows(names, TOPIC)) == list(range(7))
    ends = cluster.max_offsets(cluster.queues([TOPIC]))
    assert sum(ends.values()) == 7 and cluster.min_offsets(ends) == cluster.offsets_at(ends, 0) == dict.fromkeys(ends, 0)
    cluster.commit_offsets("readers", ends)
    assert cluster.group_offsets(ends, "readers") == ends
