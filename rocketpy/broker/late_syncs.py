"""Whether the commit log's syncs keep up. A disk that hangs fails no call: with ASYNC_FLUSH sends go on being acknowledged, a slave goes
on copying, and nothing says that a power cut would take it.

    mark: the log's end ─► flushed up to it: a new mark
                        └► not at the LOOKS_MAX-th look behind its interval: said once ─► flushed up to it, or cut: said again

Looks are counted, not time: a process that stood still has not waited for its disk meanwhile. Decisions only: figures in, lines out.
"""

from __future__ import annotations

from typing import Final

LOOK_S: Final = 10.0
LOOKS_MAX: Final = 3


class LateSyncs:
    """What one broker's store is asked every LOOK_S."""

    def __init__(self) -> None:
        self._mark = 0
        self._since_ms = 0
        self._looks = 0
        self._is_late = False

    def look(self, end: int, flushed: int, interval_ms: int, now_ms: int, *, is_acknowledged: bool) -> str:
        """The line that is due, empty if none is. end, flushed: offsets of the commit log; interval_ms: the longest pause between two syncs
        that the configuration allows; now_ms: monotonic; is_acknowledged: senders do not wait for syncs."""
        waited_s, was_late = (now_ms - self._since_ms) // 1000, self._is_late
        is_flushed, is_cut = flushed >= self._mark, end < self._mark
        if is_flushed or is_cut:
            self._mark, self._since_ms, self._looks, self._is_late = end, now_ms, 0, False
            if was_late and is_cut:
                return f"commit log: what was not on the disk was cut off, the log ends at offset {end} now"
            return f"commit log: it is on the disk again, after {waited_s} s" if was_late else ""
        self._looks += 1
        self._is_late = was_late or self._looks >= LOOKS_MAX + interval_ms // (1000 * LOOK_S)
        if was_late or not self._is_late:
            return ""
        return (
            f"commit log: what was stored {waited_s} s ago is not on the disk, which is slow, hangs or has failed: a power cut would take "
            f"the {end - flushed} bytes from offset {flushed} on{', which ASYNC_FLUSH has acknowledged' if is_acknowledged else ''}"
        )
