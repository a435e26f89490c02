"""Raw connections for tests of bad input: pipelines frames, matches answers by opaque, reports what was never answered."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass

from rocketpy._core.remoting import Command, decode_command, scan_frame
from tests.processes import PATIENCE_S

FRAME_SIZE_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a pipeline of requests."""

    answers: dict[int, Command]
    is_closed: bool
    """The server closed the connection before every answer was there."""


class Wire:
    """One blocking connection."""

    def __init__(self, port: int, wait_s: float = PATIENCE_S, receive_buffer: int = 0) -> None:
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(wait_s)
        self._socket.connect(("127.0.0.1", port))
        self._wait_s = wait_s
        self.local_port = int(self._socket.getsockname()[1])
        self._buffer = bytearray()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end_of_writing(self) -> None:
        with contextlib.suppress(OSError):  # the server may have closed first
            self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """The close that follows sends RST instead of FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def read(self) -> Command | None:
        """The next command; None when the server closed. Raises TimeoutError."""
        while not (size := scan_frame(self._buffer, FRAME_SIZE_MAX)) or size > len(self._buffer):
            try:
                data = self._socket.recv(1 << 18)
            except ConnectionError:
                return None
            if not data:
                return None
            self._buffer += data
        command = decode_command(bytes(self._buffer[:size]))
        del self._buffer[:size]
        return command

    def exchange(self, frames: bytes, opaques: Iterable[int]) -> Outcome:
        """Writes all the frames, then reads until every opaque is answered, the server closes, or nothing comes for wait_s."""
        self.write(frames)
        waiting = set(opaques)
        answers: dict[int, Command] = {}
        end = time.monotonic() + self._wait_s
        while waiting and time.monotonic() < end:
            try:
                command = self.read()
            except TimeoutError:
                break
            if command is None:
                return Outcome(answers, bool(waiting))
            if command.is_response:
                answers[command.opaque] = command
                waiting.discard(command.opaque)
        return Outcome(answers, False)
