"""Serves the metrics of a server over HTTP, and whether it is well (health.py): metricsExporterType=PROM.

    scrape ─ HTTP thread (prometheus_client) ─ Scraper ─► event loop ─► HTTP thread: text

One thread a scrape.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from .._core.errors import NetworkError
from ..threads import born_without_signals
from .health import HealthPaths
from .scraper import Scraper

log = logging.getLogger(__name__)

BIND_V6_ONLY = Path("/proc/sys/net/ipv6/bindv6only")


def _of_both_kinds(host: str) -> str:
    """Every interface is every one of IPv6 too, as of the servers' own ports (csrc/base/bound_socket.h), if one socket may be of both."""
    return "::" if host == "0.0.0.0" and BIND_V6_ONLY.exists() and BIND_V6_ONLY.read_text() == "0\n" else host


class PrometheusExporter(Collector):
    """One port."""

    def __init__(self, scraper: Scraper, host: str, port: int, why_not_ready: Callable[[], str]) -> None:
        """why_not_ready: empty when clients may come; called on the event loop."""
        self._host, self._port = host, port
        self._scraper = scraper
        self._why_not_ready = why_not_ready
        self._running: tuple[WSGIServer, threading.Thread] | None = None

    @property
    def port(self) -> int:
        """Where it listens; 0 before the start."""
        return self._running[0].server_port if self._running is not None else 0

    def start(self) -> None:
        """Raises NetworkError when the port cannot be had."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            with born_without_signals():
                self._running = start_http_server(self._port, _of_both_kinds(self._host), registry)
        except (OSError, UnicodeError) as error:  # UnicodeError: an empty or endless part of a name
            raise NetworkError(
                f"metrics cannot be served on {self._host}:{self._port}: {error}; change metricsPromExporterHost or metricsPromExporterPort"
            ) from error
        server, behind = self._running[0], self._running[0].get_app()
        assert behind is not None
        server.set_app(HealthPaths(self._scraper.loop, self._why_not_ready, behind))
        log.info("metrics are served on http://%s:%d/metrics", self._host, self.port)

    async def stop(self) -> None:
        """Idempotent. Scrapes under way are answered: the event loop goes on meanwhile."""
        running, self._running = self._running, None
        if running is not None:
            await asyncio.get_running_loop().run_in_executor(None, _end, *running)

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: a registration that scraped would wait for the event loop it runs on."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """On an HTTP thread. Raises as Scraper.collect."""
        return self._scraper.collect()


def _end(server: WSGIServer, thread: threading.Thread) -> None:
    server.shutdown()
    server.server_close()
    thread.join()
