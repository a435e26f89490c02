"""What happens while a registration is being made: the list of name servers changes, the disk hangs, the start is given up."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy.broker import registration as registration_module
from rocketpy.broker.registration import TOPICS_AT_ONCE, register_body
from rocketpy.remoting.codes import RequestCode
from tests.processes import PATIENCE_S

from .test_registration import A, Answer, B, ScriptedCaller, Topics, make, wait_until

MANY = tuple(f"t{number}" for number in range(TOPICS_AT_ONCE + 1))


def test_no_body_is_sent_to_a_name_server_that_was_taken_off_the_list_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the unregistration, it would have made the broker known there for ever."""
    begun, may_go_on = threading.Event(), threading.Event()

    def write(*given: Any, **how: Any) -> bytes:
        begun.set()
        assert may_go_on.wait(PATIENCE_S)
        return register_body(*given, **how)

    monkeypatch.setattr(registration_module, "register_body", write)

    async def run() -> None:
        caller = ScriptedCaller()
        registration, _ = make(caller, Topics(*MANY))
        first = asyncio.create_task(registration.register_all())
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        change = asyncio.create_task(registration.set_name_servers([B]))
        await wait_until(lambda: caller.calls)
        may_go_on.set()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(first, change)
        assert [call[:2] for call in caller.calls] == [
            (RequestCode.UNREGISTER_BROKER, (A,)),
            (RequestCode.REGISTER_BROKER, (B,)),
            (RequestCode.REGISTER_BROKER, (B,)),
        ]
        assert registration.registered == {B: True}

    asyncio.run(run())


@pytest.mark.parametrize("answer", [Answer(), NetworkError("gone")])
@pytest.mark.parametrize("forces", [True, False])
def test_a_name_server_that_is_taken_off_the_list_between_two_requests_gets_no_other(forces: bool, answer: Any) -> None:
    async def run() -> None:
        caller = ScriptedCaller({A: answer, B: NetworkError("down")}, slow=asyncio.Event())
        registration, results = make(caller, Topics("t", "u", "v"), split_size=2, force=forces)
        first = asyncio.create_task(registration.register_all())
        await wait_until(lambda: caller.calls)
        change = asyncio.create_task(registration.set_name_servers([B]))
        await wait_until(lambda: len(caller.calls) > 1)
        assert caller.calls[1][:2] == (RequestCode.UNREGISTER_BROKER, (A,))
        assert caller.slow is not None
        caller.slow.set()
        await asyncio.gather(first, change)
        assert {call[1] for call in caller.calls[2:]} == {(B,)}
        assert registration.registered == {B: False} and registration.why_nowhere() and not results

    asyncio.run(run())


def test_a_broker_whose_other_threads_all_wait_for_the_disk_is_registered_all_the_same() -> None:
    async def run() -> None:
        hangs = threading.Event()
        with ThreadPoolExecutor(1) as executor:
            asyncio.get_running_loop().set_default_executor(executor)
            executor.submit(hangs.wait)
            try:
                registration, _ = make(ScriptedCaller(), Topics(*MANY))
                await asyncio.wait_for(registration.register_all(), PATIENCE_S)
            finally:
                hangs.set()
        assert registration.registered == {A: True, B: True}

    asyncio.run(run())


def test_a_broker_whose_system_has_no_more_threads_is_registered_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    registration, _ = make(ScriptedCaller(), Topics(*MANY))
    monkeypatch.setattr(threading.Thread, "start", start)
    asyncio.run(registration.register_all())
    assert registration.registered == {A: True, B: True}


def test_a_start_that_is_given_up_registers_nothing_behind_the_unregistration() -> None:
    async def run() -> None:
        caller = ScriptedCaller()
        registration, _ = make(caller, Topics("t"))
        async with registration._lock:  # the first registration waits
            start = asyncio.create_task(registration.start())
            await wait_until(lambda: registration._has_told)
            start.cancel()
            with suppress(asyncio.CancelledError):
                await start
            await registration.stop()
        for _ in range(10):
            await asyncio.sleep(0)
        assert caller.codes() == [RequestCode.UNREGISTER_BROKER]

    asyncio.run(run())
