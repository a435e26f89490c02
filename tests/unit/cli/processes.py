"""The rocketpy command for tests of the command line: servers that go on, and commands that end by themselves."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.processes import ROCKETPY, ROOT, Process

WAIT_S = 200.0
_numbers = itertools.count(1)


def serve(directory: Path, *arguments: str) -> Process:
    """One that goes on; to be stopped, or left at the end of a `with`."""
    return Process.rocketpy(*arguments, log=directory / f"output-{next(_numbers)}", environment={"NAMESRV_ADDR": ""})


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """One that ends by itself."""
    return subprocess.run(
        [*ROCKETPY, *arguments],
        cwd=ROOT,
        env={**os.environ, "NAMESRV_ADDR": "", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
