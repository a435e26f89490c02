"""Answers of a broker to whoever asks over HTTP whether it is well, beside its metrics: /healthz and /readyz.

/healthz  200 while the broker's event loop answers; 503 when it has not for PATIENCE_S: restarting it would help
/readyz   200 once a name server has it, so that clients find it; 503 with the reason before that, and while it is leaving
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import TimeoutError as Late
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication

PATIENCE_S: Final = 5.0


class HealthPaths:
    """Puts the two paths before another application; called on HTTP threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, registered: Callable[[], Mapping[str, bool]], behind: WSGIApplication) -> None:
        """`registered`: by name server, whether it has the broker; called on the loop."""
        self._loop = loop
        self._registered = registered
        self._behind = behind

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        answers = {"/healthz": self._health, "/readyz": self._readiness}
        answer = answers.get(environ.get("PATH_INFO", ""))
        if answer is None:
            return self._behind(environ, start_response)
        try:
            problem = asyncio.run_coroutine_threadsafe(answer(), self._loop).result(PATIENCE_S)
        except Late:
            problem = f"the event loop has not answered for {PATIENCE_S:.0f} s"
        start_response("503 Service Unavailable" if problem else "200 OK", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{problem or 'ok'}\n".encode()]

    async def _health(self) -> str:
        return ""

    async def _readiness(self) -> str:
        registered = self._registered()
        if any(registered.values()):
            return ""
        return f"registered with none of the name servers {', '.join(registered) or '(none is configured)'}"
