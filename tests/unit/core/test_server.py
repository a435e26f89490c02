"""The native server as Python sees it: requests come up, answers go down, and nothing is used after it is gone."""

from __future__ import annotations

import gc
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from rocketpy._core.base import LogTap
from rocketpy._core.errors import Busy, Closed, InvalidArgument, NetworkError
from rocketpy._core.remoting import (
    KIND_CLOSED,
    KIND_COMMAND,
    KIND_OPENED,
    KIND_RESPONSE,
    Command,
    Request,
    Server,
    decode_command,
    encode_command,
    scan_frame,
)
from tests.processes import PATIENCE_S


class Peer:
    """A client of a few lines: one socket, whole frames."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._buffer = b""

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def receive(self) -> Command:
        while (size := scan_frame(self._buffer)) == 0:
            data = self.socket.recv(65536)
            assert data, "the server closed the connection"
            self._buffer += data
        frame, self._buffer = self._buffer[:size], self._buffer[size:]
        return decode_command(frame)

    def close(self) -> None:
        self.socket.close()


def take(server: Server, kind: int = KIND_COMMAND) -> Request:
    """The next event of a kind; others are passed over. Waits on the event fd as asyncio does."""
    while True:
        for request in server.take(1):
            if request.kind == kind:
                return request
            break
        else:
            readable, _, _ = select.select([server.event_fd], [], [], PATIENCE_S)
            assert readable, f"no event of kind {kind}"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(bind_address="127.0.0.1", reactors=2) as server:
        server.start()
        yield server


@pytest.fixture
def peer(server: Server) -> Iterator[Peer]:
    peer = Peer(server.port)
    yield peer
    peer.close()


def test_a_request_comes_up_and_its_answer_goes_down(server: Server, peer: Peer) -> None:
    for serialize_type in (0, 1):
        peer.send(encode_command(105, {"topic": "T"}, b"ask", opaque=42, serialize_type=serialize_type))
        request = take(server)
        assert (request.code, request.opaque, request.fields, request.body) == (105, 42, {"topic": "T"}, b"ask")
        host, port = peer.socket.getsockname()
        assert request.remote_address == f"{host}:{port}"
        assert server.respond(request, 17, "no topic", {"hint": "none"}, b"answer")
        answer = peer.receive()
        assert (answer.code, answer.opaque, answer.remark, answer.body) == (17, 42, "no topic", b"answer")
        assert answer.fields == {"hint": "none"}
        assert answer.is_response
        assert answer.serialize_type == serialize_type


def test_a_large_answer_arrives_whole(server: Server, peer: Peer) -> None:
    peer.send(encode_command(105))
    body = os.urandom(3 * 1024 * 1024)
    assert server.respond(take(server), 0, body=body)
    assert peer.receive().body == body


def test_connections_announce_their_beginning_and_end(server: Server) -> None:
    peer = Peer(server.port)
    opened = take(server, KIND_OPENED)
    peer.close()
    closed = take(server, KIND_CLOSED)
    assert opened.connection_id == closed.connection_id
    assert opened.fields == {}
    assert opened.body == b""


def test_our_own_request_is_answered_by_the_client(server: Server, peer: Peer) -> None:
    connection_id = take(server, KIND_OPENED).connection_id
    assert server.send(connection_id, 40, {"consumerGroup": "g"}, opaque=99)
    asked = peer.receive()
    assert (asked.code, asked.opaque, asked.fields) == (40, 99, {"consumerGroup": "g"})
    peer.send(encode_command(0, opaque=99, flag=1, remark="done"))
    answer = take(server, KIND_RESPONSE)
    assert (answer.opaque, answer.remark, answer.connection_id) == (99, "done", connection_id)


def test_oneway_requests_are_not_answered(server: Server, peer: Peer) -> None:
    peer.send(encode_command(105, flag=2))
    assert server.respond(take(server), 0) is False


def test_answers_to_a_closed_connection_are_refused(server: Server, peer: Peer) -> None:
    peer.send(encode_command(105))
    request = take(server)
    peer.close()
    take(server, KIND_CLOSED)
    assert server.respond(request, 0) is False


def test_python_can_close_a_connection(server: Server, peer: Peer) -> None:
    connection_id = take(server, KIND_OPENED).connection_id
    assert server.close_connection(connection_id)
    assert take(server, KIND_CLOSED).connection_id == connection_id
    assert peer.socket.recv(1) == b""


def test_a_request_outlives_its_server(peer: Peer, server: Server) -> None:
    peer.send(encode_command(105, {"topic": "T"}, b"body"))
    request = take(server)
    server.close()
    assert request.fields == {"topic": "T"}
    assert request.body == b"body"
    del request
    gc.collect()


def test_what_the_collector_finds_of_a_request_is_given_back(server: Server, peer: Peer) -> None:
    peer.send(encode_command(105, {"topic": "T"}, bytes(100_000)))
    cycle: list[object] = [take(server)]
    cycle.append(cycle)
    assert server.stats()["buffer_bytes"] >= 100_000
    del cycle
    gc.collect()
    assert server.stats()["buffer_bytes"] < 100_000


def test_close_may_be_repeated_and_calls_after_it_are_refused(server: Server) -> None:
    server.close()
    server.close()
    for call in (server.take, server.start, server.stats, lambda: server.port):
        with pytest.raises(Closed, match="Server is closed"):
            call()


def test_close_waits_for_a_call_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for one that ends while close prepares to wait for it."""
    server = Server(bind_address="127.0.0.1")
    server.start()
    idle, slow = Peer(server.port), Peer(server.port)
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.send(encode_command(105))
    assert server.respond(take(server), 0, None, None, bytes(14 << 20))
    stopper = threading.Thread(target=server.stop, args=(500,))  # that long, as nobody reads the answer
    closer = threading.Thread(target=server.close, daemon=True)
    event_class = threading.Event

    def late_event() -> threading.Event:
        if threading.current_thread() is closer:
            stopper.join()
        return event_class()

    stopper.start()
    assert idle.socket.recv(1) == b"", "stop closes it at once"
    monkeypatch.setattr(threading, "Event", late_event)
    closer.start()
    closer.join(PATIENCE_S)
    assert not closer.is_alive()
    for peer in (idle, slow):
        peer.close()


