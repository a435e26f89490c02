"""Timed messages that wait in the store of a broker with timerWheelEnable=false, which delivers none. They are counted at the start, and a
warning says how many there are.
RocketMQ: TimerMessageStore (5.3.3 store/timer/), which does not warn.

The messages are left as they are: a start with timerWheelEnable=true goes on with them. But they age with the log, and are lost when its
files expire.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ..remoting.json_codec import read_json
from . import names
from .json_members import object_member

_CHECKPOINT: Final = struct.Struct(">3q")
"""The head of config/timercheck: read until (ms), flushed position of the timer log, queue offset."""

MaxOffset = Callable[[str, int], int]
"""Of a topic's queue; 0 where there is none."""


def undelivered(directory: Path, max_offset: MaxOffset) -> int:
    """How many messages wait in the timer wheel, as last counted, and how many had not entered it yet. directory: store/config. A file
    that says nonsense counts nothing: this is for people, no reason to end a start."""
    entered: int
    try:
        _, _, entered = _CHECKPOINT.unpack_from((directory / "timercheck").read_bytes())
    except (OSError, struct.error):
        entered = 0  # nothing of the wheel was ever written
    return _in_wheel(directory / "timermetrics") + max(0, max_offset(names.TIMER_TOPIC, 0) - entered)


def _in_wheel(metrics: Path) -> int:
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        counts = object_member(_json(metrics), "timingCount", metrics.name)
        return max(0, sum(count for value in counts.values() for count in _count(value)))
    return 0


def _count(value: object) -> Iterator[int]:
    count = value.get("count") if isinstance(value, dict) else None
    if isinstance(count, int):
        yield count


def _json(file: Path) -> dict[str, object]:
    """The JSON of a file; {} if the file does not exist."""
    value = read_json(file.read_text(encoding="utf-8"), tolerant_max=None) if file.exists() else {}
    return {str(name): member for name, member in value.items()} if isinstance(value, dict) else {}
