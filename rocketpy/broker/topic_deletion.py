"""Queues of topics that are deleted: their files go, and a sync makes that outlast a crash, off the event loop.
RocketMQ: DefaultMessageStore.deleteTopics (5.3.3 store/), on a thread of its admin pool and without the sync.

    deleteTopic ────── topic leaves the tables, which are saved ─┐                           ┌─ answer
    cleanUnusedTopic ─ topic in no table ────────────────────────┴─ delete_queues (executor) ┴─► over ─ topic may be made again

A kill in between leaves queues that no table knows. In the opposite order it would leave a topic whose queues begin again, with offsets of
groups past their ends, and the groups would skip as many new messages.

A topic of that name is made only when `over` has come: the new queues have the names of the old ones, and would be deleted with them.

Threads  one event loop; the store's part runs in its default executor, one topic at a time: they would wait for the same lock and disk.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from .._core.errors import RocketpyError
from ..remoting.codes import ResponseCode
from ..remoting.command import CommandError


class TopicDeletion:
    """Deletes the queues of topics. Call `await delete_queues(topic)` in the same turn of the loop in which the topic has left the
    table."""

    def __init__(self, delete: Callable[..., int]) -> None:
        """delete: MessageStore.delete_topic, or a function like it."""
        self._delete = delete
        self._lock = asyncio.Lock()
        self._under_way: Counter[str] = Counter()

    def is_under_way(self, topic: str) -> bool:
        return self._under_way[topic] > 0

    async def delete_queues(self, topic: str, save_tables: Callable[[], Awaitable[None]] | None = None) -> None:
        """Returns when they are gone for good. save_tables comes first, None where the topic is in none; it logs what it cannot save, as a
        full disk may need the queues' space. Raises CommandError."""
        self._under_way[topic] += 1
        try:
            async with self._lock:
                if save_tables is not None:
                    await save_tables()
                await self._delete_now(topic)
        except RocketpyError as error:
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"queues of topic {topic} could not be deleted: {error}") from error
        finally:
            self._under_way[topic] -= 1
            if not self._under_way[topic]:
                del self._under_way[topic]

    async def delete_old(self, topic: str, log_offset: int) -> bool:
        """At a slave, which has the messages of a new topic before the topic: only queues that end below log_offset. True when no others
        are left. Raises RocketpyError."""
        async with self._lock:
            return await self._delete_now(topic, log_offset) == 0

    async def _delete_now(self, topic: str, *log_offset: int) -> int:
        deleting = asyncio.get_running_loop().run_in_executor(None, self._delete, topic, *log_offset)
        try:
            return await asyncio.shield(deleting)
        except asyncio.CancelledError:
            await asyncio.wait([deleting])  # until the thread is done nobody may make the topic again
            raise

    async def over(self, topic: str) -> None:
        """Returns when no deletion of the topic's queues is under way, most of the time at once."""
        while self.is_under_way(topic):
            async with self._lock:  # behind those that wait for it
                pass
