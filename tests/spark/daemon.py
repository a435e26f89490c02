"""The process that Spark's Python workers are forked from, with what they import already imported: a worker starts in milliseconds."""

from __future__ import annotations

import pyarrow.compute  # noqa: F401
from pyspark import daemon

import rocketpy.spark.source
import rocketpy.spark.store_source
import rocketpy.spark.stream
import rocketpy.spark.writer  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
