"""Messages of compacted topics that a slave's log begins too late to have, copied from what its master has kept.
RocketMQ: CompactionLog.loadFromRemoteAsync, MessageFetcher (5.5.0 store/kv/).

    gap of a queue, [from, to) ─ pull from the master ─ records, where the next begin ─► store ─ … ─ at `to`: nothing is missing any more

When the master's answer is not one that a pull can have, it has nothing for us, and the queue goes on without these messages. When it does
not answer, it is asked again in the next round, and the queue waits (csrc/store/compaction.h).

Threads  one event loop; the store writes in its executor. Bounds: PULLS_A_ROUND pulls of PULL_MESSAGES a round, for all queues together,
         because the slave copies nothing else meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from dataclasses import dataclass
from typing import Final, Protocol

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError
from ..remoting.headers import HeaderError, PullMessageRequestHeader, PullMessageResponseHeader
from .callers import Caller

log = logging.getLogger(__name__)

GROUP: Final = "TOOLS_CONSUMER"
"""Every broker of both products has it."""
FLAG_SUBSCRIPTION: Final = 4
PULL_MESSAGES: Final = 32
PULLS_A_ROUND: Final = 1000
TIMEOUT_S: Final = 10.0


class GapStore(Protocol):
    """The part of rocketpy._core.store.MessageStore that is needed."""

    def compacted_gaps(self) -> list[tuple[str, int, int, int]]: ...
    def fill_compacted_gap(self, topic: str, queue_id: int, records: bytes, next_offset: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Gap:
    """The messages that a queue lacks: those at the offsets from `begin` up to, but not including, `end`."""

    topic: str
    queue_id: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What one answer fills. next_offset: where the gap continues; if that is the gap's end, nothing is missing any more."""

    records: bytes
    next_offset: int


def gap_pull(gap: Gap, begin: int) -> PullMessageRequestHeader:
    return PullMessageRequestHeader(
        consumer_group=GROUP,
        topic=gap.topic,
        queue_id=gap.queue_id,
        queue_offset=begin,
        max_msg_nums=PULL_MESSAGES,
        sys_flag=FLAG_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )


def piece_of(gap: Gap, begin: int, answer: Command) -> Piece | None:
    """The piece in an answer; None if it does not answer a pull. Raises HeaderError."""
    if answer.code == ResponseCode.PULL_NOT_FOUND:
        return Piece(b"", gap.end)
    if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED):
        return None
    next_offset = PullMessageResponseHeader.decode(answer.fields).next_begin_offset
    records = bytes(answer.body) if answer.code == ResponseCode.SUCCESS and answer.body else b""
    return Piece(records, next_offset if next_offset > begin else gap.end)


class CompactedGaps:
    """Fetches missing messages of compacted topics. `fill(address)` in each round of copying from the master."""

    def __init__(self, caller: Caller, store: GapStore) -> None:
        self._caller = caller
        self._store = store
        self._has_complained = False

    async def fill(self, address: str) -> None:
        left = PULLS_A_ROUND
        for topic, queue_id, begin, end in self._store.compacted_gaps():
            try:
                left -= await self._fill(address, Gap(topic, queue_id, begin, end), left)
            except (RocketpyError, CommandError, HeaderError, OSError) as error:
                if not self._has_complained:  # once per outage
                    log.warning("what master %s kept of %s/%d cannot be copied: %s; tried again", address, topic, queue_id, error)
                self._has_complained = True
                return
            if left <= 0:
                break
        self._has_complained = False

    async def _fill(self, address: str, gap: Gap, most: int) -> int:
        """Fills one gap with at most `most` pulls; returns how many it took."""
        begin = gap.begin
        for pulls in range(1, most + 1):
            fields = gap_pull(gap, begin).encode()
            answer = await self._caller.call(address, RequestCode.PULL_MESSAGE, fields, timeout_s=TIMEOUT_S)
            piece = piece_of(gap, begin, answer)
            if piece is None:
                log.warning("master %s has kept nothing of %s/%d: %d %s", address, gap.topic, gap.queue_id, answer.code, answer.remark)
                piece = Piece(b"", gap.end)
            put = functools.partial(self._store.fill_compacted_gap, gap.topic, gap.queue_id, piece.records, piece.next_offset)
            await asyncio.get_running_loop().run_in_executor(None, put)
            if piece.next_offset >= gap.end:
                return pulls
            begin = piece.next_offset
        return most
