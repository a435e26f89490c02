"""Answers of a server to whoever asks over HTTP whether it is well, beside its metrics: /healthz and /readyz.

/healthz  200 while the event loop answers; 503 when it has not answered for PATIENCE_S, so that a restart would help
/readyz   200 when clients may come; 503 with the reason before that, and while the server is stopping
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import TimeoutError as Late
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication

PATIENCE_S: Final = 5.0
BEHIND_MAX: Final = 24
"""Of the connections that the HTTP server has threads for (http_server.CONNECTIONS_MAX). The others are for these answers."""


class HealthPaths:
    """Answers the two health paths in front of another application. Called on HTTP threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, why_not_ready: Callable[[], str], behind: WSGIApplication) -> None:
        """why_not_ready: returns an empty text if the server is ready. It is called on the event loop."""
        self._loop = loop
        self._why_not_ready = why_not_ready
        self._behind = behind
        self._room = threading.BoundedSemaphore(BEHIND_MAX)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        answers = {"/healthz": self._health, "/readyz": self._readiness}
        answer = answers.get(environ.get("PATH_INFO", ""))
        if answer is None:
            return self._ask_behind(environ, start_response)
        try:
            problem = asyncio.run_coroutine_threadsafe(answer(), self._loop).result(PATIENCE_S)
        except Late:
            problem = f"the event loop has not answered for {PATIENCE_S:.0f} s"
        return _say(start_response, "503 Service Unavailable" if problem else "200 OK", problem or "ok")

    def _ask_behind(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if not self._room.acquire(blocking=False):
            return _say(start_response, "503 Service Unavailable", f"{BEHIND_MAX} others are being answered")
        try:
            return self._behind(environ, start_response)
        finally:
            self._room.release()

    async def _health(self) -> str:
        return ""

    async def _readiness(self) -> str:
        return self._why_not_ready()


def _say(start_response: StartResponse, status: str, text: str) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
