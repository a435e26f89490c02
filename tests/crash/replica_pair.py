"""A name server, a master and its slave as processes, and what the master has acknowledged to producers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from rocketpy._core.errors import RocketpyError
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode

from .broker_process import BrokerProcess, NameServerProcess
from .producers import Ledger, produce

CATCH_UP_S = 120.0


async def _status(client: RemotingClient, broker: BrokerProcess) -> dict[str, int]:
    answer = await client.call(broker.address, RequestCode.GET_BROKER_HA_STATUS, timeout_s=30)
    return dict(json.loads(answer.body))


async def _topics(client: RemotingClient, broker: BrokerProcess) -> bytes:
    return (await client.call(broker.address, RequestCode.GET_ALL_TOPIC_CONFIG, timeout_s=30)).body


async def wait_in_sync(master: BrokerProcess, slave: BrokerProcess) -> int:
    """Until the slave holds all of the master's log and knows its topics; the log's end."""
    end = time.monotonic() + CATCH_UP_S
    async with RemotingClient() as client:
        while True:
            try:
                ours, theirs = await _status(client, master), await _status(client, slave)
                is_same = ours["inSyncSlaveNums"] == 1 and ours["masterCommitLogMaxOffset"] == theirs["masterCommitLogMaxOffset"]
                if is_same and await _topics(client, master) == await _topics(client, slave):
                    return ours["masterCommitLogMaxOffset"]
            except RocketpyError:
                pass
            assert time.monotonic() < end, f"the slave did not catch up:\n{master.tail()}\n{slave.tail()}"


def log_bytes(store: Path, end: int) -> bytes:
    """All that a stopped broker's commit log holds below `end`."""
    files = sorted((store / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in files)[: end - int(files[0].name)]


@dataclass
class ReplicaPair:
    names: NameServerProcess
    master: BrokerProcess
    slave: BrokerProcess
    ledger: Ledger = field(default_factory=Ledger, kw_only=True)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """From in sync to stopped."""
        try:
            for server in (self.names, self.master, self.slave):
                server.start()
            self.wait_in_sync()
            yield self
        finally:
            for server in (self.slave, self.master, self.names):
                server.stop()

    def produce(self, each: int, producers: int = 8) -> None:
        asyncio.run(produce(self.master.address, self.ledger, producers, each))

    def wait_in_sync(self) -> None:
        asyncio.run(wait_in_sync(self.master, self.slave))

    def cpu_s(self) -> list[float]:
        """Of master and slave."""
        return [sum(psutil.Process(server.pid).cpu_times()[:2]) for server in (self.master, self.slave)]
