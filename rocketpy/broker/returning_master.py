"""A master that returns takes consumer offsets from its slaves before it serves anybody: offsets that were committed at a slave while it
was away, or that were not in its file yet when it was killed. Otherwise a consumer that starts again would read messages that its group has
already read.
RocketMQ: BrokerPreOnlineService.syncMetadataReverse (5.3.3 broker/), with enableSlaveActingMaster only.

Offsets move forward only, and not past the end of this master's queues: if it has lost messages that a slave still has, their offsets are
given to new messages, which nobody has read. Once there are such messages, nothing is taken from that slave any more. Offsets of popped
topics stay as the master's file has them, because their checkpoints may be among the lost messages.

Threads  one event loop, at the start. A slave that does not answer holds the start up for TIMEOUT_S at most.
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
from .log_tail import LOG_TAIL, LogTail
from .masters_answers import LOG_END
from .parts import Parts
from .settings import is_elected
from .slave_synchronize import is_logged

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 2.0


async def return_as_master(parts: Parts, others: Iterable[str]) -> None:
    """Before the first client comes: it would be told offsets that are behind; and before anything is delivered."""
    slaves = sorted(frozenset(others))
    answers, parted = await asyncio.gather(
        asyncio.gather(*(_offsets_of(parts.client, slave) for slave in slaves)),
        asyncio.gather(*(_has_parted(parts, slave) for slave in slaves)),
    )
    offsets = {slave: saved for slave, saved, is_other in zip(slaves, answers, parted, strict=True) if not is_other}
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


async def _has_parted(parts: Parts, slave: str) -> bool:
    """Whether the slave's log has other bytes where ours ends, or where its own does if that is before. Of an elected master's slaves all
    are cut to its log, and one of RocketMQ's does not say it."""
    if is_elected(parts.config):
        return False
    own_end = str(parts.store.stats()["commit_log_max_offset"])
    try:
        answer = await parts.client.call(slave, RequestCode.GET_ALL_DELAY_OFFSET, {LOG_END: own_end}, timeout_s=TIMEOUT_S)
        told = read_json(answer.body).get(LOG_TAIL) if answer.body else None
        if told is None:
            return False
        tail = LogTail.from_json(told)
        if await parts.reads.run(tail.is_of):
            return False
    except (RocketpyError, CommandError, ValueError, RecursionError):  # it is asked for more, and then it is said
        return False
    log.error(
        "the log of slave %s is another one than ours: none of its offsets are taken, nor is what it has passed on; save what its log has "
        "and ours has not, if you need it, then stop it, empty its store and start it again",
        slave,
    )
    return True


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
