"""Reads of the store that may wait for the disk: off the event loop, a few at once, first come first served.

An operator's question about old messages reads pages that are no longer in memory; a search in a queue reads two for each step. On the
event loop, heartbeats and new topics would wait for all of them. Only the store is read in the threads: the broker's tables belong to the
loop.

    run ─► waiting ─► a thread, for a turn of many reads ─► done ─ one wake-up of the loop for all that are done ─► whoever called run

A call of run starts a thread when fewer than READS_MAX are running. A thread takes one read after the other: a thread for each read, and a
wake-up for each result, would cost more than most reads.

Threads  run, and the code that gives results back, on one event loop; the reads in threads of its default executor. Both sides share two
         deques, whose single operations are atomic, and a flag. The loop lowers the flag before it looks for results, and a thread that
         has a result looks at the flag before it reads again or ends, so that no result stays behind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from .._core.store import MessageStore

T = TypeVar("T")

READS_MAX: Final = 2
"""At once: each keeps one of the threads that saves and retention want too."""
TURN_READS: Final = 64
"""After so many a thread is the executor's again, and whatever else waits there comes first."""


@dataclass(eq=False, slots=True)
class _Read:
    """One call of `run`, until its caller has the outcome."""

    read: Callable[[MessageStore], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


class StoreReads:
    """Reads of the store in threads. To be used from one event loop."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._threads = 0
        self._waiting: deque[_Read] = deque()
        self._done: deque[_Read] = deque()
        self._is_told = False

    async def run(self, read: Callable[[MessageStore], T], patience_s: float | None = None) -> T:
        """What `read` returns or raises; it is called in a thread of the loop's default executor. Raises TimeoutError when its turn has not
        come within patience_s, RuntimeError when the system has no thread for it: then it is not called."""
        loop = asyncio.get_running_loop()
        one = _Read(read, loop.create_future())
        timer = None if patience_s is None else loop.call_later(patience_s, self._give_up, one)
        try:
            self._waiting.append(one)
            try:
                self._ask_for_thread(loop)
            except RuntimeError:  # want of a thread
                if self._withdraw(one):  # else one of those that there are has it
                    raise
            result: T = await one.future
            return result
        finally:
            one.future.cancel()  # where it has not come to an end: nobody is there for it
            if timer is not None:
                timer.cancel()
            del one  # an error holds this frame, too

    def _ask_for_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._threads < READS_MAX:
            self._threads += 1  # also where this raises for want of a thread: then the executor has the job all the same
            loop.run_in_executor(None, self._read_on, loop)

    def _give_up(self, one: _Read) -> None:
        if self._withdraw(one) and not one.future.done():
            one.future.set_exception(TimeoutError())

    def _withdraw(self, one: _Read) -> bool:
        """Takes a read back. True if its turn had not come; it will then not be called."""
        try:
            self._waiting.remove(one)
        except ValueError:
            return False
        return True

    def _read_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: reads one after the other, until nobody waits any more or the thread's turn is over."""
        read = 0
        while read < TURN_READS:
            try:
                one = self._waiting.popleft()
            except IndexError:
                break
            if one.future.cancelled():
                continue
            read += 1
            if self._done and not self._is_told:  # what is done does not wait for this one
                self._is_told = True
                loop.call_soon_threadsafe(self._give_back)
            one.result, one.error = _outcome(one.read, self._store)
            self._done.append(one)
            del one  # an error holds this frame, by way of the one that raised it
        loop.call_soon_threadsafe(self._thread_ended, loop)

    def _give_back(self) -> None:
        self._is_told = False
        while self._done:
            one = self._done.popleft()
            if one.future.done():  # its caller is gone
                continue
            if one.error is not None:
                one.future.set_exception(one.error)
            else:
                one.future.set_result(one.result)

    def _thread_ended(self, loop: asyncio.AbstractEventLoop) -> None:
        self._threads -= 1
        self._give_back()
        if self._waiting:  # since it looked for the last time
            self._ask_for_thread(loop)


def _outcome(read: Callable[[MessageStore], Any], store: MessageStore) -> tuple[Any, BaseException | None]:
    """Result and error. The latter holds this frame, which therefore knows nothing of who gets it."""
    try:
        return read(store), None
    except BaseException as error:  # whatever it is, it is its caller's
        return None, error
