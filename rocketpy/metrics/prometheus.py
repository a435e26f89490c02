"""Serves the metrics of a server over HTTP, and whether it is well (health.py): metricsExporterType=PROM.

    scrape ─ HTTP thread (prometheus_client) ─ Scraper ─► event loop ─► HTTP thread: text

One thread a scrape, of a bounded number (http_server.py).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from .._core.errors import NetworkError
from ..config import join_address
from ..remoting.listen_address import numeric_address
from ..threads import born_without_signals
from .exposition import metrics_app
from .health import HealthPaths
from .http_server import HttpServer
from .scraper import Scraper

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

log = logging.getLogger(__name__)


def _server(host: str, port: int, app: WSGIApplication) -> HttpServer:
    """A listener. "Every interface" includes those of IPv6, or means IPv4 alone where IPv6 is missing, as for the servers' own ports
    (csrc/base/bound_socket.h). Raises NetworkError, OSError."""
    number = numeric_address("metricsPromExporterHost", host)
    if number == "0.0.0.0" and socket.has_dualstack_ipv6():
        try:
            return HttpServer("::", port, app)
        except OSError as error:
            server = HttpServer(number, port, app)
            log.warning("who uses IPv6 cannot read metrics on port %d: %s", port, error)
            return server
    return HttpServer(number, port, app)


class PrometheusExporter(Collector):
    """Serves scrapes on one port."""

    def __init__(self, scraper: Scraper, host: str, port: int, why_not_ready: Callable[[], str]) -> None:
        """why_not_ready: returns an empty text once clients may connect. It is called on the event loop."""
        self._host, self._port = host, port
        self._scraper = scraper
        self._why_not_ready = why_not_ready
        self._running: tuple[HttpServer, threading.Thread] | None = None

    @property
    def port(self) -> int:
        """The port that it listens on; 0 before the start."""
        return self._running[0].server_port if self._running is not None else 0

    def start(self) -> None:
        """Raises NetworkError if the port cannot be had."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        app = HealthPaths(self._scraper.loop, self._why_not_ready, metrics_app(registry))
        try:
            server = _server(self._host, self._port, app)
        except OSError as error:
            raise NetworkError(
                f"metrics cannot be served on {self._host}:{self._port}: {error}; change metricsPromExporterHost or metricsPromExporterPort"
            ) from error
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        with born_without_signals():
            thread.start()
        self._running = server, thread
        log.info("metrics are served on http://%s/metrics", join_address(self._host, self.port))

    async def stop(self) -> None:
        """Idempotent. Scrapes under way are waited for, 2 s at most: one that still reads when the store closes fails."""
        running, self._running = self._running, None
        if running is not None:
            await asyncio.get_running_loop().run_in_executor(None, _end, *running)

    def describe(self) -> Iterable[Metric]:
        """Describes nothing beforehand: a registration that scraped would wait for the event loop that it runs on."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Called on an HTTP thread. Raises as Scraper.collect."""
        return self._scraper.collect()


def _end(server: HttpServer, thread: threading.Thread) -> None:
    server.shutdown()
    server.server_close()
    thread.join()
