"""Queues whose messages a live group does not fetch. A consumer that lost one of its queues does not report it, and a lag summed up over
many queues hides it.

A group without clients is away, not stalled; a group that has pulled everything and has not acknowledged it yet is at work. Decisions only:
rows in, warnings out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

WARNED_MAX: Final = 10
"""Queues that one turn names; how many more there are is said."""
CLIENTS_NAMED: Final = 5

Row = tuple[str, str, int, int, int]
"""(group, topic, queue id, messages behind what is committed, ms without a pull or a commit that moved on)."""


@dataclass(frozen=True, slots=True)
class Stalled:
    """A queue that a live group does not fetch from."""

    group: str
    topic: str
    queue_id: int
    messages: int
    idle_ms: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.group, self.topic, self.queue_id

    def warning(self, clients: Sequence[str]) -> str:
        named = ", ".join(clients[:CLIENTS_NAMED]) + (f" and {len(clients) - CLIENTS_NAMED} more" if len(clients) > CLIENTS_NAMED else "")
        return (
            f"queue {self.queue_id} of {self.topic} is {self.messages:,} messages behind, and {self.group} has neither pulled nor "
            f"committed there for {self.idle_ms // 1000} s; its clients: {named}"
        )


class StalledQueues:
    """The queues that are stalled now, and which of them have not been reported yet."""

    def __init__(self, clients_of: Callable[[str], Sequence[str]], is_consumed: Callable[[str, str], bool]) -> None:
        self._clients_of = clients_of
        self._is_consumed = is_consumed
        self._told: set[tuple[str, str, int]] = set()

    def now(self, rows: Iterable[Row]) -> list[Stalled]:
        """The stalled queues, of groups with clients that subscribe to the topic."""
        return [Stalled(*row) for row in rows if self._clients_of(row[0]) and self._is_consumed(row[0], row[1])]

    def counts(self, rows: Iterable[Row]) -> Counter[tuple[str, str]]:
        """The number of queues by (group, topic)."""
        return Counter((stalled.group, stalled.topic) for stalled in self.now(rows))

    def news(self, rows: Iterable[Row]) -> list[str]:
        """A warning for each queue that was not stalled at the last call, the one with the most messages first."""
        stalled = self.now(rows)
        fresh = sorted((each for each in stalled if each.key not in self._told), key=lambda each: -each.messages)
        self._told = {each.key for each in stalled}
        lines = [each.warning(self._clients_of(each.group)) for each in fresh[:WARNED_MAX]]
        if len(fresh) > WARNED_MAX:
            lines.append(
                f"{len(fresh) - WARNED_MAX} more queues are stalled; rocketmq_consumer_stalled_queues counts them by group and topic"
            )
        return lines
