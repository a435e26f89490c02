"""A comparison that is told to end leaves no server behind."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.processes import PATIENCE_S, Process, wait_until


def children(pid: int) -> list[Path]:
    """/proc/PID of those that the process's threads have started."""
    return [Path("/proc", each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()]


def test_servers_end_with_a_comparison_that_gets_sigterm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.peer", "--without-peer", "--quick", "--shape", "64x1", "--dir", str(tmp_path / "stores")]
    with Process("bench-peer", command, tmp_path / "output") as comparison:
        servers = comparison.wait_until(lambda: children(comparison.pid), PATIENCE_S, "it has started a server")
        assert comparison.stop() == 128 + signal.SIGTERM
    wait_until(lambda: not any(each.exists() for each in servers), PATIENCE_S, f"{servers} have ended")
