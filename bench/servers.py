"""The servers a comparison runs: RocketMQ, rocketpy, and the floor, each a set of child processes with the same configuration keys.

Everything binds to 127.0.0.1 on free ports and lives under one directory. Processes are ended by their process id, in reverse order.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketpy._core.errors import RocketpyError
from rocketpy.cli.bench_target import find_target
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.json_codec import read_object

PROJECT = Path(__file__).resolve().parent.parent
CLUSTER = "DefaultCluster"
BROKER = "broker-a"
PORT_FIRST, PORT_LAST = 12000, 31000
STARTS_WITHIN_S = 60.0
STOPS_WITHIN_S = 30.0
POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Durability:
    """What a server promises before it answers a send."""

    flush: str = "ASYNC_FLUSH"
    replication: str = "NONE"  # NONE, ASYNC_MASTER, SYNC_MASTER: with one slave in the last two

    def __str__(self) -> str:
        return f"{self.flush}, {'no slave' if self.replication == 'NONE' else self.replication + ' + 1 slave'}"


class Process:
    """One child, its output in a file."""

    def __init__(self, name: str, command: Sequence[str], home: Path, environment: dict[str, str] | None = None) -> None:
        self.name = name
        self.log = home / "stdout.log"
        home.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self.popen = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=home,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def check_running(self) -> None:
        if self.popen.poll() is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
            raise RuntimeError(f"{self.name} ended with {self.popen.returncode}:\n{tail}")

    def stop(self) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


def free_port(neighbours: Sequence[int] = (0,)) -> int:
    """A port below the ephemeral range that is free with its neighbours (a broker also takes port - 2 and port + 1)."""
    start = PORT_FIRST + time.monotonic_ns() % (PORT_LAST - PORT_FIRST)
    for step in range(PORT_LAST - PORT_FIRST):
        port = PORT_FIRST + (start - PORT_FIRST + 7 * step) % (PORT_LAST - PORT_FIRST)
        if all(_is_free(port + distance) for distance in neighbours):
            return port
    raise RuntimeError("no free port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Server:
    """What is loaded: one address, and the processes behind it."""

    name = ""
    durability = "none: page cache only"
    address = ""
    started_s = 0.0  # from starting the broker's process to its being registered

    def __init__(self, home: Path) -> None:
        self.home = home
        self.processes: list[Process] = []

    def start(self, topic: str, queues: int) -> None:
        raise NotImplementedError

    @property
    def main_process(self) -> Process:
        return self.processes[-1]

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.stop()
        self.processes.clear()


class FloorServer(Server):
    """The bare epoll loop."""

    name = "floor"

    def start(self, topic: str, queues: int) -> None:
        port = free_port()
        path = self.home / "floor.dat"
        self.processes.append(
            Process("floor", [sys.executable, "-m", "bench.floor_server", str(path), str(port)], self.home, {"PYTHONPATH": str(PROJECT)})
        )
        self.address = f"127.0.0.1:{port}"
        deadline = time.monotonic() + STARTS_WITHIN_S
        while _is_free(port):
            self.main_process.check_running()
            if time.monotonic() > deadline:
                raise RuntimeError("the floor server does not listen")
            time.sleep(POLL_S)


class BrokerServer(Server):
    """A name server, a broker, and its slave when there is replication; each product says how its processes are started."""

    def __init__(self, home: Path, durability: Durability, encoding: str) -> None:
        super().__init__(home)
        self._durability = durability
        self.durability = str(durability)
        self._encoding = encoding
        self.namesrv = ""

    def namesrv_process(self, port: int, home: Path) -> Process:
        raise NotImplementedError

    def broker_process(self, conf: Path, namesrv: str, home: Path) -> Process:
        raise NotImplementedError

    def start(self, topic: str, queues: int) -> None:
        namesrv_port = free_port()
        self.namesrv = namesrv = f"127.0.0.1:{namesrv_port}"
        self.processes.append(self.namesrv_process(namesrv_port, self.home / "namesrv"))
        asyncio.run(self._await_brokers(namesrv, 0))
        port = free_port((-2, 0, 1))
        self.address = f"127.0.0.1:{port}"
        role = "ASYNC_MASTER" if self._durability.replication == "NONE" else self._durability.replication
        master = self._write_conf(self.home / "master", port, role, 0)
        slaves = 0
        if self._durability.replication != "NONE":
            slaves = 1
            slave = self._write_conf(self.home / "slave", free_port((-2, 0, 1)), "SLAVE", 1)
        begin = time.monotonic()
        self.processes.append(self.broker_process(master, namesrv, self.home / "master"))
        asyncio.run(self._await_brokers(namesrv, 1))
        self.started_s = time.monotonic() - begin
        if slaves:
            self.processes.insert(1, self.broker_process(slave, namesrv, self.home / "slave"))
            asyncio.run(self._await_brokers(namesrv, 2))
        self._create_topic(namesrv, topic, queues)

    def _write_conf(self, home: Path, port: int, role: str, broker_id: int) -> Path:
        keys = {
            "brokerClusterName": CLUSTER,
            "brokerName": BROKER,
            "brokerId": broker_id,
            "brokerRole": role,
            "flushDiskType": self._durability.flush,
            "listenPort": port,
            "haListenPort": port + 1,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "storePathRootDir": home / "store",
            "storePathCommitLog": home / "store" / "commitlog",
            "autoCreateTopicEnable": "true",
        }
        home.mkdir(parents=True, exist_ok=True)
        conf = home / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return conf

    async def _await_brokers(self, namesrv: str, count: int) -> None:
        """Until the name server answers and knows that many brokers."""
        deadline = time.monotonic() + STARTS_WITHIN_S
        async with RemotingClient() as client:
            while True:
                for process in self.processes:
                    process.check_running()
                known = -1
                try:
                    response = await client.invoke(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=1)
                    table = read_object(response.body).get("brokerAddrTable") or {}
                    known = sum(len(data["brokerAddrs"]) for data in table.values())
                except RocketpyError:
                    pass  # it does not listen yet
                if known >= count:
                    return
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name}: {known} brokers registered at {namesrv} after {STARTS_WITHIN_S} s, {count} wanted")
                await asyncio.sleep(POLL_S)

    def _create_topic(self, namesrv: str, topic: str, queues: int) -> None:
        """The default topic's route may come a moment after the broker's registration."""
        deadline = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                find_target(None, namesrv, topic, queues, broker_name=None, create=True)
                return
            except RocketpyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


class RocketpyServer(BrokerServer):
    """This tree's rocketpy, by its command."""

    name = "rocketpy"

    def namesrv_process(self, port: int, home: Path) -> Process:
        home.mkdir(parents=True, exist_ok=True)
        conf = home / "namesrv.conf"
        files = f"kvConfigPath={home}/kvConfig.json\nconfigStorePath={home}/namesrv.properties\n"
        conf.write_text(f"listenPort={port}\nbindAddress=127.0.0.1\nrocketmqHome={home}\n{files}")
        return Process("rocketpy namesrv", [*self._command(), "namesrv", "-c", str(conf)], home, self._environment(home))

    def broker_process(self, conf: Path, namesrv: str, home: Path) -> Process:
        return Process("rocketpy broker", [*self._command(), "broker", "-c", str(conf), "-n", namesrv], home, self._environment(home))

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "rocketpy"]

    def _environment(self, home: Path) -> dict[str, str]:
        return {"HOME": str(home), "PYTHONPATH": str(PROJECT)}


