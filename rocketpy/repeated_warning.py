"""Warnings that would be written by the thousand: one line now and then, with how many others there were."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

SAID_EVERY_S: Final = 10.0


class RepeatedWarning:
    """One kind of warning, written once in `every_s` seconds; the next line says how many were not written since."""

    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = time.monotonic, every_s: float = SAID_EVERY_S) -> None:
        self._log = log
        self._now_s = now_s
        self._every_s = every_s
        self._next_s = float("-inf")
        self._unsaid = 0

    def warning(self, text: str, *values: object) -> None:
        """Logs it as Logger.warning does, or counts it."""
        now_s = self._now_s()
        if now_s < self._next_s:
            self._unsaid += 1
            return
        if self._unsaid:
            text, values = text + "; and %d more since this was said last", (*values, self._unsaid)
        self._log.warning(text, *values)
        self._next_s, self._unsaid = now_s + self._every_s, 0
