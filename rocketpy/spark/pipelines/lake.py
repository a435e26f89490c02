"""lake: topics into Parquet files, partitioned by topic and day, each message exactly once.

The stream's offsets and the list of finished files are Spark's (checkpoint and _spark_metadata), so a killed run leaves nothing twice.
Bodies that are JSON may be given a schema, or one is inferred from the first messages; what does not fit is null in `json`, and the body
stays. Compaction writes a finished lake again with few files per partition, into another directory.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from ..._core.errors import InvalidArgument, NotFound
from ..job import add_trigger, arguments, run_stream, say, session, stream, table
from ..options import Use, is_refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SAMPLE_ROWS = 1000
NO_JSON = "_corrupt_record"
"""Where Spark puts what is no JSON."""


def infer_schema(spark: SparkSession, sample: DataFrame) -> StructType:
    """The schema of JSON bodies, from a sample; without fields if there are no messages. Not as DDL, which cannot express every name that
    JSON may have."""
    from pyspark.sql.types import StructType

    texts = sample.selectExpr("cast(body as string) as text").limit(SAMPLE_ROWS)
    found = spark.read.json(texts.rdd.map(lambda row: row.text))
    return StructType([field for field in found.schema.fields if field.name != NO_JSON])


def sampled(options: argparse.Namespace) -> argparse.Namespace:
    """The arguments for a batch over the first messages: options for streams, and those that say where to start, are left out."""
    kept = [(name, value) for name, value in options.option if not is_refused(name, Use.BATCH) and not name.lower().startswith("starting")]
    return argparse.Namespace(**{**vars(options), "option": kept})


def shape(frame: DataFrame, json_schema: StructType | str | None) -> DataFrame:
    """The rows in the form in which the lake keeps them."""
    from pyspark.sql import functions as f

    shaped = frame.withColumn("day", f.to_date("storeTimestamp"))
    return shaped if json_schema is None else shaped.withColumn("json", f.from_json(f.col("body").cast("string"), json_schema))


INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"


def compact(spark: SparkSession, lake: str, target: str) -> int:
    """Rewrites a lake with one file per partition directory. Returns the number of rows. The files may have been written with different
    schemas of `json`; the new ones have every field. A topic is a text, even if it looks like 007."""
    known = spark.conf.get(INFERENCE)
    spark.conf.set(INFERENCE, "false")
    try:
        rows = merged(spark, lake)
        rows.repartition("topic", "day").write.partitionBy("topic", "day").mode("errorifexists").parquet(target)
        return spark.read.parquet(target).count()
    finally:
        spark.conf.set(INFERENCE, known)


def merged(spark: SparkSession, lake: str) -> DataFrame:
    """All files of a lake under a single schema. Raises NotFound, InvalidArgument."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException

    try:
        return spark.read.option("mergeSchema", "true").parquet(lake)
    except AnalysisException as error:
        if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            raise NotFound(f"{lake} has no file yet: there is nothing to compact") from None
        raise
    except Py4JJavaError as error:  # Spark has no error of its own for it
        found = re.search(r"Failed to merge incompatible data types [^.]*", str(error))
        cause = found[0] if found else str(error.java_exception).splitlines()[0]
        raise InvalidArgument(
            f"the files of {lake} do not fit together: {cause}; another --json type of a field needs another --out"
        ) from None


def main(argv: list[str] | None = None) -> int:
    parser = arguments("lake", "Write topics into a partitioned Parquet lake, exactly once.")
    parser.add_argument("--out", required=True, metavar="DIR", help="the lake")
    parser.add_argument("--json", metavar="DDL", help="schema of JSON bodies, such as 'id long, name string'; 'infer' takes a sample")
    parser.add_argument("--compact", metavar="DIR", help="afterwards rewrite the lake into DIR with few files")
    add_trigger(parser)
    options = parser.parse_args(argv)
    spark = session("lake")
    json_schema: StructType | str | None = options.json or None
    if options.json == "infer":
        found = infer_schema(spark, table(spark, sampled(options)))
        json_schema = found if found.fields else None
        say(f"inferred schema of JSON bodies: {found.simpleString()}" if found.fields else "no JSON bodies to infer a schema from")
    rows = shape(stream(spark, options), json_schema)
    count = run_stream(rows.writeStream.format("parquet").partitionBy("topic", "day"), options, options.out)
    say(f"{count} messages written to {options.out}")
    if options.compact:
        say(f"{compact(spark, options.out, options.compact)} messages in {options.compact}")
    return 0
