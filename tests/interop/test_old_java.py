"""RocketMQ's client of 2015 (com.alibaba.rocketmq 3.2.6) against our servers: no unique ids, no batches, an old fastjson."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .javaenv import MODULE_OPTIONS, QUICK_JVM, fetched, java
from .products import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SOURCES = Path(__file__).parent / "old"


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    jars, classes = fetched("3.2.6", SOURCES / "pom.xml", "rocketmq-client-3.2.6.jar"), tmp_path_factory.mktemp("old")
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", str(SOURCES / "OldJudge.java")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return f"{classes}:{jars}/*"


def test_it_sends_receives_refuses_and_asks(class_path: str, cluster: Cluster, topic: str, group: str, tmp_path: Path) -> None:
    command = [java(), *QUICK_JVM, *MODULE_OPTIONS, f"-Duser.home={tmp_path}", "-cp", class_path, "OldJudge"]
    done = subprocess.run([*command, cluster.address, topic, group], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    taken = {f"{how} {tag}": 1 for how in ("sent", "oneway") for tag in ("TagA", "TagB")}
    assert seen == {"received": {**taken, "long 5000": 1, "refused": 2}, "byId": "refused", "byKey": 1}
