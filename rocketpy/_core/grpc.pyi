"""Stub of rocketpy._core.grpc: gRPC on a server's connections (csrc/grpc/grpc.h)."""

from collections.abc import Sequence
from typing import Final

from typing_extensions import disjoint_base

from .remoting import Handler, Protocol, Request

EVENT_COMPRESSED: Final = 1
EVENT_STREAM: Final = 2

@disjoint_base
class Grpc(Protocol):
    """Owns one rp_grpc, for Server.set_protocol. Calls come up as that server's Requests: kind KIND_CALL, KIND_MESSAGE, KIND_HALF_CLOSED,
    KIND_CANCELLED, KIND_ROOM; code: the method's index in `methods`; opaque: the call on its connection; flag: EVENT_ bits; body: the
    message; fields: metadata.

    The methods that answer a call, named by its Request, queue their part. They return False if the connection holds as much as it may,
    or its reactor is behind; True without an effect for one that has ended.
    """

    def __init__(
        self,
        methods: Sequence[tuple[str, bool]],
        *,
        handler: Handler | None = None,
        message_bytes_max: int | None = None,
        calls_max: int | None = None,
    ) -> None:
        """methods: "/package.Service/Method", and whether its client sends a stream. handler: asked before Python, if it has a native
        handler of calls. Raises Unsupported if libnghttp2 is missing."""
    def send(self, call: Request, message: bytes, *, is_last: bool = False) -> bool:
        """Sends a message of the answer; is_last: followed by the status OK."""
    def end(self, call: Request, code: int, text: str = "") -> bool:
        """Ends the answer with a gRPC status code. Returns False if the reactor is behind."""
    def took(self, call: Request) -> bool:
        """Reports that a KIND_MESSAGE has been handled: its client may send more."""
    def ask_room(self, call: Request, *, of_connection: bool = False) -> bool:
        """Asks for one KIND_ROOM as soon as the answer so far has been sent as far as the client's window lets it; of_connection: for
        opaque 0, as soon as the connection takes messages again."""
