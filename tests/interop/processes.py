"""Server processes of a test: free ports, waits on conditions, log tails for the report, an end by process id."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LIVE: list[ServerProcess] = []
"""Every process that has been started and not yet been forgotten; the failure report reads their logs."""


def wait_until(condition: Callable[[], T], timeout: float = 30.0, what: str = "", every: float = 0.05) -> T:
    """The first true value of condition(). Raises AssertionError that says what was awaited and what came last."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not within {timeout} s: {what or condition}; last value {value!r}")
        time.sleep(every)


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def port_accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


_handed_out: set[int] = set()


def free_port(offsets: Sequence[int] = (0,)) -> int:
    """A port p below the kernel's ephemeral range with every p + offset free (a broker also takes p-2 and p+1)."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(11000, 31000)
        wanted = {port + offset for offset in offsets}
        if not wanted & _handed_out and all(port_is_free(each) for each in wanted):
            _handed_out.update(wanted)
            return port
    raise AssertionError("no free port found between 11000 and 31000")


class ServerProcess:
    """One child process with its output in a file."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, cwd=cwd
            )
        LIVE.append(self)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self, lines: int = 60) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def await_running(self, condition: Callable[[], T], timeout: float, what: str) -> T:
        """wait_until, but a process that ended is an error at once."""

        def look() -> T:
            if not self.is_running():
                raise AssertionError(f"{self.name} ended with {self._popen.returncode} before: {what}\n{self.log_tail()}")
            return condition()

        return wait_until(look, timeout, f"{self.name}: {what}")

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM, then the exit code. A process that does not leave is killed and reported."""
        if self.is_running():
            self._popen.send_signal(signal.SIGTERM)
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {timeout} s of SIGTERM\n{self.log_tail()}") from None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.is_running():
            self._popen.kill()
        self._popen.wait(30)

    def forget(self) -> None:
        if self in LIVE:
            LIVE.remove(self)
