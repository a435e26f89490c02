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
    """One decoded remoting command. Immutable; bytes are copies. Made by decode_command and Server.take only."""

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
    """A command that came up from a reactor, with its connection. fields, body and remark are converted when first asked for."""

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
        """Of a call: until when its client waits, by time.monotonic_ns; NO_DEADLINE: for ever."""

def decode_command(frame: bytes | bytearray | memoryview) -> Command:
    """Decodes one whole frame, its 4 length bytes included. Raises ProtocolError with the byte offset and cause."""

def scan_frame(data: bytes | bytearray | memoryview, frame_size_max: int = ...) -> int:
    """Size in bytes of the whole frame at the head of data, 0 when more bytes are needed. Raises ProtocolError."""

def scan_proxy_header(data: bytes) -> tuple[int, bytes, int]:
    """What a balancer says before a connection's first byte (HAProxy's PROXY protocol): the header's size; the client's address, b"" when
    it tells none; and its port. Size 0: more bytes are needed to know; -1: data begins with no such header."""

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
    """One frame, length included. Defaults: LanguageCode.PYTHON, MQVersion.V5_3_3. Raises TooLarge, InvalidArgument."""

@disjoint_base
class Handler(NativeObject):
    """What a Server calls on its reactors; the Broker is one. Closed after the servers it is attached to have stopped."""

class Gate(NativeObject):
    """What a Server asks before every request whether it may; the AuthTable is one. Closed after the servers that have it."""

@disjoint_base
class Protocol(NativeObject):
    """What a Server's connections speak instead of RocketMQ's frames; Grpc is one."""

    def close(self) -> None: ...

@disjoint_base
class Server(NativeObject):
    """Owner of one rp_server. `handler` is a Broker whose fast path answers sends and pulls, or None: everything comes up to Python.

    Binds and listens at once; reactors run from start() to stop(). close() stops when needed, after the handler's close(): its flusher and
    slaves wake our reactors until then (Busy). The native server is freed when the last Request taken from it is gone."""

    def __init__(self, *, handler: Handler | None = None, log: LogTap | None = None, **options: Unpack[ServerOptions]) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def event_fd(self) -> int:
        """Readable when requests wait; for asyncio's add_reader."""
    def set_gate(self, gate: Gate) -> None:
        """Before start(), once: later it raises Busy."""
    def set_protocol(self, protocol: Protocol) -> None:
        """Before load_tls() and start(), once: later it raises Busy. It is this server's from then on, and closed with it."""
    def pass_http2_on(self, address: bytes, port: int) -> None:
        """What begins as HTTP/2 does goes on to the server there, behind a PROXY header that says who the client is. Before load_tls() and
        start(): later, or with a protocol, it raises Busy."""
    def start(self) -> None: ...
    def load_tls(self, **options: Unpack[TlsOptions]) -> None:
        """Reads certificate, key and trust; handshakes that begin from now on go by them. Raises Unsupported without OpenSSL, NotFound,
        StoreIOError, InvalidArgument for what a file holds: then what was loaded before stays."""
    def stop(self, drain_ms: int = 500) -> None:
        """Blocks until the reactors have ended: drain_ms at most, then connections are cut."""
    def close(self) -> None: ...
    def take(self, requests_max: int = 256) -> list[Request]:
        """Requests that wait, oldest first, at most 256; empty when there are none (the event fd is then armed again)."""
    def respond(
        self,
        request: Request,
        code: int,
        remark: str | None = None,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> bool:
        """Answers in the request's encoding. False when the connection is gone, takes no more, or the request was oneway."""
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
    def resubmit(self, request: Request, found: int = 1) -> bool:
        """Gives a punted request to the fast path again, once: it cannot be answered from Python afterwards. found: what was found out
        about it, a number above 0 that the handler knows."""
    def close_connection(self, connection_id: int) -> bool: ...
    def stats(self) -> dict[str, int]:
        """The fields of rp_server_stats."""
