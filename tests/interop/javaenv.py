"""Java for the tests: finds it, resolves RocketMQ's released jars once, compiles the driver, talks to it.

The jars of each version are looked for in $ROCKETMQ_PEER_HOME (5.5.0), then ~/.cache/rocketmq-peer/VERSION/lib, and are otherwise resolved
there by Maven with java/pom.xml. Without Java, or without both jars and Maven, the tests are skipped with that reason.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.processes import PATIENCE_S

HERE = Path(__file__).resolve().parent
SOURCES = sorted((HERE / "java" / "rocketpy").rglob("*.java"))
CURRENT, OLD = "5.5.0", "4.9.7"
MODULE_OPTIONS = [
    *(
        f"--add-opens=java.base/{each}=ALL-UNNAMED"
        for each in ("java.nio", "java.lang", "java.util", "java.net", "java.io", "sun.nio.ch", "jdk.internal.ref", "jdk.internal.misc")
    ),
    *(f"--add-exports=java.base/{each}=ALL-UNNAMED" for each in ("sun.nio.ch", "jdk.internal.ref", "jdk.internal.misc")),
]
REBALANCE_MS = 90_000
"""How often a client shares out its queues unasked, of 20,000: not within any wait of a test, so that what is awaited came of a notice."""
UTF_8 = {"LC_ALL": "C.UTF-8"}
"""Of every JVM's environment: in the C locale Java reaches no path that is not ASCII, and answers with question marks."""
QUICK_JVM = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


def java() -> str:
    found = shutil.which("java")
    if found is None or shutil.which("javac") is None:
        pytest.skip("no Java: install a JDK, e.g. `apt-get install default-jdk-headless maven`")
    return found


def library(version: str = CURRENT) -> Path:
    """The directory of RocketMQ's jars, filled by Maven when it is empty."""
    home = Path(os.environ["ROCKETMQ_PEER_HOME"]) if version == CURRENT and "ROCKETMQ_PEER_HOME" in os.environ else None
    return fetched(version, HERE / "java/pom.xml", f"rocketmq-broker-{version}.jar", home)


def fetched(version: str, pom: Path, jar: str, home: Path | None = None) -> Path:
    """The directory of the jars that pom names, with `jar` among them; by Maven when that is not there."""
    java()
    home = home or Path.home() / ".cache" / "rocketmq-peer" / version
    jars = home / "lib"
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (jars / jar).exists():
            maven = shutil.which("mvn")
            if maven is None:
                pytest.skip("no Maven to fetch RocketMQ's jars: `apt-get install maven`")
            options = [f"-Drocketmq.version={version}", f"-DoutputDirectory={jars}"]
            command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options]
            done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
            if done.returncode:
                pytest.skip(f"Maven could not fetch RocketMQ {version}: {(done.stdout + done.stderr)[-500:]}")
    return jars


def classes(version: str = CURRENT) -> Path:
    """The driver compiled against that version; compiled again when a source is newer."""
    jars = library(version)
    target = HERE / "java" / "classes" / version
    target.mkdir(parents=True, exist_ok=True)
    stamp = target / ".compiled"
    with (target.parent / f".lock-{version}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or any(each.stat().st_mtime > stamp.stat().st_mtime for each in SOURCES):
            command = ["javac", "-nowarn", "-Xlint:-options", "-d", str(target), "-cp", f"{jars}/*", *map(str, SOURCES)]
            subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **UTF_8})
            stamp.touch()
    return target


class JavaError(AssertionError):
    """The client threw. `str` is the exception's class and text."""


