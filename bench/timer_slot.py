"""`make bench-timer-slot`: timed messages that are all due in the same second: how long they take, and what other producers notice of it.

    store with N messages in rmq_sys_wheel_timer ─ start: they enter the wheel ─ producers alone ─ the second: delivery, producers beside it

The store is filled without a broker. Producers send at a fixed rate, so that whoever waits is counted as late.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from rocketpy._core.store import MessageStore
from rocketpy.broker.timers import CHECKPOINT
from rocketpy.remoting.codes import RequestCode
from rocketpy.store.directory import StoreDirectory
from tests.interop import wire
from tests.processes import wait_until

from .loads import QUEUES, SEND, TOPIC, p50_us, p99_ms, run_load
from .resources import rss_without_files_mib
from .servers import Durability, RocketpyServer
from .termination import unwind_at_sigterm

WHEEL_TOPIC = "rmq_sys_wheel_timer"
TIMED_TOPIC = "timed"
TIMED_QUEUES = 4
BODY = bytes(200)
LOG_FILE_BYTES = 1 << 30  # mappedFileSizeCommitLog's default
ALONE_S, BESIDE_S = 5, 2
ENDS_WITHIN_S = 300.0


def fill(store: Path, messages: int, due_ms: int) -> None:
    with MessageStore(store, commit_log_file_size=LOG_FILE_BYTES) as opened:
        for number in range(messages):
            place = f"REAL_TOPIC\x01{TIMED_TOPIC}\x02REAL_QID\x01{number % TIMED_QUEUES}\x02"
            opened.append(WHEEL_TOPIC, 0, BODY, f"TIMER_OUT_MS\x01{due_ms}\x02{place}UNIQ_KEY\x01{number:032d}\x02")


def stored(store: Path, topic: str) -> int:
    return sum(queue.max_offset for queue in StoreDirectory(store).queues() if queue.topic == topic)


def entered(address: str) -> int:
    """As the last checkpoint says, which is written every second."""
    return int(CHECKPOINT.unpack(wire.call(address, RequestCode.GET_TIMER_CHECK_POINT).body)[2])


def producers(address: str, rate: int, seconds: int) -> dict[str, Any]:
    return run_load(address=address, mode=SEND, connections=8, in_flight=1, rate=rate, duration_ms=seconds * 1000)


def tell(console: Console, what: str, result: dict[str, Any]) -> None:
    highest_ms = result["latency"]["publish"]["max_ns"] / 1e6
    console.print(f"{what}: p50 {p50_us(result):.0f} µs, p99 {p99_ms(result):.2f} ms, max {highest_ms:.1f} ms", highlight=False)


def run(messages: int, rate: int, lead_s: int, directory: Path, console: Console) -> int:
    server = RocketpyServer(directory / "rocketpy", Durability(), "JSON")
    store = server.home / "master" / "store"
    with server.running(TIMED_TOPIC, TIMED_QUEUES):
        run_load(address=server.address, mode=SEND, topic=TIMED_TOPIC, queue_count=TIMED_QUEUES, count=TIMED_QUEUES)
    before = stored(store, TIMED_TOPIC)
    due_s = int(time.time()) + lead_s
    fill(store, messages, due_s * 1000)
    with server.running(TOPIC, QUEUES), ThreadPoolExecutor(1) as pool:
        pid, begin = server.main_process.pid, time.monotonic()
        wait_until(lambda: entered(server.address) >= messages, ENDS_WITHIN_S, "all are in the wheel")
        console.print(f"entered within {time.monotonic() - begin:.1f} s, {rss_without_files_mib(pid):.0f} MiB without file pages")
        tell(console, f"{rate:,} a second alone", producers(server.address, rate, ALONE_S))
        if time.time() > due_s:
            console.print("too late: --lead has to be longer on this machine")
            return 1
        time.sleep(max(0.0, due_s + 0.5 - time.time()))  # a slot is due when it is over
        beside = pool.submit(producers, server.address, rate, BESIDE_S)
        wait_until(lambda: stored(store, TIMED_TOPIC) > before, ENDS_WITHIN_S, "the first comes", every=0.01)
        begin = time.monotonic()
        wait_until(lambda: stored(store, TIMED_TOPIC) == before + messages, ENDS_WITHIN_S, "all have come", every=0.01)
        console.print(f"delivered within {time.monotonic() - begin:.2f} s, {rss_without_files_mib(pid):.0f} MiB without file pages")
        tell(console, "beside it", beside.result())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench-timer-slot", description="Timed messages of one second.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=2000, help="of the producers, a second")
    parser.add_argument("--lead", type=int, default=40, help="seconds from now until they are due; filling the store takes some of it")
    options = parser.parse_args(arguments)
    unwind_at_sigterm()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpy-bench-")))
        return run(options.messages, options.rate, options.lead, directory.resolve(), Console())


if __name__ == "__main__":
    sys.exit(main())
