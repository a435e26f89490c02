"""When a slave stands in for its master: decisions only."""

from __future__ import annotations

import pytest

from rocketpy.broker.acting_state import ActingState
from rocketpy.broker.group_members import Members

OWN = (1, "slave:1")
MASTER, SLAVE, SECOND = (0, "master:1"), OWN, (2, "second:1")


def everybody(*members: tuple[int, str]) -> Members:
    return frozenset(members)


def test_it_stands_in_when_it_is_the_least_twice_and_ends_at_once() -> None:
    state = ActingState()
    alone = [everybody(SLAVE, SECOND)]
    assert [state.heard(alone, OWN, is_connected=False) for _ in range(3)] == [False, True, True]
    assert not state.heard([everybody(SLAVE, MASTER)], OWN, is_connected=False)
    assert not state.heard(alone, OWN, is_connected=False), "a master that was there begins it again"


@pytest.mark.parametrize(
    "answers",
    [
        [everybody(SLAVE), everybody(SLAVE, MASTER)],
        [everybody(SECOND)],
        [everybody((1, "another:1"))],
        [everybody()],
    ],
    ids=["one knows the master", "it is not listed", "its id is another's", "nobody is"],
)
def test_it_does_not_stand_in(answers: list[Members]) -> None:
    state = ActingState()
    assert not any(state.heard(answers, OWN, is_connected=False) for _ in range(3))


def test_a_connected_log_says_that_the_master_is_there_and_silence_says_nothing() -> None:
    state = ActingState()
    alone = [everybody(SLAVE)]
    assert not any(state.heard(alone, OWN, is_connected=True) for _ in range(3))
    assert not any(state.heard([], OWN, is_connected=False) for _ in range(3))
    state.heard(alone, OWN, is_connected=False)
    assert state.heard(alone, OWN, is_connected=False)
    assert state.heard([], OWN, is_connected=False), "as before"
    assert not state.heard([], OWN, is_connected=True)
