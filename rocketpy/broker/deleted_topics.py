"""Which topics were deleted at the master, as far as its slave can know. Their queues are deleted here too, with the consumers' offsets in
them. RocketMQ's slave keeps the queues, and when such a topic is made again they show the old messages.

    copy ─ same connection ─ next copy without the topic, its version as many changes on ─► deleted
    a connection of another number, or another master asked, in between ─► nobody knows: the table or the disk may have been lost
                             its version as many changes on ─► offsets go: a table that was lost counts its changes from the beginning

It must never delete queues of a topic that exists. A running master cannot lose its table, and counts each change of it. The topic may be
made again while its queues are being deleted, and its messages may arrive before its configuration. So a queue is deleted only if its last
message had arrived before the table without the topic was asked for.

Threads  none: decisions only.
"""

from __future__ import annotations

from collections.abc import Callable

from .masters_answers import MastersAnswers
from .topics import SavedTopics


class DeletedTopics:
    """Finds topics that the master has deleted. `asked` before each request for the master's topics, `take` with the answer; then `topics`
    names those whose queues are to be dropped."""

    def __init__(self, is_system_topic: Callable[[str], bool]) -> None:
        """is_system_topic: whether a topic is one that every broker has, whatever its master's table says."""
        self.topics: set[str] = set()
        self.log_offset = 0
        """Messages below it that are of one of these topics are of one that was deleted."""
        self.of_offsets: set[str] = set()
        """Whose consumer offsets are to go, deleted while one of the two was away or not. Whoever has done it discards them."""
        self._is_system_topic = is_system_topic
        self._before: SavedTopics | None = None
        self._answers = MastersAnswers()

    def asked(self, master: str, connection: int | None, log_end: int) -> None:
        """As MastersAnswers.asked. log_end: the end of the slave's own log at that moment."""
        self._answers.asked(master, connection)
        self.log_offset = log_end

    def take(self, copied: SavedTopics, connection: int | None, listed: Callable[[], SavedTopics]) -> None:
        """listed: the slave's own table until now, what tells of the time before its start."""
        before = self._before if self._before is not None else listed()
        gone = {topic for topic in before.configs.keys() - copied.configs.keys() if not self._is_system_topic(topic)}
        if len(gone) > copied.version.counter - before.version.counter:
            gone.clear()
        if self._answers.follows_on(connection):
            self.topics |= gone
        else:
            self.topics.clear()
        self.of_offsets |= gone
        self.topics -= copied.configs.keys()
        self.of_offsets -= copied.configs.keys()
        self._before = copied
