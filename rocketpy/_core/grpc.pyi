"""Stub of rocketpy._core.grpc: what speaks gRPC on a server's connections (csrc/grpc/grpc.h)."""

from collections.abc import Sequence
from typing import Final

from typing_extensions import disjoint_base

from .remoting import Handler, Protocol, Request

EVENT_COMPRESSED: Final = 1
EVENT_STREAM: Final = 2

@disjoint_base
class Grpc(Protocol):
    """Owner of one rp_grpc, for Server.set_protocol. Calls come up as that server's Requests: kind KIND_CALL, KIND_MESSAGE,
    KIND_HALF_CLOSED, KIND_CANCELLED, KIND_ROOM; code: the method's place in `methods`; opaque: the call, of its connection; flag: EVENT_
    bits; body: the message; fields: metadata.

    What is said to a call, by its Request, is queued: False when the connection holds as much as it may, or its reactor is behind. A call
    or a connection that has ended takes it for nothing."""

    def __init__(
        self,
        methods: Sequence[tuple[str, bool]],
        *,
        handler: Handler | None = None,
        message_bytes_max: int | None = None,
        calls_max: int | None = None,
    ) -> None:
        """methods: "/package.Service/Method", and whether its client sends a stream. handler: asked before Python, if it has a native
        handler of calls. Raises Unsupported without libnghttp2."""
    def send(self, call: Request, message: bytes, *, is_last: bool = False) -> bool:
        """A message of the answer; is_last: with OK after it."""
    def end(self, call: Request, code: int, text: str = "") -> bool:
        """The answer's end with gRPC's status code; False: its reactor is behind."""
    def took(self, call: Request) -> bool:
        """A KIND_MESSAGE has been dealt with: its client may send more."""
    def ask_room(self, call: Request, *, of_connection: bool = False) -> bool:
        """KIND_ROOM follows, once, as soon as all that was said of the answer has gone as far as the client lets it; of the connection,
        opaque 0, when that takes messages again."""
