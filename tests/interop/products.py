"""Name servers and brokers of either product as processes: rocketpy through its command, RocketMQ through its own main classes.

Both take the same configuration files, which is itself part of what is tested.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.processes import BROKER_PORTS, PATIENCE_S, ROCKETPY, ROOT, Process, free_port, port_accepts, wait_until, write_properties

from . import wire
from .javaenv import CURRENT, MODULE_OPTIONS, QUICK_JVM, UTF_8, java, library

GET_BROKER_CLUSTER_INFO, GET_ROUTE_INFO_BY_TOPIC = 106, 105

SMALL_STORE = {
    "mappedFileSizeCommitLog": 64 << 20,
    "mappedFileSizeConsumeQueue": 20_000 * 20,
    "maxIndexNum": 400_000,
    "maxHashSlotNum": 100_000,
}
"""Small files so that tests roll over them and need little disk. One and the same for all who open a store."""


LOGBACK = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d %p %t - %m%n</pattern></encoder></appender><root level="WARN"><appender-ref ref="out"/></root></configuration>
"""


class Product(ABC):
    """How to start the two servers of one product."""

    name = ""
    starts_within = 180.0
    stops_cleanly_at_teardown = True
    """False: a server whose files nobody needs any more is killed, because its orderly stop takes seconds."""

    @abstractmethod
    def namesrv_command(self, home: Path, conf: Path) -> list[str]: ...

    @abstractmethod
    def broker_command(self, home: Path, conf: Path, namesrv: str) -> list[str]: ...

    @abstractmethod
    def controller_command(self, home: Path, conf: Path) -> list[str]: ...

    @abstractmethod
    def environment(self, home: Path) -> dict[str, str]:
        """Of both, beside that of the tests."""


class Rocketpy(Product):
    """This tree's rocketpy."""

    name = "rocketpy"
    starts_within = 60.0

    def namesrv_command(self, home: Path, conf: Path) -> list[str]:
        return [*ROCKETPY, "namesrv", "-c", str(conf)]

    def broker_command(self, home: Path, conf: Path, namesrv: str) -> list[str]:
        return [*ROCKETPY, "broker", "-c", str(conf), "-n", namesrv]

    def controller_command(self, home: Path, conf: Path) -> list[str]:
        return [*ROCKETPY, "controller", "-c", str(conf)]

    def environment(self, home: Path) -> dict[str, str]:
        return {"HOME": str(home), "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}


class Peer(Product):
    """The released RocketMQ."""

    stops_cleanly_at_teardown = False

    def __init__(self, version: str = CURRENT, heap: str = "384m") -> None:
        self.name = f"rocketmq-{version}"
        self._library = library(version)
        self._heap = heap

    def _command(self, home: Path, main: str, *arguments: str) -> list[str]:
        options = [
            f"-Xms{self._heap}",
            f"-Xmx{self._heap}",
            f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}",
            "-Drocketmq.client.logUseSlf4j=true",
        ]
        return [java(), *QUICK_JVM, *MODULE_OPTIONS, *options, "-cp", f"{self._library}/*", main, *arguments]

    def namesrv_command(self, home: Path, conf: Path) -> list[str]:
        return self._command(home, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf))

    def broker_command(self, home: Path, conf: Path, namesrv: str) -> list[str]:
        return self._command(home, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf), "-n", namesrv)

    def controller_command(self, home: Path, conf: Path) -> list[str]:
        return self._command(home, "org.apache.rocketmq.controller.ControllerStartup", "-c", str(conf))

    def environment(self, home: Path) -> dict[str, str]:
        for name in ("logback_broker.xml", "logback_namesrv.xml"):  # 4.x does not start without them, 5.x has its own
            (home / "conf").mkdir(parents=True, exist_ok=True)
            (home / "conf" / name).write_text(LOGBACK)
        return {"ROCKETMQ_HOME": str(home), **UTF_8}


class Server:
    """Ends a process of either kind."""

    process: Process | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running()

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()
            self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None


