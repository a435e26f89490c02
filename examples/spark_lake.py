"""A topic into a Parquet lake in one go: writes messages with Spark, streams them into files, counts what arrived.

    python examples/spark_lake.py                                  starts a name server and a broker of its own
    python examples/spark_lake.py --name-server 127.0.0.1:9876     uses yours

Needs `pip install 'pyspark>=4.2' 'pyarrow>=18'` and Java 17 (`rocketpy spark doctor` tells).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile

from pyspark.sql import SparkSession

from rocketpy.cli.bench_target import find_target


def start_servers() -> tuple[subprocess.Popen[str], str]:
    """`rocketpy up` as a child, and the address of its name server."""
    command = [sys.executable, "-m", "rocketpy", "up", "--namesrv-port", "0", "--broker-port", "0"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        found = re.search(r"namesrvAddr=([\d.]+:\d+)", line)
        if found:
            return child, found[1]
    raise SystemExit("rocketpy up ended before it was ready")


def fill_and_drain(spark: SparkSession, name_server: str, topic: str, count: int, directory: str) -> int:
    """Messages in the lake."""
    source = {"nameServer": name_server, "topic": topic}
    messages = spark.range(count).selectExpr("to_json(struct(id, current_timestamp() as at)) as body", "concat('k', id) as keys")
    messages.write.format("rocketmq").mode("append").options(**source).save()
    rows = spark.readStream.format("rocketmq").options(**source, startingOffsets="earliest").load()
    parsed = rows.selectExpr(
        "queueId", "queueOffset", "from_json(string(body), 'id long, at timestamp') as order", "date(storeTimestamp) as day"
    )
    sink = parsed.writeStream.format("parquet").partitionBy("day").option("checkpointLocation", f"{directory}/checkpoint")
    sink.trigger(availableNow=True).start(f"{directory}/lake").awaitTermination()
    return spark.read.parquet(f"{directory}/lake").select("order.id").distinct().count()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name-server")
    parser.add_argument("--topic", default="SparkLake")
    parser.add_argument("--count", type=int, default=100_000)
    options = parser.parse_args()
    child = None
    name_server = options.name_server
    if name_server is None:
        child, name_server = start_servers()
    try:
        find_target(None, name_server, options.topic, 4, broker_name=None, create=True)
        spark = SparkSession.builder.master("local[2]").appName("spark_lake").config("spark.ui.showConsoleProgress", "false").getOrCreate()
        import rocketpy.spark

        rocketpy.spark.register(spark)
        with tempfile.TemporaryDirectory() as directory:
            arrived = fill_and_drain(spark, name_server, options.topic, options.count, directory)
        print(f"{options.count} messages written, {arrived} different ones in the lake")
        spark.stop()
        return 0 if arrived == options.count else 1
    finally:
        if child is not None:
            child.terminate()
            child.wait()


if __name__ == "__main__":
    sys.exit(main())
