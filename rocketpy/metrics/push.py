"""Pushes the metrics of a server again and again, as OTLP to a collector or into a log: metricsExporterType=OTLP_GRPC and LOG.
RocketMQ: OpenTelemetry's PeriodicMetricReader.

    thread "metrics": pause ─ Scraper ─► event loop ─ OtlpData ─ batch ─► deliver, one after the other

A push that fails is not repeated: the next turn pushes the values of that time. The log has the first failure, then one every
complaints.PAUSE_S, and the first success after them.

Threads  one of its own. Only stop waits for it: LAST_WITHIN_S, and as long as the target takes to close. Bounds: one batch at a time.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Final, Protocol

from ..threads import leave_signals
from .complaints import Complaints
from .otlp_data import OtlpData, Tree
from .scraper import Scraper

log = logging.getLogger(__name__)

LAST_WITHIN_S: Final = 3.0


class Target(Protocol):
    """What batches are delivered to."""

    def deliver(self, request: Tree) -> None:
        """Returns when the batch has arrived. After any exception it may have arrived or not."""

    def close(self) -> None:
        """Called from any thread; a delivery that is under way fails."""


class PushExporter:
    """Pushes to one target, which `stop` closes."""

    port = 0

    def __init__(self, scraper: Scraper, data: OtlpData, target: Target, interval_ms: int) -> None:
        self._scraper = scraper
        self._data = data
        self._target = target
        self._interval_s = interval_ms / 1000
        self._complaints = Complaints(time.monotonic)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._push_for_ever, name="metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Idempotent. What was counted since the last push is pushed first, if that does not take long."""
        self._is_over.set()
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def _end(self) -> None:
        has_started = self._thread.ident is not None
        if has_started:
            self._thread.join(LAST_WITHIN_S)
        self._target.close()
        if has_started:
            self._thread.join()

    def _push_for_ever(self) -> None:
        leave_signals()
        while not self._is_over.wait(min(self._interval_s, threading.TIMEOUT_MAX)):
            self._push()
        self._push()

    def _push(self) -> None:
        try:
            for batch in self._data.batches(self._scraper.collect(), time.time_ns()):
                self._target.deliver(batch.request)
                self._data.delivered(batch)
        except Exception as error:  # outer edge of a thread: the next turn must come
            if count := self._complaints.failed():
                log.warning("metrics were not exported, %d times by now: %s: %s", count, type(error).__name__, error)
            return
        if count := self._complaints.worked():
            log.info("metrics are exported again, after %d times that failed", count)
