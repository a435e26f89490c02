"""The hash of the native tables: strangers do not know which of their names look alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.native import ROOT

ASKED = "from tests.unit.native import lib; print(lib.rp_hash_bytes(b'client-1', 8, 7))"


def test_each_process_has_a_hash_of_its_own() -> None:
    """With one that is the same everywhere, ids that all fall into one chain of a proxy's table take a minute to find."""
    space, personality = Path("/proc/sys/kernel/randomize_va_space"), Path("/proc/self/personality")
    if not space.exists() or space.read_text().strip() == "0" or int(personality.read_text(), 16) & 0x40000:
        pytest.skip("addresses are not random here")
    hashes = {subprocess.run([sys.executable, "-c", ASKED], cwd=ROOT, capture_output=True, check=True).stdout for _ in range(3)}
    assert len(hashes) > 1
