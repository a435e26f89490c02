"""How many files of queues leave the process the maps that all else needs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpy.broker import native_options
from rocketpy.broker.queue_files import queue_files_max
from tests.unit.broker.running import run, running


def test_an_eighth_of_the_maps_is_for_other_things(tmp_path: Path) -> None:
    limit = tmp_path / "max_map_count"
    assert queue_files_max(limit) == 0, "it cannot be read in this container"
    for text, most in (("65530\n", 57_338), ("1", 1), ("many", 0)):
        limit.write_text(text)
        assert queue_files_max(limit) == most


def test_sends_to_further_queues_are_refused_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_options, "queue_files_max", lambda: 2)

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert [(await peer.send("t", queue_id=queue_id)).code for queue_id in (0, 1, 2, 0)] == [0, 0, 1, 0]
            answers = await asyncio.gather(*(peer.send("u"), peer.send("t", queue_id=3), peer.send("t", queue_id=1)))
            assert [answer.code for answer in answers] == [1, 1, 0]

    run(test)
