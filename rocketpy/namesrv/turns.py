"""Registrations of many topics, which are read in slices: who else asks the name server is answered in between.

    REGISTER_BROKER ─┬─ few topics ─────────────────────────────────────────────────────────────────► RouteInfo
                     └─ many ─► behind those of this broker ─► one at a time: JSON │ topics │ topics … ─► RouteInfo
    UNREGISTER_BROKER ─► behind those of this broker, where there are any
    DELETE_TOPIC, REGISTER_TOPIC, permissions ─► at once, and once more on what a registration puts that came before

The tables change in one piece behind the last slice, as if all of it had come then. Of a connection that has closed meanwhile no
registration is taken: nobody would ever say that its broker is gone.

Threads  one event loop.
Bounds   bytes_max of requests that wait or are read, TURNS_MAX of them, CHANGES_MAX changes that came behind them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from ..remoting.bodies import BodyError, RegisterBrokerBody, TopicConfig
from ..remoting.codes import ResponseCode
from ..remoting.command import Response

Broker = tuple[str, str]
"""Cluster and address."""
SLOW_BYTES: Final = 128 * 1024
"""The size of a registration that takes some ten milliseconds to read."""
SLOW_ZLIB_BYTES: Final = SLOW_BYTES // 64
BUFFERS_PART: Final = 4
"""Of bufferBytesMax, in which no request counts any more that has come up here: bodies may have one part in so many beside it."""
SLICE_TOPICS: Final = 1000
TURNS_MAX: Final = 256
CHANGES_MAX: Final = 4096
Change = Callable[[str], object]
"""Of the topics of a broker's name."""
Put = Callable[[RegisterBrokerBody, Iterable[Change]], Response]
"""With the changes that came behind it."""


@dataclass(slots=True, eq=False)
class _Turn:
    """A request that waits for earlier ones of its broker, or whose body is being read."""

    connection_id: int | None
    """None: it counts, too, when its connection has closed."""
    size: int
    changes_before: int
    is_connected: bool = True


class Turns:
    """Carries out the requests of each broker in the order in which they arrived; different brokers do not wait for each other."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._last: dict[Broker, asyncio.Task[Response]] = {}
        self._turns: set[_Turn] = set()
        self._reading = asyncio.Lock()
        self._bytes = 0
        self._changes: deque[tuple[int, Change]] = deque()  # with their sizes
        self._changes_gone = 0
        """Those that were in front of it, and that nobody who waits is older than."""

    def has(self, broker: Broker) -> bool:
        """Whether a request of this broker is waiting or running."""
        return broker in self._last

    def has_room(self, size: int) -> bool:
        return self._bytes + size <= self._bytes_max and len(self._turns) < TURNS_MAX

    def take(
        self, broker: Broker, connection_id: int | None, size: int, read: Callable[[], Awaitable[RegisterBrokerBody]] | None, put: Put
    ) -> asyncio.Task[Response]:
        """Queues a request behind those of the same broker: its body is read, then `put` into the tables. `size`: bytes that are held until
        then. The caller asks has_room before."""
        turn = _Turn(connection_id, size, self._changes_gone + len(self._changes))
        self._turns.add(turn)
        self._bytes += size
        task = asyncio.create_task(self._run(turn, self._last.get(broker), read, put), name=f"registration of {broker[1]}")
        self._last[broker] = task
        task.add_done_callback(lambda done: self._over(broker, turn, done))
        return task

    def changed(self, size: int, change: Change) -> bool:
        """Something that is done at once counts behind all that waits, too. False: there is no room for it, and nothing may be done."""
        if not self._turns:
            return True
        if self._bytes + size > self._bytes_max or len(self._changes) >= CHANGES_MAX:
            return False
        self._changes.append((size, change))
        self._bytes += size
        return True

    def connection_closed(self, connection_id: int) -> None:
        for turn in self._turns:
            if turn.connection_id == connection_id:
                turn.is_connected = False

    async def _run(
        self,
        turn: _Turn,
        before: asyncio.Task[Response] | None,
        read: Callable[[], Awaitable[RegisterBrokerBody]] | None,
        put: Put,
    ) -> Response:
        body = RegisterBrokerBody()
        if before is not None:
            await asyncio.wait([before])
        if read is not None:
            async with self._reading:  # what a body is made into takes many times its bytes
                if turn.is_connected:
                    body = await read()
        if not turn.is_connected:
            return Response(ResponseCode.SYSTEM_ERROR, "the connection has closed")
        return put(body, [change for _, change in islice(self._changes, turn.changes_before - self._changes_gone, None)])

    def _over(self, broker: Broker, turn: _Turn, done: asyncio.Task[Response]) -> None:
        self._turns.discard(turn)
        self._bytes -= turn.size
        if self._last.get(broker) is done:
            del self._last[broker]
        oldest = min((each.changes_before for each in self._turns), default=self._changes_gone + len(self._changes))
        while self._changes_gone < oldest:
            size, _ = self._changes.popleft()
            self._bytes -= size
            self._changes_gone += 1
        if not done.cancelled():
            done.exception()  # it is for who waits for the answer, if anybody does


def is_slow(body: bytes) -> bool:
    return len(body) >= (SLOW_ZLIB_BYTES if body[:1] == b"\x78" else SLOW_BYTES)


async def topics_in_slices(body: RegisterBrokerBody) -> RegisterBrokerBody:
    """The body with all its topics read, a slice of them per turn of the event loop. If one cannot be read, the body is returned as it is,
    and whoever looks at that topic gets the error."""
    topics: dict[str, TopicConfig] = {}
    try:
        for number, name in enumerate(body.topics):
            if number % SLICE_TOPICS == 0:
                await asyncio.sleep(0)
            topics[name] = body.topics[name]
    except BodyError:
        return body
    return replace(body, topics=topics)
