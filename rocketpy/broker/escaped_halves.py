"""Prepared messages of a master that is down, passed on by the slave that stands in for it: the other master asks their producers.
RocketMQ: TransactionalMessageServiceImpl.check, TransactionalMessageBridge.escapeMessage (5.3.3 broker/transaction/), which drop a message
that was refused ten times.

How far that has got is the offset of the group CID_RMQ_SYS_TRANS in the half topic, as of a master's checks: what lies below it was ended,
or is with another master. It moves behind what was passed on; a message that is refused is tried again, and those behind it wait.

Threads  one event loop; the store is read in threads of its reads.
Bounds   HALVES looked at and AT_ONCE passed on at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from .._core.errors import OffsetOutOfRange, StoreCorrupt
from .._core.results import Message, UndecidedHalf
from .._core.store import MessageStore, decode_message
from . import names
from .escape_bridge import EscapeBridge
from .escaping_messages import place_of
from .parts import Parts
from .transaction_checks import GROUP

log = logging.getLogger(__name__)

HALVES: Final = 256
AT_ONCE: Final = 16
GONE: Final = None
"""A message that cannot be read any more, or names no queue: passed over, as the checks pass it over."""


class EscapedHalves:
    """`run_round` again and again while the bridge is open."""

    def __init__(self, parts: Parts, bridge: EscapeBridge) -> None:
        self._parts = parts
        self._bridge = bridge

    async def run_round(self) -> None:
        """Passes on what is undecided, up to the first that is refused. Raises StoreIOError, NoMemory: what is tried again."""
        parts = self._parts
        query = parts.offsets.query
        half, operation = max(0, query(GROUP, names.TRANS_HALF_TOPIC, 0)), max(0, query(GROUP, names.TRANS_OP_HALF_TOPIC, 0))
        while True:
            look = (half, operation, HALVES)
            halves, scanned_to = await parts.reads.run(lambda _, look=look: parts.native.undecided_halves(*look))  # type: ignore[misc]
            reached = await self._pass_on(halves)
            position = scanned_to if reached == len(halves) else halves[reached].queue_offset
            if position > half:
                parts.offsets.commit(GROUP, names.TRANS_HALF_TOPIC, 0, position, "acting master")
            half = position
            if reached < len(halves) or not halves:
                return

    async def _pass_on(self, halves: Sequence[UndecidedHalf]) -> int:
        """How many of them, from the first, are over."""
        reached = 0
        for begin in range(0, len(halves), AT_ONCE):
            some = halves[begin : begin + AT_ONCE]
            messages = await self._parts.reads.run(lambda store, some=some: [_read(store, half) for half in some])  # type: ignore[misc]
            done = await asyncio.gather(*(self._put(message) for message in messages))
            over = next((index for index, is_over in enumerate(done) if not is_over), len(done))
            reached += over
            if over < len(done):
                break
        return reached

    async def _put(self, message: Message | None) -> bool:
        return message is GONE or await self._bridge.put(message)


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
