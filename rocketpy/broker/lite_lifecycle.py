"""How long lite topics live: those without new messages for lite.topic.expiration minutes are deleted, and all of a topic with it.
RocketMQ: AbstractLiteLifecycleManager, LiteLifecycleManager (5.5.0 broker/lite/).

    every liteTtlCheckInterval ─ ends of the lite queues ─ last message's time, where the end has moved (executor) ─ expired
        ─ queue deleted, unless a message came meanwhile ─ offsets of the topic's groups, then subscriptions, forgotten ─ offsets saved

A kill in between leaves offsets of queues that begin anew: the start holds them back to the queues' ends. A slave does the same with its
own queues, as RocketMQ's does; a lite queue that begins anew at its master begins anew here (docs/design-light-queues.md).

Bounds: EXPIRED_MAX lite topics a round, the others in the next, which follows at once; a time is kept for each lite queue there is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from .._core.errors import RocketpyError
from .._core.store import MessageStore
from ..awake_clock import monotonic_ms
from . import names
from .parts import Parts, now_ms
from .topics import is_lite_parent, lite_minutes

log = logging.getLogger(__name__)

EXPIRED_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class LiteQueue:
    """The light queue of a lite topic that has messages: its end, and when its last message was stored; that time is negative if the
    message is no longer in the log."""

    name: str
    end: int
    last_ms: int


def is_expired(queue: LiteQueue, minutes: int, least_ms: int, now_ms: int) -> bool:
    """`minutes`: the parent topic's setting. A message from the future, stored before the clock was set back, keeps the queue."""
    idle_ms = now_ms - max(0, queue.last_ms)
    return minutes > 0 and idle_ms >= least_ms and idle_ms > minutes * 60_000


def lite_queues(store: MessageStore, parents: Iterable[str] | None = None) -> list[str]:
    """The queues that have, or had, messages; of all parent topics, or of some. On any thread."""
    wanted = None if parents is None else set(parents)
    found = ((topic, names.lite_parts(topic)) for topic, _ in store.queues() if topic.startswith(names.LITE_QUEUE_PREFIX))
    return [topic for topic, parts in found if parts and (wanted is None or parts[0] in wanted) and store.max_offset(topic, 0) > 0]


def read_queues(store: MessageStore, parents: Iterable[str], known: Mapping[str, LiteQueue]) -> dict[str, LiteQueue]:
    """On any thread. A queue that has not grown is not read again."""
    result = {}
    for name in lite_queues(store, parents):
        end, before = store.max_offset(name, 0), known.get(name)
        is_same = before is not None and before.end == end
        result[name] = before if before is not None and is_same else LiteQueue(name, end, store.time_at(name, 0, end - 1))
    return result


class LiteLifecycle:
    """Deletes lite topics that have expired."""

    def __init__(self, parts: Parts, *, least_ms: int, started_ms: int) -> None:
        """least_ms: minLiteTTl, which also applies from the start on. started_ms: when the broker started, on the monotonic clock."""
        self._parts = parts
        self._least_ms = least_ms
        self._started_ms = started_ms
        self._known: dict[str, LiteQueue] = {}

    async def clean_expired(self) -> int:
        """Deletes expired lite topics and returns how many. Raises RocketpyError."""
        parts = self._parts
        parents = {config.topic_name: lite_minutes(config) for config in parts.topics if is_lite_parent(config)}
        minutes = {topic: lives for topic, lives in parents.items() if lives > 0}
        if not minutes or monotonic_ms() - self._started_ms < self._least_ms:
            self._known = {}
            return 0
        log_end = int(parts.store.stats()["commit_log_end_offset"])  # first: what comes behind it keeps its queue
        known = self._known
        self._known = await parts.reads.run(lambda store: read_queues(store, minutes, known))
        now, least_ms = now_ms(), self._least_ms
        expired = [queue.name for queue in self._known.values() if is_expired(queue, minutes[_parent(queue.name)], least_ms, now)]
        gone = 0
        for name in expired[:EXPIRED_MAX]:
            if await delete_lite_queue(parts, name, log_end):
                self._known.pop(name, None)
                gone += 1
        if gone:
            log.info("%d lite topics of %d had no message for so long, and are deleted", gone, len(self._known))
            await parts.saved.offsets.save_or_log()
        return gone

    async def clean_all_expired(self) -> None:
        while await self.clean_expired() >= EXPIRED_MAX:
            pass

    async def look(self) -> None:
        """One round of the housekeeping."""
        try:
            await self.clean_all_expired()
        except RocketpyError as error:
            log.error("expired lite topics could not be deleted, they are tried again: %s", error)


async def delete_lite_queue(parts: Parts, name: str, log_end: int) -> bool:
    """Deletes a light queue, unless it has a message behind log_end. The offsets go last, so that what a pop still writes about the old
    queue goes with them. Raises RocketpyError."""
    if not await parts.deletion.delete_old(name, log_end):
        return False
    parent = _parent(name)
    for group in [config.group for config in parts.groups if config.lite_topic == parent]:
        parts.offsets.delete(group, name)
    parts.lite.forget(name)
    parts.topics.forget_light(name)
    return True


async def delete_lite_queues_of(parts: Parts, parent: str) -> None:
    """Deletes the lite topics of a topic that is being deleted. Raises RocketpyError."""
    for name in await parts.reads.run(lambda store: lite_queues(store, (parent,))):
        await delete_lite_queue(parts, name, int(parts.store.stats()["commit_log_end_offset"]))


def _parent(queue: str) -> str:
    parts = names.lite_parts(queue)
    assert parts is not None
    return parts[0]
