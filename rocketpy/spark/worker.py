"""The Python processes in which Spark runs tasks."""

from __future__ import annotations

import gc


def freeze_imports() -> None:
    """A worker's first task takes what is imported by now out of garbage collection: PySpark collects after every task, and
    would look at each object of PySpark, pyarrow and their kin each time."""
    if gc.get_freeze_count() == 0:
        gc.freeze()
