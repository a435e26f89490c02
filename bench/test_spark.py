"""Spark: reading a topic from its broker and from its store directory, beside a synthetic in-memory Arrow source of the same schema and
rows; writing beside the native load generator's batches; the memory of a worker over 20 GB. One run, alternating; the figures are shares.

Full size: ROCKETPY_BENCH=full (2,000,000 messages of 1 KB).
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from bench.conftest import Figure, Figures, Size

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")
if shutil.which("java") is None:
    pytest.skip("no Java: apt-get install -y default-jre-headless", allow_module_level=True)

from rocketpy._core.arrow import RecordBatch
from rocketpy._core.load import Load
from tests.spark.conftest import make_session
from tests.spark.servers import Cluster

TOPIC, WRITTEN = "BenchSpark", "BenchSparkWritten"
MESSAGE_BYTES = 1024
ROUNDS = 3
WRITE_WARM_UPS = 1  # each round writes 2.4 GB
WARM_UPS = 3  # rounds that are not counted: the JVM's compilers take up to two seconds of a core in each of the first
SEND, BATCH_CODE = 1, 320
made: dict[int, list[Any]] = {}  # what a worker's synthetic source keeps between tasks


@pytest.fixture(scope="module")
def filled(size: Size, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Cluster, int]]:
    """(session, cluster with the topic filled, rows)."""
    count = size.of(64 * 300, 64 * 31_250)  # whole batches
    with Cluster(tmp_path_factory.mktemp("bench")) as cluster:
        cluster.create_topic(TOPIC, 4)
        cluster.create_topic(WRITTEN, 4)
        generate(cluster, TOPIC, count)
        session = make_session("bench", tmp_path_factory.mktemp("spark"), quick=False)
        session.sparkContext.setLogLevel("ERROR")
        import rocketpy.spark

        rocketpy.spark.register(session)
        session.dataSource.register(synthetic_source())
        yield session, cluster, count
        session.stop()


def generate(cluster: Cluster, topic: str, count: int) -> float:
    """The native load generator's batches; messages per second."""
    started = time.perf_counter()
    with Load(
        address=cluster.broker, topic=topic, mode=SEND, send_code=BATCH_CODE, batch_size=64, queue_count=4, connections=4,
        message_size=MESSAGE_BYTES, count=count // 64 * 64, threads=1,
    ) as load:  # fmt: skip
        load.start()
        assert load.wait(300)
        assert load.result()["totals"]["acknowledged"] >= count // 64 * 64
    return count / (time.perf_counter() - started)


def synthetic_batches(size: int) -> list[Any]:
    """Sixteen batches of 10,000 records: more than a processor's cache holds, so that memory is read as for rows that are new."""
    import pyarrow as pa

    host = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
    batches = []
    with RecordBatch(broker_name="broker-a", rows_max=10_000, bytes_max=1 << 30) as native:
        for number in range(16):
            body, texts = bytes([number]) * size, b"UNIQ_KEY\x01" + b"%032X" % number + b"\x02WAIT\x01true\x02"
            middle = struct.pack(">IiiqqI", zlib.crc32(body) & 0x7FFFFFFF, 0, 0, 5, 5, 0)
            tail = struct.pack(">q", 1) + host + struct.pack(">q", 1) + host + struct.pack(">iq", 0, 0)
            tail += struct.pack(">i", len(body)) + body + bytes([10]) + b"BenchSpark" + struct.pack(">h", len(texts)) + texts
            native.put_records((struct.pack(">II", 8 + len(middle) + len(tail), 0xDAA320A7) + middle + tail) * 10_000, 0)
            batches.append(pa.record_batch(native.export()))
    return batches


