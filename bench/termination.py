"""How a measurement ends when it is told to (SIGTERM, as from kill or timeout)."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def unwind_at_sigterm() -> None:
    """From now on SIGTERM raises SystemExit in the main thread: servers are stopped and stores removed on the way out.

    Python's own way of ending at SIGTERM runs nothing more, and RocketMQ's JVMs would go on for ever.
    """
    signal.signal(signal.SIGTERM, end)
