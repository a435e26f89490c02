"""The one append, a message at a time and in the batches a reactor makes, against memcpy of the same records into mapped pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Figure, Figures, Size, least

MILLION = 1e6
RECORD_OVERHEAD = 91 + len("bench") + 17  # fixed fields, topic, properties


@pytest.mark.parametrize("batch", [1, 16, 64])
@pytest.mark.parametrize("body_size", [128, 1024])
def test_append(
    body_size: int,
    batch: int,
    measure: Callable[[Callable[[], int]], float],
    loops: Any,
    size: Size,
    figures: Figures,
    tmp_path: Path,
) -> None:
    count = size.of(640, 256_000)
    stores = iter(range(1000))

    def once() -> int:
        path = tmp_path / str(next(stores))
        elapsed = int(loops.bench_append(str(path).encode(), body_size, batch, count))
        shutil.rmtree(path)
        return elapsed

    seconds = measure(once)
    limit = least(lambda: loops.bench_mapped_copy(str(tmp_path / "limit").encode(), body_size + RECORD_OVERHEAD, count))
    figures.rows.append(
        Figure(
            f"append {body_size:,}-byte bodies, {batch} a lock",
            count / seconds / MILLION,
            count / limit / MILLION,
            "M a second",
            "memcpy into mapped pages",
            "ASYNC_FLUSH, no slave",
        )
    )