def test_a_request_that_goes_while_close_waits_leaves_the_server_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(bind_address="127.0.0.1")
    server.start()
    slow, waits, port = Peer(server.port), threading.Event(), server.port
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.send(encode_command(105))
    requests = [take(server)]
    assert server.respond(requests[0], 0, None, None, bytes(14 << 20))

    class Idle(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.set()
            return super().wait(timeout)

    stopper = threading.Thread(target=server.stop, args=(int(PATIENCE_S * 1000),))  # the call in flight, until slow has gone
    closer = threading.Thread(target=server.close, daemon=True)
    stopper.start()
    with pytest.raises(ConnectionError):  # it has begun
        while True:
            Peer(port).close()
    monkeypatch.setattr(threading, "Event", Idle)
    closer.start()
    assert waits.wait(PATIENCE_S)
    requests.clear()
    slow.close()
    for thread in (stopper, closer):
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_taken_port_is_a_network_error_that_names_it(server: Server) -> None:
    with pytest.raises(NetworkError, match=str(server.port)):
        Server(bind_address="127.0.0.1", port=server.port)


def test_unknown_options_and_bad_values_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="prot"):
        Server(prot=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument, match="port"):
        Server(port=70000)
    with pytest.raises(InvalidArgument):
        Server(reactors=0)


def test_a_log_tap_is_not_closed_under_a_server() -> None:
    tap = LogTap()
    with Server(bind_address="127.0.0.1", log=tap):
        with pytest.raises(Busy, match="LogTap"):
            tap.close()
        assert tap.take() == []
    tap.close()
    with pytest.raises(Closed):
        tap.take()


def test_a_request_that_outlives_its_server_keeps_no_log_tap_open() -> None:
    """The traceback of a request that failed holds it until the collector comes, maybe past the end of the process's services."""
    tap = LogTap()
    with Server(bind_address="127.0.0.1", log=tap) as server:
        server.start()
        peer = Peer(server.port)
        peer.send(encode_command(105, {"key": "value"}))
        request = take(server)
        peer.close()
    tap.close()
    assert request.fields == {"key": "value"}


def test_figures_count_what_happened(server: Server, peer: Peer) -> None:
    peer.send(encode_command(105), encode_command(106))
    for _ in range(2):
        server.respond(take(server), 0)
        peer.receive()
    stats = server.stats()
    assert stats["connections_open"] == 1
    assert stats["frames_in"] == stats["frames_out"] == stats["requests_punted"] == 2


def test_use_after_fork_is_refused(server: Server) -> None:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            server.take()
            answer = b"no error"
        except Exception as error:
            answer = type(error).__name__.encode()
        os.write(write_end, answer)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        assert pipe.read() == b"UsedAfterFork"
    os.waitpid(child, 0)
    server.stats()


PROGRAM = """
import gc
from rocketpy._core.remoting import Server
server = Server(bind_address="127.0.0.1")
server.start()
{end}
"""


@pytest.mark.parametrize("end", ["server.close()", "server.stop(0); server.close()"])
def test_a_program_ends_without_stray_output(end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAM.format(end=end)], capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_object_that_was_not_closed_warns_and_closes() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROGRAM.format(end="del server; gc.collect()")],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0
    assert "ResourceWarning: Server was not closed" in done.stderr
