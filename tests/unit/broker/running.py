"""A broker and a name server in this process, and a client that talks to them: what the service tests stand on."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketpy._core.remoting import Command
from rocketpy.broker.service import BrokerService
from rocketpy.config import load_config
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.credentials import Credentials
from rocketpy.remoting.json_codec import read_json, write_json
from tests.processes import PATIENCE_S

SMALL = {"mappedFileSizeCommitLog": str(4 << 20), "mappedFileSizeConsumeQueue": "20000", "reactorThreads": "1"}


def broker_config(home: Path, **settings: str) -> Any:
    given = {"listenPort": "0", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1", "brokerName": "broker-a"}
    return load_config("broker", None, {**given, **SMALL, "storePathRootDir": str(home / "store"), **settings})


@dataclass
class Peer:
    """One client: requests it sends, and requests the broker sends it."""

    address: str
    requests: list[Command] = field(default_factory=list)
    credentials: Credentials | None = None

    def __post_init__(self) -> None:
        self.client = RemotingClient(on_request=lambda address, command: self.requests.append(command), credentials=self.credentials)

    async def ask(self, code: int, fields: dict[str, Any] | None = None, body: Any = b"", address: str = "") -> Command:
        """The response to a request; a body that is not bytes is sent as JSON."""
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (fields or {}).items()}
        data = body if isinstance(body, bytes) else write_json(body)
        return await self.client.invoke(address or self.address, code, texts, data, timeout_s=PATIENCE_S)

    async def value(self, code: int, fields: dict[str, Any] | None = None, body: Any = b"") -> Any:
        """The JSON body of a successful response."""
        answer = await self.ask(code, fields, body)
        assert answer.code == 0, f"{answer.code}: {answer.remark}"
        return read_json(answer.body)

    async def send(self, topic: str, body: bytes = b"hello", properties: str = "", queue_id: int = 0, **fields: Any) -> Command:
        header = {
            "a": "producers",
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": queue_id,
            "f": 0,
            "g": 1,
            "h": 0,
            "i": properties,
            "j": 0,
            "k": False,
            "m": False,
        }
        return await self.ask(RequestCode.SEND_MESSAGE_V2, {**header, **fields}, body)

    async def pull(self, group: str, topic: str, queue_id: int = 0, offset: int = 0, **fields: Any) -> Command:
        header = {
            "consumerGroup": group, "topic": topic, "queueId": queue_id, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4,
            "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 1, "expressionType": "TAG",
        }  # fmt: skip
        return await self.ask(RequestCode.PULL_MESSAGE, {**header, **fields})

    async def heartbeat(self, client_id: str, group: str, *topics: str, **members: Any) -> Command:
        subscriptions = [
            {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG", "tagsSet": [], "codeSet": []} for topic in topics
        ]
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": subscriptions,
        }
        value = {"clientID": client_id, "consumerDataSet": [consumer | members], "producerDataSet": [{"groupName": "producers"}]}
        return await self.ask(RequestCode.HEART_BEAT, {}, value)


@dataclass
class Running:
    """What a test gets."""

    broker: BrokerService
    namesrv: NameServer
    peers: list[Peer] = field(default_factory=list)

    def peer(self, credentials: Credentials | None = None) -> Peer:
        peer = Peer(self.broker.address, credentials=credentials)
        self.peers.append(peer)
        return peer

    async def namesrv_route(self, topic: str) -> Any:
        """The route of a topic as clients get it."""
        address = f"127.0.0.1:{self.namesrv.port}"
        answer = await self.peer().ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, address=address)
        assert answer.code == 0, answer.remark
        return read_json(answer.body)

    async def namesrv_permission(self, topic: str, permission: int) -> None:
        """Until the name server has it: a broker that is asked for a change waits no longer than three seconds for it."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.namesrv_route(topic))["queueDatas"][0]["perm"] != permission:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.02)


@asynccontextmanager
async def running(home: Path, **settings: str) -> AsyncIterator[Running]:
    """A name server and a broker registered with it; both are stopped at the end, whatever happens."""
    overrides = {"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": str(home / "kv.json"), "reactorThreads": "1"}
    namesrv = NameServer(load_config("namesrv", None, overrides))
    await namesrv.start()
    both = Running(BrokerService(broker_config(home, namesrvAddr=f"127.0.0.1:{namesrv.port}", **settings)), namesrv)
    try:
        await both.broker.start()
        yield both
    finally:
        for peer in both.peers:
            await peer.client.stop()
        await both.broker.stop()
        await namesrv.stop()


@asynccontextmanager
async def started(home: Path, **settings: str) -> AsyncIterator[Peer]:
    """The client of one more broker, beside those of `running`, or of one that starts again."""
    service = BrokerService(broker_config(home, **settings))
    await service.start()
    peer = Peer(service.address)
    try:
        yield peer
    finally:
        await peer.client.stop()
        await service.stop()


def has_ipv6_loopback() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 4 * PATIENCE_S))  # type: ignore[arg-type]


class TooLate(Exception):
    """The machine stood still until what was to come later had come."""


def be_before(due_ms: int) -> None:
    """Raises TooLate."""
    if time.time_ns() // 1_000_000 >= due_ms:
        raise TooLate


def run_in_time(test: Callable[[Path, int], Awaitable[None]], home: Path) -> None:
    """test(directory, factor), where it is too late once more with all that has to come later, later by that factor."""
    for factor in (1, 3, 9):
        try:
            run(lambda factor=factor: test(home / f"{factor}", factor))  # type: ignore[misc]
        except TooLate:
            continue
        return
    raise AssertionError("too late each time")


async def eventually(holds: Callable[[], Any], what: str = "the condition") -> Any:
    """Waits, bounded, for something that another task or thread brings about."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not (value := holds()):
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not come true within {PATIENCE_S:g} s"
        await asyncio.sleep(0.005)
    return value
