"""The Python processes in which Spark runs tasks. A worker runs task after task: what is kept between them is kept here."""

from __future__ import annotations

import gc
from functools import cache

from .._core.arrow import BufferPool


@cache
def freeze_imports() -> None:
    """A worker's first task takes what is imported by now out of garbage collection: PySpark collects after every task, and
    would look at each object of PySpark, pyarrow and their kin each time."""
    gc.freeze()


@cache
def buffers() -> BufferPool:
    """The buffers of all batches that this worker reads: a task finds the pages there that the one before it has touched."""
    return BufferPool()
