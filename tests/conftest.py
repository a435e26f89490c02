"""What all tests share: property tests have no deadline (machines differ) and print how to run a failure again."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rocketpy", deadline=None, print_blob=True)
settings.load_profile("rocketpy")
