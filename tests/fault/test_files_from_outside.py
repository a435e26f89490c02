"""Files of a running broker's store that somebody else cuts short, deletes or moves away."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.remoting.codes import ResponseCode
from tests.crash.broker_process import BrokerProcess
from tests.processes import wait_until

from .requests_wire import Wire
from .test_full_disk import send

END_LIMIT_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    small = {"mappedFileSizeCommitLog": 16 << 20, "mappedFileSizeConsumeQueue": 20_000, "maxHashSlotNum": 1000, "maxIndexNum": 4000}
    process = BrokerProcess(tmp_path, **small)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def log_file(broker: BrokerProcess) -> Path:
    return broker.store / "commitlog" / f"{0:020}"


def test_a_broker_whose_mapped_file_is_cut_short_says_which_before_it_ends(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        assert send(wire, 0).code == ResponseCode.SUCCESS
        os.truncate(log_file(broker), 0)
        with pytest.raises((AssertionError, OSError)):
            send(wire, 1)
    wait_until(lambda: not broker.process.is_running(), END_LIMIT_S, "the end of the broker")
    assert broker.process.stop() == -signal.SIGBUS
    assert f"of {log_file(broker)}: the file was cut short from outside" in broker.process.output()
