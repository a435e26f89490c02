"""Producers beside consumers that read a backlog from disk: what the producers' p99 is without and with them.

Both are paced, the producers as an open loop (a message counts from when it was due): the question is whether readers stall them, not
who gets the processor. Therefore the generator's threads that read run only when nobody else wants to (SCHED_IDLE): consumers have hosts
of their own. The backlog's pages are dropped before each round (posix_fadvise), so its bytes come from the disk; how many is printed.
Once as it is by default, once with a limit for what a group may read from the disk (coldDataFlowControlEnable).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from rocketpy._core.load import Load

from .conftest import Figure, Figures, Size
from .loads import FROM_GIVEN, MESSAGE_BYTES, PULL, QUEUES, SEND, p99_ms, run_load
from .resources import GIB, fed_memory
from .servers import Durability, RocketpyServer

BACKLOG, FRESH = "backlog", "fresh"
RATE = 4000.0  # of the producers, a second
READERS = 4  # connections
READ_RATE = 100_000.0  # messages a second of all of them: what a link of 1 Gbit/s carries
ROUNDS = 5
READ_MS = 4000  # of a round
READ_A_QUEUE = int(READ_RATE * READ_MS / 1000) // QUEUES + 1000  # messages, at most, of a round
FED_BYTES = 3 * GIB // 2  # of a round, see fed_memory: what is read from the disk goes through sockets, each into new pages
WAIT_S = 120  # for threads that run only when nobody else wants to
LIMIT_MIB_S = 10  # for the readers' group, where there is one
WANTED = 0.20  # the p99 with readers is at most this much above that without


@pytest.fixture(scope="module", params=[0, LIMIT_MIB_S], ids=["unlimited", "limited"])
def limit_mib_s(request: pytest.FixtureRequest) -> int:
    """For what a group reads from the disk; 0: there is none."""
    return int(request.param)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, size: Size, limit_mib_s: int) -> Iterator[RocketpyServer]:
    """With a backlog on disk."""
    keys = {"coldDataFlowControlEnable": "true", "cgColdReadThreshold": 5 * limit_mib_s << 20} if limit_mib_s else {}
    with RocketpyServer(tmp_path_factory.mktemp("backlog"), Durability(), "JSON", keys).running_once(BACKLOG, QUEUES) as server:
        server.make_topic(FRESH, QUEUES)
        messages = size.of(500, QUEUES * READ_A_QUEUE * ROUNDS)
        run_load(address=server.address, topic=BACKLOG, mode=SEND, connections=16, in_flight=32, count=messages)
        drop_pages(server.home / "master" / "store")
        yield server


def drop_pages(store: Path) -> None:
    """The commit log has to come from the disk again."""
    os.sync()
    for path in sorted((store / "commitlog").glob("[0-9]*")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def bytes_read(pid: int) -> int:
    """From disk, by this process."""
    lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes")).split()[1])


def producers_p99_ms(address: str, size: Size) -> float:
    result = run_load(
        address=address,
        topic=FRESH,
        mode=SEND,
        connections=16,
        in_flight=8,
        rate=RATE,
        count=size.of(400, 0),
        duration_ms=size.of(0, 3000),
        warm_up_ms=size.of(10, 500),
    )
    return p99_ms(result)


def start_in_background(load: Load) -> None:
    """Its threads inherit their scheduling from the one that starts them."""

    def start() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        load.start()

    with ThreadPoolExecutor(1) as starter:
        starter.submit(start).result()


def readers_of_round(address: str, size: Size, number: int) -> Load:
    return Load(
        address=address,
        topic=BACKLOG,
        queue_count=QUEUES,
        mode=PULL,
        connections=READERS,
        message_size=MESSAGE_BYTES,
        rate=READ_RATE,
        pull_start=FROM_GIVEN,
        start_offsets=[READ_A_QUEUE * number] * QUEUES,
        count=size.of(100, 0),
        duration_ms=size.of(0, READ_MS),
    )


def test_readers_of_a_backlog_leave_producers_their_latency(
    benchmark: Any, broker: RocketpyServer, limit_mib_s: int, size: Size, figures: Figures
) -> None:
    quiet, beside, read, pulled = [], [], 0, 0
    producers_p99_ms(broker.address, size)
    for number in range(size.of(1, ROUNDS)):
        with fed_memory(size.of(0, FED_BYTES), READ_MS / 1000):
            quiet.append(producers_p99_ms(broker.address, size))
        before = bytes_read(broker.main_process.pid)
        with fed_memory(size.of(0, FED_BYTES), READ_MS / 1000), readers_of_round(broker.address, size, number) as readers:
            start_in_background(readers)
            beside.append(producers_p99_ms(broker.address, size))
            assert readers.wait(WAIT_S), "the readers do not end"
            pulled += readers.result()["totals"]["received"]
        read += bytes_read(broker.main_process.pid) - before
    benchmark.pedantic(producers_p99_ms, args=(broker.address, size), rounds=1)
    change = median(beside) / median(quiet) - 1
    benchmark.extra_info |= {"quiet_p99_ms": quiet, "beside_p99_ms": beside, "change": change, "pulled": pulled, "read_bytes": read}
    assert pulled > 0
    who = f", limited to {limit_mib_s} MiB/s" if limit_mib_s else ""
    figures.rows.append(
        Figure(
            f"p99 of {RATE:,.0f} sends/s beside cold readers{who} ({change:+.0%}, ≤ {WANTED:+.0%})",
            median(beside),
            median(quiet),
            "ms",
            f"without them; {pulled:,} pulled, {read >> 20:,} MiB from disk",
            "ASYNC_FLUSH, no slave",
        )
    )
