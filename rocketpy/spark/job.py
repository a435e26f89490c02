"""What the pipelines share: their arguments, a session, readers with these arguments, words on the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def arguments(name: str, description: str, *, topic: bool = True, report: bool = False) -> argparse.ArgumentParser:
    """A parser with what every pipeline over a cluster takes."""
    parser = argparse.ArgumentParser(prog=f"rocketpy spark {name}", description=description)
    parser.add_argument("-n", "--name-server", required=True, metavar="HOST:PORT", help="name servers, separated by ;")
    if topic:
        parser.add_argument("-t", "--topics", required=True, metavar="TOPIC,…", type=name_list, help="topics, separated by commas")
    if report:
        parser.add_argument("-o", "--report", metavar="FILE", default=f"{name}.html", help="where the HTML report goes")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", type=option_pair, help="any further option of the source"
    )
    return parser


def name_list(text: str) -> str:
    """Names separated by commas: each once, without the blanks around it."""
    names = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing")
    return ",".join(names)


def option_pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def session(name: str) -> SparkSession:
    """The active session, or a local one that uses every core; spark-submit and SPARK_REMOTE decide otherwise."""
    from pyspark.sql import SparkSession

    from . import register

    active = SparkSession.getActiveSession()
    if active is None:
        builder = SparkSession.builder.appName(f"rocketpy {name}").config("spark.ui.showConsoleProgress", "false")
        active = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    active.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")  # a client may have given a property twice: RocketMQ takes the last
    return register(active)


def source_options(options: argparse.Namespace, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """From the command line; what a pipeline cannot do without stands over --option."""
    given = {"nameServer": options.name_server, "topics": getattr(options, "topics", None), **dict(options.option), **fixed}
    return {name: value for name, value in given.items() if value is not None}


def table(spark: SparkSession, options: argparse.Namespace, **fixed: Any) -> DataFrame:
    """A batch table of the topics asked for."""
    return spark.read.format("rocketmq").options(**source_options(options, fixed)).load()


def stream(spark: SparkSession, options: argparse.Namespace, **fixed: Any) -> DataFrame:
    """The same as a stream; without --option startingOffsets from the first message on."""
    reader = spark.readStream.format("rocketmq").option("startingOffsets", "earliest")
    return reader.options(**source_options(options, fixed)).load()


def add_trigger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="where Spark keeps how far it came")
    parser.add_argument("--every", metavar="TIME", help="go on for ever, a batch each '10 seconds'; else up to what is there now")


def run_stream(writer: Any, options: argparse.Namespace, *start: str) -> int:
    """Starts a prepared DataStreamWriter and waits for its end. Rows read, with --every of the last batches."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None and not options.every:  # they are counted at the end
        active.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000000")
    chosen = {"processingTime": options.every} if options.every else {"availableNow": True}
    query = writer.option("checkpointLocation", options.checkpoint).trigger(**chosen).start(*start)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    return sum(int(progress.numInputRows) for progress in query.recentProgress)