class NameServer(Server):
    def __init__(self, product: Product, home: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.product, self.home = product, home
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        home.mkdir(parents=True, exist_ok=True)
        files = {"kvConfigPath": home / "kvConfig.json", "configStorePath": home / "namesrv.properties", "rocketmqHome": home}
        self._conf = write_properties(
            home / "conf/namesrv.conf", {"listenPort": self.port, "bindAddress": "127.0.0.1", **files, **(settings or {})}
        )

    def start(self) -> NameServer:
        command = self.product.namesrv_command(self.home, self._conf)
        self.process = Process(
            f"{self.product.name} namesrv", command, self.home / "stdout.log", self.product.environment(self.home), self.home
        )
        self.process.wait_until(lambda: port_accepts(self.port), self.product.starts_within, f"listening on {self.port}")
        return self

    def broker_addresses(self) -> dict[str, dict[str, str]]:
        """broker name → {broker id: address}, as this name server knows it now."""
        table = wire.call(self.address, GET_BROKER_CLUSTER_INFO).json().get("brokerAddrTable") or {}
        return {name: data["brokerAddrs"] for name, data in table.items()}


class Controller(Server):
    """A controller, alone in its group as long as `settings` name no other peers."""

    def __init__(self, product: Product, home: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.product, self.home = product, home
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.settings: dict[str, Any] = {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.address}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": home / "log",
            "configStorePath": home / "controller.properties",
            "rocketmqHome": home,
            "bindAddress": "127.0.0.1",
            "mappedFileSize": 16 << 20,
            **(settings or {}),
        }

    def start(self) -> Controller:
        conf = write_properties(self.home / "conf/controller.conf", self.settings)
        command = self.product.controller_command(self.home, conf)
        self.process = Process(
            f"{self.product.name} controller", command, self.home / "stdout.log", self.product.environment(self.home), self.home
        )
        self.process.wait_until(lambda: port_accepts(self.port), self.product.starts_within, f"listening on {self.port}")
        return self


class Broker(Server):
    """A broker with its home directory. Started again it keeps ports and store; `product` may be changed in between."""

    def __init__(
        self,
        product: Product,
        home: Path,
        namesrv: str,
        settings: Mapping[str, Any] | None = None,
        name: str = "broker-a",
        broker_id: int = 0,
    ) -> None:
        self.product, self.home, self.namesrv, self.name, self.broker_id = product, home, namesrv, name, broker_id
        self.port = free_port(BROKER_PORTS)
        self.address = f"127.0.0.1:{self.port}"
        self.store = home / "store"
        home.mkdir(parents=True, exist_ok=True)
        self.settings: dict[str, Any] = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": name,
            "brokerId": broker_id,
            "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
            "flushDiskType": "ASYNC_FLUSH",
            "listenPort": self.port,
            "haListenPort": self.port + 1,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "autoCreateTopicEnable": True,
            "registerNameServerPeriod": 60_000,  # the longest: within a wait of a test what changed travels by itself
            "waitTimeMillsInSendQueue": 30_000,  # of a broker that gets no processor for a while a send is late, not refused
            "osPageCacheBusyTimeOutMills": 30_000,
            **SMALL_STORE,
            **(settings or {}),
        }

    def launch(self) -> Broker:
        """Starts the process without waiting for it."""
        conf = write_properties(self.home / "conf/broker.conf", self.settings)
        command = self.product.broker_command(self.home, conf, self.namesrv)
        title = f"{self.product.name} broker {self.name}:{self.broker_id}"
        self.process = Process(title, command, self.home / "stdout.log", self.product.environment(self.home), self.home)
        return self

    def start(self, registered_with: NameServer | None = None) -> Broker:
        """Starts the process and waits until it listens, and until the name server knows it."""
        self.launch().await_listening()
        if registered_with is not None:
            self.await_registered(registered_with)
        return self

    def await_listening(self) -> None:
        assert self.process is not None
        self.process.wait_until(lambda: port_accepts(self.port), self.product.starts_within, f"listening on {self.port}")

    def await_registered(self, namesrv: NameServer) -> None:
        assert self.process is not None
        self.process.wait_until(
            lambda: namesrv.broker_addresses().get(self.name, {}).get(str(self.broker_id)) == self.address,
            self.product.starts_within,
            "registered",
        )


