"""A whole broker, its Python and its C, whose calls to the kernel fail one after the other, or are its last.

The same of the store alone: tests/unit/c/store_fault_test.c, recovery_killed_test.c, power_cut_test.c.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketpy._core.remoting import Command, encode_command
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.crash.broker_process import BrokerProcess
from tests.crash.producers import Ledger, check_against, produce, read_all
from tests.processes import wait_until

from .failing_calls import Kind, broker_with_failing_calls, build
from .requests_wire import Wire

EVERYTHING = Kind.OPEN | Kind.CHANGE | Kind.SYNC | Kind.MAP
PRODUCERS = 4
SENDS_FAIL = 12
KILLS = 2  # of a start, sends and a stop; a slow test has them all
KILLED_CALLS = 60  # one of so many each
REFUSALS = {ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("failing_calls"))


@contextmanager
def started(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def send(broker: BrokerProcess, ledger: Ledger, each: int = 10) -> None:
    asyncio.run(produce(broker.address, ledger, PRODUCERS, each))


def stop_cleanly(broker: BrokerProcess) -> None:
    assert broker.process.stop() == 0, broker.tail()
    assert "Traceback" not in broker.process.output()


def everything_is_there(broker: BrokerProcess, ledger: Ledger) -> None:
    """After one more start, and on the disk."""
    broker.start()
    check_against(ledger, asyncio.run(read_all(broker.address, {})), {}, set())
    stop_cleanly(broker)
    broker.check_store()


def make_topic(broker: BrokerProcess, name: str) -> Command:
    fields = {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    with Wire(broker.port) as wire:
        wire.write(encode_command(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, opaque=1))
        answer = wire.read()
    assert answer is not None, "the broker closed the connection"
    return answer


def test_a_table_is_saved_whichever_call_failed_before_and_the_stop_is_clean(library: Path, tmp_path: Path) -> None:
    broker, calls = broker_with_failing_calls(tmp_path, library, root="store/config")
    table = broker.store / "config" / "topics.json"
    with started(broker):
        broker.process.next_line("boot success")  # after the start's own save of all the tables, which makes their directory
        made, number, met, refused = 0, 1, set(), set()
        while made == 0 or calls.was_hit:
            made += 1
            assert made < 100, f"tried again and again: {calls}"
            calls.fail(number, errno.EIO, EVERYTHING)
            answer = make_topic(broker, f"made-{made}")
            if answer.code == ResponseCode.SUCCESS:
                assert f"made-{made}" in table.read_text(), str(calls)
                is_done = calls.first_hit.startswith("mkdir")  # which is there; what another save was hit by is tried once more
            else:
                assert calls.was_hit and answer.code == ResponseCode.SYSTEM_ERROR, f"{calls}: {answer.code} {answer.remark}"
                assert "topics.json" in (answer.remark or "") and "Input/output error" in (answer.remark or ""), f"{calls}: {answer.remark}"
                is_done = True
                refused.add(calls.first_hit.split()[0])
            if is_done and calls.first_hit not in met:  # else another save made calls before this one, whose n-th is still to come
                met.add(calls.first_hit)
                number += 1
        calls.end()
        assert refused == {"open", "write", "fsync", "unlink", "link", "rename"}
        stop_cleanly(broker)
        assert f"made-{made}" in table.read_text()


@pytest.mark.parametrize(
    ("flush", "os_errno", "kinds"), [("SYNC_FLUSH", errno.ENOSPC, Kind.CHANGE), ("ASYNC_FLUSH", errno.EMFILE, Kind.OPEN)]
)
def test_sends_go_on_whichever_call_failed_before(library: Path, tmp_path: Path, flush: str, os_errno: int, kinds: Kind) -> None:
    """The same broker all the time; the next call fails, then the second of what follows, the third, …"""
    broker, calls = broker_with_failing_calls(tmp_path, library, flushDiskType=flush)
    ledger = Ledger()
    with started(broker):
        for number in range(1, SENDS_FAIL + 1):
            calls.fail(number, os_errno, kinds)
            send(broker, ledger)
            calls.end()
            assert broker.process.is_running() and set(ledger.refused) <= REFUSALS, f"{calls}: {ledger.refused}\n{broker.tail()}"
        acknowledged = len(ledger.acknowledged)

        def is_served() -> bool:
            send(broker, ledger, 1)
            return len(ledger.acknowledged) >= acknowledged + PRODUCERS

        wait_until(is_served, what="sends are taken again")
        stop_cleanly(broker)
    everything_is_there(broker, ledger)


def killed_at(library: Path, directory: Path, number: int, flush: str) -> bool:
    """False: there are fewer calls."""
    broker, calls = broker_with_failing_calls(directory, library, flushDiskType=flush)
    ledger = Ledger()
    calls.kill(number, EVERYTHING)
    try:
        try:
            broker.start()
            send(broker, ledger, 25)
            broker.stop()
        except AssertionError:  # it did not come up
            assert calls.was_hit, broker.tail()
            broker.kill()
        calls.end()
        everything_is_there(broker, ledger)
    except AssertionError as error:
        raise AssertionError(f"{calls}: {error}") from error
    finally:
        broker.stop()
    return calls.was_hit


def test_a_kill_at_some_calls_loses_nothing(library: Path, tmp_path: Path) -> None:
    dice = random.Random(0)
    for part in range(KILLS):
        number = part * KILLED_CALLS + dice.randrange(1, KILLED_CALLS + 1)
        assert killed_at(library, tmp_path / str(number), number, "SYNC_FLUSH")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_kill_at_any_call_loses_nothing(library: Path, tmp_path: Path, flush: str) -> None:
    number = 1
    while killed_at(library, tmp_path / str(number), number, flush):
        number += 1
