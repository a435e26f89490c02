"""Which copies of prepared messages a round of checks has not reached yet, and so which operations it must not forget.
RocketMQ: TransactionalMessageServiceImpl.checkPrepareQueueOffset (5.3.3 broker/transaction/queue/), which forgets them.

    half topic   … 5 … 9 │ position … 12 (once 5) … 15 (once 9) …
    operations   … about 5 … about 9 …   both are needed until 12 and 15 have been passed

A copy of an immune message is ended by an operation about the offset that the message had first. That offset is below the position already,
so only the copy shows that the operation is still needed. Copies that were made before this broker started, or by another broker, are not
known: until the position reaches the place where the half topic ended at the start, all operations are needed.
Threads  none: decisions only.
Bounds   COPIES_MAX copies; one more, and all of them count as not known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

COPIES_MAX: Final = 1 << 20


class HalfCopies:
    """`begin` at each round, `add` each copy, `pass_to` when the position moves."""

    def __init__(self) -> None:
        self._position = -1
        self._known_from = 0
        self._offsets, self._firsts = array("q"), array("q")

    def begin(self, position: int, end: int) -> None:
        """end: of the half topic. What was noted is worth nothing when the position is not where it was left, or lies behind the end."""
        if position != self._position or end < position:
            self._position = position
            self._know_none_below(end)

    def _know_none_below(self, offset: int) -> None:
        self._known_from = offset
        del self._offsets[:], self._firsts[:]

    def add(self, offset: int, first: int) -> None:
        """A copy at the end of the half topic, of a message that was at `first` once; below 0: it does not say so."""
        if len(self._offsets) == COPIES_MAX:
            self._know_none_below(offset + 1)
        elif first >= 0:
            self._offsets.append(offset)
            self._firsts.append(first)

    def firsts(self, position: int) -> array[int] | None:
        """The first offsets of the copies from position on. None: they are not known."""
        return self._firsts[bisect_left(self._offsets, position) :] if position >= self._known_from else None

    def pass_to(self, position: int) -> None:
        passed = bisect_left(self._offsets, position)
        del self._offsets[:passed], self._firsts[:passed]
        self._position = position
