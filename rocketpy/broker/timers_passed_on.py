"""How far a slave that stands in for its master has passed on timed messages, while some of them are set aside.

    {"readMs": 1700000000000, "queueOffset": 90, "offsets": "12"}

Threads  none: values only. Bounds: as of offsets_of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from .json_members import integer_member, text_member
from .set_aside import offsets_of

TIMERS: Final = "timers"


@dataclass(frozen=True, slots=True)
class TimersPassedOn:
    """Slots before read_ms are over for what stands below queue_offset of the timer queue, but for the messages at these offsets."""

    read_ms: int = 0
    queue_offset: int = 0
    offsets: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"readMs": self.read_ms, "queueOffset": self.queue_offset, "offsets": ",".join(map(str, self.offsets))}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Raises ValueError."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{TIMERS} is {type(value).__name__}, expected an object")
        offsets = offsets_of(text_member(value, "offsets", None, TIMERS), TIMERS)
        return cls(integer_member(value, "readMs", None, TIMERS), integer_member(value, "queueOffset", None, TIMERS), offsets)
