"""The rocketpy command for tests of the command line: servers that go on, and commands that end by themselves."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from rocketpy.cli.entry import main
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


def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As `run`, in this process: of a command that only reads and writes files the start is nine tenths of the time."""
    stdout, stderr = io.BytesIO(), io.BytesIO()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(io.TextIOWrapper(stdout, encoding="utf-8", write_through=True)))
        stack.enter_context(redirect_stderr(io.TextIOWrapper(stderr, encoding="utf-8", write_through=True)))
        stack.enter_context(patch.object(sys, "argv", ["rocketpy", *arguments]))
        stack.enter_context(patch.dict(os.environ, {"NAMESRV_ADDR": ""}))
        try:
            code = main()
        except SystemExit as ended:
            assert isinstance(ended.code, int)
            code = ended.code
        return subprocess.CompletedProcess(["rocketpy", *arguments], code, stdout.getvalue().decode(), stderr.getvalue().decode())
