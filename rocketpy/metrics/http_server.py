"""An HTTP server with a thread for each connection, and a bound for both.

    accept ─ room? ─┬─ a thread: request ─ application ─ answer ─ closed
                    └─ no: whoever keeps a thread waiting longest gives way, else the newcomer is closed

A client that takes its answer piece by piece, however slowly, has waited since the last piece.

Whoever may connect may also say nothing, or read no answer: each such client costs a thread and a descriptor that clients of the server
itself need.

Threads  one that accepts, one a connection. Bounds: CONNECTIONS_MAX; SILENCE_S for each read and each piece of an
         answer; ENDED_WITHIN_S for answers at a stop.
"""

from __future__ import annotations

import enum
import errno
import io
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from .complaints import Complaints

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 32
SILENCE_S: Final = 10.0
PIECE_BYTES: Final = 64 * 1024
ENDED_WITHIN_S: Final = 2.0
"""So long a stop waits for answers that are under way."""
ROOM_WITHIN_S: Final = 0.5
"""So long a newcomer waits for the one that gives way."""
REST_S: Final = 0.5
"""Between two looks for a connection while there is no descriptor for one."""
CONNECTION: Final = "rocketpy.connection"


class _Handler(WSGIRequestHandler):
    """One connection. The base class writes what fails to stderr, and a stranger may have things fail as often as it likes."""

    server: HttpServer
    timeout = SILENCE_S
    said: io.StringIO | None = None

    def setup(self) -> None:
        super().setup()
        self.wfile = _Pieces(self.connection, self.server.moves)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def get_stderr(self) -> Any:
        self.said = io.StringIO()
        return self.said

    def get_environ(self) -> Any:
        return {**super().get_environ(), CONNECTION: self.connection}

    def finish(self) -> None:
        if self.said is not None and (text := self.said.getvalue()):
            self.server.tell(text.rstrip().rpartition("\n")[2])
        super().finish()


class _Pieces(io.BufferedIOBase):
    """Writes to a connection in pieces that have the connection's timeout each. `taken` is called after each."""

    def __init__(self, connection: socket.socket, taken: Callable[[socket.socket], None]) -> None:
        self._connection = connection
        self._taken = taken

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        for begin in range(0, len(view), PIECE_BYTES):
            self._connection.sendall(view[begin : begin + PIECE_BYTES])
            self._taken(self._connection)
        return len(view)


class _At(enum.Enum):
    REQUEST = "waits for its request"
    WORK = "waits for the application"
    ANSWER = "waits until its answer is taken"


class HttpServer(ThreadingMixIn, WSGIServer):
    """To be served by `serve_forever` on a thread of its own. Unlike HTTPServer it does not look up this host's name: a DNS that does not
    answer takes ten seconds. Raises OSError if the port cannot be had."""

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, host: str, port: int, app: WSGIApplication) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._changed = threading.Condition()
        self._held: dict[socket.socket, _At] = {}
        """Connections and what their threads are at, first who has waited longest. Guarded by _changed."""
        self._is_over = threading.Event()
        self._complaints = Complaints(time.monotonic)
        super().__init__((host, port), _Handler)
        self.set_app(self._noting(app))

    @property
    def held(self) -> int:
        """How many connections have a thread."""
        return len(self._held)

    def tell(self, what: str) -> None:
        """Logs why somebody got no answer, now and then. Called on any thread."""
        if self._is_over.is_set():  # who is still being answered meets what is closed
            return
        with self._changed:
            count = self._complaints.failed()
        if count > 0:
            log.warning("%d requests over HTTP failed, the last: %s", count, what)

    # ---- what socketserver calls ----

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._is_over.wait(REST_S)  # who wants to connect is there at once again
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._make_room():
            self.tell("as many others are answered as may be at once")
            self.shutdown_request(request)
            return
        with self._changed:
            self._held[request] = _At.REQUEST
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread
            self._forget(request)
            raise

    def shutdown_request(self, request: Any) -> None:
        self._forget(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):  # of a client that is gone, or silent
            self.tell(f"{type(error).__name__}: {error}")

    def shutdown(self) -> None:
        self._is_over.set()
        super().shutdown()

    def server_close(self) -> None:
        super().server_close()
        with self._changed:
            for request, at in self._held.items():
                if at is _At.REQUEST:
                    _hang_up(request)
            self._changed.wait_for(lambda: not self._held, ENDED_WITHIN_S)
            for request in self._held:
                _hang_up(request)

    # ---- connections ----

    def _noting(self, app: WSGIApplication) -> Callable[[dict[str, Any], StartResponse], Iterable[bytes]]:
        def noting(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            self._note(environ[CONNECTION], _At.WORK)
            try:
                return app(environ, start_response)
            finally:
                self._note(environ[CONNECTION], _At.ANSWER)

        return noting

    def moves(self, request: socket.socket) -> None:
        """Says that a client has just taken a piece of its answer."""
        self._note(request, _At.ANSWER)

    def _note(self, request: socket.socket, at: _At) -> None:
        with self._changed:
            self._held.pop(request, None)
            self._held[request] = at  # at the end

    def _make_room(self) -> bool:
        with self._changed:
            if self._has_room():
                return True
            waiting = next((request for request, at in self._held.items() if at is not _At.WORK), None)
            if waiting is not None:
                _hang_up(waiting)
            return self._changed.wait_for(self._has_room, ROOM_WITHIN_S)

    def _has_room(self) -> bool:
        return len(self._held) < CONNECTIONS_MAX

    def _forget(self, request: socket.socket) -> None:
        """Before it is closed: its number may be another's then."""
        with self._changed:
            self._held.pop(request, None)
            self._changed.notify_all()


def _hang_up(connection: socket.socket) -> None:
    """Its thread, which waits for it, goes on and closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is gone already
        pass
