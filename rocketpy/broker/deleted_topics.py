"""Which topics were deleted at the master, as far as its slave can know: their queues go here too. RocketMQ's slave keeps them, and when
such a topic is made again its queues show the old messages.

    copy ─ same connection ─ next copy without the topic, its version as many changes on ─► deleted
    a connection of another number in between ─► nobody knows: the master may have lost its table, or its disk

What it must never do is drop queues of a topic that is there. A master that runs cannot lose its table, and counts each change of it. The
topic may be made again while its queues go, and its messages come before it does: so only queues go whose last message had come before
the table without the topic was asked for.

Threads  none: decisions only.
"""

from __future__ import annotations

from .topics import SavedTopics


class DeletedTopics:
    """`asked` before each request for the master's topics, `take` with its answer; then `topics` have queues to drop."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.log_offset = 0
        """Messages below it that are of one of these topics are of one that was deleted."""
        self._connection: int | None = None
        self._before: SavedTopics | None = None
        self._asked_by: int | None = None

    def asked(self, connection: int | None, log_end: int) -> None:
        self._asked_by = connection
        self.log_offset = log_end

    def take(self, copied: SavedTopics, connection: int | None) -> None:
        before = self._before
        if connection is None or not connection == self._asked_by == self._connection:
            self.topics.clear()
        elif before is not None:
            gone = before.configs.keys() - copied.configs.keys()
            if len(gone) <= copied.version.counter - before.version.counter:
                self.topics |= gone
        self.topics -= copied.configs.keys()
        self._before = copied
        self._connection = connection
