"""A proxy in front of a cluster, RocketMQ's or ours, and Java's 5.x clients, which speak gRPC to it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.nghttp2 import need_nghttp2
from tests.processes import PATIENCE_S, Process, free_port, port_accepts

from .javaenv import (
    CURRENT,
    MODULE_OPTIONS,
    QUICK_JVM,
    UTF_8,
    Handle,
    Jvm,
    classes,
    decode_messages,
    encode_message,
    fetched,
    java,
    library,
)
from .products import Product, Server

SOURCES = Path(__file__).resolve().parent / "proxy"
CLIENT = "5.2.0"
GRPC = "rocketpy.interop.Grpc"


def jars() -> Path:
    return fetched(f"proxy-{CURRENT}", SOURCES / "pom.xml", f"rocketmq-proxy-{CURRENT}.jar")


def client_class_path(target: Path) -> str:
    """Of the driver's commands for clients that speak gRPC; compiled into target."""
    client = jars() / f"rocketmq-client-java-{CLIENT}.jar"
    path = os.pathsep.join([str(classes()), str(client), f"{library()}/*"])
    command = ["javac", "-nowarn", "-d", str(target), "-cp", path, *map(str, SOURCES.rglob("*.java"))]
    subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **UTF_8})
    return os.pathsep.join([str(target), str(client)])


class Proxy(Server):
    """In cluster mode. `address` is that for gRPC, `remoting` that for 4.x clients, who take it for a name server."""

    def __init__(self, home: Path, namesrv: str, settings: dict[str, Any] | None = None) -> None:
        self.home = home
        self.port, self.remoting_port = free_port(), free_port()
        self.address, self.remoting = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.remoting_port}"
        self._settings = {
            "rocketMQClusterName": "DefaultCluster",
            "proxyClusterName": "DefaultCluster",
            "namesrvAddr": namesrv,
            "grpcServerPort": self.port,
            "remotingListenPort": self.remoting_port,
            "localServeAddr": "127.0.0.1",
            "proxyName": self.address,
            "remotingAccessAddr": "127.0.0.1",
            "useEndpointPortFromRequest": True,
            "transactionHeartbeatPeriodSecond": 1,  # of 20: how soon it tells brokers whose producers it has
            **(settings or {}),
        }
        self._namesrv = namesrv

    def start(self) -> Self:
        conf = self.home / "conf/rmq-proxy.json"
        conf.parent.mkdir(parents=True, exist_ok=True)
        conf.write_text(json.dumps(self._settings))
        options = ["-Xms384m", "-Xmx384m", f"-Duser.home={self.home}", f"-Drocketmq.home.dir={self.home}"]
        command = [java(), *QUICK_JVM, *MODULE_OPTIONS, *options, "-cp", f"{jars()}/*", "org.apache.rocketmq.proxy.ProxyStartup"]
        command += ["-n", self._namesrv, "-pm", "cluster", "-pc", str(conf)]
        self.process = Process("proxy", command, self.home / "stdout.log", {"ROCKETMQ_HOME": str(self.home), **UTF_8}, self.home)
        return self._listening()

    def _listening(self) -> Self:
        for port in (self.port, self.remoting_port):
            self.process.wait_until(lambda port=port: port_accepts(port), Product.starts_within, f"listening on {port}")
        return self


class OwnProxy(Proxy):
    """rocketpy's."""

    def start(self) -> Self:
        need_nghttp2()
        conf = self.home / "rmq-proxy.json"
        self.home.mkdir(parents=True, exist_ok=True)
        conf.write_text(json.dumps(self._settings))
        self.process = Process.rocketpy("proxy", "-pc", str(conf), "-n", self._namesrv, log=self.home / "stdout.log")
        return self._listening()


class Sender(Handle):
    kind = "sender"

    def send(self, topic: str, *messages: dict[str, Any] | bytes | str, **fields: Any) -> list[dict[str, Any]]:
        return self.call("send", topic=topic, messages=[encode_message(each) for each in messages], **fields)

    def checks(self) -> list[dict[str, Any]]:
        return decode_messages(self.call("checks"))


class Listener(Handle):
    """A push consumer that refuses what came no more than `rejectTimes` times."""

    kind = "listener"

    def attempts(self, count: int = 0, timeout: float = PATIENCE_S) -> list[dict[str, Any]]:
        return decode_messages(self.call("attempts", timeout + 30, count=count, timeoutMs=int(timeout * 1000)))

    def bodies(self, count: int = 0, timeout: float = PATIENCE_S) -> list[str]:
        """In order of arrival, what it took."""
        return [each["body"].decode() for each in self.attempts(count, timeout) if each["taken"]]


class LiteListener(Listener):
    """A push consumer of lite topics of one topic."""

    kind = "liteListener"

    def subscribe(self, lite_topic: str, **fields: Any) -> None:
        self.call("subscribe", liteTopic=lite_topic, **fields)

    def unsubscribe(self, lite_topic: str) -> None:
        self.call("unsubscribe", liteTopic=lite_topic)

    def subscribed(self) -> set[str]:
        return set(self.call("subscribed"))


class Simple(Handle):
    kind = "simple"

    def receive(self, count: int = 16, invisible: int = 10_000) -> list[dict[str, Any]]:
        return decode_messages(self.call("receive", count=count, invisibleMs=invisible))

    def receive_all(self, count: int, invisible: int = 300_000) -> list[dict[str, Any]]:
        """As many as count; a receive asks one queue of one broker, and waits there for 5 s."""
        got: list[dict[str, Any]] = []
        for _ in range(int(PATIENCE_S)):
            got += self.receive(16, invisible)
            if len(got) >= count:
                break
        return got

    def ack(self, message: dict[str, Any]) -> None:
        self.call("ack", handle=message["handle"])

    def change(self, message: dict[str, Any], invisible: int) -> None:
        self.call("change", handle=message["handle"], invisibleMs=invisible)


_names = itertools.count(1)


class GrpcClients:
    """Makes clients of a proxy in one Jvm, and ends them with the test."""

    def __init__(self, jvm: Jvm, proxy: Proxy) -> None:
        self.jvm, self.proxy = jvm, proxy
        self._open: list[Handle] = []

    def _make(self, kind: type[Any], **fields: Any) -> Any:
        handle = kind(self.jvm, fields.pop("address", self.proxy.address), f"{kind.kind}-{next(_names)}", **fields)
        self._open.append(handle)
        return handle

    def sender(self, *topics: str, **fields: Any) -> Sender:
        return self._make(Sender, topics=list(topics), **fields)

    def listener(self, group: str, *topics: str, **fields: Any) -> Listener:
        return self._make(Listener, group=group, topics=list(topics), **fields)

    def lite_listener(self, group: str, topic: str, **fields: Any) -> LiteListener:
        return self._make(LiteListener, group=group, topic=topic, **fields)

    def simple(self, group: str, *topics: str, **fields: Any) -> Simple:
        return self._make(Simple, group=group, topics=list(topics), **fields)

    def close(self) -> None:
        for handle in reversed(self._open):
            if handle.is_open:
                handle.is_open = False
                handle.begin("shutdown")
