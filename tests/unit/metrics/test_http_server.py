"""The port for metrics and health, and clients of it that are silent, slow, gone or many."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pytest

from rocketpy._core.errors import Closed
from rocketpy.metrics import http_server
from rocketpy.metrics.http_server import CONNECTIONS_MAX, PIECE_BYTES, HttpServer
from tests.processes import PATIENCE_S, wait_until

App = Callable[[dict[str, Any], Any], Iterable[bytes]]


def greet(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"well\n"]


MUCH: Final = 64 << 20
"""More than sockets hold."""
ASK_MUCH: Final = b"GET /much HTTP/1.0\r\n\r\n"


def tell_much(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/metrics":
        return greet(environ, start_response)
    start_response("200 OK", [])
    return [b"x" * MUCH]


@contextlib.contextmanager
def serving(app: App = greet) -> Iterator[HttpServer]:
    server = HttpServer("127.0.0.1", 0, app)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def connected(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), PATIENCE_S)


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            found += piece
    return found


def taken(connection: socket.socket, wanted: int) -> int:
    """Takes so much of an answer, or what there is. Returns how much it was."""
    found = 0
    with contextlib.suppress(ConnectionError):
        while found < wanted and (piece := connection.recv(min(65536, wanted - found))):
            found += len(piece)
    return found


def ask(server: HttpServer) -> bytes:
    with connected(server) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return answer(connection)


def test_who_asks_is_answered_however_many_others_say_nothing_and_they_have_no_more_threads_than_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "ROOM_WITHIN_S", PATIENCE_S)
    with serving() as server, contextlib.ExitStack() as stack:
        before = threading.active_count()
        for number in range(3 * CONNECTIONS_MAX):
            silent = stack.enter_context(connected(server))
            silent.sendall(b"GET /metrics HT"[: number % 16])
        assert ask(server).endswith(b"well\n")
        assert server.held <= CONNECTIONS_MAX
        assert threading.active_count() <= before + CONNECTIONS_MAX


def test_who_is_silent_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server._Handler, "timeout", 0.1)
    with serving() as server, connected(server) as silent:
        silent.sendall(b"GET /met")
        assert answer(silent) == b""
        wait_until(lambda: server.held == 0, PATIENCE_S, "the bound")


def test_who_takes_no_answer_is_closed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Semaphore(0)

    def tell(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        told.release()
        return tell_much(environ, start_response)

    monkeypatch.setattr(http_server._Handler, "timeout", 0.1)
    with serving(tell) as server, connected(server) as deaf:
        deaf.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert told.acquire(timeout=PATIENCE_S)
        wait_until(lambda: server.held == 0, PATIENCE_S, "the bound")


def test_those_at_work_are_not_cut_and_a_newcomer_is_closed() -> None:
    go_on, at_work = threading.Event(), threading.Semaphore(0)

    def work(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        at_work.release()
        go_on.wait(PATIENCE_S)
        return greet(environ, start_response)

    with serving(work) as server, contextlib.ExitStack() as stack:
        workers = [stack.enter_context(connected(server)) for _ in range(CONNECTIONS_MAX)]
        for worker in workers:
            worker.sendall(b"GET / HTTP/1.0\r\n\r\n")
        for _ in workers:
            assert at_work.acquire(timeout=PATIENCE_S)
        assert ask(server) == b""
        go_on.set()
        assert all(answer(worker).endswith(b"well\n") for worker in workers)


def test_strangers_write_nothing_to_stderr_and_failures_are_told_now_and_then(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        raise ValueError("no figures")

    caplog.set_level(logging.WARNING)
    with serving(fail) as server:
        for _ in range(20):
            with connected(server) as gone:
                gone.sendall(b"GET / HTTP/1.0\r\n")
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # RST instead of FIN
            assert b"500" in ask(server)
        wait_until(lambda: server.held == 0, PATIENCE_S, "the bound")
    assert [record.getMessage() for record in caplog.records] == ["1 requests over HTTP failed, the last: ValueError: no figures"]
    assert capfd.readouterr().err == ""


def test_a_scrape_that_meets_a_stop_fails_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    """It reads a store that is closed meanwhile."""
    is_asked, is_closed = threading.Event(), threading.Event()

    def read(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        is_asked.set()
        is_closed.wait(PATIENCE_S)
        raise Closed("the store is closed")

    caplog.set_level(logging.WARNING)
    with serving(read) as server, connected(server) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert is_asked.wait(PATIENCE_S)
        server.shutdown()
        server.server_close()
        is_closed.set()
        assert answer(connection) == b"", "a stop does not wait for ever"
        wait_until(lambda: server.held == 0, PATIENCE_S, "its end")
    assert caplog.messages == []


def test_without_descriptors_it_rests_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    rested = threading.Semaphore(0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def rest(seconds: float) -> None:
        rests.append(seconds)
        rested.release()

    with serving() as server:
        before = set(threading.enumerate())  # with those of other tests that are about to end
        assert ask(server).endswith(b"well\n")
        wait_until(lambda: set(threading.enumerate()) <= before, PATIENCE_S, "the end of its thread, which closes its connection")
        monkeypatch.setattr(server._is_over, "wait", rest)
        with socket.socket() as second:
            lowest = os.dup(0)  # no descriptor below this one is free
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
            try:
                second.connect(("127.0.0.1", server.server_port))
                assert rested.acquire(timeout=PATIENCE_S)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            second.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert answer(second).endswith(b"well\n")
        assert set(rests) == {http_server.REST_S}


def test_an_answer_goes_in_pieces_that_have_the_time_of_one_write_each() -> None:
    class Connection:
        def sendall(self, piece: memoryview) -> None:
            pieces.append(len(piece))

    pieces: list[int] = []
    moves: list[int] = []
    connection: Any = Connection()
    file = http_server._Pieces(connection, lambda _: moves.append(len(pieces)))
    assert file.write(bytes(2 * PIECE_BYTES + 1)) == 2 * PIECE_BYTES + 1
    assert (pieces, moves) == ([PIECE_BYTES, PIECE_BYTES, 1], [1, 2, 3])


def test_who_takes_an_answer_slowly_stays_and_who_has_been_silent_longer_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ROOM_WITHIN_S", PATIENCE_S)
    with serving(tell_much) as server, contextlib.ExitStack() as stack:
        slow = stack.enter_context(connected(server))
        slow.sendall(ASK_MUCH)
        got = taken(slow, 1)
        silent = [stack.enter_context(connected(server)) for _ in range(CONNECTIONS_MAX - 1)]
        wait_until(lambda: server.held == CONNECTIONS_MAX, PATIENCE_S, "all to have a thread")
        got += taken(slow, MUCH // 2)  # more than was on its way: pieces have been written since
        assert ask(server).endswith(b"well\n")
        assert answer(silent[0]) == b""
        got += taken(slow, MUCH)
        assert got > MUCH


def test_a_stop_waits_for_an_answer_that_is_being_taken_and_not_for_who_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ENDED_WITHIN_S", PATIENCE_S)
    with serving(tell_much) as server, connected(server) as silent, connected(server) as slow:
        slow.sendall(ASK_MUCH)
        got = taken(slow, 1)
        server.shutdown()
        end = threading.Thread(target=server.server_close)
        end.start()
        assert answer(silent) == b""
        assert end.is_alive(), "the answer has not been taken"
        got += taken(slow, 2 * MUCH)
        end.join(PATIENCE_S)
        assert got > MUCH and not end.is_alive()


def test_a_stop_waits_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ENDED_WITHIN_S", 0.05)
    monkeypatch.setattr(http_server._Handler, "timeout", 10 * PATIENCE_S)
    with serving(tell_much) as server, connected(server) as deaf:
        deaf.sendall(ASK_MUCH)
        got = taken(deaf, 1)
        server.shutdown()
        server.server_close()
        wait_until(lambda: server.held == 0, PATIENCE_S, "its end")
        assert got + taken(deaf, 2 * MUCH) < MUCH
