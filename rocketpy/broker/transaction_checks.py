"""Prepared messages that nobody has committed or rolled back: their producers are asked, and after many times they are given up.
RocketMQ: TransactionalMessageCheckService, TransactionalMessageServiceImpl.check (5.3.3 broker/transaction/).

    every transactionCheckInterval ─ undecided ones, native ─ fate_of each ─┬─ copied behind the others, its producer asked
                                                                            ├─ immune: copied behind the others
                                                                            ├─ given up: TRANS_CHECK_MAX_TIME_TOPIC
                                                                            └─ young, or of this round: it ends, its offset stays

The offset of the group CID_RMQ_SYS_TRANS in both topics says how far the rounds have got. Nothing below it is looked at again, so it moves
only when everything that was copied or committed before it is on disk. In the topic of operations it stays below those that copies need
(half_copies.py).
Threads  one event loop; the store is read and written in threads of its reads.
Bounds   ROUND_MS a round, HALVES at once; the records of those whose producers are asked: ASKED_BYTES and one more.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .._core.errors import NotFound, RocketpyError, TooLarge
from .._core.results import HalfCopy, UndecidedHalf
from .._core.store import decode_message
from ..awake_clock import monotonic_ms
from ..remoting.codes import RequestCode
from ..remoting.headers import CheckTransactionStateRequestHeader
from ..remoting.records import place_id
from . import names
from .consumer_offsets import ConsumerOffsets
from .half_copies import HalfCopies
from .parts import Parts, now_ms

log = logging.getLogger(__name__)

GROUP: Final = names.SYSTEM_GROUP_PREFIX + "TRANS"
HALVES: Final = 256
ROUND_MS: Final = 60_000
SYNC_TIMEOUT_MS: Final = 10_000
ASKED_BYTES: Final = 8 << 20
CHECK_TIMES_MAX: Final = (1 << 31) - 1
GIVEN_UP_QUEUES: Final = 1
"""TCMT_QUEUE_NUMS"""


class Fate(enum.IntEnum):
    """What happens to an undecided message: rp_half_fate of csrc/broker/transactions.h."""

    ASKED_FOR = 0
    IMMUNE = 1
    GIVEN_UP = 2
    RESUMED = 3


@dataclass(frozen=True, slots=True)
class CheckRules:
    """When a producer is asked, and how often."""

    timeout_ms: int
    checks_max: int
    reserved_ms: int
    """fileReservedTime: an older message is about to go in any case."""


def fate_of(half: UndecidedHalf, rules: CheckRules, now: int) -> Fate | None:
    """The message's fate; None if it is too young, as are then all behind it. now: ms of the wall clock."""
    age = now - half.born_ms
    if half.check_times >= rules.checks_max or age > rules.reserved_ms:
        return Fate.GIVEN_UP
    if half.immune_s is not None:
        immune_ms = rules.timeout_ms if half.immune_s == -1 else half.immune_s * 1000
        return Fate.IMMUNE if 0 <= age < immune_ms else Fate.ASKED_FOR
    return None if 0 <= age < rules.timeout_ms else Fate.ASKED_FOR


def positions(offsets: ConsumerOffsets) -> tuple[int, int]:
    """How far the checks have decided, in the topics of prepared messages and of operations."""
    half, operation = (offsets.query(GROUP, topic, 0) for topic in (names.TRANS_HALF_TOPIC, names.TRANS_OP_HALF_TOPIC))
    return max(0, half), max(0, operation)


@dataclass(frozen=True, slots=True)
class _Step:
    """What was done with some undecided messages. position: of the first one that is left."""

    position: int
    is_over: bool
    questions: Sequence[HalfCopy]


