"""Consumer offsets on their way to config/consumerOffset.json. A group that pops has an offset that already covers messages which are not
acked: their checkpoints, which are in the log, bring them back. So once messages were popped the file is written only after a sync of the
log: no power cut takes a checkpoint that a written offset relies on. RocketMQ writes the file whatever is on disk.

Threads  `snapshot` on the event loop, `text` in a thread of the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ha.service import DurableLog, LogMark
from .consumer_offsets import ConsumerOffsets, OffsetsSnapshot
from .delay_offsets import SYNC_TIMEOUT_MS


class DurableOffsets:
    """Makes the snapshot and the text of the file of consumer offsets."""

    def __init__(self, offsets: ConsumerOffsets, log: DurableLog, pop_stats: Callable[[], Mapping[str, int]], *, light: bool) -> None:
        """light: see OffsetsSnapshot.text."""
        self._offsets = offsets
        self._log = log
        self._pop_stats = pop_stats
        self._light = light

    def snapshot(self) -> tuple[OffsetsSnapshot, LogMark | None]:
        """The offsets, and the end of the log below which the checkpoints lie that they rely on; None: nothing was popped."""
        offsets, stats = self._offsets.snapshot(), self._pop_stats()
        has_popped = stats["pops_found"] or stats["revived"]
        return offsets, self._log.mark() if has_popped else None

    def text(self, taken: tuple[OffsetsSnapshot, LogMark | None]) -> str:
        """The text of the file, once the log is synced as far as the offsets need it. Blocks. Raises what the sync raises."""
        offsets, mark = taken
        if mark is not None:
            self._log.wait_durable(mark, SYNC_TIMEOUT_MS)
        return offsets.text(pretty=True, light=self._light)
