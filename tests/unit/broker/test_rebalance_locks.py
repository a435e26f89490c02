"""Queue locks: one client at a time, for as long as it renews; checked against a model by random operations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker.rebalance_locks import EXPIRES_MS, MessageQueue, RebalanceLocks
from tests.unit.broker.recorder import Clock

A, B = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)


def test_a_queue_has_one_holder() -> None:
    locks = RebalanceLocks(Clock())
    assert locks.lock("g", [A, B], "one") == [A, B]
    assert locks.lock("g", [A, B], "two") == []
    assert locks.lock("h", [A], "two") == [A], "groups do not share locks"


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
