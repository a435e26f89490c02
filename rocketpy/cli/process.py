"""The life of a server process: start the services, report it, run until a signal, stop.

SIGTERM, SIGINT  stop cleanly; a further one, a second or more after the first, ends the process at once
SIGHUP           read the configuration files again and apply the keys that may change at run time (a proxy has none)
SIGQUIT          only logs a line: operators of a JVM send it to see its threads, and its default would end the process
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from .._core.base import report_faults
from .._core.errors import RocketpyError
from ..config import Config, ConfigError
from ..garbage import leave_out_loaded
from ..logs import SAID, NativeLog
from ..threads import leave_signals
from .terminal import EXIT_USAGE, complain, forget_output, is_read, settle_logs, text_of_end

log = logging.getLogger(__name__)

EXECUTOR_THREADS = 6
"""For work that the event loop leaves to others: writing and deleting files, reads of the store that may wait for the disk."""


class Service(Protocol):
    """One of the services that a process runs."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


def raise_open_files() -> None:
    """Raises the limit of open files to the hard limit: each connection and each mapped file costs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:
            log.warning("at most %d open files: %s", soft, error)


def ready_executor(threads: int = EXECUTOR_THREADS) -> ThreadPoolExecutor:
    """An executor whose threads all exist already: if the system has no more to give later, tables are still saved and stores closed.

    Raises RocketpyError.
    """
    executor = ThreadPoolExecutor(threads, "executor", leave_signals)
    all_run = threading.Barrier(threads + 1)
    try:
        for _ in range(threads):
            executor.submit(all_run.wait)
    except RuntimeError as error:
        all_run.abort()
        executor.shutdown()
        raise RocketpyError(
            "the system gives this process no more threads; raise the limit (ulimit -u and -v, TasksMax, pids.max, vm.max_map_count)"
        ) from error
    all_run.wait()
    return executor


class StopSignal:
    """Set by SIGTERM and SIGINT.

    A process is often signalled twice at once: timeout(1) signals the child and its group, and both a shell and a terminal pass Ctrl-C on.
    So what follows the first signal within INSIST_S is the same request, not that of an impatient operator.
    """

    INSIST_S = 1.0
    HEARD = frozenset({signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})

    def __init__(self, configs: Sequence[Config]) -> None:
        self._event = asyncio.Event()
        self._configs = configs
        self._first_s = 0.0
        self.is_set = self._event.is_set
        self.wait = self._event.wait

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop, signal.SIGTERM)
        loop.add_signal_handler(signal.SIGINT, self._stop, signal.SIGINT)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        loop.add_signal_handler(signal.SIGQUIT, log.warning, "SIGQUIT: no JVM is here to show its threads; SIGTERM stops this process")
        # A SIGHUP that came since entry.py blocked it is served now; the others are blocked where whoever starts us has blocked them.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.HEARD)

    def deafen(self) -> None:
        """Blocks the signals once everything is stopped: the handlers go with the event loop, and a signal after that would become the exit
        code."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self.HEARD)

    def _stop(self, number: signal.Signals) -> None:
        now_s = asyncio.get_running_loop().time()
        if not self._event.is_set():
            log.info("%s: stopping", number.name)
            self._first_s = now_s
            self._event.set()
        elif now_s - self._first_s >= self.INSIST_S:
            log.error("%s again: ending without a clean stop", number.name)
            settle_logs()
            os._exit(128 + number)

    def _reload(self) -> None:
        if not self._configs:
            log.info("SIGHUP: nothing of this process is read again; a start reads its file")
        for config in self._configs:
            if config.file is None:
                log.info("SIGHUP: this %s was started without a file (-c), there is nothing to read again", config.role)
                continue
            try:
                updated = config.reload()
            except (ConfigError, OSError) as error:
                log.error("SIGHUP: nothing was changed: %s", error)
                continue
            log.info("SIGHUP: %s read again%s", config.file, f"; {updated}" if str(updated) else "")


async def start_all(services: Sequence[Service]) -> None:
    """Starts the services in order. If one fails, stops it and those before it."""
    for count, service in enumerate(services):
        try:
            await service.start()
        except BaseException:
            await stop_all(services[: count + 1])
            raise


async def stop_all(services: Sequence[Service]) -> bool:
    """Stops the services in reverse order; one that fails does not keep the others running. False: at least one did not stop cleanly."""
    is_clean = True
    for service in reversed(services):
        try:
            await service.stop()
        except (RocketpyError, OSError) as error:
            is_clean = False
            log.error("%s did not stop cleanly: %s", type(service).__name__, text_of_end(error))
        except Exception:  # outer edge of the process
            is_clean = False
            log.exception("%s did not stop cleanly", type(service).__name__)
    return is_clean


Make = Callable[[NativeLog], Sequence[Service]]
Work = Callable[[StopSignal], Awaitable[int]]


async def _serve(configs: Sequence[Config], make: Make, announce: Callable[[], None], work: Work) -> int:
    stop = StopSignal(configs)
    stop.listen()
    try:
        return await _served(stop, configs, make, announce, work)
    finally:
        stop.deafen()


async def _served(stop: StopSignal, configs: Sequence[Config], make: Make, announce: Callable[[], None], work: Work) -> int:
    with ready_executor() as executor:  # ends before the event loop does, which needs a thread to end one
        asyncio.get_running_loop().set_default_executor(executor)
        native_log = NativeLog()
        native_log.start()
        try:
            services = make(native_log)
            await start_all(services)
            leave_out_loaded()
            try:
                _announced(announce)
                for config in configs:
                    config.report_unread()
                code = await work(stop)
            finally:
                is_clean = await stop_all(services)
            return code if is_clean else code or 1
        finally:
            native_log.close()


def _announced(announce: Callable[[], None]) -> None:
    """Says that we are running. Standard output may be a full disk, or a pipe that nobody reads (any more): no reason to stop serving."""
    settle_logs()
    if not is_read(sys.stdout):
        log.warning("standard output is a pipe or a terminal that nobody reads: nothing is written to it")
        forget_output()
        return
    try:
        announce()
    except OSError as error:
        log.warning("standard output cannot be written: %s", error.strerror)
        forget_output()


async def wait_for_signal(stop: StopSignal) -> int:
    await stop.wait()
    return 0


def run(
    program: str,
    configs: Sequence[Config],
    make: Make,
    announce: Callable[[], None],
    work: Work = wait_for_signal,
) -> int:
    """Runs services while `work` runs, by default until a signal. Returns the exit code."""
    report_faults()
    raise_open_files()
    for config in configs:
        config.report_remarks()
    try:
        code = asyncio.run(_serve(configs, make, announce, work))
    except (RocketpyError, ConfigError, OSError) as error:
        log.error("%s ends: %s", program, text_of_end(error), extra=SAID)
        complain(program, error)
        return EXIT_USAGE if isinstance(error, ConfigError) else 1
    log.info("stopped")
    return code
