"""The messages of one queue that could not be delivered while those behind them were, as files and answers list them.

    {"reached": 40, "offsets": "17,29"}    all below 40 are done, except these two

The position that stands beside it, which RocketMQ reads, is that of the first of these messages: a reader that knows only the position
delivers some messages twice, and loses none.

Threads  none: values only. Bounds: ASIDE_MAX offsets.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from .json_members import integer_member, text_member

log = logging.getLogger(__name__)

SET_ASIDE: Final = "setAside"
HALVES_SET_ASIDE: Final = "halvesSetAside"
"""What a slave that stood in for its master adds to the answer about delayed messages: of the queue of prepared ones."""
ASIDE_MAX: Final = 16_384
"""RP_DELAY_ASIDE_MAX of csrc/broker/broker.h."""
OFFSET_MAX: Final = (1 << 63) - 1


def offsets_of(text: str, where: str) -> tuple[int, ...]:
    """The offsets in "17,29", at least one. Raises ValueError."""
    offsets = tuple(int(number) for number in text.split(","))
    if list(offsets) != sorted(set(offsets)) or not 0 <= offsets[0] <= offsets[-1] <= OFFSET_MAX or len(offsets) > ASIDE_MAX:
        raise ValueError(f"{where}: at most {ASIDE_MAX} offsets are expected, 0 to {OFFSET_MAX}, by size")
    return offsets


@dataclass(frozen=True, slots=True)
class SetAside:
    """`offsets`, ascending and each below `reached`, are set aside; all others below `reached` are done."""

    reached: int
    offsets: tuple[int, ...] = ()

    @property
    def position(self) -> int:
        return self.offsets[0] if self.offsets else self.reached

    def is_over(self, offset: int) -> bool:
        at = bisect_left(self.offsets, offset)
        return offset < self.reached and self.offsets[at : at + 1] != (offset,)

    def cut(self, end: int) -> Self:
        """The same for a queue that ends at `end`."""
        return type(self)(min(self.reached, end), tuple(offset for offset in self.offsets if offset < end))

    def joined(self, other: SetAside) -> SetAside:
        """What is done according to either of the two is done in the result."""
        ours, others = set(self.offsets), set(other.offsets)
        left = {offset for offset in ours if offset >= other.reached or offset in others}
        left |= {offset for offset in others if offset >= self.reached}
        return SetAside(max(self.reached, other.reached), tuple(sorted(left)))

    def to_json(self) -> dict[str, Any]:
        return {"reached": self.reached, "offsets": ",".join(map(str, self.offsets))}

    @classmethod
    def from_json(cls, value: Any, where: str) -> Self | None:
        """None, and a line in the log, for a value that is no such object: then only the position beside it is known."""
        try:
            if not isinstance(value, Mapping):
                raise ValueError(f"{where} is {type(value).__name__}, expected an object")
            reached = integer_member(value, "reached", None, where)
            offsets = offsets_of(text_member(value, "offsets", None, where), where)
            if offsets[-1] >= reached:
                raise ValueError(f"{where}: offset {offsets[-1]} is not below reached, which is {reached}")
        except ValueError as error:
            log.error("which messages were set aside is not known, and those behind the first of them come again: %s", error)
            return None
        return cls(reached, offsets)
