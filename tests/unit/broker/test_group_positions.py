"""What a member of a DLedger group writes down of what it appended as the leader, and what it forgets when another one cuts that."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from rocketpy._core.errors import OffsetOutOfRange
from rocketpy._core.remoting import Command
from rocketpy.broker.consumer_offsets import ConsumerOffsets, SavedOffsets
from rocketpy.broker.slave_synchronize import CopiedState, SlaveSynchronize
from rocketpy.ha.ledger import OVER_MS, _MembersLog
from rocketpy.ha.service import NOWHERE
from rocketpy.remoting.bodies import DataVersion
from rocketpy.remoting.codes import RequestCode

from .recorder import Clock, Recorder
from .running import run


class Store:
    """Everything is on disk and committed, but what was cut."""

    def __init__(self) -> None:
        self.end, self.cuts, self.waited_ms = 100, 0, 0

    def stats(self) -> dict[str, int]:
        return {"commit_log_end_offset": self.end, "commit_log_cuts": self.cuts}

    def wait_flushed(self, offset: int, timeout_ms: int, cuts: int) -> None:
        self.waited_ms = timeout_ms
        if offset > self.end or cuts != self.cuts:
            raise OffsetOutOfRange("taken back")


def test_a_mark_says_nothing_of_a_log_that_was_cut_and_has_grown_again() -> None:
    store, is_led = Store(), [True]
    log = _MembersLog(store, lambda: is_led[0])  # type: ignore[arg-type]
    log.begin_lead()
    before = log.mark()
    log.wait_durable(before, 9000)
    assert store.waited_ms == 9000
    is_led[0] = False
    log.wait_durable(before, 9000)
    assert store.waited_ms == OVER_MS, "behind the lead no commit may come any more"
    store.cuts, store.end = 1, 200
    with pytest.raises(OffsetOutOfRange):
        log.wait_durable(before, 9000)
    assert log.mark().end == NOWHERE, "positions are still of the log as it was led"
    with pytest.raises(OffsetOutOfRange):
        log.wait_durable(log.mark(), 9000)
    log.end_lead()
    assert log.mark().end == 200, "they have been taken back"
    log.wait_durable(log.mark(), 9000)


def test_positions_in_the_log_go_back_and_others_stay() -> None:
    recorder = Recorder()
    for topic, queue_id, offset in (("popped", 0, 9), ("popped", 1, 3), ("popped", 2, 8), ("read", 0, 9)):
        recorder.put_offset("g", topic, queue_id, offset)
    offsets = ConsumerOffsets(recorder, Clock())
    saved = SavedOffsets({"popped@g": {0: 4, 1: 5}, "read@g": {0: 4}}, DataVersion(0))
    assert offsets.take_back(saved, lambda topic, group: topic == "popped") == 1
    assert [recorder.table[("g", "popped", queue_id)] for queue_id in range(3)] == [4, 3, 8]
    assert recorder.table[("g", "read", 0)] == 9, "what a consumer said is no matter of the log"


class Master:
    """Whose log is another one by the time it answers."""

    def __init__(self) -> None:
        self.term, self.is_stranger = 5, False

    def connection(self) -> int:
        return self.term

    async def call(self, *request: Any, **limits: Any) -> Command:
        self.term = 6
        return Command(0)


def test_an_answer_of_one_term_is_not_taken_in_the_next() -> None:
    async def test() -> None:
        master, taken = Master(), []
        state = CopiedState("offsets", RequestCode.GET_ALL_CONSUMER_OFFSET, lambda value: bool(taken.append(value)), AsyncMock())
        synchronize = SlaveSynchronize(master, (state,), master)
        synchronize.follow("127.0.0.1:1")
        synchronize.is_due.clear()
        await synchronize.run_once()
        assert not taken and synchronize.is_due.is_set(), "it is asked again at once"
        await synchronize.run_once()
        assert len(taken) == 1

    run(test)
