"""Standard error as a server writes to it: behind a thread, so that a reader who stops reading never stops the server.

A pipe or terminal that nobody reads (a log driver that waits, a pager, Ctrl-S) takes 64 KiB and then lets a write wait for ever.

    any thread ─ write ─► lines, BYTES_MAX at most ─► thread ─ write ─► file descriptor 2

Threads  write and settle from any; one daemon thread, which nobody waits for longer than they say.
Bounds   BYTES_MAX wait to be written. When they are full, lines are lost until half of them has gone; their count is written instead.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from typing import Final

from .threads import leave_signals

BYTES_MAX = 4 << 20
"""Some 20,000 records: more than a start, or a minute of trouble, writes while its reader is slow."""
AT_ONCE_BYTES: Final = select.PIPE_BUF
"""Lines that wait together are one write, so far as a pipe takes that as one piece beside what others write there."""
SETTLE_S = 1.0
"""Who ends, or says something on another stream, waits so long for what was written before."""


class ErrorLines:
    """Lines to a file descriptor. Raises RuntimeError where the system has no thread to give."""

    def __init__(self, descriptor: int, bytes_max: int = BYTES_MAX) -> None:
        self._descriptor = descriptor
        self._bytes_max = bytes_max
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0
        self._changed = threading.Condition()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="error-lines", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Never waits for the reader."""
        with self._changed:
            room = self._bytes_max // 2 if self._lost else self._bytes_max  # one gap for a slow reader, not one every few lines
            if self._bytes + len(line) > room:
                self._lost += 1
                return
            self._tell_lost()
            self._append(line)
            self._changed.notify_all()

    def settle(self, timeout_s: float = SETTLE_S) -> bool:
        """Waits until everything is written, timeout_s at most. Whether it is."""
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while self._bytes and (left_s := end_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
            return not self._bytes

    def close(self) -> None:
        """After SETTLE_S what nobody reads is given up."""
        self.settle()
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()

    def _run(self) -> None:
        leave_signals()
        while (lines := self._next()) is not None:
            data = memoryview(b"".join(lines))
            size = len(data)
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:  # a full disk, a reader that has gone: nowhere is left to say it
                pass
            with self._changed:
                for _ in lines:
                    self._lines.popleft()
                self._bytes -= size
                if not self._lines:
                    self._tell_lost()
                self._changed.notify_all()

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)

    def _tell_lost(self) -> None:
        if self._lost:
            self._append(b"nobody read standard error: %d lines were lost here\n" % self._lost)
            self._lost = 0

    def _next(self) -> list[bytes] | None:
        """The oldest lines, which stay where they are until they are written; None at the end."""
        with self._changed:
            while not self._lines and not self._is_ending:
                self._changed.wait()
            if self._is_ending:
                return None
            lines, size = [self._lines[0]], len(self._lines[0])
            while len(lines) < len(self._lines) and (size := size + len(self._lines[len(lines)])) <= AT_ONCE_BYTES:
                lines.append(self._lines[len(lines)])
            return lines
