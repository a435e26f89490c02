"""What our own threads of Python have in common."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def leave_signals() -> None:
    """The first call of a thread: signals go to others.

    A thread that has been joined is not gone yet for the system. Of a process that has stopped cleanly and has no handlers any more it
    would take a signal, which ends the process with that for its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


@contextmanager
def born_without_signals() -> Iterator[None]:
    """As leave_signals, for the threads that a library starts meanwhile, and for those that they start: each inherits what is blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
