"""Stub of rocketpy._core.remoting: the native remoting server (csrc/remoting/server.h) and the frame codec."""

from collections.abc import Mapping
from typing import Final, Unpack

from typing_extensions import disjoint_base

from .base import LogTap as LogTap
from .base import NativeObject
from .options import ServerOptions as ServerOptions
from .options import TlsOptions as TlsOptions

KIND_COMMAND: Final = 0
KIND_RESPONSE: Final = 1
KIND_OPENED: Final = 2
KIND_CLOSED: Final = 3
KIND_CALL: Final = 4
KIND_MESSAGE: Final = 5
KIND_HALF_CLOSED: Final = 6
KIND_CANCELLED: Final = 7
KIND_ROOM: Final = 8
NO_DEADLINE: Final = 0x7FFFFFFFFFFFFFFF

@disjoint_base
class Command:
    """One decoded remoting command. Immutable; bytes are copies. Made only by decode_command and Server.take."""

    @property
    def code(self) -> int: ...
    @property
    def language(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def opaque(self) -> int: ...
    @property
    def flag(self) -> int: ...
    @property
    def serialize_type(self) -> int:
        """0 JSON, 1 ROCKETMQ."""
    @property
    def remark(self) -> str | None: ...
    @property
    def fields(self) -> dict[str, str]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def is_response(self) -> bool: ...
    @property
    def is_oneway(self) -> bool: ...

@disjoint_base
class Request(Command):
    """A command that came up from a reactor, with its connection. fields, body and remark are converted at the first access."""

    @property
    def kind(self) -> int:
        """One of the KIND_ constants."""
    @property
    def connection_id(self) -> int: ...
    @property
    def remote_address(self) -> str:
        """ "ip:port" or "[ipv6]:port"."""
    @property
    def deadline_ns(self) -> int:
        """For a call: how long its client waits, by time.monotonic_ns; NO_DEADLINE: for ever."""

def decode_command(frame: bytes | bytearray | memoryview) -> Command:
    """Decodes one complete frame, with its 4 length bytes. Raises ProtocolError with the byte offset and cause."""

def scan_frame(data: bytes | bytearray | memoryview, frame_size_max: int = ...) -> int:
    """Returns the size in bytes of the frame at the head of data; 0 if more bytes are needed. Raises ProtocolError."""

def scan_proxy_header(data: bytes) -> tuple[int, bytes, int]:
    """Reads what a balancer sends before a connection's first byte (HAProxy's PROXY protocol). Returns the header's size, the client's
    address (b"" if it gives none) and its port. Size 0: more bytes are needed to decide; -1: data does not begin with such a header."""

def encode_command(
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 0,
    flag: int = 0,
    remark: str | None = None,
    language: int = 3,
    version: int = 479,
    serialize_type: int = 0,
) -> bytes:
    """Returns one frame with its length bytes. Defaults: LanguageCode.PYTHON, MQVersion.V5_3_3. Raises TooLarge, InvalidArgument."""

@disjoint_base
class Handler(NativeObject):
    """What a Server calls on its reactors; the Broker is one. Close it after the servers that it is attached to have stopped."""

class Gate(NativeObject):
    """What a Server asks before every request whether to admit it; the AuthTable is one. Close it after the servers that use it."""

@disjoint_base
class Protocol(NativeObject):
    """What a Server's connections speak instead of RocketMQ's frames; Grpc is one."""

    def close(self) -> None: ...

@disjoint_base
class Server(NativeObject):
    """Owns one rp_server. `handler` is a Broker whose fast path answers sends and pulls, or None: everything comes up to Python.

    Binds and listens at once; reactors run from start() to stop(). close() stops them if needed. It raises Busy before the handler's
    close(), since the handler's flusher and slaves wake the reactors until then. The native server is freed when the last Request taken
    from it is gone.
    """

    def __init__(self, *, handler: Handler | None = None, log: LogTap | None = None, **options: Unpack[ServerOptions]) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def event_fd(self) -> int:
        """Readable while requests wait; for asyncio's add_reader."""
    def set_gate(self, gate: Gate) -> None:
        """To be called at most once, before start(); otherwise raises Busy."""
    def set_protocol(self, protocol: Protocol) -> None:
        """To be called at most once, before load_tls() and start(); otherwise raises Busy. The protocol belongs to this server from then
        on, and is closed with it."""
    def pass_http2_on(self, address: bytes, port: int) -> None:
        """Passes connections that begin as HTTP/2 on to the server there, behind a PROXY header with the client's address. To be called
        before load_tls() and start(), and without a protocol; otherwise raises Busy."""
    def start(self) -> None: ...
    def load_tls(self, **options: Unpack[TlsOptions]) -> None:
        """Reads certificate, key and trust for handshakes from now on. Raises Unsupported if OpenSSL is missing, NotFound, StoreIOError,
        or InvalidArgument for the content of a file; then what was loaded before stays in force."""
    def stop(self, drain_ms: int = 500) -> None:
        """Blocks until the reactors have ended; after drain_ms connections are cut."""
    def close(self) -> None: ...
    def take(self, requests_max: int = 256) -> list[Request]:
        """Returns requests that wait, oldest first, at most 256; empty if there are none (the event fd is then armed again)."""
    def respond(
        self,
        request: Request,
        code: int,
        remark: str | None = None,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> bool:
        """Answers in the request's encoding. Returns False if the connection is gone or takes no more, or the request was oneway."""
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
        """Sends a request to a client on its connection; the response comes back as KIND_RESPONSE with the same opaque."""
    def resubmit(self, request: Request, found: int = 1) -> bool:
        """Gives a punted request to the fast path again, once; Python cannot answer it afterwards. found: what was found out about it, a
        positive number that the handler knows."""
    def close_connection(self, connection_id: int) -> bool: ...
    def stats(self) -> dict[str, int]:
        """The fields of rp_server_stats."""
