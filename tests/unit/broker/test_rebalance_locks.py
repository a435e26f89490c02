"""Queue locks: one client at a time, for as long as it renews; checked against a model by random operations."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker import rebalance_locks
from rocketpy.broker.rebalance_locks import EXPIRES_MS, MessageQueue, RebalanceLocks
from tests.unit.broker.recorder import Clock

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def test_a_queue_has_one_holder() -> None:
    locks = RebalanceLocks(Clock())
    assert locks.lock("g", [A, B], "one") == [A, B]
    assert locks.lock("g", [A, B], "two") == []
    assert locks.lock("h", [A], "two") == [A], "groups do not share locks"


def test_who_wants_to_know_hears_of_each_lock_and_renewal() -> None:
    heard: list[str] = []
    clock = Clock()
    locks = RebalanceLocks(clock, on_granted=heard.append)
    locks.lock("g", [A, B], "one")
    locks.lock("g", [A], "one")
    assert heard == ["g", "g"]
    locks.lock("g", [A, B], "two")
    locks.unlock("g", [A], "one")
    assert heard == ["g", "g"]
    clock.ms += 2 * EXPIRES_MS
    locks.lock("g", [B], "two")
    assert heard == ["g", "g", "g"]


def test_a_lock_that_is_not_renewed_goes_to_the_next() -> None:
    clock = Clock()
    locks = RebalanceLocks(clock)
    locks.lock("g", [A], "one")
    clock.ms += EXPIRES_MS
    assert locks.lock("g", [A], "two") == []
    clock.ms += 1
    assert locks.lock("g", [A], "two") == [A]
    assert locks.lock("g", [A], "one") == []


def test_a_renewal_counts_from_now() -> None:
    clock = Clock()
    locks = RebalanceLocks(clock)
    locks.lock("g", [A], "one")
    clock.ms += EXPIRES_MS - 1
    assert locks.lock("g", [A], "one") == [A]
    clock.ms += EXPIRES_MS - 1
    assert locks.lock("g", [A], "two") == []


def test_only_the_holder_unlocks() -> None:
    locks = RebalanceLocks(Clock())
    locks.lock("g", [A], "one")
    locks.unlock("g", [A, B], "two")
    assert locks.lock("g", [A], "two") == []
    locks.unlock("g", [A], "one")
    assert locks.lock("g", [A], "two") == [A]


def test_abandoned_locks_are_forgotten() -> None:
    clock = Clock()
    locks = RebalanceLocks(clock)
    locks.lock("g", [A, B], "one")
    clock.ms += 10 * EXPIRES_MS + 1
    assert locks.forget_expired() == 2 and len(locks) == 0


def test_a_request_is_a_line_in_the_log_and_names_that_cannot_be_are_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    locks = RebalanceLocks(Clock())
    many = [MessageQueue("t", "b", number) for number in range(1000)]
    assert locks.lock("g", many, "one") == many and locks.lock("g", many, "two") == []
    locks.unlock("g", many, "two")
    assert len(caplog.records) == 2
    long = "x" * 256
    odd = [MessageQueue(long, "b", 0), MessageQueue("", "b", 0), MessageQueue("t", long, 0), MessageQueue("t", "", 0)]
    assert locks.lock("g", odd, "one") == odd[3:]
    assert locks.lock(long, [A], "one") == locks.lock("", [A], "one") == locks.lock("g", [A], "x" * 1025) == []
    assert len(locks) == 1001 and len(caplog.records) == 7, "one of each of the three, too"


def test_the_log_holds_no_more_of_a_name_than_a_name_may_have(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    locks, long = RebalanceLocks(Clock()), "x" * 1_000_000
    odd = MessageQueue(long, long, 0)
    assert locks.lock("g", [odd], "one") == locks.lock(long, [A], "one") == locks.lock("g", [A], long) == []
    locks.unlock("g", [odd], "one")
    locks.unlock(long, [A], long)
    assert len(caplog.records) == 5 and all(len(record.getMessage()) < 1000 for record in caplog.records)


def test_locks_that_are_not_renewed_give_way_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance_locks, "LOCKS_MAX", 2)
    clock = Clock()
    locks = RebalanceLocks(clock)
    assert locks.lock("of a stranger", [A, B], "one") == [A, B]
    assert locks.lock("g", [A], "two") == []
    clock.ms += EXPIRES_MS + 1
    assert locks.lock("g", [A, B], "two") == [A, B] and len(locks) == 2
    clock.ms += EXPIRES_MS
    assert locks.lock("g", [A], "two") == [A], "it renews"
    assert locks.lock("h", [A, B], "two") == []
    clock.ms += 1
    assert locks.lock("h", [A, B], "two") == [A] and len(locks) == 2, "as soon as one has expired"
    assert not locks.lock("h", [B], "two") and locks.is_locked("g")


steps = st.lists(
    st.tuples(st.sampled_from(["lock", "unlock", "wait"]), st.integers(0, 3), st.integers(0, 2), st.integers(1, EXPIRES_MS)), max_size=60
)


@given(steps)
def test_no_queue_is_ever_held_by_two(script: list[tuple[str, int, int, int]]) -> None:
    clock = Clock()
    locks = RebalanceLocks(clock)
    model: dict[int, tuple[int, int]] = {}
    for verb, queue_id, client, wait_ms in script:
        queue = MessageQueue("t", "b", queue_id)
        if verb == "wait":
            clock.ms += wait_ms
        elif verb == "unlock":
            locks.unlock("g", [queue], str(client))
            if model.get(queue_id, (None,))[0] == client:
                del model[queue_id]
        else:
            holder = model.get(queue_id)
            free = holder is None or holder[0] == client or clock.ms - holder[1] > EXPIRES_MS
            assert locks.lock("g", [queue], str(client)) == ([queue] if free else [])
            if free:
                model[queue_id] = (client, clock.ms)
        assert len(locks) == len(model)
