"""Stub of rocketpy._core.exported_rows: how the wrappers read native tables."""

from collections.abc import Iterator
from typing import Any, Self

from typing_extensions import disjoint_base

@disjoint_base
class ExportedRows:
    """A copy of rows, each of which becomes a tuple when it is asked for."""

    def __iter__(self) -> Iterator[Any]: ...

@disjoint_base
class RowIterator:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
