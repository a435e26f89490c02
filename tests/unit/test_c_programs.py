"""Each tests/unit/c/*_test.c is compiled against the library and run: exit 0 passed, 77 skipped, anything else failed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.native_build import build_library, build_program, c_test_environment, c_test_programs


@pytest.fixture(scope="module")
def library() -> Any:
    return build_library()


@pytest.mark.parametrize("source", c_test_programs(), ids=lambda source: source.stem)
def test_program_exits_with_zero(source: Path, library: Any) -> None:
    program = build_program(library, source)
    environment = os.environ | c_test_environment()
    done = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False, env=environment)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip() or "the program says it cannot run here")
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
