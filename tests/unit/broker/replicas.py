"""Two brokers behind a controller of the test's own, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.remoting import Command
from rocketpy.broker import controlled
from rocketpy.broker.controller_calls import ControllerCalls
from rocketpy.broker.service import BrokerService
from rocketpy.config import load_config
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.credentials import Credentials

from .running import Peer, broker_config, eventually
from .stand_in import CONTROLLER, Controller

TOPIC, GROUP = "t", "g"


@dataclass
class Wire:
    """The controller by a call, everybody else by the broker's own client."""

    controller: Controller
    client: Any

    async def invoke(self, address: str, *request: Any, **limits: Any) -> Command:
        target = self.controller if address == CONTROLLER else self.client
        answer: Command = await target.invoke(address, *request, **limits)
        return answer

    async def invoke_oneway(self, address: str, *request: Any, **limits: Any) -> None:
        await self.controller.invoke_oneway(address, *request, **limits)


async def in_thread(work: Callable[[], object]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


@dataclass
class Replica:
    """One broker and a client of it."""

    service: BrokerService
    peer: Peer

    @property
    def broker_id(self) -> int:
        return int(self.service.runtime_table()["brokerControllerId"])

    @property
    def facts(self) -> dict[str, str]:
        return self.service.runtime_table()

    def hint(self) -> None:
        assert self.service._elected is not None
        self.service._elected.hint()

    def has(self, count: int) -> bool:
        if self.service.parts is None:
            return False
        return TOPIC in self.service.parts.topics and self.count() == count

    def count(self) -> int:
        """Messages in the topic's first queue."""
        assert self.service.parts is not None
        return self.service.parts.store.max_offset(TOPIC, 0)

    def end(self) -> int:
        assert self.service.parts is not None
        return self.service.parts.ha.log_end()


@dataclass
class Both:
    """Of broker-a; the first one was elected first."""

    controller: Controller
    namesrv: NameServer
    replicas: list[Replica]

    async def elect(self, chosen: Replica) -> None:
        """Returns when both know, and the set is whole again."""
        self.controller.elect(chosen.broker_id)
        epoch = str(self.controller.epoch)
        for each in self.replicas:
            each.hint()
        await eventually(lambda: all(each.facts["masterEpoch"] == epoch for each in self.replicas), "the epoch at both")
        await eventually(lambda: self.controller.known.ids == {1, 2}, "both in sync")

    async def take_over(self, chosen: Replica) -> None:
        """As elect, of the one that is `away`: its master learns of both at once."""
        other = self.replicas[1 - self.replicas.index(chosen)]
        self.controller.elect(chosen.broker_id)
        self.controller.is_away = False
        for each in self.replicas:
            each.hint()
        await eventually(lambda: (other.facts["brokerRole"], chosen.facts["brokerRole"]) == ("SLAVE", "SYNC_MASTER"), "the roles")

    async def in_sync(self) -> None:
        await eventually(lambda: self.replicas[0].end() == self.replicas[1].end(), "equal logs")


@asynccontextmanager
async def away(both: Both, slave: Replica) -> AsyncIterator[None]:
    """The slave hears neither its master nor the controller; nor does the master, so that its set stays. Afterwards all do."""
    ha = slave.service.parts.ha  # type: ignore[union-attr]
    both.controller.is_away = True
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(ha, "follow", lambda address: None)
        await in_thread(ha._slave.let_go)  # type: ignore[union-attr]
        ha._followed = None
        master = both.replicas[1 - both.replicas.index(slave)].service.parts.ha  # type: ignore[union-attr]
        await eventually(lambda: not master.followers(), "the end of the connection")  # type: ignore[attr-defined]
        yield
    both.controller.is_away = False
    for each in both.replicas:
        each.hint()


@asynccontextmanager
async def both_started(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    second: dict[str, str] | None = None,
    before_second: Callable[[Both], Awaitable[object]] | None = None,
    credentials: Credentials | None = None,
    **settings: str,
) -> AsyncIterator[Both]:
    """second: settings of the second broker alone. before_second: called with the first one running."""
    controller = Controller()
    real = ControllerCalls
    monkeypatch.setattr(controlled, "ControllerCalls", lambda client, *names: real(Wire(controller, client), *names))
    monkeypatch.setattr("rocketpy.broker.replicas_manager.FIND_MS", 20)
    namesrv = NameServer(
        load_config("namesrv", None, {"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": str(home / "kv.json")})
    )
    await namesrv.start()
    both = Both(controller, namesrv, [])
    given = {
        "enableControllerMode": "true", "controllerAddr": CONTROLLER, "allAckInSyncStateSet": "true", "haSendHeartbeatInterval": "100",
        "namesrvAddr": f"127.0.0.1:{namesrv.port}", "haListenPort": "0", "slaveReadEnable": "true", **settings,
    }  # fmt: skip
    try:
        for name, own in (("one", {}), ("two", second or {})):
            service = BrokerService(broker_config(home / name, **{**given, **own}))
            both.replicas.append(Replica(service, Peer("", credentials=credentials)))
            await service.start()
            both.replicas[-1].peer.address = service.address
            if name == "one" and before_second is not None:
                await before_second(both)
        if "asyncLearner" not in (second or {}):
            await eventually(lambda: controller.known.ids == {1, 2}, "both in sync")
        yield both
    finally:
        for each in both.replicas:
            await each.peer.client.stop()
            await each.service.stop()
        await namesrv.stop()