@dataclass
class Cluster:
    """A name server and brokers, of one product or mixed."""

    namesrv: NameServer
    brokers: list[Broker] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.namesrv.address

    @property
    def broker(self) -> Broker:
        return self.brokers[0]

    def add_brokers(self, home: Path, products: list[Product], settings: Mapping[str, Any] | None = None) -> None:
        """broker-a, broker-b, … started side by side."""
        for letter, product in zip("abcdef", products, strict=False):
            self.brokers.append(Broker(product, home / f"broker-{letter}", self.namesrv.address, settings, f"broker-{letter}").launch())
        for broker in self.brokers:
            broker.await_listening()
            broker.await_registered(self.namesrv)

    def create_topic(self, topic: str, queues: int = 4, order: bool = False) -> None:
        """On every broker of the cluster, by the broker's own admin request, and waits until the name server shows it."""
        update_and_create_topic = 17
        for broker in self.brokers:
            if broker.broker_id:
                continue
            fields = {
                "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
                "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": str(order).lower(),
            }  # fmt: skip
            reply = wire.call(broker.address, update_and_create_topic, fields)
            assert reply.code == 0, reply
        masters = sum(not broker.broker_id for broker in self.brokers)
        wait_until(lambda: len(self.route(topic)) >= masters, 15, f"route of {topic} with {masters} masters")

    def create_group(self, group: str) -> None:
        """On every master, by the heartbeat of a consumer that leaves at once, and waits until the name server shows the retry topic: who
        starts the first consumer of a group shares out that topic's queue only at its next rebalance."""
        heart_beat, notify_consumer_ids_changed = 34, 40
        consumer = {
            "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "subscriptionDataSet": [],
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": False,
        }  # fmt: skip
        heartbeat = {"clientID": f"127.0.0.1@first-of-{group}", "consumerDataSet": [consumer], "producerDataSet": []}
        masters = [broker for broker in self.brokers if not broker.broker_id]
        for broker in masters:
            with socket.create_connection(("127.0.0.1", broker.port), PATIENCE_S) as connection:
                connection.sendall(wire.encode(heart_beat, body=json.dumps(heartbeat).encode()))
                while (reply := wire.read_reply(connection)).code == notify_consumer_ids_changed:
                    pass
                assert reply.code == 0, reply
        wait_until(lambda: len(self.route(f"%RETRY%{group}")) >= len(masters), what=f"the retry topic of {group} at each master")

    def route(self, topic: str) -> list[dict[str, Any]]:
        reply = wire.call(self.address, GET_ROUTE_INFO_BY_TOPIC, {"topic": topic})
        return reply.json()["queueDatas"] if reply.code == 0 else []

    def committed(self, group: str, topic: str, queue_id: int, broker: Broker | None = None) -> int:
        """The group's offset of a queue as the broker keeps it; -1 for none."""
        query_consumer_offset = 14
        reply = wire.call(
            (broker or self.broker).address, query_consumer_offset, {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
        )
        return int(reply.fields["offset"]) if reply.code == 0 else -1

    def stop(self) -> None:
        """The end of a test's cluster: brokers first, every server gets its turn, then the first problems are raised."""
        problems = []
        servers = [*reversed(self.brokers), self.namesrv]
        stops: list[Callable[[], None]] = [each.stop if each.product.stops_cleanly_at_teardown else each.kill for each in servers]
        for stop in stops:
            try:
                stop()
            except (AssertionError, subprocess.SubprocessError) as problem:
                problems.append(str(problem))
        assert not problems, "\n".join(problems)


@contextmanager
def running_cluster(product: Product, home: Path, settings: Mapping[str, Any] | None = None, *, brokers: int = 1) -> Iterator[Cluster]:
    """A name server and brokers of one product, stopped at the end."""
    cluster = Cluster(NameServer(product, home / "namesrv").start())
    try:
        cluster.add_brokers(home, [product] * brokers, settings)
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def side_by_side(
    product: Product, peer: Product, factory: pytest.TempPathFactory, settings: Mapping[str, Any] | None = None
) -> Iterator[tuple[Cluster, Cluster]]:
    """One broker with its name server of each product, ours first, for the same requests to both."""
    with (
        running_cluster(product, factory.mktemp("ours"), settings) as ours,
        running_cluster(peer, factory.mktemp("theirs"), settings) as theirs,
    ):
        yield ours, theirs
