"""The largest values that options may have: what the native side and the system accept. Python's numbers have no limit, so an option
without a range could end in a traceback; tests/unit/cli/test_numbers.py checks that every option of every command has one.
"""

from __future__ import annotations

import math
from typing import Any, Final

import typer

PORT_MAX: Final = 65_535
INT_MAX: Final = (1 << 31) - 1
COUNT_MAX: Final = (1 << 63) - 1
BODY_MAX: Final = 8 << 20
"""Bytes that the load generator sends in a message: RP_LOAD_MESSAGE_SIZE_MAX of csrc/load/load.h."""
RATE_MAX: Final = 1_000_000_000
SECONDS_MAX: Final = 4_000_000
"""In milliseconds it still fits into a uint32_t."""


def real(*names: str, least: float = 0, most: float = SECONDS_MAX, told: str) -> Any:
    """A typer.Option for a number that may have a fraction."""
    return typer.Option(*names, min=least, max=most, callback=_number, help=told)


def _number(value: float | None) -> float | None:
    if value is not None and math.isnan(value):  # which is in every range
        raise typer.BadParameter("nan is not a number")
    return value
