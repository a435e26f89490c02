"""Files of a running broker's store that somebody else cuts short, deletes or moves away."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.remoting.codes import ResponseCode
from tests.crash.broker_process import SMALL_FILES, BrokerProcess
from tests.processes import wait_until

from .requests_wire import Wire
from .test_full_disk import send

LIMIT_S = 60.0


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """It looks at its files every 50 ms, or as often as the test is parametrized with."""
    process = BrokerProcess(tmp_path, cleanResourceInterval=getattr(request, "param", 50), **SMALL_FILES)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def log_file(broker: BrokerProcess) -> Path:
    return broker.store / "commitlog" / f"{0:020}"


@pytest.mark.parametrize("broker", [3_600_000], indirect=True)  # a look between the cut and the send would have the send refused
def test_a_broker_whose_mapped_file_is_cut_short_says_which_before_it_ends(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        assert send(wire, 0).code == ResponseCode.SUCCESS

        def does_a_send_meet_it() -> bool:
            os.truncate(log_file(broker), 0)  # again: a write of the preallocation that was under way just then makes it longer
            try:
                send(wire, 1)
            except (AssertionError, OSError):
                return True
            return False

        wait_until(does_a_send_meet_it, LIMIT_S, "a send that meets it")
    wait_until(lambda: not broker.process.is_running(), LIMIT_S, "the end of the broker")
    assert broker.process.stop() == -signal.SIGBUS
    assert f"of {log_file(broker)}: the file was cut short from outside" in broker.process.output()


def wait_for_answer(broker: BrokerProcess, code: ResponseCode, text: str = "") -> None:
    """Sends until one is answered so."""
    with Wire(broker.port) as wire:

        def is_answered_so() -> bool:
            answer = send(wire, 1)
            return answer.code == code and text in (answer.remark or "")

        wait_until(is_answered_so, LIMIT_S, f"a send answered {code.name} with {text!r}")


def test_no_send_is_acknowledged_into_a_file_that_the_next_start_would_not_find(broker: BrokerProcess) -> None:
    wait_for_answer(broker, ResponseCode.SUCCESS)
    directory, elsewhere, aside = broker.store / "commitlog", broker.store / "elsewhere", broker.store / "aside"
    directory.rename(elsewhere)
    gone = f"[commit log file {log_file(broker).name} is gone from its directory: put it back, or restart the broker]"
    wait_for_answer(broker, ResponseCode.SERVICE_NOT_AVAILABLE, gone)
    elsewhere.rename(directory)
    wait_for_answer(broker, ResponseCode.SUCCESS)
    log_file(broker).rename(aside)
    shutil.copyfile(aside, log_file(broker))
    wait_for_answer(broker, ResponseCode.SERVICE_NOT_AVAILABLE, "was replaced by another file")
    aside.rename(log_file(broker))
    wait_for_answer(broker, ResponseCode.SUCCESS)