class Jvm:
    """One driver process (java/rocketpy/interop/Driver.java). `further`: a class path, and the class on it that adds commands."""

    def __init__(
        self, version: str, home: Path, serialize: str = "JSON", options: list[str] | None = None, further: tuple[str, str] | None = None
    ) -> None:
        self.version = version
        self.serialize = serialize
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / f"driver-{version}-{serialize}.log"
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        command = [
            java(),
            *QUICK_JVM,
            "-Xmx384m",
            *MODULE_OPTIONS,
            f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}",
            "-Drocketmq.client.logUseSlf4j=true",
            "-Dcom.rocketmq.remoting.client.connect.timeout=20000",  # of 3000: dozens of clients start at once on a busy machine
            f"-Drocketmq.client.rebalance.waitInterval={REBALANCE_MS}",
        ]
        command += [f"-Drocketmq.serialize.type={serialize}", f"-Drocketmq.client.logRoot={home}", *(options or [])]
        path, arguments = (further[0] + os.pathsep, [further[1]]) if further else ("", [])
        command += ["-cp", f"{path}{classes(version)}{os.pathsep}{library(version)}/*", "rocketpy.interop.Driver", *arguments]
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                encoding="utf-8",
                env={**os.environ, **UTF_8},
            )
        self._reader = threading.Thread(target=self._read, name=f"jvm-{version}", daemon=True)
        self._reader.start()

    def start(self, op: str, **fields: Any) -> Future[Any]:
        number = next(self._numbers)
        future: Future[Any] = Future()
        with self._lock:
            self._waiting[number] = future
            assert self._popen.stdin is not None
            self._popen.stdin.write(json.dumps({"id": number, "op": op, **fields}) + "\n")
            self._popen.stdin.flush()
        return future

    def call(self, op: str, timeout: float = 2 * PATIENCE_S, **fields: Any) -> Any:
        return self.start(op, **fields).result(timeout)

    def close(self) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(20)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(20)

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            answer = json.loads(line)
            with self._lock:
                future = self._waiting.pop(answer["id"])
            if "error" in answer:
                future.set_exception(JavaError(f"{answer['error']}\n{answer['trace']}"))
            else:
                future.set_result(answer.get("ok"))
        with self._lock:
            left, self._waiting = list(self._waiting.values()), {}
        for future in left:
            future.set_exception(JavaError(f"the driver ended\n{self.log.read_text(errors='replace')[-3000:]}"))


def encode_message(message: dict[str, Any] | bytes | str) -> dict[str, Any]:
    """A body, or a dict with "body" and any of tags, keys, flag, wait, delayLevel, properties."""
    fields = dict(message) if isinstance(message, dict) else {"body": message}
    body = fields["body"]
    fields["body"] = base64.b64encode(body.encode() if isinstance(body, str) else body).decode()
    return fields


def decode_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "body": base64.b64decode(each["body"])} for each in messages]


class Handle:
    """A client inside a Jvm under a name."""

    kind = ""

    def __init__(self, jvm: Jvm, namesrv: str, name: str, **fields: Any) -> None:
        self.jvm, self.name = jvm, name
        self.is_open = True
        self.started = jvm.call(f"{self.kind}.start", name=name, namesrv=namesrv, **fields)

    def call(self, verb: str, timeout: float = 2 * PATIENCE_S, **fields: Any) -> Any:
        return self.jvm.call(f"{self.kind}.{verb}", timeout, name=self.name, **fields)

    def begin(self, verb: str, **fields: Any) -> Future[Any]:
        return self.jvm.start(f"{self.kind}.{verb}", name=self.name, **fields)

    def shutdown(self) -> None:
        if self.is_open:
            self.is_open = False
            self.call("shutdown")


class Producer(Handle):
    kind = "producer"

    def send(
        self,
        topic: str,
        *messages: dict[str, Any] | bytes | str,
        how: str = "sync",
        queue: dict[str, Any] | None = None,
        timeout: float = 2 * PATIENCE_S,
        **fields: Any,
    ) -> list[dict[str, Any]]:
        if queue is not None:
            fields.update(broker=queue["broker"], queueId=queue["queueId"])
        return self.call("send", timeout, topic=topic, how=how, messages=[encode_message(each) for each in messages], **fields)


class TransactionProducer(Handle):
    """Each body says what becomes of its message, and what its producer says when it is asked: "UNKNOW COMMIT"."""

    kind = "transaction"

    def send(self, topic: str, *messages: dict[str, Any] | bytes | str) -> list[dict[str, Any]]:
        return self.call("send", topic=topic, messages=[encode_message(each) for each in messages])

    def checks(self, count: int = 0, timeout: float = PATIENCE_S) -> list[dict[str, Any]]:
        """What it was asked about so far, after waiting until that is at least `count` messages or the time is over."""
        return decode_messages(self.call("checks", timeout + 30, count=count, timeoutMs=int(timeout * 1000)))


