"""The servers a comparison runs: RocketMQ, rocketpy, and the floor, each a set of child processes with the same configuration keys.

Everything binds to 127.0.0.1 on free ports and lives under one directory. Processes end in reverse order.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from rocketpy._core.errors import RocketpyError
from rocketpy.cli.bench_target import find_target
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.json_codec import read_object
from tests.processes import BROKER_PORTS, ROOT, Process, free_port, wait_until, write_properties

from .termination import not_interrupted

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
LOG = "stdout.log"
STARTS_WITHIN_S = 60.0
LOOKS_EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class Durability:
    """What a server promises before it answers a send."""

    flush: str = "ASYNC_FLUSH"
    replication: str = "NONE"  # NONE, ASYNC_MASTER, SYNC_MASTER: with one slave in the last two

    def __str__(self) -> str:
        return f"{self.flush}, {'no slave' if self.replication == 'NONE' else self.replication + ' + 1 slave'}"


async def replication(client: RemotingClient, master: str) -> tuple[int, int]:
    """Bytes of the commit log that the first slave has reported (-1: there is none yet), and that the master has."""
    answer = read_object((await client.call(master, RequestCode.GET_BROKER_HA_STATUS, timeout_s=5)).body)
    acked = [row["slaveAckOffset"] for row in answer["haConnectionInfo"]]
    return (acked or [-1])[0], answer["masterCommitLogMaxOffset"]


class Server(ABC):
    """What is loaded: one address, and the processes behind it."""

    name = ""
    durability = "none: page cache only"
    address = ""
    started_s = 0.0  # from starting the broker's process to its being registered

    def __init__(self, home: Path) -> None:
        self.home = home
        self.processes: list[Process] = []

    @abstractmethod
    def start(self, topic: str, queues: int) -> None:
        """Returns when the topic is there and can be loaded."""

    @contextmanager
    def running(self, topic: str, queues: int) -> Iterator[Self]:
        """Started; stopped in any case, also one that does not come up."""
        try:
            self.start(topic, queues)
            yield self
        finally:
            self.stop()

    @contextmanager
    def running_once(self, topic: str, queues: int) -> Iterator[Self]:
        """As `running`; its home is removed afterwards, which at full size is gigabytes."""
        with self.running(topic, queues):
            yield self
        shutil.rmtree(self.home)

    @property
    def main_process(self) -> Process:
        return self.processes[-1]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing of it runs meanwhile (SIGSTOP): whoever is measured has the machine, also beside one that is busy while it is idle."""
        with ExitStack() as stack:
            for process in self.processes:
                stack.callback(process.send_signal, signal.SIGCONT)
                process.send_signal(signal.SIGSTOP)
            yield

    def add(self, started: Callable[[], Process], place: int | None = None) -> None:
        """One more, at the end or at its place. What a signal finds half started is stopped like the others."""
        with not_interrupted():
            self.processes.insert(len(self.processes) if place is None else place, started())

    def stop(self) -> None:
        with ExitStack() as stack:  # backwards, each whatever became of the others
            while self.processes:
                stack.callback(self.processes.pop(0).stop)


class FloorServer(Server):
    """The bare epoll loop, of one of csrc/load/floor.h's kinds."""

    def __init__(self, home: Path, kind: str) -> None:
        super().__init__(home)
        self._kind = kind
        self.name = "growing floor" if kind == "growing" else "floor"
        self.durability = "on disk before the answer" if kind == "synced" else Server.durability

    def start(self, topic: str, queues: int) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "bench.floor_server", str(self.home / "floor.dat"), "0", self._kind]
        self.add(lambda: Process("floor", command, self.home / LOG, {"PYTHONPATH": str(ROOT)}))
        port = self.main_process.next_line(r"^\d+$", STARTS_WITHIN_S)
        self.address = f"127.0.0.1:{port[0]}"


