"""Consumer offsets on their way to config/consumerOffset.json, once messages were popped: an offset covers what is popped and not acked
because its checkpoint is in the log. So it is written behind a sync of the log; a power cut takes no checkpoint that an offset relies on.
RocketMQ writes the file whatever is on disk.

Threads  `snapshot` on the event loop, `text` in a thread of the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ha.service import DurableLog, LogMark
from .consumer_offsets import ConsumerOffsets, OffsetsSnapshot
from .delay_offsets import SYNC_TIMEOUT_MS


class DurableOffsets:
    """The snapshot and the text of the file."""

    def __init__(self, offsets: ConsumerOffsets, log: DurableLog, pop_stats: Callable[[], Mapping[str, int]], *, light: bool) -> None:
        """light: see OffsetsSnapshot.text."""
        self._offsets = offsets
        self._log = log
        self._pop_stats = pop_stats
        self._light = light

    def snapshot(self) -> tuple[OffsetsSnapshot, LogMark | None]:
        """The offsets, and below which end of the log their checkpoints lie; None: there are none."""
        offsets, stats = self._offsets.snapshot(), self._pop_stats()
        has_popped = stats["pops_found"] or stats["revived"]
        return offsets, self._log.mark() if has_popped else None

    def text(self, taken: tuple[OffsetsSnapshot, LogMark | None]) -> str:
        """Blocks. Raises what the sync may."""
        offsets, mark = taken
        if mark is not None:
            self._log.wait_durable(mark, SYNC_TIMEOUT_MS)
        return offsets.text(pretty=True, light=self._light)
