"""audit: what is wrong with a store directory: broken records, queue offsets missing or there twice, entries that point nowhere."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ...store.directory import StoreDirectory
from ..job import say, session
from ..report import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def tables(spark: SparkSession, path: str, commit_log: str | None) -> tuple[DataFrame, DataFrame]:
    """(records with damage, queue entries). Each is read once and kept, so that every question is asked about the same state."""
    options = {"storePath": path, **({"commitLogPath": commit_log} if commit_log else {})}
    source = spark.read.format("rocketmq-store").options(**options)
    records = source.option("audit", "true").load().drop("body", "properties")
    entries = spark.read.format("rocketmq-store").options(**options, table="consumequeue").load()
    return records.persist(), entries.persist()


def queue_spans(entries: DataFrame) -> DataFrame:
    """The first and last offset of each queue, how many entries it has, and where the record of the first one lies (begin)."""
    from pyspark.sql import functions as f

    return entries.groupBy("topic", "queueId").agg(
        f.min("queueOffset").alias("low"),
        f.max("queueOffset").alias("high"),
        f.count_distinct("queueOffset").alias("entries"),
        f.min_by("commitLogOffset", "queueOffset").alias("begin"),
    )


def queued_records(records: DataFrame, entries: DataFrame) -> DataFrame:
    """Intact records that a queue should have, and whether they are orphans: their queue does not exist, or begins behind them, because
    their topic was deleted (and perhaps made again)."""
    # Prepared and rolled back transactional messages have no queue entry of their own (bits 2 and 3 of sysFlag).
    queued = records.filter("valid and (sysFlag & 12) in (0, 8)")
    joined = queued.join(queue_spans(entries), ["topic", "queueId"], "left")
    return joined.selectExpr(
        "topic", "queueId", "queueOffset", "commitLogOffset", "low is null or (low = 0 and begin > commitLogOffset) as isOrphan"
    )


def findings(records: DataFrame, entries: DataFrame, queued: DataFrame) -> dict[str, list[Any]]:
    """Rows for each kind of fault; empty if there are none. queued: the result of queued_records for the two tables."""
    from pyspark.sql import functions as f

    whole = records.filter("valid")
    place = ["topic", "queueId", "queueOffset"]
    queued = queued.filter("not isOrphan")
    oldest = records.agg(f.min("commitLogOffset")).first()
    low = oldest[0] if oldest is not None and oldest[0] is not None else 0
    return {
        "broken": records.filter("not valid").select("commitLogOffset", "damage").orderBy("commitLogOffset").collect(),
        "twice": queued.groupBy(*place).count().filter("count > 1").orderBy(*place).collect(),
        "entry without record": entries.filter(f.col("commitLogOffset") >= low)
        .join(whole.select("commitLogOffset"), "commitLogOffset", "left_anti").select(*place, "commitLogOffset").orderBy(*place).collect(),
        "record without entry": queued.join(entries.select("commitLogOffset"), "commitLogOffset", "left_anti")
        .select(*place, "commitLogOffset").orderBy(*place).collect(),
        "offsets missing": queue_spans(entries).filter("high - low + 1 > entries").select("topic", "queueId", "low", "high", "entries")
        .collect(),
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Runs the pipeline. The exit code: 0 sound, 3 not."""
    parser = argparse.ArgumentParser(prog="rocketpy spark audit", description="Missing, duplicate and broken records of a store directory.")
    parser.add_argument("store", metavar="DIR", help="storePathRootDir of a broker that is stopped, or a copy")
    parser.add_argument("--commitlog", metavar="DIR", help="when storePathCommitLog is elsewhere")
    parser.add_argument("-o", "--report", metavar="FILE", default="audit.html", help="where the HTML report goes")
    options = parser.parse_args(argv)
    StoreDirectory(options.store, options.commitlog)  # says that there is none, before Spark takes its time to start
    records, entries = tables(session("audit"), options.store, options.commitlog)
    queued = queued_records(records, entries).persist()
    found = findings(records, entries, queued)
    totals = records.filter("valid").groupBy("topic").count().orderBy("count", ascending=False).collect()
    report = Report(f"Audit of {options.store}")
    report.bars("Records per topic", [(row.topic, float(row["count"])) for row in totals])
    for kind, rows in found.items():
        say(f"{kind}: {len(rows)}")
        if rows:
            report.table(kind, rows[0].__fields__, [tuple(row) for row in rows])
    if not any(found.values()):
        report.note("Nothing is wrong.")
    if orphans := queued.filter("isOrphan").count():
        text = f"{orphans} records are in no queue: their topics were deleted, or their queues are gone or empty"
        say(text)
        report.note(text)
    say(f"{sum(row['count'] for row in totals)} records; report: {report.write(options.report)}")
    return 3 if any(found.values()) else 0
