"""What waits to be delivered is counted from the files, whatever these hold."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from rocketpy.broker.undelivered import undelivered

MAX_OFFSETS = {
    ("rmq_sys_wheel_timer", 0): 12,
    ("t", 0): 100,
}


def count(directory: Path, max_offsets: dict[tuple[str, int], int] = MAX_OFFSETS) -> int:
    return undelivered(directory, lambda topic, queue: max_offsets.get((topic, queue), 0))


def test_what_waits_is_counted(tmp_path: Path) -> None:
    (tmp_path / "timermetrics").write_text(json.dumps({"timingCount": {"a": {"count": 4}, "b": {"count": 3}}}))
    (tmp_path / "timercheck").write_bytes(struct.pack(">7q", 1, 2, 10, 10, 0, 0, 0))
    assert count(tmp_path) == 9


def test_a_store_without_such_messages_has_nothing_to_say(tmp_path: Path) -> None:
    assert count(tmp_path, {("t", 0): 100}) == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("timermetrics", text) for text in ("", "{", "[]", '{"timingCount":7}', '{"timingCount":{"a":{"count":"n"}}}')),
        *(("timermetrics", text) for text in ('{"timingCount":{"a":{"count":-20}}}', "[" * 100_000)),
        *(("timercheck", text) for text in ("", "too short")),
    ],
)
def test_a_file_that_says_nonsense_counts_nothing_and_ends_no_start(tmp_path: Path, name: str, text: str) -> None:
    """What the topic holds waits all the same."""
    (tmp_path / name).write_text(text)
    assert count(tmp_path) == 12
