"""A name server and a broker in this process, in a thread of their own, for tests of programs that send and consume.

    the test ── start, stop, make_topic ──► call_soon_threadsafe ──► event loop in a thread: NameServer, BrokerService

Threads  any; the servers' Python runs in one thread, their native threads are as those of `rocketpy up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from .._core.errors import Busy, RocketpyError, TimedOut
from ..cli.process import ready_executor, start_all, stop_all
from ..cli.up import Embedded, UpOptions, configs_of
from ..logs import NativeLog
from ..remoting.client import RemotingClient
from ..remoting.codes import RequestCode
from ..remoting.headers import CreateTopicRequestHeader

STARTS_WITHIN_S = STOPS_WITHIN_S = 60.0
"""A machine may stand still; a start takes a tenth of a second, and a stop."""

T = TypeVar("T")


class LocalRocketMQ:
    """A name server and a broker that any client can reach at `namesrv`, "127.0.0.1:port".

    directory  where data is stored, and stays; None: a temporary directory, which close removes
    keys       keys of the broker's configuration, RocketMQ's or ours: {"flushDiskType": "SYNC_FLUSH"}

    Topics are made by the first message, or by make_topic. A stop followed by a start keeps messages, topics, offsets and ports, as if a
    broker came back. Raises ConfigError for invalid keys, RocketpyError if the servers do not start.
    """

    def __init__(self, directory: Path | None = None, keys: Mapping[str, str] | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="rocketpy-", ignore_cleanup_errors=True) if directory is None else None
        self.directory = (directory or Path(self._temporary.name if self._temporary else "")).absolute()
        self._keys = dict(keys or {})
        self._ports = (0, 0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending: list[threading.Thread] = []
        """Told to stop, and waited for: more than one only where a stop was given up."""
        self._serving: set[threading.Thread] = set()
        """The threads whose servers have started, and not stopped yet."""
        self._ended: asyncio.Event | None = None
        self._embedded: Embedded | None = None
        self.namesrv = ""
        """The name server's address; "" before the first start."""
        self.broker = ""
        """The broker's address; "" before the first start."""

    def start(self) -> Self:
        """Returns when the broker is registered. Does nothing if it runs already. Raises Busy, before anything is started, while servers
        still run whose stop was given up."""
        if self._thread is not None:
            return self
        if self._serving:
            cause = f"the name server {self.namesrv} and the broker {self.broker} in {self.directory} were told to stop, and still run"
            raise Busy(f"{cause}; stop() waits for them, and what they log says what keeps them")
        started: Future[None] = Future()
        self._loop = self._ended = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), name="rocketmq", daemon=True)
        self._thread.start()
        try:
            self._wait_for(started)
        except BaseException as error:
            try:
                self.stop()
            except TimedOut as late:
                error.add_note(str(late))
            raise
        return self

    def _wait_for(self, started: Future[None]) -> None:
        try:
            started.result(STARTS_WITHIN_S)
        except TimeoutError as error:
            if started.done():  # it has come to its end in this moment, or this was its own error
                started.result()
                return
            cause = f"the servers in {self.directory} have not started within {STARTS_WITHIN_S:.0f} s"
            raise TimedOut(f"{cause}; is its disk stuck, or the machine busy? What they log says how far they came") from error

    def stop(self) -> None:
        """Stops the servers cleanly; start brings the same ones back. Raises TimedOut if they have not stopped in time; it may then be
        called again."""
        if self._thread is not None:
            self._ending.append(self._thread)
            self._thread = None
        if self._loop is not None and self._ended is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself: the start failed
                self._loop.call_soon_threadsafe(self._ended.set)
        end_s = time.monotonic() + STOPS_WITHIN_S
        for thread in reversed(self._ending):  # a start that hung, and was given up before, keeps none that is sound from its time
            thread.join(max(0.0, end_s - time.monotonic()))
        self._ending = [thread for thread in self._ending if thread.is_alive()]
        if self._ending:
            cause = f"the servers in {self.directory} have not stopped within {STOPS_WITHIN_S:.0f} s"
            raise TimedOut(f"{cause}; they may hold it and their ports until this process ends")

    def close(self) -> None:
        """Stops the servers, and removes the directory if it is a temporary one."""
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def make_topic(self, name: str, queues: int = 4, attributes: str = "") -> str:
        """Makes a topic. Returns its name once the name server knows it. `attributes` are written as for mqadmin: "+message.type=FIFO".

        Raises CommandError with the broker's reason, RocketpyError if no servers run.
        """
        header = CreateTopicRequestHeader.plain(name, queues, attributes or None)
        self._run(self._call(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
        return name

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None or self._thread is None:
            work.close()
            raise RocketpyError("the servers do not run: start() them first")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(STARTS_WITHIN_S)

    async def _call(self, code: RequestCode, header: CreateTopicRequestHeader) -> None:
        async with RemotingClient() as client:
            await client.call(self.broker, code, header)

    def _new_embedded(self, native_log: NativeLog) -> Embedded:
        namesrv_port, broker_port = self._ports
        options = UpOptions(self.directory, namesrv_port=namesrv_port, broker_port=broker_port)
        namesrv, broker = configs_of(options, self.directory, self._keys)
        return Embedded(namesrv, [broker], native_log)

    async def _serve(self, started: Future[None]) -> None:
        """The body of the thread: starts the servers, reports that, and waits for stop()."""
        self._loop, self._ended = asyncio.get_running_loop(), (ended := asyncio.Event())
        native_log = NativeLog()
        try:
            with ready_executor() as executor:
                self._loop.set_default_executor(executor)
                native_log.start()
                embedded = self._new_embedded(native_log)
                await start_all([embedded])
                self._serving.add(threading.current_thread())
                self._ports = (embedded.namesrv.port, embedded.brokers[0].config.integer("listenPort"))
                self.namesrv = f"127.0.0.1:{embedded.namesrv.port}"
                self.broker = embedded.brokers[0].address
                started.set_result(None)
                if self._thread is threading.current_thread():  # else stop came before there was a loop to tell, or did not wait for it
                    await ended.wait()
                await stop_all([embedded])
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            self._serving.discard(threading.current_thread())
            native_log.close()
