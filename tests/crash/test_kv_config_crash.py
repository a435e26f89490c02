"""SIGKILL while key-values are put: what was acknowledged is there, and the file is always whole."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy.namesrv.kv_config import KvConfig

WRITER = """
import sys
from rocketpy.namesrv.kv_config import KvConfig
config = KvConfig(sys.argv[1])
config.load()
number = int(config.get("n", "number") or 0)
while True:
    number += 1
    config.put("n", "number", str(number))
    config.put("n", f"key {number % 50}", "x" * (number % 3000))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seed", range(4))
def test_acknowledged_entries_survive_sigkill(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "kvConfig.json"
    chance = random.Random(seed)
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert writer.stdout is not None
        acknowledged = 0
        for _ in range(chance.randrange(1, 60)):
            acknowledged = int(writer.stdout.readline())
        writer.kill()
        acknowledged = max([acknowledged, *(int(line) for line in writer.stdout.read().split("\n")[:-1])])
        writer.wait()
        config = KvConfig(path)
        config.load()
        assert int(config.get("n", "number") or 0) in (acknowledged, acknowledged + 1), f"seed {seed}"
        assert not path.with_name("kvConfig.json.damaged").exists(), f"seed {seed}"
