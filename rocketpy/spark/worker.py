"""The Python processes in which Spark runs tasks. A worker runs task after task: what is kept between them is kept here."""

from __future__ import annotations

import gc
from functools import cache

from .._core.arrow import BufferPool


@cache
def freeze_imports() -> None:
    """Takes everything that is imported when a worker's first task runs out of garbage collection. PySpark collects after every task, and
    would otherwise look at each object of PySpark, pyarrow and their dependencies each time."""
    gc.freeze()


@cache
def buffers() -> BufferPool:
    """The buffers of all batches that this worker reads: a task reuses memory pages that the task before it has already touched."""
    return BufferPool()
