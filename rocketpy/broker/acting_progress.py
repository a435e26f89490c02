"""Asks the slaves how far they have stood in for this master: when the master returns, and before anything of its own is due.
RocketMQ: BrokerPreOnlineService.syncMetadataReverse (5.3.3 broker/), which goes by versions, and asks each slave once it has connected.

    GET_BROKER_RUNTIME_INFO    where the slave's log ends. If that is past ours, its positions are about messages that we have lost, and
                               none of them is taken
    GET_ALL_DELAY_OFFSET       delayed messages below this offset were delivered, except those that are set aside. It also lists the
                               prepared messages that are set aside: they are copied behind the others here, and the group's offset moves on
    GET_ALL_CONSUMER_OFFSET    prepared messages below this offset were ended or passed on, checkpoints below the revive group's are over.
                               Offsets of popped topics are not taken: that the slave's log is no longer than ours does not say that it is
                               all in ours, and the checkpoints of what the master gave out might be in the part that is not
    GET_TIMER_CHECK_POINT      slots before this time were delivered, except what is still to be rolled, since a slave rolls later than a
                               master. It is taken only if the slave had all of our log when it stood in: a message that it did not have
                               may be due in one of these slots

Positions move forward only. When a slave does not answer, or is behind, what it passed on is delivered once more.

Threads  one event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from .._core.errors import RocketpyError
from ..remoting.codes import RequestCode
from ..remoting.command import CommandError
from ..remoting.json_codec import read_json
from . import names
from .consumer_offsets import SavedOffsets
from .delay_offsets import SYNC_TIMEOUT_MS, SavedDelayOffsets
from .json_members import integer_member, object_member
from .parts import Parts, read_object
from .set_aside import HALVES_SET_ASIDE, SetAside, offsets_of
from .timers import ACTING_ASIDE, ACTING_BELOW, ACTING_LOG_END, ACTING_READ_MS, CHECKPOINT
from .transaction_checks import GROUP, HALVES, Fate

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 3.0


async def take_acting_progress(parts: Parts, slaves: Iterable[str]) -> None:
    """Of each slave in turn; what cannot be had is logged."""
    for address in sorted(slaves):
        try:
            await _take_of(parts, address)
        except (RocketpyError, CommandError, ValueError, LookupError, RecursionError) as error:
            log.warning("slave %s did not tell what it has passed on: %s; some of it may come once more", address, error)


async def _take_of(parts: Parts, address: str) -> None:
    client, own_end = parts.client, parts.store.stats()["commit_log_max_offset"]
    facts = read_object(read_json((await client.call(address, RequestCode.GET_BROKER_RUNTIME_INFO, timeout_s=TIMEOUT_S)).body))
    if integer_member(object_member(facts, "table", "runtime info"), "commitLogMaxOffset", None, "runtime info") > own_end:
        log.warning("the log of slave %s is longer than ours: what it has passed on comes once more", address)
        return
    delays = await client.call(address, RequestCode.GET_ALL_DELAY_OFFSET, timeout_s=TIMEOUT_S)
    offsets = await client.call(address, RequestCode.GET_ALL_CONSUMER_OFFSET, timeout_s=TIMEOUT_S)
    told = read_json(delays.body)
    moved = parts.delay_offsets.advance(SavedDelayOffsets.from_json(told))
    moved += parts.offsets.advance(SavedOffsets.from_json(read_json(offsets.body)).without(_is_other), parts.queue_end)
    halves = told.get(HALVES_SET_ASIDE)
    moved += await _take_halves(parts, SetAside.from_json(halves, HALVES_SET_ASIDE)) if halves is not None else 0
    moved += await _take_timers(parts, address, own_end)
    if moved:
        log.warning("slave %s has stood in for this master: %d positions of what it passed on are ours now", address, moved)
        await parts.saved.delay_offsets.save_or_log()
        await parts.saved.offsets.save_or_log()


def _is_other(topic: str, group: str) -> bool:
    return group not in (GROUP, names.REVIVE_GROUP) or topic == names.TRANS_OP_HALF_TOPIC


async def _take_halves(parts: Parts, told: SetAside | None) -> int:
    """1: the others were passed on, and these come behind what is here. A crash before the offset is on disk has them come twice."""
    if told is None:
        return 0
    known = told.cut(parts.store.max_offset(names.TRANS_HALF_TOPIC, 0))
    if known.reached <= parts.offsets.query(GROUP, names.TRANS_HALF_TOPIC, 0):
        return 0
    await parts.reads.run(lambda _: _copy_halves(parts, known))
    parts.offsets.commit(GROUP, names.TRANS_HALF_TOPIC, 0, known.reached, "acting slave")
    return 1


def _copy_halves(parts: Parts, known: SetAside) -> None:
    """In a thread. Those that are undecided still. Raises what the store may: then all behind the first are asked about here, too."""
    operation, position = max(0, parts.offsets.query(GROUP, names.TRANS_OP_HALF_TOPIC, 0)), known.position
    wanted = set(known.offsets)
    while position < known.reached:
        rows, scanned_to = parts.native.undecided_halves(position, operation, HALVES)
        for row in rows:
            if row.queue_offset in wanted:
                parts.native.put_half_again(row.log_offset, Fate.ASKED_FOR, max(0, row.check_times))
        if scanned_to <= position:
            break
        position = scanned_to
    parts.ha.durable_log.wait_durable(parts.ha.durable_log.mark(), SYNC_TIMEOUT_MS)


async def _take_timers(parts: Parts, address: str, own_end: int) -> int:
    """1: what its slots held is not delivered here."""
    if not parts.config.boolean("timerWheelEnable"):
        return 0
    answer = await parts.client.call(address, RequestCode.GET_TIMER_CHECK_POINT, timeout_s=TIMEOUT_S)
    if integer_member(answer.fields, ACTING_LOG_END, -1, "timer checkpoint") != own_end or len(answer.body) < CHECKPOINT.size:
        return 0
    until_ms, _, queue_offset, *_ = CHECKPOINT.unpack_from(answer.body)
    aside = answer.fields.get(ACTING_ASIDE, "")
    but = list(offsets_of(aside, ACTING_ASIDE)) if aside else []
    if but:
        until_ms = max(until_ms, integer_member(answer.fields, ACTING_READ_MS, 0, "timer checkpoint"))
        # what a slave that was started again has entered since may wait in slots that were over before
        queue_offset = min(queue_offset, integer_member(answer.fields, ACTING_BELOW, queue_offset, "timer checkpoint"))
    parts.native.set_timers_passed_on(until_ms, queue_offset, but)
    return 1
