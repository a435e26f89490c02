"""Which brokers live, by their heartbeats."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpy.controller import broker_lives
from rocketpy.controller.broker_lives import BrokerIdentity, BrokerLives
from rocketpy.remoting.headers import BrokerHeartbeatRequestHeader


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1000

    def __call__(self) -> int:
        return self.now_ms


def beat(broker_id: int = 1, **more: Any) -> BrokerHeartbeatRequestHeader:
    return BrokerHeartbeatRequestHeader(cluster_name="c", broker_name="a", broker_addr="h:1", broker_id=broker_id, **more)


def identity(broker_id: int = 1) -> BrokerIdentity:
    return BrokerIdentity("c", "a", broker_id)


def test_a_broker_lives_as_long_as_it_said_and_is_gone_behind_that() -> None:
    clock = Clock()
    lives = BrokerLives(clock)
    assert not lives.has_gone(identity())
    lives.hear(beat(heartbeat_timeout_mills=50), 7)
    clock.now_ms += 50
    assert lives.life("c", "a", 1) is not None
    assert lives.expire() == []
    clock.now_ms += 1
    assert lives.life("c", "a", 1) is None
    assert lives.has_gone(identity())
    assert lives.expire() == [(identity(), 7)]
    assert lives.has_gone(identity())
    lives.hear(beat(), 8)
    assert not lives.has_gone(identity())


def test_for_a_new_leader_nobody_has_gone_yet_and_who_lives_goes_on_living() -> None:
    clock = Clock()
    lives = BrokerLives(clock)
    lives.hear(beat(1, heartbeat_timeout_mills=50), 7)
    lives.hear(beat(2), 8)
    lives.hear(beat(3), 9)
    lives.connection_closed(8)
    clock.now_ms += 51
    lives.forget_gone()
    assert not lives.has_gone(identity(1)) and not lives.has_gone(identity(2))
    assert lives.active_counts() == {("c", "a"): 1}
    lives.connection_closed(9)
    assert lives.has_gone(identity(3))


def test_a_time_out_that_was_not_said_is_ten_seconds_and_none_lasts_for_ever() -> None:
    clock = Clock()
    lives = BrokerLives(clock)
    lives.hear(beat(), 7)
    lives.hear(beat(2, heartbeat_timeout_mills=2**62), 7)
    lives.hear(beat(3, heartbeat_timeout_mills=-5), 7)
    clock.now_ms += 10_000
    assert lives.active_counts() == {("c", "a"): 2}
    clock.now_ms += broker_lives.TIMEOUT_MAX_MS
    assert lives.active_counts() == {}


def test_a_broker_goes_with_the_connection_of_its_last_heartbeat_only() -> None:
    lives = BrokerLives(Clock())
    lives.hear(beat(), 7)
    lives.hear(beat(2), 7)
    lives.hear(beat(), 8)
    assert lives.connection_closed(7) == [identity(2)]
    assert lives.life("c", "a", 1) is not None
    assert lives.connection_closed(8) == [identity()]
    assert lives.connection_closed(8) == []


def test_on_one_connection_a_log_never_gets_shorter_and_a_new_epoch_may_begin_anywhere() -> None:
    lives = BrokerLives(Clock())
    lives.hear(beat(epoch=2, max_offset=100, confirm_offset=90), 7)
    lives.hear(beat(epoch=2, max_offset=50, confirm_offset=50), 7)
    life = lives.life("c", "a", 1)
    assert life is not None and (life.epoch, life.max_offset, life.confirm_offset) == (2, 100, 90)
    lives.hear(beat(epoch=3, max_offset=10, confirm_offset=10), 7)
    life = lives.life("c", "a", 1)
    assert life is not None and life.reach == (3, 10)


def test_a_broker_that_reconnects_may_have_lost_its_store() -> None:
    lives = BrokerLives(Clock())
    lives.hear(beat(epoch=2, max_offset=100), 7)
    lives.hear(beat(epoch=1, max_offset=0), 8)
    life = lives.life("c", "a", 1)
    assert life is not None and life.reach == (1, 0)


def test_strangers_cannot_fill_the_table_and_known_brokers_are_heard_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_lives, "LIVES_MAX", 2)
    lives = BrokerLives(Clock())
    assert lives.hear(beat(1), 7)
    assert lives.hear(beat(2), 7)
    assert not lives.hear(beat(3), 7)
    assert lives.hear(beat(1), 7)
    for connection in range(10, 20):
        lives.connection_closed(7)
        lives.hear(beat(connection), connection)
        lives.connection_closed(connection)
    assert [lives.has_gone(identity(each)) for each in (1, 17, 18, 19)] == [False, False, True, True]
