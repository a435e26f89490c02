"""How far the messages of each delay level have been delivered: config/delayOffset.json, request GET_ALL_DELAY_OFFSET.
RocketMQ: ScheduleMessageService, DelayOffsetSerializeWrapper (5.3.3 broker/schedule/, remoting/).

    native delivery (csrc/broker/schedule_service.h) ─ offsets ─► file, every few seconds and at the stop
                                         └──────────────────────► slaves, which do not deliver, until they are masters

A message below a written offset is never delivered again, so the delivered copies have to be on disk first: the log is synced before the
text of the file is made. After a crash a message may come twice, as with RocketMQ, but none is left out.

The file and the answer also list the messages that could not be delivered to their topic (set_aside.py). RocketMQ reads the positions only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ..ha.service import DurableLog, LogMark
from ..remoting.bodies import DataVersion
from .json_members import integer_member, object_member
from .masters_answers import LOG_END, LoggedAnswers
from .names import SCHEDULE_TOPIC
from .persistence import pretty_text
from .set_aside import SET_ASIDE, SetAside

log = logging.getLogger(__name__)

DELAY_OFFSETS_FILE: Final = "delayOffset.json"
LEVELS_MAX: Final = 64
"""RP_DELAY_LEVELS_MAX of csrc/store/consume_queue.h."""
SYNC_TIMEOUT_MS: Final = 10_000
"""For the log to reach the disk; a table that is not written is written the next time."""


class DelaySink(Protocol):
    """The native positions, one per delay level."""

    def put_delay_offset(self, level: int, offset: int) -> None: ...
    def delay_offsets(self) -> list[tuple[int, int]]: ...
    def put_delay_aside(self, level: int, reached: int, offsets: list[int]) -> None: ...
    def delay_aside(self, level: int) -> tuple[int, list[int]] | None: ...


@dataclass(frozen=True, slots=True)
class DelayOffsetsSnapshot:
    """The positions at one moment, and the end of the log just after it."""

    version: DataVersion
    offsets: Mapping[int, int]
    aside: Mapping[int, SetAside]
    mark: LogMark

    def to_json(self) -> dict[str, Any]:
        table = {"dataVersion": self.version.to_json(), "offsetTable": dict(sorted(self.offsets.items()))}
        aside = {level: known.to_json() for level, known in sorted(self.aside.items())}
        return {**table, SET_ASIDE: aside} if aside else table


class DelayOffsets:
    """The table of positions; the numbers themselves are native."""

    def __init__(self, sink: DelaySink, delay_log: DurableLog, now_ms: Callable[[], int], version_step: int) -> None:
        self._sink = sink
        self._log = delay_log
        self._now_ms = now_ms
        self._version_step = version_step
        self._version = DataVersion(now_ms())
        self._delivered = 0  # when the version was made
        self._other: dict[int, int] = {}  # of levels that messageDelayLevel names no longer
        self._other_aside: dict[int, SetAside] = {}

    def offsets(self) -> dict[int, int]:
        """The positions of the levels from which anything was delivered."""
        native = {level: offset for level, (offset, _) in enumerate(self._sink.delay_offsets(), start=1) if offset >= 0}
        return {**self._other, **native}

    def aside(self) -> dict[int, SetAside]:
        """What is set aside, by level. To be read after the offsets."""
        return {**self._other_aside, **self._native_aside(len(self._sink.delay_offsets()))}

    def _native_aside(self, levels: int) -> dict[int, SetAside]:
        known = {level: self._sink.delay_aside(level) for level in range(1, levels + 1)}
        return {level: SetAside(pair[0], tuple(pair[1])) for level, pair in known.items() if pair is not None}

    def state(self) -> object:
        """A value that differs whenever the file would."""
        return self.offsets(), self.aside()

    def ends(self) -> dict[int, tuple[int, int]]:
        """(offset, end of the queue) by level, for operators."""
        return {level: pair for level, pair in enumerate(self._sink.delay_offsets(), start=1) if pair[0] >= 0}

    def stranded(self, max_offset: Callable[[str, int], int]) -> dict[int, int]:
        """How many messages wait in each level that messageDelayLevel no longer names; levels without any are left out.

        max_offset: the end of a topic's queue, 0 if there is none.
        """
        beyond = range(len(self._sink.delay_offsets()) + 1, LEVELS_MAX + 1)
        waiting = {level: max_offset(SCHEDULE_TOPIC, level - 1) - self._other.get(level, 0) for level in beyond}
        return {level: count for level, count in waiting.items() if count > 0}

    def snapshot(self) -> DelayOffsetsSnapshot:
        offsets, aside = self.offsets(), self.aside()
        offsets |= {level: known.position for level, known in aside.items()}  # which may have moved in between
        delivered = sum(offsets.values())
        if delivered - self._delivered >= self._version_step:
            self._version, self._delivered = self._version.next(now_ms=self._now_ms()), delivered
        return DelayOffsetsSnapshot(self._version, offsets, aside, self._log.mark())

    def durable_text(self, snapshot: DelayOffsetsSnapshot) -> str:
        """The text of the file. Returns once the log is on disk as far as the text refers to it. Blocks. Raises what the sync may raise."""
        self._log.wait_durable(snapshot.mark, SYNC_TIMEOUT_MS)
        return pretty_text(snapshot.to_json())

    def load(self, saved: SavedDelayOffsets) -> bool:
        """Takes positions over, from a file before anything is delivered, or on a slave from its master. True if one differs."""
        before, known = self.offsets(), self.aside()
        levels = len(self._sink.delay_offsets())
        for level, offset in saved.offsets.items():
            aside = saved.aside.get(level)
            if level > levels:
                self._other[level] = offset
                self._other_aside = {**self._other_aside, level: aside} if aside is not None else self._other_aside
            elif before.get(level) != offset or known.get(level) != aside:
                self._put(level, aside or SetAside(offset))
        self._version = saved.version
        after = self.offsets()
        self._delivered = sum(after.values())
        return after != before or self.aside() != known

    def hold_back(self, end_of: Callable[[int], int]) -> int:
        """Moves positions past the end of their level's queue back to that end. Returns how many moved. The file of another store has such
        positions, and so has that of a slave that copies from RocketMQ; the messages that get those offsets have not been delivered.
        end_of: the end of a level's queue."""
        known, moved = self.aside(), 0
        for level, offset in self.offsets().items():
            said = known.get(level, SetAside(offset))
            if (held := said.cut(end_of(level))) == said:
                continue
            moved += 1
            if level in self._other:
                self._other[level] = held.position
                self._other_aside = {number: aside for number, aside in self._other_aside.items() if number != level}
            else:
                self._put(level, held)
        return moved

    def _put(self, level: int, reached: SetAside) -> None:
        if reached.offsets:
            self._sink.put_delay_aside(level, reached.reached, list(reached.offsets))
        else:
            self._sink.put_delay_offset(level, reached.reached)

    def advance(self, saved: SavedDelayOffsets) -> int:
        """Moves positions forward to those of a slave that delivered meanwhile, none past its queue's end here; how many moved."""
        moved, native = 0, self._sink.delay_offsets()
        known = self._native_aside(len(native))
        for level, (offset, end) in enumerate(native, start=1):
            ours = known.get(level, SetAside(max(0, offset)))
            joined = ours.joined(saved.aside.get(level, SetAside(saved.offsets.get(level, 0))).cut(end))
            if joined != ours:
                self._put(level, joined)
                moved += 1
        return moved

    def take_back(self, saved: SavedDelayOffsets) -> None:
        """The positions that its file holds are those of a broker whose own deliveries since then may have been taken back."""
        native = self._sink.delay_offsets()
        reached = self._native_aside(len(native))
        for level, (offset, _) in enumerate(native, start=1):
            known = saved.aside.get(level, SetAside(saved.offsets.get(level, 0)))
            if known.position < offset or known.reached < reached.get(level, SetAside(offset)).reached:
                self._put(level, known)


