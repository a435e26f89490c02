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
from tests.interop import processes

START_LIMIT_S = 30.0


def free_port() -> int:
    """A port with its neighbours free too: a broker listens on port, port + 1 (HA) and port - 2 (VIP)."""
    return processes.free_port((-2, 0, 1))


class Server:
    """A child process of ours that listens on one port of loopback; every key goes into its configuration file."""

    def __init__(self, role: str, directory: Path, port: int, keys: dict[str, object]) -> None:
        self.role = role
        self.directory = directory
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.config = directory / f"{role}.conf"
        directory.mkdir(parents=True, exist_ok=True)
        common = {"bindAddress": "127.0.0.1", "listenPort": port, "logPath": directory / "logs"}
        self.config.write_text("".join(f"{key}={value}\n" for key, value in {**common, **keys}.items()))
        self.log = directory / "output.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            command = [sys.executable, "-m", "rocketpy", self.role, "-c", str(self.config)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        end = time.monotonic() + START_LIMIT_S
        while not self._answers():
            assert self._process.poll() is None, f"the {self.role} ended with {self._process.returncode}:\n{self.tail()}"
            assert time.monotonic() < end, f"the {self.role} does not answer after {START_LIMIT_S} s:\n{self.tail()}"

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

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

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


class NameServerProcess(Server):
    """`rocketpy namesrv`."""

    def __init__(self, directory: Path) -> None:
        files = {"kvConfigPath": directory / "kv.json", "configStorePath": directory / "namesrv.properties"}
        super().__init__("namesrv", directory, free_port(), {**files})


class BrokerProcess(Server):
    """`rocketpy broker`."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.store = directory / "store"
        keys: dict[str, object] = {
            "brokerName": "crash", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
            "storePathRootDir": self.store, "autoCreateTopicEnable": "true",
            "mappedFileSizeCommitLog": 8 * 1024 * 1024, **settings,
        }  # fmt: skip
        super().__init__("broker", directory, free_port(), keys)
