"""`rocketpy version`."""

from __future__ import annotations

import platform

from .. import __version__


def print_version() -> int:
    from .._core.base import crc32_implementation

    print(f"rocketpy {__version__} (CPython {platform.python_version()}, {platform.machine()}, CRC {crc32_implementation()})")
    return 0