class TransactionChecks:
    """The rounds of one broker. _reached: where the last step began and where it ended, which the group's offset may not say yet: a slow
    disk has nothing copied twice."""

    def __init__(self, parts: Parts, *, clock_ms: Callable[[], int] = now_ms) -> None:
        self._parts = parts
        self._clock_ms = clock_ms
        self._last_ms = monotonic_ms()
        self._copies = HalfCopies()
        self._reached = (0, 0)
        self._cuts = 0  # of the log that the copies were put into
        self._turn = 0
        self._rounds = asyncio.Lock()

    async def end_rounds(self) -> None:
        """Of a master that has become a slave: returns when no round is under way. What was reached is forgotten, as the log may become
        another one."""
        async with self._rounds:
            self._forget()

    def _forget(self) -> None:
        self._copies = HalfCopies()
        self._reached = (0, 0)

    async def run_if_due(self) -> None:
        """Runs a round if transactionCheckInterval has passed since the last one ended."""
        if monotonic_ms() - self._last_ms < self._parts.settings.transaction_check_interval_ms:
            return
        try:
            async with self._rounds:
                await self.run_round()
        finally:
            self._last_ms = monotonic_ms()

    async def run_round(self) -> None:
        """Looks at all that are undecided now; what this round copies is for the next one, whatever the clock says meanwhile. Raises what
        the store may; the next round goes on where this one got."""
        parts = self._parts
        end, until_ms = parts.store.max_offset(names.TRANS_HALF_TOPIC, 0), monotonic_ms() + ROUND_MS
        if (cuts := parts.store.stats()["commit_log_cuts"]) != self._cuts:  # another member of the group has led
            self._forget()
            self._cuts = cuts
        half, operation = positions(parts.offsets)
        self._copies.begin(half, end)
        if self._reached[0] == half != self._reached[1]:
            half, operation = self._reached[1], await self._move(self._reached[1], operation)
        while not parts.settings.is_slave and monotonic_ms() < until_ms:
            look = (half, operation, HALVES)
            halves, scanned_to = await parts.reads.run(lambda _, look=look: parts.native.undecided_halves(*look))  # type: ignore[misc]
            step = await self._act(halves, scanned_to, end)
            self._reached = (half, step.position)
            self._ask(step.questions)
            if step.position != half:
                operation = await self._move(step.position, operation)
            half = step.position
            if step.is_over or not halves:
                return

    async def _act(self, halves: Sequence[UndecidedHalf], scanned_to: int, end: int) -> _Step:
        settings = self._parts.settings
        reserved_ms = self._parts.config.integer("fileReservedTime") * 3_600_000
        rules = CheckRules(settings.transaction_timeout_ms, settings.transaction_checks_max, reserved_ms)
        now = self._clock_ms()
        fates = [(half, fate_of(half, rules, now) if half.queue_offset < end else None) for half in halves]
        if any(fate is Fate.GIVEN_UP for _, fate in fates):
            await self._parts.make_topic(names.TRANS_CHECK_MAX_TIME_TOPIC, GIVEN_UP_QUEUES)
        return await self._parts.reads.run(lambda _: self._copy(fates, scanned_to))

    def _copy(self, fates: Sequence[tuple[UndecidedHalf, Fate | None]], scanned_to: int) -> _Step:
        """In a thread. Ends at the first without a fate or that cannot be stored now; one that never can be is passed over. Large messages
        are copied in several steps."""
        questions: list[HalfCopy] = []
        asked_bytes = 0
        for half, fate in fates:
            if fate is None or asked_bytes >= ASKED_BYTES:
                return _Step(half.queue_offset, fate is None, questions)
            try:
                copy = self._parts.native.put_half_again(half.log_offset, fate, min(half.check_times + 1, CHECK_TIMES_MAX))
            except (NotFound, TooLarge) as error:
                log.error("nobody is asked about the prepared message at log offset %d any more: %s", half.log_offset, error)
                continue
            except RocketpyError as error:
                log.warning("the prepared message at log offset %d stays where it is: %s", half.log_offset, error)
                return _Step(half.queue_offset, True, questions)
            if fate is Fate.GIVEN_UP:
                log.error("the prepared message at log offset %d is given up after %d checks", half.log_offset, half.check_times)
                continue
            self._copies.add(copy.queue_offset, copy.first_offset)
            if fate is Fate.ASKED_FOR:
                questions.append(copy)
                asked_bytes += len(copy.question)
        return _Step(scanned_to, False, questions)

    async def _move(self, half: int, operation: int) -> int:
        """The new offsets are the group's once copies, and what was committed, are on disk, and nobody takes them back. The one among the
        operations."""
        parts, cuts = self._parts, self._cuts
        end = parts.store.stats()["commit_log_end_offset"]
        await parts.reads.run(lambda store: store.wait_flushed(end, SYNC_TIMEOUT_MS, cuts))
        firsts, needed = self._copies.firsts(half), operation
        if firsts is not None:
            needed = await parts.reads.run(lambda _: parts.native.needed_operation(operation, half, firsts))
        for topic, offset in ((names.TRANS_HALF_TOPIC, half), (names.TRANS_OP_HALF_TOPIC, needed)):
            if offset != max(0, parts.offsets.query(GROUP, topic, 0)):
                parts.offsets.commit(GROUP, topic, 0, offset, "transaction checks")
        self._copies.pass_to(half)
        self._reached = (half, half)
        return needed

    # ---- asking ----

    def _ask(self, questions: Sequence[HalfCopy]) -> None:
        unheard = Counter(group for question in questions if (group := self._ask_one(question)) is not None)
        for group, count in unheard.items():
            log.warning("Check transaction failed, channel is null. groupId=%s: %d messages wait for a producer of the group", group, count)

    def _ask_one(self, copy: HalfCopy) -> str | None:
        """Asks about one message. None, or the group that has no producer here now."""
        parts = self._parts
        message = decode_message(copy.question)
        key = message.properties.get("UNIQ_KEY")
        header = CheckTransactionStateRequestHeader(
            topic=names.TRANS_HALF_TOPIC,
            tran_state_table_offset=copy.queue_offset,
            commit_log_offset=copy.log_offset,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=place_id(message.store_host, copy.log_offset),
            bname=parts.settings.broker_name,
        )
        group = message.properties.get("PGROUP", "")
        producers = parts.producers.clients(group) or []
        self._turn += 1
        for index in range(len(producers)):
            client = producers[(self._turn + index) % len(producers)]
            if parts.link.notify(client.channel, RequestCode.CHECK_TRANSACTION_STATE, header.encode(), copy.question):
                return None
        return group
