"""Reads of the store take turns in threads: how many at once, in which order, what becomes of those whose callers are gone."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import pytest

from rocketpy._core.store import MessageStore
from rocketpy.broker.store_reads import READS_MAX, TURN_READS, StoreReads
from tests.processes import PATIENCE_S

STORE = cast(MessageStore, object())


def returned(number: int, store: MessageStore) -> int:
    return number


def noted(begun: list[int], number: int, store: MessageStore) -> None:
    begun.append(number)


class Gate:
    """Reads that stand still until they are let through."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.standing = threading.Semaphore(0)

    def read(self, store: MessageStore) -> None:
        self.standing.release()
        assert self._open.wait(PATIENCE_S)

    async def hold_all_threads(self, reads: StoreReads) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(reads.run(self.read)) for _ in range(READS_MAX)]
        for _ in tasks:
            assert await asyncio.to_thread(self.standing.acquire, timeout=PATIENCE_S)
        return tasks

    def open(self) -> None:
        self._open.set()


def test_a_caller_gets_what_its_read_returns_or_raises() -> None:
    async def run() -> None:
        reads = StoreReads(STORE)
        assert await reads.run(lambda store: store is STORE)
        with pytest.raises(ZeroDivisionError):
            await reads.run(lambda _: 1 // 0)
        numbers = list(range(1000))
        assert await asyncio.gather(*(reads.run(partial(returned, number)) for number in numbers)) == numbers

    asyncio.run(run())


class Unreadable(Exception):
    pass


def raise_unreadable(store: MessageStore) -> None:
    raise Unreadable


def test_an_error_is_gone_with_who_caught_it() -> None:
    async def run() -> None:
        reads = StoreReads(STORE)
        try:
            await reads.run(raise_unreadable)
        except Unreadable as caught:
            error = weakref.ref(caught)
        await reads.run(lambda _: None)  # whoever had it has done something else since
        assert error() is None

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_never_more_than_so_many_are_read_at_once() -> None:
    async def run() -> None:
        reads, gate, begun = StoreReads(STORE), Gate(), list[int]()
        held = await gate.hold_all_threads(reads)
        others = [asyncio.create_task(reads.run(partial(noted, begun, number))) for number in range(50)]
        late = reads.run(lambda _: begun.append(-1), patience_s=0)
        with pytest.raises(TimeoutError):
            await late
        assert begun == []
        gate.open()
        await asyncio.gather(*held, *others)
        assert sorted(begun) == list(range(50))

    asyncio.run(run())


def test_with_one_thread_reads_are_done_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.broker.store_reads.READS_MAX", 1)

    async def run() -> None:
        reads, begun = StoreReads(STORE), list[int]()
        await asyncio.gather(*(reads.run(partial(noted, begun, number)) for number in range(50)))
        assert begun == list(range(50))

    asyncio.run(run())


def test_a_read_whose_caller_is_gone_is_not_called() -> None:
    async def run() -> None:
        reads, gate, begun = StoreReads(STORE), Gate(), list[str]()
        held = await gate.hold_all_threads(reads)
        gone = asyncio.create_task(reads.run(lambda _: begun.append("gone")))
        still_there = asyncio.create_task(reads.run(lambda _: begun.append("still there")))
        await asyncio.sleep(0)  # both wait for their turn
        gone.cancel()
        held[0].cancel()  # in the middle of its read, which goes on
        gate.open()
        await asyncio.gather(still_there, held[1])
        assert begun == ["still there"]
        assert await reads.run(lambda _: "threads are there for the next ones") != ""

    asyncio.run(run())


@pytest.mark.parametrize("is_taken", [False, True])
def test_when_no_thread_can_be_had_a_read_is_refused_or_done_but_not_both(monkeypatch: pytest.MonkeyPatch, is_taken: bool) -> None:
    """A thread that has begun before takes whatever waits."""

    async def run() -> None:
        loop, reads, gate, begun = asyncio.get_running_loop(), StoreReads(STORE), Gate(), threading.Semaphore(0)
        held = asyncio.create_task(reads.run(gate.read))
        assert await asyncio.to_thread(gate.standing.acquire, timeout=PATIENCE_S)

        def no_thread(pool: object, job: Callable[..., Any], *rest: Any) -> None:
            if is_taken:
                gate.open()
                assert begun.acquire(timeout=PATIENCE_S)
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(loop, "run_in_executor", no_thread)
            if is_taken:
                await reads.run(lambda _: begun.release())
            else:
                with pytest.raises(RuntimeError, match="new thread"):
                    await reads.run(lambda _: begun.release())
        gate.open()
        await held
        assert not begun.acquire(blocking=False)

    asyncio.run(run())


def test_patience_ends_with_the_wait_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        loop, reads, first, second = asyncio.get_running_loop(), StoreReads(STORE), Gate(), Gate()
        held, timers, later = await first.hold_all_threads(reads), list[Callable[[], None]](), loop.call_later
        with monkeypatch.context() as patched:
            patched.setattr(loop, "call_later", lambda _, job, *rest: timers.append(partial(job, *rest)) or later(PATIENCE_S, print))
            task = asyncio.create_task(reads.run(second.read, patience_s=1))
            await asyncio.sleep(0)  # it waits for its turn
        first.open()
        assert await asyncio.to_thread(second.standing.acquire, timeout=PATIENCE_S)
        timers[0]()
        assert not task.done()
        second.open()
        await asyncio.gather(*held, task)

    asyncio.run(run())


def test_many_that_wait_share_threads_and_wake_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        loop, reads, gate, jobs = asyncio.get_running_loop(), StoreReads(STORE), Gate(), list[Callable[..., Any]]()
        held, done, wake_ups = await gate.hold_all_threads(reads), threading.Semaphore(0), list[str]()
        executed, told = loop.run_in_executor, loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "run_in_executor", lambda pool, job, *rest: jobs.append(job) or executed(pool, job, *rest))
        monkeypatch.setattr(
            loop, "call_soon_threadsafe", lambda job, *rest, **more: wake_ups.append(job.__name__) or told(job, *rest, **more)
        )
        others = [asyncio.create_task(reads.run(lambda _: done.release())) for _ in range(TURN_READS)]
        await asyncio.sleep(0)  # all wait for their turn
        gate.open()
        for _ in others:  # the loop stands still meanwhile
            assert done.acquire(timeout=PATIENCE_S)
        assert jobs == [] and wake_ups.count("_give_back") == 1
        await asyncio.gather(*held, *others)

    asyncio.run(run())


