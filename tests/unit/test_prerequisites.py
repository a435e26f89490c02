"""What `make` says where it cannot build: what is missing, and not what is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.processes import ROOT

SCRIPT = ROOT / ".ci" / "prerequisites"


def told(**environment: str) -> str:
    """What it says; empty where everything is there."""
    command = ["/bin/sh", str(SCRIPT)]
    given = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, **environment}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode == 0) == (not done.stderr)
    return done.stderr


@pytest.mark.parametrize(("name", "value"), [("CC", "no-such-cc"), ("CC", "no-such-cc -m64"), ("PYTHON", "no-such-python")])
def test_a_program_that_is_named_and_not_there_is_told_by_that_name(name: str, value: str) -> None:
    text = told(**{name: value})
    assert value.split()[0] in text and f"({name})" in text and "apt-get" not in text


def test_a_compiler_may_have_options_and_something_before_it() -> None:
    assert told(CC="cc -m64") == told(CC="env cc") == ""


def test_what_nobody_has_named_is_to_be_installed() -> None:
    assert "sudo apt-get install -y python3 python3-venv python3-dev gcc libc6-dev" in told(PATH="/nonexistent", PYTHON="")
