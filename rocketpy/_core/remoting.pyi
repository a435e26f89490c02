"""Stub of rocketpy._core.remoting: the native remoting server (csrc/remoting/server.h) and the frame codec."""

from collections.abc import Mapping
from typing import Any, Final, Literal

KIND_COMMAND: Final = 0
KIND_RESPONSE: Final = 1
KIND_OPENED: Final = 2
KIND_CLOSED: Final = 3

SerializeType = Literal[0, 1]  # JSON, ROCKETMQ

class Command:
    """One decoded remoting command. Immutable; bytes are copies."""

    code: int
    language: int
    version: int
    opaque: int
    flag: int
    serialize_type: int
    remark: str | None
    fields: dict[str, str]
    body: bytes
    @property
    def is_response(self) -> bool: ...
    @property
    def is_oneway(self) -> bool: ...

class Request(Command):
    """A command that came up from a reactor, with its connection. kind is one of the KIND_ constants."""

    kind: int
    connection_id: int
    remote_address: str
    arrived_ns: int

def decode_command(frame: bytes | bytearray | memoryview) -> Command:
    """Decodes one whole frame, its 4 length bytes included. Raises ProtocolError with the byte offset and cause."""

def scan_frame(data: bytes | bytearray | memoryview, frame_size_max: int = ...) -> int:
    """Size in bytes of the whole frame at the head of data, 0 when more bytes are needed. Raises ProtocolError."""

def encode_command(
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 0,
    flag: int = 0,
    remark: str | None = None,
    language: int = 12,
    version: int = ...,
    serialize_type: int = 0,
) -> bytes:
    """One frame, length included. language 12 is OTHER in RocketMQ's LanguageCode... see remoting/codes.py."""

class Server:
    """Owner of one rp_server. `handler` is a Broker whose fast path answers sends and pulls, or None."""

    def __init__(
        self,
        *,
        bind_address: str = "0.0.0.0",
        port: int = 0,
        reactors: int = 1,
        handler: Any | None = None,
        frame_size_max: int = ...,
        connections_max: int = ...,
        idle_timeout_ms: int = ...,
        stall_timeout_ms: int = ...,
        output_bytes_max: int = ...,
        memory_bytes_max: int = ...,
        ring_capacity: int = ...,
        spin_us: int = ...,
        socket_send_buffer: int = 0,
        socket_receive_buffer: int = 0,
        thread_name: str = "reactor",
        log: Any | None = None,
    ) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def event_fd(self) -> int: ...
    def start(self) -> None: ...
    def stop(self, drain_ms: int = 500) -> None: ...
    def close(self) -> None: ...
    def take(self, requests_max: int = 256) -> list[Request]:
        """Requests that wait, oldest first; empty when there are none (the event fd is then armed again)."""
    def respond(
        self,
        request: Request,
        code: int,
        remark: str | None = None,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> bool:
        """Answers in the request's encoding. False when the connection is gone or the request was oneway."""
    def send(
        self,
        connection_id: int,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        opaque: int,
        oneway: bool = False,
        serialize_type: int = 0,
    ) -> bool:
        """A request of ours on a client's connection; its response comes back as KIND_RESPONSE with the same opaque."""
    def resubmit(self, request: Request) -> bool:
        """Gives a punted request to the fast path again (once; its native frame is kept until the Request is gone)."""
    def close_connection(self, connection_id: int) -> bool: ...
    def stats(self) -> dict[str, int]: ...
    def __enter__(self) -> Server: ...
    def __exit__(self, *exc: object) -> None: ...

class LogTap:
    """The native log ring (csrc/base/log.h)."""

    event_fd: int
    dropped: int
    def take(self, lines_max: int = 256) -> list[tuple[int, int, str]]:
        """(level, wall ms, text) oldest first."""
    def close(self) -> None: ...
