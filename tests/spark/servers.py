"""A name server and brokers as processes of their own, and a plain client to fill topics and look at them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.headers import CreateTopicRequestHeader
from tests.processes import Process

START_LIMIT_S = 60.0


class Cluster:
    """What the tests talk to: a name server and one broker in one process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: Process | None = None
        self.name_server = ""
        self.broker = ""
        self.store = directory / "data" / "store"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        arguments = ["up", "--dir", str(self.directory / "data"), "--namesrv-port", "0", "--broker-port", "0"]
        self.process = Process.rocketpy(*arguments, log=self.directory / "up.log")
        self.broker = self.process.next_line(r"broker\[[^\]]*?([\d.]+:\d+)\] boot success", START_LIMIT_S)[1]
        self.name_server = self.process.next_line(r"namesrvAddr=([\d.]+:\d+)", START_LIMIT_S)[1]

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()

    def create_topic(self, topic: str, queues: int = 4) -> None:
        create_topic(self.broker, topic, queues)

    def configure(self, properties: str) -> None:
        """Lines of NAME=VALUE, which the broker applies at once."""

        async def work() -> None:
            async with RemotingClient() as client:
                await client.call(self.broker, RequestCode.UPDATE_BROKER_CONFIG, body=properties.encode(), timeout_s=10)

        asyncio.run(work())

    def send(self, topic: str, messages: Sequence[tuple[int, bytes, str]]) -> None:
        send(self.broker, topic, messages)


def create_topic(broker: str, topic: str, queues: int = 4) -> None:
    async def work() -> None:
        async with RemotingClient() as client:
            await client.call(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopicRequestHeader.plain(topic, queues), timeout_s=10)

    asyncio.run(work())


def send(broker: str, topic: str, messages: Sequence[tuple[int, bytes, str | bytes]], **fields: Any) -> None:
    """Each (queue, body, properties) in order, in batches per queue."""

    async def work() -> None:
        async with RemotingClient() as client:
            for queue in sorted({queue for queue, _, _ in messages}):
                rows = [
                    (body, texts if isinstance(texts, bytes) else texts.encode()) for number, body, texts in messages if number == queue
                ]
                for begin in range(0, len(rows), 500):
                    body = b"".join(
                        struct.pack(">iiiii", 22 + len(data) + len(texts), 0, 0, 0, len(data))
                        + data
                        + struct.pack(">h", len(texts))
                        + texts
                        for data, texts in rows[begin : begin + 500]
                    )
                    header = {
                        "a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": str(int(time.time() * 1000)),
                        "h": "0", "i": "", "j": "0", "k": "false", "m": "true",
                    }  # fmt: skip
                    await client.call(broker, RequestCode.SEND_BATCH_MESSAGE, {**header, **fields}, body, timeout_s=10)

    asyncio.run(work())


def copy_store(source: Path, target: Path) -> Path:
    """A store directory again, its commit log files without what was never written. Its broker may run, and replace state files."""

    def copy_if_there(file: str, copy: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(file, copy)

    shutil.copytree(
        source, target, ignore=lambda directory, names: names if Path(directory).name == "commitlog" else [], copy_function=copy_if_there
    )
    for path in (source / "commitlog").iterdir():
        with path.open("rb") as original, (target / "commitlog" / path.name).open("wb") as copy:
            while (piece := original.read(1 << 20)) and any(piece):
                copy.write(piece)
            copy.truncate(path.stat().st_size)
    return target
