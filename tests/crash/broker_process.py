"""A broker as a child process that is killed and started again on the same store and port."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from rocketpy._core.inspect import Damage, verify_store
from rocketpy._core.remoting import encode_command
from rocketpy.remoting.codes import RequestCode
from tests.processes import BROKER_PORTS, Process, free_port, write_properties

START_LIMIT_S = 120.0
# A short test fills several files of these sizes.
SMALL_FILES = {"mappedFileSizeCommitLog": 16 << 20, "mappedFileSizeConsumeQueue": 20_000, "maxHashSlotNum": 1000, "maxIndexNum": 4000}

INDEX_SIZES = {"slot_count": "maxHashSlotNum", "entry_count_max": "maxIndexNum"}


class Server:
    """A child process of ours that listens on one port of loopback; every key goes into its configuration file."""

    def __init__(
        self, role: str, directory: Path, port: int, keys: dict[str, object], *, host: str = "127.0.0.1", inside: Sequence[str] = ()
    ) -> None:
        """host: where it is reached; inside: the command that runs a command in its network namespace."""
        self.role = role
        self.directory = directory
        self.port = port
        self.host = host
        self.inside = inside
        self.address = f"{host}:{port}"
        common = {"bindAddress": "127.0.0.1", "listenPort": port, "logPath": directory / "logs"}
        self.config = write_properties(directory / f"{role}.conf", {**common, **keys})
        self.log = directory / "output.log"
        self._process: Process | None = None

    def start(self) -> None:
        self._process = Process.rocketpy(self.role, "-c", str(self.config), log=self.log, inside=self.inside)
        self._process.wait_until(self._answers, START_LIMIT_S, f"an answer on port {self.port}")

    def _answers(self) -> bool:
        """One real request."""
        frame = encode_command(RequestCode.GET_MAX_OFFSET, {"topic": "CrashTest", "queueId": "0"}, opaque=1)
        try:
            with socket.create_connection((self.host, self.port), timeout=1.0) as connection:
                connection.sendall(frame)
                connection.settimeout(1.0)
                return len(connection.recv(4)) == 4
        except OSError:
            return False

    @property
    def process(self) -> Process:
        assert self._process is not None, f"the {self.role} does not run"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        self.process.kill()
        self._process = None

    def stop(self) -> None:
        """SIGTERM; nothing when it does not run."""
        if self._process is not None:
            process, self._process = self._process, None
            process.stop()

    def tail(self) -> str:
        return self.process.output_tail()


class NameServerProcess(Server):
    """`rocketpy namesrv`."""

    def __init__(self, directory: Path, **settings: object) -> None:
        files = {"kvConfigPath": directory / "kv.json", "configStorePath": directory / "namesrv.properties"}
        super().__init__("namesrv", directory, free_port(), {**files, **settings})


class BrokerProcess(Server):
    """`rocketpy broker`."""

    def __init__(self, directory: Path, *, host: str = "127.0.0.1", inside: Sequence[str] = (), **settings: object) -> None:
        self.store = directory / "store"
        keys: dict[str, object] = {
            "brokerName": "crash", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
            "storePathRootDir": self.store, "autoCreateTopicEnable": "true",
            "mappedFileSizeCommitLog": 8 * 1024 * 1024, **settings,
        }  # fmt: skip
        super().__init__("broker", directory, free_port(BROKER_PORTS), keys, host=host, inside=inside)
        self._index_sizes = {size: int(str(keys.get(key, 0))) for size, key in INDEX_SIZES.items()}

    def check_store(self) -> dict[str, int]:
        """What verify counts in the stopped broker's store, in which nothing is damaged."""
        damages: list[Damage] = []
        counts = verify_store(str(self.store), on_damage=damages.append, **self._index_sizes)
        assert not damages, damages[:5]
        return counts
