"""A master that returns takes consumer offsets from its slaves before it serves anybody: offsets that were committed at a slave while it
was away, or that were not in its file yet when it was killed. Otherwise a consumer that starts again would read messages that its group has
already read.
RocketMQ: BrokerPreOnlineService.syncMetadataReverse (5.3.3 broker/), with enableSlaveActingMaster only.

Offsets move forward only, and not past the end of this master's queues: if it has lost messages that a slave still has, their offsets are
given to new messages, which nobody has read. Offsets of popped topics stay as the master's file has them, because their checkpoints may be
among the lost messages.

Threads  one event loop, at the start. A slave that does not answer holds the start up for TIMEOUT_S at most.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable
from typing import Final

from .._core.errors import RocketpyError
from ..remoting.codes import RequestCode
from ..remoting.command import CommandError
from ..remoting.json_codec import read_json
from .acting_progress import take_acting_progress
from .acting_state import may_act
from .callers import Caller
from .consumer_offsets import ConsumerOffsets, SavedOffsets
from .parts import Parts
from .slave_synchronize import is_logged

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 2.0


async def take_offsets_of_slaves(
    client: Caller,
    slaves: Iterable[str],
    offsets: ConsumerOffsets,
    end_of: Callable[[str, int], int | None],
    is_logged: Callable[[str, str], bool],
) -> int:
    """How many offsets moved. `end_of` says where a topic's queue ends here, None for topics that are not here; is_logged as of
    slave_synchronize."""
    addresses = sorted(slaves)
    answers = await asyncio.gather(*(_offsets_of(client, address) for address in addresses))
    moved = 0
    for address, saved in zip(addresses, answers, strict=True):
        if saved is not None and (count := offsets.advance(saved.without(is_logged), end_of)):
            log.info("%d consumer offsets were committed at slave %s while this master was away: it goes on from them", count, address)
            moved += count
    return moved


async def return_as_master(parts: Parts, others: Iterable[str]) -> None:
    """Before the first client comes: it would be told offsets that are behind; and before anything is delivered."""
    addresses = frozenset(others)
    is_about_log = functools.partial(is_logged, parts.topics)
    if await take_offsets_of_slaves(parts.client, addresses, parts.offsets, parts.queue_end, is_about_log):
        await parts.saved.offsets.save_or_log()
    if may_act(parts.config):
        await take_acting_progress(parts, addresses)


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
