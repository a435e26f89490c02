"""Spark: reading a topic from its broker and from its store directory, beside a synthetic in-memory Arrow source of the same schema and
rows; writing beside the native load generator's batches. One run, alternating; the figures are shares.

Full size: ROCKETPY_BENCH=full (2,000,000 messages of 1 KB).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bench.conftest import Size

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'rocketpy-mq[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'rocketpy-mq[spark]'")
if shutil.which("java") is None:
    pytest.skip("no Java: apt-get install -y openjdk-17-jre-headless", allow_module_level=True)

from rocketpy._core.load import Load
from tests.spark.conftest import make_session
from tests.spark.servers import Cluster

TOPIC, WRITTEN = "BenchSpark", "BenchSparkWritten"
MESSAGE_BYTES = 1024
ROUNDS = 3
SEND, BATCH_CODE = 1, 320


@pytest.fixture(scope="module")
def filled(size: Size, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Cluster, int, float]]:
    """(session, cluster with the topic filled, rows, the load generator's rows per second)."""
    count = size.of(64 * 300, 2_000_000)  # whole batches
    cluster = Cluster(tmp_path_factory.mktemp("bench"))
    cluster.start()
    cluster.create_topic(TOPIC, 4)
    cluster.create_topic(WRITTEN, 4)
    started = time.perf_counter()
    with Load(
        address=cluster.broker, topic=TOPIC, mode=SEND, send_code=BATCH_CODE, batch_size=64, queue_count=4, connections=4,
        message_size=MESSAGE_BYTES, count=count, threads=1,
    ) as load:  # fmt: skip
        load.start()
        assert load.wait(300)
        assert load.result()["totals"]["acknowledged"] >= count
    rate = count / (time.perf_counter() - started)
    session = make_session("bench", tmp_path_factory.mktemp("spark"), quick=False)
    session.sparkContext.setLogLevel("ERROR")
    import rocketpy.spark

    rocketpy.spark.register(session)
    session.dataSource.register(synthetic_source())
    yield session, cluster, count, rate
    session.stop()
    cluster.stop()


def synthetic_source() -> Any:
    """A source that yields one prepared Arrow batch again and again: what Spark can take at most."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class SyntheticReader(DataSourceReader):
        def __init__(self, options: Any) -> None:
            self.rows, self.size = int(options["rows"]), int(options["size"])

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(self.rows // 4) for _ in range(4)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            import struct
            import zlib

            import pyarrow as pa

            from rocketpy._core.arrow import RecordBatch

            body, texts = bytes(self.size), b"UNIQ_KEY\x01" + b"0" * 32 + b"\x02WAIT\x01true\x02"
            host = bytes([127, 0, 0, 1, 0, 0, 0, 9])
            middle = struct.pack(">IiiqqI", zlib.crc32(body) & 0x7FFFFFFF, 0, 0, 5, 5, 0)
            tail = struct.pack(">q", 1) + host + struct.pack(">q", 1) + host + struct.pack(">iq", 0, 0)
            tail += struct.pack(">i", len(body)) + body + bytes([10]) + b"BenchSpark" + struct.pack(">h", len(texts)) + texts
            one = struct.pack(">II", 8 + len(middle) + len(tail), 0xDAA320A7) + middle + tail
            with RecordBatch(rows_max=10_000, bytes_max=1 << 30) as native:
                native.put_records(one * 10_000, 0)
                batch = pa.record_batch(native.export())
            left = partition.value
            while left > 0:
                yield batch.slice(0, min(left, 10_000))
                left -= 10_000

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


def seconds(frame: Any) -> float:
    """The best of a few full reads into nothing."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        best = min(best, time.perf_counter() - started)
    return best


@pytest.mark.timeout(1800)
def test_reads_keep_up_with_a_synthetic_source(filled: tuple[Any, Cluster, int, float], size: Size, benchmark: Any) -> None:
    session, cluster, count, _ = filled
    synthetic = session.read.format("synthetic").option("rows", count).option("size", MESSAGE_BYTES).load()
    wire = session.read.format("rocketmq").options(nameServer=cluster.name_server, topic=TOPIC).load()
    store = session.read.format("rocketmq-store").options(storePath=str(cluster.store), topic=TOPIC).load()
    assert wire.count() == store.count() == count
    took = {"synthetic": seconds(synthetic), "broker": seconds(wire), "store": seconds(store)}
    shares = {name: took["synthetic"] / value for name, value in took.items()}
    rates = {name: count / value for name, value in took.items()}
    benchmark.extra_info.update({"rows_per_s": rates, "share_of_synthetic": shares})
    print("".join(f"\n{name:<10} {rates[name]:>12,.0f} rows/s  {shares[name]:.0%} of synthetic" for name in took))
    benchmark.pedantic(lambda: None, rounds=1)
    if size.full:
        assert shares["broker"] >= 0.60 and shares["store"] >= 0.85, shares


@pytest.mark.timeout(1800)
def test_writes_keep_up_with_the_load_generator(filled: tuple[Any, Cluster, int, float], size: Size, benchmark: Any) -> None:
    session, cluster, count, generator = filled
    rows = session.range(count, numPartitions=2).selectExpr(f"repeat('x', {MESSAGE_BYTES}) as body")
    started = time.perf_counter()
    rows.write.format("rocketmq").mode("append").options(nameServer=cluster.name_server, topic=WRITTEN).save()
    rate = count / (time.perf_counter() - started)
    benchmark.extra_info.update({"rows_per_s": rate, "share_of_load_generator": rate / generator})
    print(f"\nwrite {rate:,.0f} rows/s, {rate / generator:.0%} of the load generator's {generator:,.0f}")
    benchmark.pedantic(lambda: None, rounds=1)
