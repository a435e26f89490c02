"""Queues whose messages a live group does not come for: counted, warned of once, never those of a group that works or is away."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketpy.broker.housekeeping import Housekeeping
from rocketpy.broker.stalled_queues import WARNED_MAX, StalledQueues
from rocketpy.remoting.codes import RequestCode
from tests.processes import wait_until
from tests.unit.broker.running import running
from tests.unit.broker.test_metrics import PROM, run, scrape, value


def test_a_queue_is_told_once_until_it_gets_on() -> None:
    stalled = StalledQueues(lambda group: ["c1", "c2"] if group == "g" else [], lambda group, topic: topic == "t")
    rows = [("g", "t", 3, 1234, 75_000), ("away", "t", 0, 5, 90_000), ("g", "left", 0, 5, 90_000)]
    (warning,) = stalled.news(rows)
    assert warning == "queue 3 of t is 1,234 messages behind, and g has neither pulled nor committed there for 75 s; its clients: c1, c2"
    assert stalled.news(rows) == []
    assert stalled.news([]) == []
    assert len(stalled.news(rows)) == 1
    assert stalled.counts(rows) == {("g", "t"): 1}


def test_many_are_named_by_their_messages_and_counted() -> None:
    stalled = StalledQueues(lambda group: [f"c{number}" for number in range(9)], lambda group, topic: True)
    lines = stalled.news([("g", "t", queue, queue, 60_000) for queue in range(WARNED_MAX + 4)])
    assert len(lines) == WARNED_MAX + 1 and lines[0].startswith(f"queue {WARNED_MAX + 3} of t") and lines[0].endswith("c4 and 4 more")
    assert lines[-1].startswith("4 more queues")


def test_a_broker_sees_the_queue_that_nobody_pulls_any_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, **PROM, queueStalledAfterMillis="1") as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            await peer.heartbeat("c1", "g", "t")
            assert (await peer.send("t", b"first")).code == 0
            assert (await peer.pull("g", "t")).code == 0
            await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 0})
            assert parts.native.stalled_queues(0) == [], "all of it is pulled: the group is at work"
            assert (await peer.send("t", b"second")).code == 0
            ((group, topic, queue_id, messages, idle_ms),) = wait_until(lambda: parts.native.stalled_queues(1))
            assert (group, topic, queue_id, messages) == ("g", "t", 0, 2) and idle_ms >= 1
            assert parts.native.stalled_queues(3_600_000) == []
            samples = await scrape(at.broker.metrics_port)
            assert value(samples, "rocketmq_consumer_stalled_queues", topic="t", consumer_group="g", is_retry="false") == 1
            with caplog.at_level(logging.WARNING):
                Housekeeping(parts, None).warn_of_stalled_queues()
            assert "queue 0 of t is 2 messages behind, and g has neither" in caplog.text and "c1" in caplog.text
            assert (await peer.pull("g", "t", offset=1)).code == 0
            assert parts.native.stalled_queues(0) == []

    run(test)