class PeerServer(BrokerServer):
    """The released RocketMQ, started by the `peer` script with the heap it chooses (1 GB)."""

    name = "RocketMQ"

    def __init__(self, home: Path, durability: Durability, encoding: str, script: Path) -> None:
        super().__init__(home, durability, encoding)
        self._script = script

    def namesrv_process(self, port: int, home: Path) -> Process:
        return Process("peer namesrv", [str(self._script), "namesrv", "--port", str(port), "--home", str(home)], home)

    def broker_process(self, conf: Path, namesrv: str, home: Path) -> Process:
        # It answers in the encoding it was started with, whatever it is asked in.
        environment = {"JAVA_TOOL_OPTIONS": f"-Drocketmq.serialize.type={self._encoding}"}
        return Process(
            "peer broker", [str(self._script), "broker", "--conf", str(conf), "--namesrv", namesrv, "--home", str(home)], home, environment
        )


def find_peer() -> Path | None:
    """The script that starts RocketMQ: $ROCKETPY_PEER, or ../shared/peer/peer beside this tree; None without it or without Java."""
    named = os.environ.get("ROCKETPY_PEER")
    candidates = [Path(named)] if named else [PROJECT.parent / "shared" / "peer" / "peer"]
    script = next((path for path in candidates if path.is_file()), None)
    return script if script is not None and shutil.which("java") is not None else None
