"""Which topics were deleted at the master, as far as its slave can know: their queues go here too. RocketMQ's slave keeps them, and when
such a topic is made again its queues show the old messages. Their consumers' offsets go with them.

    copy ─ same connection ─ next copy without the topic, its version as many changes on ─► deleted
    a connection of another number, or another master asked, in between ─► nobody knows: the table or the disk may have been lost
                             its version as many changes on ─► offsets go: a table that was lost counts its changes from the beginning

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
        self.of_offsets: set[str] = set()
        """Whose consumer offsets are to go, deleted while one of the two was away or not. Whoever has done it discards them."""
        self._before: SavedTopics | None = None
        self._source: tuple[str, int] | None = None
        self._asked: tuple[str, int | None] = ("", None)

    def asked(self, master: str, connection: int | None, log_end: int) -> None:
        """master: whom for the table; connection: to whom for the log."""
        self._asked = (master, connection)
        self.log_offset = log_end

    def take(self, copied: SavedTopics, connection: int | None, listed: SavedTopics) -> None:
        """listed: the slave's own table until now, what tells of the time before its start."""
        master, asked_by = self._asked
        source = (master, connection) if connection is not None and connection == asked_by else None
        before = self._before or listed
        gone = before.configs.keys() - copied.configs.keys()
        if len(gone) > copied.version.counter - before.version.counter:
            gone = set()
        if source is None or source != self._source:
            self.topics.clear()
        else:
            self.topics |= gone
        self.of_offsets |= gone
        self.topics -= copied.configs.keys()
        self.of_offsets -= copied.configs.keys()
        self._before = copied
        self._source = source
