"""A stream into a Parquet lake as a program of its own, to be killed: NAME_SERVER TOPIC DIRECTORY."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.conftest import make_session


def main() -> None:
    name_server, topic, directory = sys.argv[1:]
    session = make_session("lake job", Path(directory))
    import rocketpy.spark

    rocketpy.spark.register(session)
    source = session.readStream.format("rocketmq").option("nameServer", name_server).option("topic", topic)
    rows = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300).load()
    sink = rows.select("queueId", "queueOffset", "body").writeStream.format("parquet")
    query = sink.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start(f"{directory}/lake")
    query.awaitTermination()


if __name__ == "__main__":
    main()
