"""Where liburing is: the one that pyuring bundles, whose path the native store gets (csrc/base/liburing.h loads it)."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def liburing_path() -> str | None:
    """None when pyuring is not installed. pyuring itself is not imported: nothing of its Python is needed."""
    found = importlib.util.find_spec("pyuring")
    if found is None or not found.submodule_search_locations:
        return None
    return str(Path(next(iter(found.submodule_search_locations))).absolute() / "lib" / "liburingwrap.so")
