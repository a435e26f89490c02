"""A network link under the test's control: a TCP forwarder that delays, cuts, stalls and crumbles what passes.

It runs in a thread with an event loop of its own. Delay is pipelined, as on a wire: a byte that comes in leaves delay_s later, however
many came before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from tests.processes import PATIENCE_S

T = TypeVar("T")
READ_BYTES = 65536


class Link:
    """`with Link(target_port) as link:` connect to 127.0.0.1:link.port, or to the host it was given."""

    def __init__(self, target_port: int, target_host: str = "127.0.0.1", host: str = "127.0.0.1") -> None:
        self.target_port = target_port
        self.target_host = target_host
        self.host = host
        self.port = 0
        self.delay_s = 0.0
        self.piece_bytes = READ_BYTES
        self.bytes_passed = 0
        self._is_open: asyncio.Event
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)

    def __enter__(self) -> Link:
        self._thread.start()
        self._call(self._listen)
        return self

    def __exit__(self, *exc: object) -> None:
        self._call(self._end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def stall(self) -> None:
        """Nothing passes any more, and nobody is told: a partition, or a half-open connection."""
        self._call(self._set_open, False)

    def restore(self) -> None:
        """What is waiting passes, and the rest again."""
        self._call(self._set_open, True)

    def cut(self) -> None:
        """Resets every connection; new ones are possible."""
        self._call(self._cut)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        async def run() -> None:
            result = function(*arguments)
            if asyncio.iscoroutine(result):
                await result

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    async def _listen(self) -> None:
        self._is_open = asyncio.Event()
        self._is_open.set()
        server = await asyncio.start_server(self._connect, self.host, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._server = server

    async def _end(self) -> None:
        self._server.close()
        self._cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _set_open(self, value: bool) -> None:
        if value:
            self._is_open.set()
        else:
            self._is_open.clear()

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self.target_host, self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        for source, target in ((reader, far_writer), (far_reader, writer)):
            waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=1024)
            for pump in (self._take(source, waiting), self._give(waiting, target)):
                task = asyncio.ensure_future(pump)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _take(self, source: asyncio.StreamReader, waiting: asyncio.Queue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(READ_BYTES):
                await waiting.put((self._loop.time() + self.delay_s, data))
        await waiting.put((self._loop.time() + self.delay_s, b""))

    async def _give(self, waiting: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = await waiting.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                await self._is_open.wait()
                if not data:
                    break
                for start in range(0, len(data), self.piece_bytes):
                    target.write(data[start : start + self.piece_bytes])
                    await target.drain()
                self.bytes_passed += len(data)
        target.close()