class BrokerServer(Server):
    """A name server, a broker, and its slave when there is replication; each product says how its processes are started."""

    def __init__(self, home: Path, durability: Durability, encoding: str, keys: Mapping[str, object] | None = None) -> None:
        """`keys`: more of master's and slave's configuration."""
        super().__init__(home)
        self._keys = dict(keys or {})
        self._durability = durability
        self.durability = str(durability)
        self._encoding = encoding
        self._slave_conf: Path | None = None
        self.namesrv = ""

    @abstractmethod
    def namesrv_process(self, port: int, home: Path) -> Process:
        """The product's name server, started."""

    @abstractmethod
    def broker_process(self, conf: Path, namesrv: str, home: Path) -> Process:
        """The product's broker, started."""

    def start(self, topic: str, queues: int) -> None:
        namesrv_port = free_port()
        self.namesrv = f"127.0.0.1:{namesrv_port}"
        self.add(lambda: self.namesrv_process(namesrv_port, self.home / "namesrv"))
        self._await_brokers(0, self.main_process)
        role = "ASYNC_MASTER" if self._durability.replication == "NONE" else self._durability.replication
        port = free_port(BROKER_PORTS)
        self.address = f"127.0.0.1:{port}"
        master = self.write_conf(self.home / "master", port, role, 0)
        if self._durability.replication != "NONE":
            self._slave_conf = self.write_conf(self.home / "slave", free_port(BROKER_PORTS), "SLAVE", 1)
        begin = time.monotonic()
        self.add(lambda: self.broker_process(master, self.namesrv, self.home / "master"))
        self._await_brokers(1, self.main_process)
        self.started_s = time.monotonic() - begin
        if self._slave_conf is not None:
            self.start_slave()
            self._await_brokers(2, self.processes[1])
            # Registered is not yet connected: until the master has its first report a SYNC_MASTER has no slave to wait for.
            self.processes[1].wait_until(self._has_slave, STARTS_WITHIN_S, f"a slave that reports to {self.address}", every=LOOKS_EVERY_S)
        self.make_topic(topic, queues)

    def make_topic(self, topic: str, queues: int) -> None:
        wait_until(partial(self._has_topic, topic, queues), STARTS_WITHIN_S, f"a route of {topic}", not_yet=RocketpyError)

    def start_slave(self) -> None:
        """The process; what it does then is seen at the name server and the master."""
        assert self._slave_conf is not None, f"{self.durability}"
        conf = self._slave_conf
        self.add(lambda: self.broker_process(conf, self.namesrv, self.home / "slave"), 1)

    def stop_slave(self) -> None:
        self.processes.pop(1).stop()

    def move_slave_behind(self, ha_address: str) -> None:
        """The slave again, with another way to its master."""
        assert self._slave_conf is not None, f"{self.durability}"
        self.stop_slave()
        with self._slave_conf.open("a") as conf:
            conf.write(f"haMasterAddress={ha_address}\n")
        self.start_slave()

    def write_conf(self, home: Path, port: int, role: str, broker_id: int) -> Path:
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
        if role == "SYNC_MASTER":  # RocketMQ 5 counts the master itself: with its default of 1 it waits for no slave
            keys |= {"inSyncReplicas": 2, "totalReplicas": 2}
        return write_properties(home / "broker.conf", keys | self._keys)

    def _await_brokers(self, count: int, newest: Process) -> None:
        """Until the name server answers and knows that many brokers."""
        what = f"{count} brokers registered at {self.namesrv}"
        newest.wait_until(lambda: self._known_brokers() >= count, STARTS_WITHIN_S, what, every=LOOKS_EVERY_S)

    def _known_brokers(self) -> int:
        """-1 while the name server does not listen."""

        async def ask() -> int:
            async with RemotingClient() as client:
                response = await client.invoke(self.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=1)
            table = read_object(response.body).get("brokerAddrTable") or {}
            return sum(len(data["brokerAddrs"]) for data in table.values())

        try:
            return asyncio.run(ask())
        except RocketpyError:
            return -1

    def _has_slave(self) -> bool:
        async def ask() -> bool:
            async with RemotingClient() as client:
                return (await replication(client, self.address))[0] >= 0

        return asyncio.run(ask())

    def _has_topic(self, topic: str, queues: int) -> bool:
        """Makes it. The default topic's route may come a moment after the broker's registration: RocketpyError until then."""
        find_target(None, self.namesrv, topic, queues, broker_name=None, create=True)
        return True


class RocketpyServer(BrokerServer):
    """This tree's rocketpy, by its command."""

    name = "rocketpy"

    def namesrv_process(self, port: int, home: Path) -> Process:
        keys = {"listenPort": port, "bindAddress": "127.0.0.1", "rocketmqHome": home}
        files = {"kvConfigPath": home / "kvConfig.json", "configStorePath": home / "namesrv.properties"}
        conf = write_properties(home / "namesrv.conf", {**keys, **files})
        return Process.rocketpy("namesrv", "-c", str(conf), log=home / LOG, environment={"HOME": str(home)})

    def broker_process(self, conf: Path, namesrv: str, home: Path) -> Process:
        return Process.rocketpy("broker", "-c", str(conf), "-n", namesrv, log=home / LOG, environment={"HOME": str(home)})


class PeerServer(BrokerServer):
    """The released RocketMQ, started by the `peer` script with the heap it chooses (1 GB)."""

    name = "RocketMQ"

    def __init__(self, home: Path, durability: Durability, encoding: str, script: Path) -> None:
        super().__init__(home, durability, encoding)
        self._script = script

    def namesrv_process(self, port: int, home: Path) -> Process:
        return Process("peer namesrv", [str(self._script), "namesrv", "--port", str(port), "--home", str(home)], home / LOG)

    def broker_process(self, conf: Path, namesrv: str, home: Path) -> Process:
        # It answers in the encoding it was started with, whatever it is asked in.
        environment = {"JAVA_TOOL_OPTIONS": f"-Drocketmq.serialize.type={self._encoding}"}
        command = [str(self._script), "broker", "--conf", str(conf), "--namesrv", namesrv, "--home", str(home)]
        return Process("peer broker", command, home / LOG, environment)


def find_peer() -> Path | None:
    """The script that starts RocketMQ: $ROCKETPY_PEER, or ../shared/peer/peer beside this tree; None without it or without Java."""
    named = os.environ.get("ROCKETPY_PEER")
    candidates = [Path(named)] if named else [ROOT.parent / "shared" / "peer" / "peer"]
    script = next((path for path in candidates if path.is_file()), None)
    return script if script is not None and shutil.which("java") is not None else None
