"""Options of the crash suite: ROCKETPY_CRASH_ROUNDS (default 10) kills per test, ROCKETPY_SEED to repeat a run."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest


@pytest.fixture
def rounds() -> int:
    return int(os.environ.get("ROCKETPY_CRASH_ROUNDS", "10"))


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> Iterator[random.Random]:
    """A generator whose seed is printed when the test fails."""
    seed = int(os.environ.get("ROCKETPY_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"ROCKETPY_SEED={seed}")
    yield random.Random(seed)