def test_a_thread_is_given_back_after_a_turn_of_many() -> None:
    async def run() -> None:
        loop, reads, gate = asyncio.get_running_loop(), StoreReads(STORE), Gate()
        loop.set_default_executor(ThreadPoolExecutor(READS_MAX + 1))
        held, begun, long_save = await gate.hold_all_threads(reads), list[int](), Gate()
        saves = [loop.run_in_executor(None, long_save.read, STORE)]
        assert long_save.standing.acquire(timeout=PATIENCE_S)  # no thread is left
        others = [asyncio.create_task(reads.run(partial(noted, begun, number))) for number in range(10 * TURN_READS)]
        await asyncio.sleep(0)  # all wait for their turn
        save = loop.run_in_executor(None, lambda: len(begun))
        gate.open()
        assert await save < 10 * TURN_READS
        long_save.open()
        await asyncio.gather(*held, *others, *saves)

    asyncio.run(run())


def test_what_is_done_does_not_wait_for_the_next_read() -> None:
    async def run() -> None:
        reads, first, second = StoreReads(STORE), Gate(), Gate()
        held = await first.hold_all_threads(reads)
        slow = [asyncio.create_task(reads.run(second.read)) for _ in held]
        await asyncio.sleep(0)  # both wait for their turn
        first.open()
        await asyncio.wait_for(asyncio.gather(*held), PATIENCE_S)
        second.open()
        await asyncio.gather(*slow)

    asyncio.run(run())
