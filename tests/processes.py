"""Child processes of tests and benchmarks: free ports, waits on conditions with a bound, an output to look into, an end by process id."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
ROCKETPY = shlex.split(os.environ.get("ROCKETPY_COMMAND", "")) or [sys.executable, "-m", "rocketpy"]
"""The command that tests run: this tree's, or what ROCKETPY_COMMAND names, such as an installed `rocketpy`."""
PORTS = range(11000, 31000)  # below the kernel's ephemeral range
BLOCK = 250  # of them are claimed at once
BROKER_PORTS = (-2, 0, 1)
"""Relative to listenPort: the VIP listener, the listener, the HA listener."""

PATIENCE_S = 50.0
"""What must happen is waited for so long, or longer: only a test that fails waits to the end, and a busy machine may stand still."""

RUNNING: list[Process] = []
"""Every process that nobody has stopped or killed yet; failure reports show the ends of their output."""


def wait_until(
    condition: Callable[[], T],
    timeout: float = PATIENCE_S,
    what: str = "",
    every: float = 0.01,
    not_yet: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """The first true value of condition(). After the time-out an AssertionError says what was awaited and what came last.

    An exception of type not_yet is a look that found nothing. `every` is the pause between two looks. timeout: PATIENCE_S at least.
    """
    timeout = max(timeout, PATIENCE_S)
    end = time.monotonic() + timeout
    while True:
        try:
            last: object = condition()
        except not_yet as error:
            last = error
        else:
            if last:
                return last  # type: ignore[return-value]
        if time.monotonic() >= end:
            raise AssertionError(f"not within {timeout} s: {what or condition}; last value {last!r}")
        time.sleep(every)


def _can_bind(port: int) -> bool:
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


_blocks: list[range] = []
_claims: list[socket.socket] = []
_handed_out: set[int] = set()


def claim(what: str) -> socket.socket | None:
    """What no other process has, a worker of pytest's or another pytest, until this socket is closed, at the latest when the process ends:
    the system gives the name to one socket at a time. None: another has it."""
    claimed = socket.socket(socket.AF_UNIX)
    try:
        claimed.bind(f"\0rocketpy: {what}")
    except OSError:
        claimed.close()
        return None
    return claimed


def _claim_block() -> bool:
    """Ports that no other process hands out while this one runs: they may not be bound for a while. False: none is left."""
    margin = max(map(abs, BROKER_PORTS))
    for first in random.SystemRandom().sample(PORTS[::BLOCK], len(PORTS[::BLOCK])):
        claimed = claim(f"ports for tests from {first}")
        if claimed is None:
            continue
        _claims.append(claimed)
        _blocks.append(range(first + margin, first + BLOCK - margin))
        return True
    return False


def free_port(neighbours: Sequence[int] = (0,)) -> int:
    """A port with every port + neighbour free, each given out once until all are: BROKER_PORTS for a broker."""
    dice = random.SystemRandom()
    for _ in range(len(PORTS) // BLOCK + 2):
        for _ in range(100 * len(_blocks)):
            port = dice.choice(dice.choice(_blocks))
            wanted = {port + distance for distance in neighbours}
            if not wanted & _handed_out and all(_can_bind(each) for each in wanted):
                _handed_out.update(wanted)
                return port
        if not _claim_block():
            _handed_out.clear()
    raise AssertionError(f"no free port found from {PORTS.start} to {PORTS.stop}")


def write_properties(path: Path, keys: Mapping[str, object]) -> Path:
    """A configuration file of key=value lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}\n" for key, value in keys.items()))
    return path


class Process:
    """One child process, both its outputs in one file."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, directory: Path | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._lines_seen = 0
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,  # ends with us: a child that reads it knows when to go
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, **(environment or {})},
            )
        RUNNING.append(self)

    @classmethod
    def rocketpy(
        cls, *arguments: str, log: Path, name: str = "", environment: Mapping[str, str] | None = None, inside: Sequence[str] = ()
    ) -> Process:
        """The rocketpy command, from any directory; inside: the command that runs it, in a network namespace for example."""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        return cls(name or f"rocketpy {arguments[0]}", [*inside, *ROCKETPY, *arguments], log, {"PYTHONPATH": path, **(environment or {})})

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def output_tail(self, lines: int = 60) -> str:
        return "\n".join(self.output().splitlines()[-lines:])

    def wait_until(self, condition: Callable[[], T], timeout: float, what: str, **how: float) -> T:
        """wait_until, but a process that has ended is an error at once; either way its output is shown."""

        def look() -> T:
            found = condition()
            if not found and not self.is_running():
                raise AssertionError(f"it ended with {self._popen.returncode} before: {what}")
            return found

        try:
            return wait_until(look, timeout, what, **how)
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}\n{self.output_tail()}") from None

    def next_line(self, pattern: str, timeout: float = PATIENCE_S) -> re.Match[str]:
        """The first line behind the one found before that the pattern is found in."""

        def look() -> re.Match[str] | None:
            lines = self.output().split("\n")[:-1]
            for number in range(self._lines_seen, len(lines)):
                if found := re.search(pattern, lines[number]):
                    self._lines_seen = number + 1
                    return found
            return None

        found = self.wait_until(look, timeout, f"a line with {pattern!r}")
        assert found is not None
        return found

    def send_signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def stop(self, timeout: float = PATIENCE_S, number: signal.Signals = signal.SIGTERM) -> int:
        """Asks it to end; its exit code. One that does not leave in time is killed and reported."""
        self._popen.send_signal(number)
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {timeout} s of {number.name}\n{self.output_tail()}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; nothing when it is."""
        self._popen.kill()
        self._popen.wait(PATIENCE_S)
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        if self in RUNNING:
            RUNNING.remove(self)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
