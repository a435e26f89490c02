"""The whole check that is ended early leaves nothing behind that runs."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.processes import PATIENCE_S, ROOT, wait_until


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


NOTED = '    beside="$beside $!"'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("early", [False, True], ids=["noted", "just started"])
def test_what_runs_beside_a_step_ends_with_the_check(tmp_path: Path, number: signal.Signals, early: bool) -> None:
    """It has a process group of its own, and would go on."""
    pid_file = tmp_path / "beside.pid"
    (tmp_path / ".ci").mkdir()
    check_text = (ROOT / ".ci/run").read_text()
    assert check_text.count(NOTED) == 1
    program(tmp_path / ".ci/run", check_text.replace(NOTED, f"    while :; do :; done\n{NOTED}") if early else check_text)
    program(tmp_path / ".venv/bin/python", f'echo $$ >"{pid_file}"; exec sleep 300')
    program(tmp_path / "bin/make", f'test "$1" = build || {{ : >"{tmp_path}/$1"; exec sleep 300; }}')
    program(tmp_path / "bin/clang", "exit 0")
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    # Whoever runs the tests may ignore the signal (nohup), and a shell cannot trap what it was born ignoring.
    check = subprocess.Popen(
        ["/bin/sh", str(tmp_path / ".ci/run")],
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    beside = 0
    try:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), what="what runs beside")
        beside = int(pid_file.read_text())
        if not early:  # a step that the shell is about to start does not get the signal, and is waited for
            wait_until((tmp_path / "lint").exists, what="the step")
        os.killpg(check.pid, number)
        check.wait(PATIENCE_S)
        wait_until(lambda: not is_running(beside), what="the end of what ran beside")
        assert check.returncode == 128 + number and not list(tmp_path.glob("tmp.*")), "its logs are gone"
    finally:
        if check.poll() is None:
            os.killpg(check.pid, signal.SIGKILL)
            check.wait()
        if beside and is_running(beside):
            os.kill(beside, signal.SIGKILL)
