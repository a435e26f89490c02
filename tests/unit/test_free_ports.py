"""Ports of tests that run side by side."""

from __future__ import annotations

import subprocess
import sys

from tests.processes import BROKER_PORTS, ROOT, free_port

COUNT = 60
SCRIPT = f"from tests.processes import *; print(*(free_port(BROKER_PORTS) for _ in range({COUNT})), flush=True); input()"


def test_no_two_processes_hand_out_the_same_port() -> None:
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = {int(port) + distance for port in other.stdout.readline().split() for distance in BROKER_PORTS}
        ours = {free_port(BROKER_PORTS) + distance for _ in range(COUNT) for distance in BROKER_PORTS}
        assert len(ours) == len(theirs) == COUNT * len(BROKER_PORTS) and not ours & theirs
        other.communicate("")
