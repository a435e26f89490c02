"""Warnings that a client's or a broker's burst would write by the thousand."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

SAID_EVERY_S: Final = 10.0


class Repeated:
    """One kind of warning: said once in SAID_EVERY_S, with how many others were not since."""

    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._next_s = now_s()
        self._unsaid = 0

    def warning(self, text: str, *values: object) -> None:
        now_s = self._now_s()
        if now_s < self._next_s:
            self._unsaid += 1
            return
        if self._unsaid:
            text, values = text + "; and %d more since this was said last", (*values, self._unsaid)
        self._log.warning(text, *values)
        self._next_s, self._unsaid = now_s + SAID_EVERY_S, 0
