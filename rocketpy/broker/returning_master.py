"""A master that returns takes consumer offsets from its slaves before it serves anybody: offsets that were committed at a slave while it
was away, or that were not in its file yet when it was killed. Otherwise a consumer that starts again would read messages that its group has
already read.
RocketMQ: BrokerPreOnlineService.syncMetadataReverse (5.3.3 broker/), with enableSlaveActingMaster only.

Offsets move forward only, and not past the end of this master's queues: if it has lost messages that a slave still has, their offsets are
given to new messages, which nobody has read. Once there are such messages, nothing is taken from that slave any more, and nothing from one
that fails to tell its log's tail. RocketMQ's slaves have no tail to tell: the lengths decide. Offsets of popped
topics stay as the master's file has them, because their checkpoints may be among the lost messages.

Threads  one event loop, at the start. A slave that does not answer holds the start up for TIMEOUT_S, one that told its offsets
and is slow to read its log for TAIL_TIMEOUT_S besides.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from .._core.errors import RocketpyError
from ..remoting.codes import RequestCode
from ..remoting.command import CommandError
from ..remoting.json_codec import read_json
from .acting_progress import take_acting_progress
from .acting_state import may_act
from .callers import Caller
from .consumer_offsets import SavedOffsets
from .log_tail import LOG_BEGIN, LOG_TAIL, LogTail
from .masters_answers import LOG_END
from .parts import Parts
from .settings import is_elected
from .slave_synchronize import is_logged

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 2.0
TAIL_TIMEOUT_S: Final = 10.0
"""Of a slave that has told its offsets: the look at its log waits behind other reads of its store."""
_NO_DELAY_OFFSET: Final = "No delay offset in this broker"
"""What RocketMQ answers then, by SYSTEM_ERROR."""


async def return_as_master(parts: Parts, others: Iterable[str]) -> None:
    """Before the first client comes: it would be told offsets that are behind; and before anything is delivered."""
    slaves = sorted(frozenset(others))
    answers = await asyncio.gather(*(_offsets_of(parts.client, slave) for slave in slaves))
    patience = [TIMEOUT_S if saved is None else TAIL_TIMEOUT_S for saved in answers]
    ours = await asyncio.gather(*(_is_ours(parts, slave, timeout_s) for slave, timeout_s in zip(slaves, patience, strict=True)))
    offsets = {slave: saved for slave, saved, is_ours in zip(slaves, answers, ours, strict=True) if is_ours}
    if _take_offsets(parts, offsets):
        await parts.saved.offsets.save_or_log()
    if may_act(parts.config):
        await take_acting_progress(parts, offsets)


def _take_offsets(parts: Parts, offsets: Mapping[str, SavedOffsets | None]) -> int:
    """How many moved."""
    moved = 0
    for slave, saved in offsets.items():
        if saved is not None and (
            count := parts.offsets.advance(saved.without(functools.partial(is_logged, parts.topics)), parts.queue_end)
        ):
            log.info("%d consumer offsets were committed at slave %s while this master was away: it goes on from them", count, slave)
            moved += count
    return moved


async def _is_ours(parts: Parts, slave: str, timeout_s: float) -> bool:
    """Whether the slave's log is known to have our bytes where ours ends, or where its own does if that is before. Of an elected master's
    slaves all are cut to its log."""
    if is_elected(parts.config):
        return True
    stats, file_size = parts.store.stats(), parts.config.integer("mappedFileSizeCommitLog")
    begin, end = stats["commit_log_min_offset"], stats["commit_log_max_offset"]
    asked = {LOG_BEGIN: str(begin), LOG_END: str(end)}
    try:
        answer = await parts.client.call(slave, RequestCode.GET_ALL_DELAY_OFFSET, asked, timeout_s=timeout_s)
        value = read_json(answer.body) if answer.body else {}
        told = value.get(LOG_TAIL) if isinstance(value, Mapping) else None
        if told is None:
            return True
        tail = LogTail.from_json(told)
        if tail.end <= end and await parts.reads.run(lambda log: tail.is_of(log, file_size)):
            return True
    except (RocketpyError, ValueError, RecursionError) as error:  # CommandError is a RocketpyError
        if isinstance(error, CommandError) and error.remark == _NO_DELAY_OFFSET:
            return True
        log.warning(
            "whether the log of slave %s is ours is not known: %s; nothing is taken from it, and what consumers read there while this "
            "master was away they may get once more",
            slave,
            error,
        )
        return False
    log.error(
        "the log of slave %s is another one than ours: none of its offsets are taken, nor is what it has passed on; save what its log has "
        "and ours has not, if you need it, then stop it, empty its store and start it again",
        slave,
    )
    return False


async def _offsets_of(client: Caller, address: str) -> SavedOffsets | None:
    try:
        answer = await client.call(address, RequestCode.GET_ALL_CONSUMER_OFFSET, timeout_s=TIMEOUT_S)
        return SavedOffsets.from_json(read_json(answer.body)) if answer.body else None
    except (RocketpyError, CommandError, ValueError, RecursionError) as error:
        log.warning(
            "slave %s did not tell which offsets consumers have committed there: %s; what they read while this master was away "
            "they may get once more",
            address,
            error,
        )
        return None
