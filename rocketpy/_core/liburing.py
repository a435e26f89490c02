"""Finds the liburing that pyuring bundles; the native store gets its path (csrc/base/liburing.h loads it)."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def liburing_path() -> str | None:
    """Returns None if pyuring is not installed. Does not import pyuring, whose Python code is not needed."""
    found = importlib.util.find_spec("pyuring")
    if found is None or not found.submodule_search_locations:
        return None
    return str(Path(next(iter(found.submodule_search_locations))).absolute() / "lib" / "liburingwrap.so")
