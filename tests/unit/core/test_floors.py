"""The bare loops that figures are measured against: what they say when they cannot run."""

from __future__ import annotations

import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from rocketpy._core.errors import RocketpyError
from rocketpy._core.load import floor_replicated


def test_a_relay_without_room_for_its_logs_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(RocketpyError, match="File too large"):
            floor_replicated(tmp_path / "relay.dat", 100, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_relay_does_not_remove_a_file_that_it_cannot_open(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(str(shutil.which("cat")), program)
    with subprocess.Popen([program], stdin=subprocess.PIPE) as running:  # nobody may write to a program that runs, root neither
        with pytest.raises(RocketpyError, match="Text file busy"):
            floor_replicated(program, 100, 1)
        assert program.exists()
        assert running.stdin is not None
        running.stdin.close()
