"""The Go client against our servers. Slow only the first time, when Go fetches and compiles it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .judge import judgement
from .products import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SOURCES = Path(__file__).parent / "go"


def built(package: str, program: Path, sources: Path = SOURCES) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go: `apt-get install golang`")
    done = subprocess.run([go, "build", "-o", str(program), package], cwd=sources, capture_output=True, text=True, check=False)
    if done.returncode and "dial tcp" in done.stderr:
        pytest.skip(f"the Go module proxy cannot be reached: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(".", tmp_path_factory.mktemp("go") / "judge")


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("./tour", tmp_path_factory.mktemp("go") / "tour")


def test_it_sends_in_every_way_and_receives_the_tags_it_asked_for(
    judge: Path, cluster: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    seen = judgement(judge, cluster.address, topic, group, "40", home=tmp_path, timeout=90)
    assert seen["statuses"] == {"0": 81}, "40 synchronous, 40 asynchronous and one batch were SendOK"
    expected = {f"{how} {number:04}": "TagA" for how in ("sync", "async", "oneway", "batch") for number in range(0, 40, 2)}
    assert seen["received"] == expected


def test_it_administers_broadcasts_keeps_order_pulls_and_goes_on_where_it_was(
    tour: Path, cluster: Cluster, group: str, tmp_path: Path
) -> None:
    seen = judgement(tour, cluster.address, cluster.broker.address, f"tour-{group}", "60", home=tmp_path, timeout=240)
    assert seen["Listed"] and seen["Groups"] and seen["Gone"]
    assert seen["Broadcast"] == [60, 60, 60] and seen["Compressed"]
    assert seen["InOrder"] == {f"key {key}": [f"{number:04}" for number in range(key, 60, 5)] for key in range(5)}
    assert seen["Polled"] == seen["Pulled"] == sum(seen["Ends"]) == 61 and len(seen["Ends"]) == 4
    assert seen["IllegalOffset"] and seen["Resumed"] == ["one more"]
