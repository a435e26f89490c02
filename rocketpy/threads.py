"""What our own threads of Python have in common."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

FAULTS: Final = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP})
"""What a thread has done itself. Were SIGBUS blocked, a page that the disk does not give would end the process without a word, and one of a
file that is written to end it where an error is answered (csrc/base/map_hold.h)."""
LEFT: Final = signal.valid_signals() - FAULTS


def leave_signals() -> None:
    """The first call of a thread: signals to the process go to others.

    A thread that has been joined is not gone yet for the system. Of a process that has stopped cleanly and has no handlers any more it
    would take a signal, which ends the process with that for its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, LEFT)


@contextmanager
def born_without_signals() -> Iterator[None]:
    """As leave_signals, for the threads that a library starts meanwhile, and for those that they start: each inherits what is blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, LEFT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
