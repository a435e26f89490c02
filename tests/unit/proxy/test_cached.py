"""Answers that are kept: who waits for a newer one, and for how long, and what counts while nobody answers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy.proxy import cached
from rocketpy.proxy.cached import Cached
from rocketpy.proxy.status import ProxyError
from tests.processes import PATIENCE_S


class Servers:
    """What they answer, and whether they do."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: int | Exception = 1
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def ask(self, key: str) -> int:
        self.asked += 1
        await self.may_answer.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_newer_answer_is_waited_for() -> None:
    async def test() -> None:
        servers = Servers()
        answers = Cached(servers.ask, 0, 9, "key")
        assert await answers.get("k") == 1
        servers.answer = 2
        assert await answers.get("k") == 2 and answers.known("k") is not None

    asyncio.run(test())


def test_who_has_an_answer_does_not_wait_for_servers_that_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question may take longer than answers are good for: it is one question, and the answer of before goes on to count."""
    monkeypatch.setattr(cached, "PATIENCE_S", 0)

    async def test() -> None:
        servers = Servers()
        answers = Cached(servers.ask, 0, 9, "key")
        await answers.get("k")
        servers.may_answer.clear()
        assert [await answers.get("k") for _ in range(5)] == [1] * 5 and servers.asked == 2
        servers.answer = NetworkError("nobody")
        servers.may_answer.set()
        monkeypatch.setattr(cached, "PATIENCE_S", PATIENCE_S)
        assert [await answers.get("k") for _ in range(5)] == [1] * 5
        with pytest.raises(NetworkError):
            await answers.get("other")
        servers.answer = 3
        assert await answers.get("k") == 3

    asyncio.run(test())


def test_an_error_that_is_an_answer_takes_its_place() -> None:
    async def test() -> None:
        servers = Servers()
        answers = Cached(servers.ask, 0, 9, "key")
        await answers.get("k")
        servers.answer = ProxyError("TOPIC_NOT_FOUND", "k")
        with pytest.raises(ProxyError):
            await answers.get("k")
        assert answers.known("k") is None
        servers.answer = NetworkError("nobody")
        with pytest.raises(NetworkError):
            await answers.get("k")

    asyncio.run(test())


def test_many_failures_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        servers = Servers()
        answers = Cached(servers.ask, 0, 99, "the route of topic")
        for number in range(50):
            await answers.get(f"t{number}")
        servers.answer = NetworkError("nobody")
        with caplog.at_level(logging.WARNING):
            for number in range(50):
                await answers.get(f"t{number}")

    asyncio.run(test())
    assert [record.getMessage() for record in caplog.records] == [
        "the route of topic t0 cannot be asked for, what was known is used (1 times by now): nobody"
    ]


def test_who_holds_an_answer_has_it_though_it_was_pushed_out_meanwhile() -> None:
    async def test() -> None:
        servers = Servers()
        answers = Cached(servers.ask, 0, 1, "key")
        await answers.get("k")
        servers.may_answer.clear()
        waiting = [asyncio.ensure_future(answers.get(key)) for key in ("k", "other")]
        await asyncio.sleep(0)
        answers._answers.clear()
        servers.answer = NetworkError("nobody")
        servers.may_answer.set()
        assert await waiting[0] == 1 and isinstance((await asyncio.gather(waiting[1], return_exceptions=True))[0], NetworkError)

    asyncio.run(test())


def test_each_outage_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        servers = Servers()
        answers = Cached(servers.ask, 0, 9, "key")
        for answer in (1, NetworkError("first"), NetworkError("first"), 2, NetworkError("second")):
            servers.answer = answer
            await answers.get("k")

    with caplog.at_level(logging.WARNING):
        asyncio.run(test())
    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records] == ["first", "second"]
