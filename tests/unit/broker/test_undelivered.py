"""What waits to be delivered is counted from the files, whatever these hold."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from rocketpy._core.store import MessageStore
from rocketpy.broker.native_options import store_options
from rocketpy.broker.undelivered import undelivered
from tests.unit.broker import running as broker

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


@pytest.mark.parametrize("text", ["", "{", "[]", '{"timingCount":7}', '{"timingCount":{"a":{"count":"n"}}}'])
def test_files_that_say_nonsense_end_no_start(tmp_path: Path, text: str) -> None:
    for name in ("timermetrics", "timercheck"):
        (tmp_path / name).write_text(text)
    assert count(tmp_path) in (0, 12)


def test_a_queue_of_delayed_messages_built_again_has_the_brokers_own_levels(tmp_path: Path) -> None:
    """An entry's tag code is the time of delivery: by other levels RocketMQ, started on the store again, delivered them hours early."""
    options = store_options(broker.broker_config(tmp_path, messageDelayLevel="1s 5h"), "127.0.0.1:10911")
    root = tmp_path / "store"
    with MessageStore(str(root), **options) as store:
        store.append("SCHEDULE_TOPIC_XXXX", 1, b"later", "DELAY\x012\x02", tags_code=0)
        stored_ms = store.time_at("SCHEDULE_TOPIC_XXXX", 1, 0)
    shutil.rmtree(root / "consumequeue")
    with MessageStore(str(root), **options) as store:
        ((_, _, due_ms),) = store.entries("SCHEDULE_TOPIC_XXXX", 1, 0, 1)
    assert due_ms == stored_ms + 5 * 3_600_000
