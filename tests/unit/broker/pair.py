"""A master and its slave in this process: what the tests of replication between brokers stand on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.credentials import Credentials
from tests.processes import PATIENCE_S

from .running import Peer, Running, broker_config, eventually, running


@dataclass
class Pair:
    """A master and its slave, their clients, and the slave's directory."""

    at: Running
    slave_service: BrokerService
    master: Peer
    slave: Peer
    slave_home: Path

    async def copy_tables(self) -> None:
        """What the slave does every few seconds."""
        synchronize = self.slave_service._synchronize
        assert synchronize is not None
        await synchronize.run_once()

    async def settled(self) -> None:
        """Until what the slave was to copy as it found its master is copied: from now on it copies when a queue begins."""
        synchronize = self.slave_service._synchronize
        assert synchronize is not None
        await eventually(lambda: not synchronize.is_due.is_set(), "the round that was due")
        await self.copy_tables()

    async def quiet(self) -> None:
        """As settled, and not when a queue begins either."""
        assert self.slave_service.parts is not None
        self.slave_service.parts.ha.unwatch()
        await self.settled()

    def lead_slave_to(self, ha_address: str) -> None:
        """Where the slave follows the log, also when it registers again: it does as soon as it has no master."""
        self.slave_service.config.override("haMasterAddress", ha_address)
        self.slave_service.parts.ha.follow(ha_address)  # type: ignore[union-attr]

    @asynccontextmanager
    async def master_away(self) -> AsyncIterator[None]:
        """The slave's connection to the master's log has ended; behind the block there is another one."""
        assert self.slave_service.parts is not None
        ha = self.slave_service.parts.ha
        address, before = ha.counters()["haMasterAddress"], ha.connection()
        self.lead_slave_to("127.0.0.1:1")
        await eventually(lambda: ha.connection() is None and ha.is_stranger, "the end of the connection")
        yield
        self.lead_slave_to(address)
        await eventually(lambda: ha.connection() not in (None, before), "the next connection")

    async def in_sync(self) -> None:
        """Until the slave acknowledges the master's whole log."""
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            status = await self.master.value(RequestCode.GET_BROKER_HA_STATUS)
            rows = status["haConnectionInfo"]
            if rows and rows[0]["slaveAckOffset"] == status["masterCommitLogMaxOffset"]:
                return
            assert asyncio.get_running_loop().time() < end, f"the slave does not follow: {status}"
            await asyncio.sleep(0.005)


@asynccontextmanager
async def pair(
    home: Path,
    master: dict[str, str] | None = None,
    slave: dict[str, str] | None = None,
    credentials: Credentials | None = None,
) -> AsyncIterator[Pair]:
    """A send waits for the slave as long as a test does."""
    patient = {"haListenPort": "0", "brokerRole": "SYNC_MASTER", "slaveReadEnable": "true", "slaveTimeout": str(int(PATIENCE_S * 1000))}
    async with running(home / "master", **{**patient, **(master or {})}) as at:
        ha_port = at.broker.parts.ha.port if at.broker.parts else 0
        settings = {
            "brokerRole": "SLAVE", "brokerId": "1", "namesrvAddr": f"127.0.0.1:{at.namesrv.port}", "slaveReadEnable": "true",
            "haMasterAddress": f"127.0.0.1:{ha_port}",
        }  # fmt: skip
        service = BrokerService(broker_config(home / "slave", **settings, **(slave or {})))
        await service.start()
        at.peers.append(Peer(service.address, credentials=credentials))
        try:
            made = Pair(at, service, at.peer(credentials), at.peers[0], home / "slave" / "store")
            await made.in_sync()
            yield made
        finally:
            await service.stop()
