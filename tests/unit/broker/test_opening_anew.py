"""A broker that closes and opens again in its process, as a slave whose log is cut does."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

from rocketpy.broker.service import BrokerService
from rocketpy.config import ConfigError, Problem
from rocketpy.garbage import leave_out_loaded
from tests.unit.broker.running import broker_config, run, running


def test_a_broker_that_cannot_open_anew_tries_again_whatever_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As with a file that the start had read and that was changed since, such as plain_acl.yml."""
    faults: list[Exception] = [ConfigError([Problem("aclEnable", "plain_acl.yml cannot be read", "")])]

    async def opens() -> None:
        if faults:
            raise faults.pop()

    async def test() -> None:
        broker = BrokerService(broker_config(tmp_path))
        monkeypatch.setattr(broker, "_open", opens)
        assert [await broker._opens_anew(0) for _ in range(2)] == [False, True]

    run(test)
    assert "could not open anew, and tries again: ConfigError: " in caplog.text and "plain_acl.yml cannot be read" in caplog.text


@pytest.mark.parametrize("is_left_out", [True, False])
def test_tables_that_the_collector_leaves_out_go_when_a_broker_opens_anew(tmp_path: Path, is_left_out: bool) -> None:
    """A server's are left out from its start on: each time a slave opened anew it kept all those that it had before."""

    async def test() -> None:
        async with running(tmp_path) as at:
            if is_left_out:
                leave_out_loaded()
            parts = at.broker.parts
            assert parts is not None
            assert (await at.peer().send("t")).code == 0
            gone = [weakref.ref(table) for table in (parts.topics, parts.groups, parts.consumers)]
            end = parts.store.stats()["commit_log_max_offset"]
            del parts
            async with at.broker._life:
                assert await at.broker._opens_anew(end)
            await asyncio.sleep(0)
            gc.collect()
            assert [table() for table in gone] == [None] * 3
            assert (gc.get_freeze_count() > 0) == is_left_out

    try:
        run(test)
    finally:
        gc.unfreeze()
