"""How a measurement ends when it is told to (SIGTERM, as from kill or timeout)."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def unwind_at_sigterm() -> None:
    """From now on SIGTERM raises SystemExit in the main thread: servers are stopped and stores removed on the way out.

    Python's own way of ending at SIGTERM runs nothing more, and RocketMQ's JVMs would go on for ever.
    """
    signal.signal(signal.SIGTERM, end)


@contextmanager
def not_interrupted() -> Iterator[None]:
    """SIGTERM and Ctrl-C take effect behind it: what is begun here is in the hands of those who end it by then. For the main thread."""
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    handled = {number: handler for number, handler in before.items() if callable(handler)}  # children inherit that one is ignored
    for number in handled:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
