"""`rocketpy spark NAME …`: the pipelines and the doctor. Each is a module with a main; this table finds it."""

from __future__ import annotations

import importlib
import re
from types import MappingProxyType

from .._core.errors import RocketpyError
from .terminal import complain, say

PROGRAM = "rocketpy spark"
COMMANDS = MappingProxyType(
    {
        "doctor": ("rocketpy.cli.spark_doctor", "look at Java, PySpark, the workers' Python and the cluster"),
        "lake": ("rocketpy.spark.pipelines.lake", "topics into a partitioned Parquet lake"),
        "traffic": ("rocketpy.spark.pipelines.traffic", "messages and bytes per topic, group and minute"),
        "lag": ("rocketpy.spark.pipelines.lag", "consumer lag, and end-to-end delay from trace messages"),
        "dlq": ("rocketpy.spark.pipelines.dlq", "what is in dead letter queues, and selective replay"),
        "transform": ("rocketpy.spark.pipelines.transform", "a topic through SQL expressions into another"),
        "copy": ("rocketpy.spark.pipelines.copy", "topics into another cluster, with a map of offsets"),
        "audit": ("rocketpy.spark.pipelines.audit", "missing, duplicate and broken records of a store directory"),
    }
)


def run_spark(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        say("Usage: rocketpy spark NAME [OPTIONS]; rocketpy spark NAME --help\n")
        for name, (_, text) in COMMANDS.items():
            say(f"  {name:<10} {text}")
        return 0 if arguments else 2
    if arguments[0] not in COMMANDS:
        complain(PROGRAM, ValueError(f"there is no {arguments[0]!r}; there are: {', '.join(COMMANDS)}"))
        return 2
    try:
        module = importlib.import_module(COMMANDS[arguments[0]][0])
    except ImportError as error:
        complain(PROGRAM, error)
        return 1
    try:
        return int(module.main(arguments[1:]))
    except _expected_errors() as error:
        complain(PROGRAM, ValueError(cause_of(str(error))))
        return 1


def _expected_errors() -> tuple[type[Exception], ...]:
    """Errors that are reported in one line. The doctor also runs without PySpark."""
    try:
        from pyspark.errors import PySparkException
    except ImportError:
        return (RocketpyError,)
    return RocketpyError, PySparkException


def cause_of(text: str) -> str:
    """Our own error message within a text in which Spark has wrapped it, between stack traces of both languages."""
    own = re.findall(r"^rocketpy\.[\w.]+: (.*)$", text, re.MULTILINE)
    return str(own[-1]) if own else next(iter(text.splitlines()), "it failed")
