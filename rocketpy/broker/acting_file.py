"""config/actingProgress.json: how far a slave that stands in for its master has got. The slave reads it after a kill.

    {"logEnd": 4096, "halves": {"reached": 40, "offsets": "17,29"}, "timers": {"readMs": 1700000000000, "queueOffset": 90, "offsets": "12"}}

Positions and the checkpoint of timers stay at the first message that is set aside; this file says which messages behind it were passed on.
The file is valid only while the log still ends at logEnd: a log that has grown since had its master back in between. Delayed messages
have a file of their own (delay_offsets.py). RocketMQ has nothing of the kind, and does not read the file.

Threads  one event loop; the file is written in its executor.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from .._core.errors import RocketpyError
from . import names
from .json_members import integer_member
from .parts import Parts, now_ms
from .persistence import SavedState
from .set_aside import SetAside
from .timers_passed_on import TIMERS, TimersPassedOn

log = logging.getLogger(__name__)

ACTING_FILE: Final = "actingProgress.json"
_HALVES, _LOG_END = "halves", "logEnd"


@dataclass(frozen=True, slots=True)
class ActingProgress:
    """halves None, or timers without offsets: the positions and the checkpoint say it all."""

    log_end: int = -1
    halves: SetAside | None = None
    timers: TimersPassedOn = field(default_factory=TimersPassedOn)

    def to_json(self) -> dict[str, Any]:
        members: dict[str, Any] = {_LOG_END: self.log_end}
        if self.halves is not None:
            members[_HALVES] = self.halves.to_json()
        if self.timers.offsets:
            members[TIMERS] = self.timers.to_json()
        return members

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Raises ValueError."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{ACTING_FILE} is {type(value).__name__}, expected an object")
        halves, timers = value.get(_HALVES), value.get(TIMERS)
        return cls(
            integer_member(value, _LOG_END, -1, ACTING_FILE),
            SetAside.from_json(halves, _HALVES) if halves is not None else None,
            TimersPassedOn.from_json(timers) if timers is not None else TimersPassedOn(),
        )


def timers_passed_on(parts: Parts) -> TimersPassedOn:
    """Of a slave that stands in, as of now; without offsets: the checkpoint says it all."""
    if not parts.config.boolean("timerWheelEnable"):
        return TimersPassedOn()
    below = parts.native.timer_stats()["queue_offset"]  # first: what is entered later is not among what was read
    read_ms, offsets = parts.native.timers_aside()
    return parts.acting.timers_at(TimersPassedOn(read_ms, below, tuple(offsets)))


class ActingFile:
    """Of one slave."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        path = parts.saved.delay_offsets.file.path.with_name(ACTING_FILE)
        self._saved = SavedState(path, lambda: self._now().to_json(), self._now)
        self._saved.mark_saved()

    def read(self) -> ActingProgress:
        """Of a slave whose log has not grown since; nothing, and a line in the log, where that cannot be known: something is passed on once
        more. Blocks."""
        parts = self._parts
        try:
            saved = self._saved.read(ActingProgress.from_json)
        except RocketpyError as error:
            log.error("what was set aside is not known, and what lies behind it is passed on once more: %s", error)
            return ActingProgress()
        if saved is None or saved.log_end != parts.acting.log_end:
            return ActingProgress()
        timers = replace(saved.timers, read_ms=min(saved.timers.read_ms, now_ms()))  # nothing of the future is over
        halves = saved.halves and saved.halves.cut(parts.store.next_offset(names.TRANS_HALF_TOPIC, 0))
        return ActingProgress(saved.log_end, halves, timers)

    async def save(self) -> bool:
        """As SavedState.save_or_log; nothing is written while nothing is set aside."""
        return await self._saved.save_or_log()

    def _now(self) -> ActingProgress:
        parts = self._parts
        if not parts.acting.is_acting or parts.acting.log_end is None:
            return ActingProgress()
        halves, timers = parts.acting.halves, timers_passed_on(parts)
        return ActingProgress(parts.acting.log_end, halves, timers) if halves or timers.offsets else ActingProgress()
