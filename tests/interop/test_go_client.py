"""The Go client against our servers. Slow only the first time, when Go fetches and compiles it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .products import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SOURCES = Path(__file__).parent / "go"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go: `apt-get install golang`")
    program = tmp_path_factory.mktemp("go") / "judge"
    done = subprocess.run([go, "build", "-o", str(program), "."], cwd=SOURCES, capture_output=True, text=True, check=False)
    if done.returncode and "dial tcp" in done.stderr:
        pytest.skip(f"the Go module proxy cannot be reached: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return program


def test_it_sends_in_every_way_and_receives_the_tags_it_asked_for(
    judge: Path, cluster: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [str(judge), cluster.address, topic, group, "40"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["statuses"] == {"0": 81}, "40 synchronous, 40 asynchronous and one batch were SendOK"
    expected = {f"{how} {number:04}": "TagA" for how in ("sync", "async", "oneway", "batch") for number in range(0, 40, 2)}
    assert seen["received"] == expected
