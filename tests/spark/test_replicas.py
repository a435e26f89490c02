"""A queue whose first replica does not have what is wanted: the task goes to the other one, and fails only when none has it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

from rocketpy._core.errors import NetworkError, OffsetOutOfRange
from rocketpy.spark import queue_read
from rocketpy.spark.cluster import Endpoint, Queue
from rocketpy.spark.plan import QueuePartition, Range
from rocketpy.spark.queue_read import ReadSettings, read_queue
from rocketpy.spark.rows import RowSettings
from tests.unit.core.test_queue_reader import NOT_FOUND, RETRY, Answer, Broker, Script, steady

NOBODY = "127.0.0.1:1"


class Replica(Broker):
    """Listens; one connection at a time."""

    def __init__(self, script: Script, **options: Any) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        super().__init__(script, **options)

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self.ours = self.listener.accept()[0]
                super()._serve()


def until(end: int, code: int = RETRY) -> Script:
    """A replica that has no more."""

    def answer(offset: int, count: int) -> Answer:
        return steady(high=end)(offset, count) if offset < end else (code, min(offset, end), b"")

    return answer


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    started: list[Replica] = []
    yield started
    for replica in started:
        replica.listener.close()


def read(addresses: list[str], *, retry_timeout_s: float = 10, begin: int = 0) -> list[int]:
    endpoint = Endpoint((NOBODY,), 1, retry_timeout_s)
    settings = ReadSettings(endpoint, RowSettings(("queueOffset",)), "readers")
    partition = QueuePartition(Range(Queue("TopicTest", "broker-a", 3), begin, 1000), tuple(addresses))
    return [offset for batch in read_queue(settings, partition) for offset in batch.column(0).to_pylist()]


@pytest.mark.parametrize("code", [RETRY, NOT_FOUND])
def test_what_a_replica_does_not_have_yet_is_read_from_the_other_one(
    replicas: list[Replica], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(queue_read, "REPLICA_PATIENCE_S", 0.3)
    replicas += [Replica(until(400, code), high=400), Replica(steady())]
    assert read([replica.address for replica in replicas]) == list(range(1000))
    assert min(replicas[1].asked) == 400


def test_what_a_replica_has_deleted_is_an_error_at_once(replicas: list[Replica]) -> None:
    replicas += [Replica(until(0), low=500), Replica(steady())]
    with pytest.raises(OffsetOutOfRange, match=r"offsets 0 to 499 .* are gone"):
        read([replica.address for replica in replicas])
    assert replicas[1].asked == []


def test_a_queue_that_no_replica_has_whole_is_an_error_that_says_where_it_ends(
    replicas: list[Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_read, "REPLICA_PATIENCE_S", 0.3)
    replicas += [Replica(until(400), high=400), Replica(until(600), high=600)]
    began = time.monotonic()
    with pytest.raises(OffsetOutOfRange, match=r"reading TopicTest@broker-a@3: queue 3 .* ends at offset"):
        read([replica.address for replica in replicas], retry_timeout_s=1)
    assert time.monotonic() - began < 8


def test_the_one_replica_is_waited_for_as_long_as_a_broker_that_does_not_answer(replicas: list[Replica]) -> None:
    replicas.append(Replica(until(400), high=400))
    began = time.monotonic()
    with pytest.raises(OffsetOutOfRange, match="ends at offset 400 on this broker, and offsets 400 to 999 were wanted of it for 1000 ms"):
        read([replicas[0].address], retry_timeout_s=1)
    assert 1 <= time.monotonic() - began < 6


def test_the_words_of_a_replica_that_is_behind_are_told_when_the_other_one_is_away(
    replicas: list[Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_read, "REPLICA_PATIENCE_S", 0.3)
    replicas.append(Replica(until(400), high=400))
    with pytest.raises(OffsetOutOfRange, match="ends at offset 400"):
        read([replicas[0].address, NOBODY], retry_timeout_s=1)
    with pytest.raises(NetworkError, match="no broker answered for 1 s; nothing read"):
        read([NOBODY], retry_timeout_s=1)
