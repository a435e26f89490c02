"""Thousands of damaged store directories: each is recovered or refused, none crashes the process or makes messages up.

ROCKETPY_STORE_MUTATIONS says how many (default 100; `make fuzz-store` runs 10,000), ROCKETPY_SEED where to start.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from .store_mutations import build_template


@pytest.mark.timeout(3600)
def test_a_damaged_store_is_recovered_or_refused_and_never_invents_a_message(tmp_path: Path) -> None:
    count = int(os.environ.get("ROCKETPY_STORE_MUTATIONS", "100"))
    first = int(os.environ.get("ROCKETPY_SEED", random.SystemRandom().randrange(1 << 30)))
    build_template(tmp_path / "template")
    command = [
        sys.executable,
        "-m",
        "tests.property.store_mutations",
        str(tmp_path / "template"),
        str(tmp_path / "work"),
        str(first),
        str(count),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, f"exit {done.returncode}, repeat with ROCKETPY_SEED=N ROCKETPY_STORE_MUTATIONS=1\n" + done.stderr[-3000:]
    print(f"{count} damaged stores from seed {first}: {done.stdout.strip()}")