@dataclass(frozen=True, slots=True)
class SavedDelayOffsets:
    """The contents of config/delayOffset.json, or of a master's answer to GET_ALL_DELAY_OFFSET."""

    offsets: Mapping[int, int]
    version: DataVersion
    log_end: int = 0
    """Below it lies what was delivered; 0 where that is not said, in a file or by a master that is RocketMQ."""
    aside: Mapping[int, SetAside] = field(default_factory=dict)
    """Of levels that are in offsets, too."""

    @staticmethod
    def from_json(value: Any) -> SavedDelayOffsets:
        """Raises ValueError. Files of 4.x have no dataVersion."""
        if not isinstance(value, Mapping):
            raise ValueError(f"delay offsets are {type(value).__name__}, expected an object")
        table = object_member(value, "offsetTable", "delay offsets")
        offsets, where = {}, "offsetTable of the delay offsets"
        for level in table:
            number = integer_member({"a level": level}, "a level", None, where)
            offset = integer_member(table, level, 0, where)
            if 1 <= number < 1 << 31 and offset >= 0:
                offsets[number] = offset
            else:
                log.error("delay level %d at offset %d is left out: levels are 1 to 2147483647, offsets begin at 0", number, offset)
        said = value.get(SET_ASIDE)
        known = {level: said.get(str(level)) for level in offsets} if isinstance(said, Mapping) else {}
        read = {level: SetAside.from_json(each, f"{SET_ASIDE}.{level}") for level, each in known.items() if each is not None}
        aside = {level: each for level, each in read.items() if each is not None and each.position == offsets[level]}
        version = DataVersion.from_json(object_member(value, "dataVersion", "delay offsets"))
        return SavedDelayOffsets(offsets, version, integer_member(value, LOG_END, 0, "delay offsets"), aside)


class CopiedDelayOffsets:
    """A slave's copy of its master's positions, taken over once the slave's own log has what they say was delivered."""

    def __init__(self, offsets: DelayOffsets) -> None:
        self._offsets = offsets
        self._answers: LoggedAnswers[SavedDelayOffsets] = LoggedAnswers()

    def take(self, copied: SavedDelayOffsets, log_end: int, connection: int | None) -> bool:
        """log_end: of the slave's log; connection: the one that the slave receives its log by. True if a position has changed."""
        logged = self._answers.take(copied, log_end, connection)
        return logged is not None and self._offsets.load(logged)
