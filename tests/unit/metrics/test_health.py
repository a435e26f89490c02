"""Answers about a server's health beside many who ask for its metrics."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from rocketpy.metrics.health import BEHIND_MAX, HealthPaths
from rocketpy.metrics.http_server import CONNECTIONS_MAX
from tests.processes import PATIENCE_S
from tests.unit.metrics.test_http_server import answer, connected, greet, serving


@contextlib.contextmanager
def looping() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


def test_who_asks_for_health_is_answered_while_as_many_as_may_ask_for_metrics() -> None:
    go_on, at_work = threading.Event(), threading.Semaphore(0)

    def work(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        at_work.release()
        go_on.wait(PATIENCE_S)
        return greet(environ, start_response)

    with looping() as loop, serving(HealthPaths(loop, lambda: "", work)) as server, contextlib.ExitStack() as stack:
        workers = [stack.enter_context(connected(server)) for _ in range(BEHIND_MAX)]
        for worker in workers:
            worker.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        for _ in workers:
            assert at_work.acquire(timeout=PATIENCE_S)
        for path, said in ((b"/metrics", b"503 Service Unavailable"), (b"/healthz", b"200 OK"), (b"/readyz", b"200 OK")) * CONNECTIONS_MAX:
            with connected(server) as asking:
                asking.sendall(b"GET %b HTTP/1.0\r\n\r\n" % path)
                assert said in answer(asking)
        go_on.set()
        assert all(answer(worker).endswith(b"well\n") for worker in workers)
