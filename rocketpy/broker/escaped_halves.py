"""Prepared messages of a master that is down, passed on by the slave that stands in for it: the other master asks their producers.
RocketMQ: TransactionalMessageServiceImpl.check, TransactionalMessageBridge.escapeMessage (5.3.3 broker/transaction/), which drop a message
that was refused ten times.

The progress is the offset of the group CID_RMQ_SYS_TRANS in the half topic, as it is for a master's checks: every message below it was
ended or is with another master. While no master answers, all messages wait. A message that the other masters refuse is set aside and tried
again less and less often; the offset stays at the first of these. When the master returns, it is told which they are (acting_progress.py).
A slave that was started again in between begins at the offset, and knows from acting_file.py which messages were set aside.

Threads  one event loop; the store is read in threads of its reads.
Bounds   HALVES looked at and AT_ONCE passed on at once; ASIDE_MAX set aside, then those behind wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .._core.errors import OffsetOutOfRange, StoreCorrupt
from .._core.results import Message, UndecidedHalf
from .._core.store import MessageStore, decode_message
from ..awake_clock import monotonic_ms
from . import names
from .escape_bridge import PASSED_ON, STUCK, EscapeBridge
from .escaping_messages import place_of
from .parts import Parts
from .set_aside import ASIDE_MAX, SetAside
from .transaction_checks import GROUP

log = logging.getLogger(__name__)

HALVES: Final = 256
AT_ONCE: Final = 16
AGAIN_MS: Final = 1_000
DOUBLED_MAX: Final = 10
GONE: Final = None
"""A message that cannot be read any more, or names no queue: passed over, as the checks pass it over."""


@dataclass(slots=True)
class _Aside:
    half: UndecidedHalf
    again_ms: int
    tries: int = 0


class EscapedHalves:
    """`begin`, then `run_round` again and again while the bridge is open."""

    def __init__(self, parts: Parts, bridge: EscapeBridge, *, clock_ms: Callable[[], int] = monotonic_ms) -> None:
        self._parts = parts
        self._bridge = bridge
        self._clock_ms = clock_ms
        self._aside: dict[int, _Aside] = {}
        self._reached = 0
        self._before = SetAside(0)

    def begin(self, before: SetAside | None = None) -> None:
        """At the offset that is known. before: how far this slave had got with this log before it was started again."""
        self._aside.clear()
        self._before = before or SetAside(0)
        self._reached = max(0, self._parts.offsets.query(GROUP, names.TRANS_HALF_TOPIC, 0))
        self._parts.acting.halves = before

    async def run_round(self) -> None:
        """Passes on what is undecided, up to the first that has to wait. Raises StoreIOError, NoMemory: what is tried again."""
        parts = self._parts
        await self._try_aside()
        operation = max(0, parts.offsets.query(GROUP, names.TRANS_OP_HALF_TOPIC, 0))
        while True:
            look = (self._reached, operation, HALVES)
            found, scanned_to = await parts.reads.run(lambda _, look=look: parts.native.undecided_halves(*look))  # type: ignore[misc]
            halves = [half for half in found if not self._before.is_over(half.queue_offset)]
            over = await self._pass_on(halves)
            self._move_to(scanned_to if over == len(halves) else halves[over].queue_offset)
            if over < len(halves) or not found:
                return

    def _move_to(self, reached: int) -> None:
        self._reached = max(self._reached, reached)
        again = {offset for offset in self._before.offsets if offset >= self._reached}  # and were not looked at yet
        known = SetAside(max(self._reached, self._before.reached), tuple(sorted(again.union(self._aside))))
        self._parts.acting.halves = known if known.offsets else None
        offsets = self._parts.offsets
        if known.position > offsets.query(GROUP, names.TRANS_HALF_TOPIC, 0):
            offsets.commit(GROUP, names.TRANS_HALF_TOPIC, 0, known.position, "acting master")

    async def _try_aside(self) -> None:
        now_ms = self._clock_ms()
        due = [one for _, one in sorted(self._aside.items()) if one.again_ms <= now_ms]
        for begin in range(0, len(due), AT_ONCE):
            some = due[begin : begin + AT_ONCE]
            for one, status in zip(some, await self._put_all([one.half for one in some]), strict=True):
                if status == PASSED_ON:
                    del self._aside[one.half.queue_offset]
                else:
                    one.tries = min(one.tries + 1, DOUBLED_MAX)
                    one.again_ms = self._clock_ms() + (AGAIN_MS << one.tries)
            self._move_to(self._reached)

    async def _pass_on(self, halves: Sequence[UndecidedHalf]) -> int:
        """How many of them, from the first, are over or set aside."""
        over = 0
        for begin in range(0, len(halves), AT_ONCE):
            some = halves[begin : begin + AT_ONCE]
            for half, status in zip(some, await self._put_all(some), strict=True):
                if status == STUCK and len(self._aside) < ASIDE_MAX:
                    self._aside[half.queue_offset] = _Aside(half, self._clock_ms() + AGAIN_MS)
                elif status != PASSED_ON:
                    return over
                over += 1
        return over

    async def _put_all(self, halves: Sequence[UndecidedHalf]) -> list[int]:
        messages = await self._parts.reads.run(lambda store: [_read(store, half) for half in halves])
        return await asyncio.gather(*(self._put(message) for message in messages))

    async def _put(self, message: Message | None) -> int:
        return PASSED_ON if message is GONE else await self._bridge.put(message)


def _read(store: MessageStore, half: UndecidedHalf) -> Message | None:
    """In a thread."""
    try:
        message = decode_message(store.read(half.log_offset))
    except (OffsetOutOfRange, StoreCorrupt) as error:
        log.error("the prepared message at log offset %d is not passed on: %s", half.log_offset, error)
        return GONE
    if place_of(message) is None:
        log.error("the prepared message at log offset %d is not passed on: its properties name no queue", half.log_offset)
        return GONE
    return message
