"""Server processes for tests of the command line: start, read lines with a bound, stop by pid."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 30.0


class ServerProcess:
    """`python -m rocketpy ARGUMENTS` with its two outputs read line by line."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rocketpy", *arguments],
            cwd=ROOT,
            env={**os.environ, "NAMESRV_ADDR": "", **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self.seen: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: object) -> None:
        for line in stream:  # type: ignore[attr-defined]
            self._lines.put(line.rstrip("\n"))

    def line_with(self, text: str, wait_s: float = WAIT_S) -> str:
        """The next line on either output that holds text."""
        end = time.monotonic() + wait_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {text!r}; there were: {self.seen}") from None
            self.seen.append(line)
            if text in line:
                return line

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """(exit code, seconds it took)."""
        started = time.monotonic()
        self.send(number)
        code = self._process.wait(WAIT_S)
        return code, time.monotonic() - started

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(WAIT_S)
        for reader in self._readers:
            reader.join(WAIT_S)


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "rocketpy", *arguments],
        cwd=ROOT,
        env={**os.environ, "NAMESRV_ADDR": "", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=WAIT_S * 3,
        check=False,
    )
