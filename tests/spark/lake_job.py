"""A stream into a Parquet lake as a program of its own, to be killed: NAME_SERVER TOPIC DIRECTORY. It begins at a line on its input, so
that several can start side by side.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.spark.conftest import make_session


def start_lake(session: Any, name_server: str, topic: str, directory: str) -> Any:
    """The query that carries what is there into DIRECTORY/lake and ends."""
    source = session.readStream.format("rocketmq").option("nameServer", name_server).option("topic", topic)
    rows = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300).load()
    sink = rows.select("queueId", "queueOffset", "body").writeStream.format("parquet")
    return sink.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start(f"{directory}/lake")


def main() -> None:
    name_server, topic, directory = sys.argv[1:]
    session = make_session("lake job", Path(directory))
    import rocketpy.spark

    rocketpy.spark.register(session)
    table = session.read.format("rocketmq").option("nameServer", name_server).option("topic", topic).load()
    table.write.format("noop").mode("overwrite").save()  # what a first query waits for is there when the line comes
    sys.stdin.readline()
    start_lake(session, name_server, topic, directory).awaitTermination()


if __name__ == "__main__":
    main()
