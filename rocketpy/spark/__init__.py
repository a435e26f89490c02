"""Topics and store directories as Spark tables: `import rocketpy.spark` registers format("rocketmq") and format("rocketmq-store") with the
active session when there is one, `rocketpy.spark.register(session)` with a given one.

Needs PySpark 4.2 or later and pyarrow: pip install 'pyspark>=4.2' 'pyarrow>=18'. docs/spark.md has the options.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

try:
    import pyarrow  # noqa: F401
    import pyspark
except ImportError as _error:
    raise ImportError(
        f"rocketpy.spark needs PySpark and pyarrow ({_error}): {sys.executable} -m pip install 'pyspark>=4.2' 'pyarrow>=18'"
    ) from _error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARK_MIN = (4, 2)

if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < PYSPARK_MIN:
    raise ImportError(
        f"rocketpy.spark needs PySpark 4.2 or later, this is {pyspark.__version__}: "
        f"{sys.executable} -m pip install -U 'pyspark>=4.2' 'pyarrow>=18'"
    )


def register(session: SparkSession) -> SparkSession:
    """Registers the data sources with a session. Returns the session."""
    from .source import RocketMQDataSource
    from .store_source import RocketMQStoreDataSource

    if "PYSPARK_PYTHON" not in os.environ and session.conf.get("spark.pyspark.python", None) is None:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run what the driver runs
        if hasattr(session, "_sc"):
            session.sparkContext.pythonExec = sys.executable
    session.dataSource.register(RocketMQDataSource)
    session.dataSource.register(RocketMQStoreDataSource)
    return session


def _register_active() -> None:
    from pyspark import TaskContext
    from pyspark.sql import SparkSession

    if TaskContext.get() is not None:  # an executor
        return
    active = SparkSession.getActiveSession()
    if active is not None:
        register(active)


_register_active()