def synthetic_source() -> Any:
    """A source that yields batches it has in memory already, made by the worker's first task: what Spark can take at most."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class SyntheticReader(DataSourceReader):
        def __init__(self, options: Any) -> None:
            self.rows, self.size = int(options["rows"]), int(options["size"])

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(self.rows // 4) for _ in range(4)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            from bench import test_spark as held  # this module as the worker has it, not the copy that came with the task

            if self.size not in held.made:
                held.made[self.size] = held.synthetic_batches(self.size)
            batches = held.made[self.size]
            left, turn = partition.value, 0
            while left > 0:
                yield batches[turn % len(batches)].slice(0, min(left, 10_000))
                left, turn = left - 10_000, turn + 1

    class SyntheticSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "synthetic"

        def schema(self) -> Any:
            from rocketpy.spark.columns import record_schema

            return record_schema()

        def reader(self, schema: Any) -> Any:
            return SyntheticReader(self.options)

    return SyntheticSource


def save(rows: Any, cluster: Cluster) -> float:
    """Seconds of one write."""
    started = time.perf_counter()
    rows.write.format("rocketmq").mode("append").options(nameServer=cluster.name_server, topic=WRITTEN).save()
    return time.perf_counter() - started


def drain(frame: Any) -> float:
    """Seconds of one full read into nothing."""
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


@pytest.mark.timeout(1800)
def test_reads_keep_up_with_a_synthetic_source(filled: tuple[Any, Cluster, int], size: Size, figures: Figures, benchmark: Any) -> None:
    session, cluster, count = filled
    frames = {
        "synthetic": session.read.format("synthetic").option("rows", count).option("size", MESSAGE_BYTES).load(),
        "broker": session.read.format("rocketmq").options(nameServer=cluster.name_server, topic=TOPIC).load(),
        "store": session.read.format("rocketmq-store").options(storePath=str(cluster.store), topic=TOPIC).load(),
    }
    assert frames["broker"].count() == frames["store"].count() == count
    took: dict[str, list[float]] = {name: [] for name in frames}
    for _ in range(WARM_UPS + ROUNDS):
        for name, frame in frames.items():
            took[name].append(drain(frame))
    rates = {name: count / min(values[WARM_UPS:]) for name, values in took.items()}
    shares = {name: rate / rates["synthetic"] for name, rate in rates.items()}
    benchmark.extra_info.update({"rows_per_s": rates, "share_of_synthetic": shares})
    for name, values in took.items():
        each = " ".join(f"{count / value / 1000:.0f}" for value in values[WARM_UPS:])
        line = f"read {name:<10} {rates[name]:>12,.0f} rows/s  {shares[name]:.0%} of synthetic; each round, thousands: {each}"
        figures.lines.append(line)
    benchmark.pedantic(lambda: None, rounds=1)
    if size.full:
        assert shares["broker"] >= 0.60 and shares["store"] >= 0.85, shares


@pytest.mark.timeout(1800)
def test_writes_keep_up_with_the_load_generator(filled: tuple[Any, Cluster, int], size: Size, figures: Figures, benchmark: Any) -> None:
    session, cluster, count = filled
    count //= 2
    rows = session.range(count, numPartitions=2).selectExpr(f"repeat('x', {MESSAGE_BYTES}) as body")
    few = session.range(1000, numPartitions=2).selectExpr(f"repeat('x', {MESSAGE_BYTES}) as body")
    took: dict[str, list[float]] = {"generator": [], "write": [], "write of 1,000 rows": []}
    for _ in range(WRITE_WARM_UPS + ROUNDS):
        took["generator"].append(count / generate(cluster, WRITTEN, count))
        took["write"].append(save(rows, cluster))
        took["write of 1,000 rows"].append(save(few, cluster))
    best = {name: min(values[WRITE_WARM_UPS:]) for name, values in took.items()}
    share = best["generator"] / best["write"]
    benchmark.extra_info.update({"seconds": took, "rows_per_s": count / best["write"], "share_of_load_generator": share})
    for name, values in took.items():
        figures.lines.append(f"{name}: seconds of each round {' '.join(f'{value:.2f}' for value in values[WRITE_WARM_UPS:])}")
    rate, limit = count / best["write"], count / best["generator"]
    figures.rows.append(Figure("write of rows of 1 KB", rate, limit, "rows/s", "the load generator's batches"))
    benchmark.pedantic(lambda: None, rounds=1)
    if size.full:
        assert share >= 0.50


class WorkerMemory(threading.Thread):
    """Samples the anonymous memory of Spark's Python workers: (seconds, pid, bytes)."""

    def __init__(self, pause_s: float) -> None:
        super().__init__(daemon=True)
        self.pause_s = pause_s
        self.samples: list[tuple[float, int, int]] = []
        self.ended = threading.Event()

    def run(self) -> None:
        started = time.monotonic()
        while not self.ended.wait(self.pause_s):
            now = time.monotonic() - started
            self.samples += [(now, pid, size) for pid in python_workers(os.getpid()) if (size := anonymous_bytes(pid)) > 0]

    def __enter__(self) -> WorkerMemory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()


def python_workers(root: int) -> list[int]:
    """Processes below root that run PySpark's daemon and its workers."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
        except OSError:
            continue
    found, todo = [], [root]
    while todo:
        mine = children.get(todo.pop(), [])
        todo += mine
        found += [pid for pid in mine if b"daemon" in command_of(pid)]
    return found


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def anonymous_bytes(pid: int) -> int:
    try:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


@pytest.mark.timeout(1800)
def test_a_worker_reads_twenty_gigabytes_in_flat_memory(
    filled: tuple[Any, Cluster, int], size: Size, figures: Figures, benchmark: Any
) -> None:
    """The same topic ten times in one job, from the broker and from its files in turn; workers live through the whole of it."""
    session, cluster, count = filled
    wire = session.read.format("rocketmq").options(nameServer=cluster.name_server, topic=TOPIC)
    store = session.read.format("rocketmq-store").options(storePath=str(cluster.store), topic=TOPIC)
    frames = [source.load() for _ in range(5) for source in (wire, store)]
    with WorkerMemory(size.of(20, 500) / 1000) as memory:
        seconds = drain(reduce(lambda one, other: one.unionAll(other), frames))
    peaks = []
    for tenth in range(10):
        low, high = seconds * tenth / 10, seconds * (tenth + 1) / 10
        peaks.append(max((used for at, _, used in memory.samples if low <= at < high), default=0) / 2**20)
    workers = len({pid for _, pid, _ in memory.samples})
    gigabytes = 10 * count * MESSAGE_BYTES / 2**30
    benchmark.extra_info.update({"gigabytes": gigabytes, "seconds": seconds, "peak_mib_by_tenth": peaks, "workers": workers})
    figures.lines.append(f"{gigabytes:.1f} GiB of bodies in {seconds:.0f} s, {workers} Python processes; most anonymous MiB by tenths:")
    figures.lines.append(" ".join(f"{peak:.0f}" for peak in peaks))
    benchmark.pedantic(lambda: None, rounds=1)
    assert memory.samples
    if size.full:
        assert gigabytes >= 19 and max(peaks[5:]) <= max(peaks[1:5]) + 16, peaks
