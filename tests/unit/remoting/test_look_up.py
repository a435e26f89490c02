"""Names are looked up beside everything else: a resolver that keeps its threads keeps nothing of ours."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError, RocketpyError
from rocketpy.remoting import look_up
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.look_up import LookUps
from tests.processes import PATIENCE_S

TRIES = 4


class Resolver:
    """Answers nobody until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int | None, *unused: Any, **options: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        self.released.wait()
        if host.startswith("nobody"):
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, 1, 6, "", (address, port)) for address in ("127.0.0.1", "127.0.0.2", "127.0.0.1")]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver()
    monkeypatch.setattr("socket.getaddrinfo", made)
    yield made
    made.released.set()


def test_a_resolver_that_hangs_takes_no_thread_from_those_who_write_files(resolver: Resolver) -> None:
    """The broker's executor has six; with each try to reach a name server, one more was waiting for DNS in it."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(TRIES - 1))
        client = RemotingClient(connect_timeout_s=0.02)
        for _ in range(TRIES):
            with pytest.raises(RocketpyError):
                await client.invoke("namesrv:9876", RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=PATIENCE_S)
        try:
            assert await asyncio.wait_for(loop.run_in_executor(None, lambda: "written"), PATIENCE_S) == "written"
            assert resolver.asked == ["namesrv"], "who tries again waits for the look-up there is"
        finally:
            resolver.released.set()
            await client.stop()

    asyncio.run(scenario())


def test_what_was_looked_up_is_had_by_all_who_asked_and_asked_for_anew_afterwards(resolver: Resolver) -> None:
    async def scenario() -> None:
        look_ups = LookUps()
        waiting = [asyncio.ensure_future(look_ups.addresses(host)) for host in ("a", "a", "nobody")]
        await asyncio.sleep(0)
        resolver.released.set()
        first, second, fault = await asyncio.gather(*waiting, return_exceptions=True)
        assert first == second == ["127.0.0.1", "127.0.0.2"] and isinstance(fault, socket.gaierror)
        assert sorted(resolver.asked) == ["a", "nobody"]
        assert await look_ups.addresses("a") == first and len(resolver.asked) == 3

    asyncio.run(scenario())


def test_an_address_is_not_looked_up(resolver: Resolver) -> None:
    assert asyncio.run(LookUps().addresses("192.0.2.1")) == ["192.0.2.1"]
    assert asyncio.run(LookUps().addresses("::1")) == ["::1"]
    assert resolver.asked == []


def test_look_ups_that_hang_are_bounded(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_up, "LOOK_UPS_MAX", 2)

    async def scenario() -> None:
        look_ups = LookUps()
        waiting = [asyncio.ensure_future(look_ups.addresses(host)) for host in ("a", "b")]
        await asyncio.sleep(0)
        with pytest.raises(NetworkError, match="c is not looked up: 2 names"):
            await look_ups.addresses("c")
        resolver.released.set()
        await asyncio.gather(*waiting)
        assert await look_ups.addresses("c") == ["127.0.0.1", "127.0.0.2"]

    asyncio.run(scenario())


def test_a_look_up_that_outlives_its_loop_disturbs_nobody(resolver: Resolver, capfd: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(LookUps().addresses("a"), 0.01)

    before = set(threading.enumerate())  # with those of other tests that are about to end
    asyncio.run(scenario())
    (thread,) = [each for each in threading.enumerate() if each.name == "look-up" and each not in before]
    resolver.released.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive() and capfd.readouterr() == ("", "")