class PushConsumer(Handle):
    kind = "push"

    def received(self, count: int = 0, timeout: float = PATIENCE_S) -> list[dict[str, Any]]:
        """What came so far, after waiting until it is at least `count` or the time is over."""
        return decode_messages(self.call("received", timeout + 30, count=count, timeoutMs=int(timeout * 1000)))

    def attempts(self, count: int = 0, timeout: float = PATIENCE_S) -> list[dict[str, Any]]:
        """Each delivery so far of a consumer with rejectTimes, refused or not ("taken"), waited for like `received`."""
        return decode_messages(self.call("attempts", timeout + 30, count=count, timeoutMs=int(timeout * 1000)))

    def assigned(self, topic: str) -> list[dict[str, Any]]:
        return self.call("assigned", topic=topic)

    def popped(self, topic: str) -> list[int]:
        """Ids of the queues that a consumer with popInvisibleTime pops; -1 is all of them."""
        return [each["queueId"] for each in self.call("popped", topic=topic)]

    def queue_ids(self, topic: str) -> set[tuple[str, int]]:
        return {(each["broker"], each["queueId"]) for each in self.assigned(topic)}


class PullConsumer(Handle):
    kind = "pull"

    def pull(self, queue: dict[str, Any], offset: int, **fields: Any) -> dict[str, Any]:
        answer = self.call("pull", **queue, offset=offset, **fields)
        return {**answer, "messages": decode_messages(answer["messages"])}


class LiteConsumer(Handle):
    kind = "lite"

    def poll(self, count: int, timeout: float = PATIENCE_S) -> list[dict[str, Any]]:
        return decode_messages(self.call("poll", timeout + 30, count=count, timeoutMs=int(timeout * 1000)))


class Requester(Handle):
    """A producer that asks. `started` is its client id."""

    kind = "request"

    def ask(self, topic: str, message: dict[str, Any] | bytes | str, how: str = "sync", **fields: Any) -> dict[str, Any]:
        """The reply. Raises JavaError: RequestTimeoutException."""
        (reply,) = decode_messages([self.call("ask", topic=topic, how=how, **encode_message(message), **fields)])
        return reply


class Replier(Handle):
    """A consumer that replies to each message with "re: " and its body."""

    kind = "reply"

    def told(self, count: int, timeout: float = PATIENCE_S) -> list[Any]:
        """The send result, or the text of the exception, of each reply."""
        return self.call("told", timeout + 30, count=count, timeoutMs=int(timeout * 1000))


class Load(Handle):
    """Threads that send without pause. `stop` gives every acknowledged message: (body, broker, queue id, queue offset)."""

    kind = "load"

    def count(self) -> int:
        return int(self.call("count"))

    def stop(self) -> list[tuple[bytes, str, int, int]]:
        self.is_open = False
        return [(body.encode(), broker, queue, offset) for body, broker, queue, offset in self.call("shutdown")]


_names = itertools.count(1)


class JavaClients:
    """Makes clients in one Jvm for one name server and ends them with the test."""

    def __init__(self, jvm: Jvm, namesrv: str) -> None:
        self.jvm, self.namesrv = jvm, namesrv
        self._open: list[Handle] = []

    def __str__(self) -> str:
        return f"java-{self.jvm.version}-{self.jvm.serialize}"

    def _make(self, kind: type[Any], **fields: Any) -> Any:
        handle = kind(self.jvm, fields.pop("namesrv", self.namesrv), f"{kind.kind}-{next(_names)}", **fields)
        self._open.append(handle)
        return handle

    def producer(self, group: str = "interop-producer", **fields: Any) -> Producer:
        return self._make(Producer, group=group, **fields)

    def transaction(self, group: str, **fields: Any) -> TransactionProducer:
        return self._make(TransactionProducer, group=group, **fields)

    def push(self, group: str, *topics: str, **fields: Any) -> PushConsumer:
        return self._make(PushConsumer, group=group, topics=list(topics), **fields)

    def pull(self, group: str, **fields: Any) -> PullConsumer:
        return self._make(PullConsumer, group=group, **fields)

    def lite(self, group: str, topic: str, **fields: Any) -> LiteConsumer:
        return self._make(LiteConsumer, group=group, topic=topic, **fields)

    def requester(self, group: str = "interop-requester", **fields: Any) -> Requester:
        return self._make(Requester, group=group, **fields)

    def replier(self, group: str, *topics: str, **fields: Any) -> Replier:
        return self._make(Replier, group=group, topics=list(topics), **fields)

    def load(self, topic: str, **fields: Any) -> Load:
        return self._make(Load, group="interop-load", topic=topic, **fields)

    def close(self) -> None:
        """Shutdowns begin here and end behind the next tests: a Java client takes up to three seconds to leave."""
        for handle in reversed(self._open):
            if handle.is_open:
                handle.is_open = False
                handle.begin("shutdown")
