"""Options of the soak: ROCKETPY_SOAK_MINUTES (0, the default, is the short form), ROCKETPY_SEED to repeat a run."""

from __future__ import annotations

import os
import random

import pytest

from .course import SHORT, Extent, long_extent


@pytest.fixture
def extent() -> Extent:
    minutes = float(os.environ.get("ROCKETPY_SOAK_MINUTES", "0"))
    return long_extent(minutes) if minutes else SHORT


@pytest.fixture
def seed() -> int:
    """Printed, so that a failure shows it. The short form has one seed of its own, for two runs to do the same."""
    value = int(
        os.environ.get("ROCKETPY_SEED")
        or (20_000 if not os.environ.get("ROCKETPY_SOAK_MINUTES") else random.SystemRandom().randrange(1 << 32))
    )
    print(f"ROCKETPY_SEED={value}")
    return value
