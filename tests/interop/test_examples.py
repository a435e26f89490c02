"""The programs of the README: they run as they stand in examples/, and the README shows them to the letter."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

from .javaenv import UTF_8, java, library
from .products import Cluster

EXAMPLES = ROOT / "examples"


def run(command: list[str], cluster: Cluster, home: Path) -> str:
    environment = {**os.environ, **UTF_8, "NAMESRV_ADDR": cluster.address, "HOME": str(home)}
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_python_example_sends_and_receives(cluster: Cluster, tmp_path: Path) -> None:
    if importlib.util.find_spec("rocketmq") is None:
        pytest.skip("the C++ client is not installed: pip install rocketmq (x86-64 Linux)")
    printed = run([sys.executable, str(EXAMPLES / "first_messages.py")], cluster, tmp_path)
    assert "SendStatus.OK" in printed and "b'hello'" in printed


@pytest.mark.slow
def test_the_java_example_sends_and_receives(cluster: Cluster, tmp_path: Path) -> None:
    command = [java(), f"-Duser.home={tmp_path}", "-cp", f"{library()}/*", str(EXAMPLES / "FirstMessages.java")]
    printed = run(command, cluster, tmp_path)
    assert "SEND_OK" in printed and re.search(r"^[0-9A-F]+ hello$", printed, re.MULTILINE)


@pytest.mark.parametrize(("language", "name"), [("python", "first_messages.py"), ("java", "FirstMessages.java")])
def test_the_readme_shows_the_example_to_the_letter(language: str, name: str) -> None:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert (EXAMPLES / name).read_text() in blocks, f"README.md shows another text than examples/{name}"
