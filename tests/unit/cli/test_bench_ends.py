"""A comparison that is told to end leaves no server behind."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path

import pytest

from bench.servers import Server
from bench.termination import unwind_at_sigterm
from tests.processes import PATIENCE_S, Process, wait_until


def children(pid: int) -> list[Path]:
    """/proc/PID of those that the process's threads have started."""
    found: list[Path] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            found += [Path("/proc", each) for each in (task / "children").read_text().split()]
    return found


def test_servers_end_with_a_comparison_that_gets_sigterm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.peer", "--without-peer", "--quick", "--shape", "64x1", "--dir", str(tmp_path / "stores")]
    with Process("bench-peer", command, tmp_path / "output") as comparison:
        servers = comparison.wait_until(lambda: children(comparison.pid), PATIENCE_S, "it has started a server")
        assert comparison.stop() == 128 + signal.SIGTERM
    wait_until(lambda: not any(each.exists() for each in servers), PATIENCE_S, f"{servers} have ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_just_being_started_ends_too(tmp_path: Path, number: signal.Signals) -> None:
    begun: list[Process] = []

    def start() -> Process:
        begun.append(Process("sleep", ["sleep", "300"], tmp_path / "output"))
        signal.raise_signal(number)
        return begun[0]

    class Interrupted(Server):
        def start(self, topic: str, queues: int) -> None:
            self.add(start)

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unwind_at_sigterm()
    try:
        with pytest.raises((SystemExit, KeyboardInterrupt)), Interrupted(tmp_path).running("T", 1):
            pass
        assert not begun[0].is_running()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        begun[0].kill()
