"""Masters by their names: asked from the name servers seldom, and not too many requests at once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rocketpy._core.errors import TimedOut
from rocketpy.broker.other_brokers import ASKS_MAX, FIND_MS, REFRESH_MS, OtherBrokers, read_masters
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError

from .recorder import Clock


class Client:
    """Answers for name servers and brokers; `requests` are the addresses and codes that were asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int]] = []
        self.masters = b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"b:1",1:"slave:1"}},"c":{"brokerAddrs":{1:"c:1"}}}}'
        self.is_gone = False
        self.held: asyncio.Event | None = None

    async def invoke(self, address: str, code: int, fields: Any = None, body: bytes = b"", *, timeout_s: float = 3.0) -> Any:
        self.requests.append((address, code))
        if self.is_gone:
            raise TimedOut("nobody answers")
        if self.held is not None and code != RequestCode.GET_BROKER_CLUSTER_INFO:
            await self.held.wait()
        return SimpleNamespace(code=0, body=self.masters if code == RequestCode.GET_BROKER_CLUSTER_INFO else b"")

    def looks(self) -> int:
        return sum(code == RequestCode.GET_BROKER_CLUSTER_INFO for _, code in self.requests)


def others(client: Client, clock: Clock) -> OtherBrokers:
    place = SimpleNamespace(identity=SimpleNamespace(broker_name="a", address="a:1"), name_servers=["names:1"])
    return OtherBrokers(client, place, clock, 3.0)  # type: ignore[arg-type]


def test_addresses_are_kept_and_serve_on() -> None:
    async def check() -> None:
        client, clock = Client(), Clock()
        brokers = others(client, clock)
        assert await brokers.address_of("a") == "a:1" and client.looks() == 0
        assert [await brokers.address_of(name) for name in ("b", "b", "c")] == ["b:1", "b:1", None]
        assert client.looks() == 1, "c is not asked for again at once"
        clock.ms += FIND_MS
        assert await brokers.address_of("c") is None and client.looks() == 2
        client.is_gone = True
        clock.ms += REFRESH_MS
        assert await brokers.address_of("b") == "b:1" and client.looks() == 3
        with pytest.raises(CommandError, match="was passed to broker b and failed: nobody answers"):
            await brokers.ask("b", RequestCode.GET_MAX_OFFSET, {})

    asyncio.run(check())


def test_no_more_than_so_many_wait_at_once() -> None:
    async def check() -> None:
        client = Client()
        client.held = asyncio.Event()
        brokers = others(client, Clock())
        asks = [asyncio.ensure_future(brokers.ask("b", RequestCode.PULL_MESSAGE, {})) for _ in range(ASKS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(CommandError) as refused:
            await brokers.ask("b", RequestCode.PULL_MESSAGE, {})
        assert refused.value.code == ResponseCode.SYSTEM_BUSY
        client.held.set()
        assert {answer.code for answer in await asyncio.gather(*asks)} == {0}
        assert (await brokers.ask("b", RequestCode.PULL_MESSAGE, {})).code == 0

    asyncio.run(check())


@pytest.mark.parametrize("strange", [None, [], {}, {"brokerAddrTable": 7}, {"brokerAddrTable": None}])
def test_strange_answers_are_none(strange: Any) -> None:
    with pytest.raises(ValueError):
        read_masters(strange)


def test_what_is_no_address_is_passed_over() -> None:
    assert read_masters({"brokerAddrTable": {"a": 7, "b": {"brokerAddrs": [1]}, "c": {"brokerAddrs": {"0": 7}}, "d": {}}}) == {}
