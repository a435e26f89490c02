"""A client in pure JavaScript against our servers: old routes, header fields that are no strings, UTF-8 everywhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .judge import judgement
from .products import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SOURCES = Path(__file__).parent / "node"
COUNT = 40


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no Node.js: `apt-get install nodejs npm`")
    home = Path(shutil.copytree(SOURCES, tmp_path_factory.mktemp("node") / "judge"))
    install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(install, cwd=home, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode:
        pytest.skip(f"npm could not fetch the client: {done.stderr[-300:]}")
    return [node, str(home / "judge.js")]


def test_it_sends_and_receives_by_tag_as_a_group_and_broadcasting(
    judge: list[str], cluster: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    seen = judgement(*judge, cluster.address, topic, group, str(COUNT), home=tmp_path, timeout=90)
    assert seen.pop("keys").startswith("key-"), "two keys, one word"
    told = "maybe this group consumer boot first"  # RocketMQ's word to a new group, an error to this client; ours says 0
    assert all(told in problem for problem in seen.pop("problems"))
    assert seen == {
        "statuses": {"SEND_OK": COUNT},
        "tagged": COUNT // 2,
        "together": COUNT,
        "cast": [COUNT, COUNT],
        "large": True,
        "tags": "TagA",
    }
