"""A broker as a child process that is killed and started again on the same store and port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from rocketpy._core.remoting import encode_command
from rocketpy.remoting.codes import RequestCode

START_LIMIT_S = 30.0


def free_port() -> int:
    """A port with its neighbours free too: a broker listens on port, port + 1 (HA) and port - 2 (VIP)."""
    for _ in range(200):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if all(_is_free(other) for other in (port - 2, port + 1)):
            return port
    raise AssertionError("no three free ports found")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class BrokerProcess:
    """`rocketpy broker` on loopback; every key of settings goes into its file."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        keys = {
            "brokerName": "crash", "brokerIP1": "127.0.0.1", "bindAddress": "127.0.0.1", "listenPort": self.port,
            "storePathRootDir": self.store, "autoCreateTopicEnable": "true", "logPath": directory / "logs",
            "mappedFileSizeCommitLog": 8 * 1024 * 1024, **settings,
        }  # fmt: skip
        self.config = directory / "broker.conf"
        directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        self.log = directory / "output.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            command = [sys.executable, "-m", "rocketpy", "broker", "-c", str(self.config)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        end = time.monotonic() + START_LIMIT_S
        while not self._answers():
            assert self._process.poll() is None, f"the broker ended with {self._process.returncode}:\n{self.tail()}"
            assert time.monotonic() < end, f"the broker does not answer after {START_LIMIT_S} s:\n{self.tail()}"

    def _answers(self) -> bool:
        """One real request; the connect's own time-out paces the loop."""
        frame = encode_command(RequestCode.GET_MAX_OFFSET, {"topic": "CrashTest", "queueId": "0"}, opaque=1)
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(frame)
                connection.settimeout(1.0)
                return len(connection.recv(4)) == 4
        except OSError:
            os.sched_yield()
            return False

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(30)
        self._process = None

    def stop(self) -> None:
        """SIGTERM; nothing when it does not run."""
        if self._process is not None:
            self.kill(signal.SIGTERM)

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:]) if self.log.exists() else ""
