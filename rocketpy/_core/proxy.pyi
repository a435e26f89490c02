"""Stub of rocketpy._core.proxy: gRPC calls that are answered without Python (csrc/proxy/proxy.h)."""

from typing import Any, Final

from typing_extensions import disjoint_base

from .remoting import Gate, Handler

METHOD_SEND: Final[int]
METHOD_ACK: Final[int]
METHOD_CHANGE: Final[int]
METHOD_RECEIVE: Final[int]
TYPE_NORMAL: Final[int]
TYPE_FIFO: Final[int]
TYPE_DELAY: Final[int]
TYPE_PRIORITY: Final[int]
TYPE_LITE: Final[int]

@disjoint_base
class Proxy(Handler):
    """Owns one rp_proxy, the handler of the gRPC port's Server and of its Grpc. Close it after that Server."""

    def __init__(self, *, gate: Gate | None = None, credentials: tuple[str, str, str | None] | None = None, **options: Any) -> None:
        """gate: decides which users may call. credentials: access key, secret and perhaps a token, to sign requests to brokers. options
        are the other fields of rp_proxy_options. Raises InvalidArgument, NoMemory."""
    def put_route(
        self,
        topic: str,
        types: int,
        brokers: list[tuple[str, bytes, int]],
        queues: list[tuple[int, int]],
        *,
        ask_again_ns: int,
        ends_ns: int,
    ) -> bool:
        """Messages of these TYPE_ bits go to these queues, (index in brokers, id), of brokers with name, address and port, until the
        monotonic times: see csrc/proxy/route_table.h. Returns False if the table is full. Raises InvalidArgument, NoMemory."""
    def forget_route(self, topic: str) -> None:
        """From now on messages to the topic are left to Python."""
    def put_reading(
        self,
        topic: str,
        group: str,
        brokers: list[tuple[str, bytes, int]],
        *,
        is_orderly: bool,
        retries: int,
        ask_again_ns: int,
        ends_ns: int,
    ) -> bool:
        """The group reads the topic from these brokers until the times; is_orderly: whether it gets messages in order; retries: how
        often a message is delivered again. Returns False if the table is full. Raises as put_route."""
    def forget_reading(self, topic: str, group: str) -> None:
        """From now on receives of the group from the topic are left to Python."""
    def put_client(self, client_id: str, reserve_ms: int) -> bool:
        """Adds a client that has sent its settings: see csrc/proxy/known_clients.h. Returns False if the table is full. Raises
        InvalidArgument, NoMemory."""
    def forget_client(self, client_id: str) -> None:
        """From now on receives of the client are left to Python."""
    def put_broker(self, name: str, address: bytes, port: int) -> bool:
        """Sets the address of the broker's master. Returns False if the table is full. Raises InvalidArgument, NoMemory."""
    def forget_broker(self, name: str) -> None:
        """From now on calls for the broker are left to Python."""
    def hold(self, client_id: str, group: str, first: str) -> bool:
        """Adds a message whose invisible time is renewed; first: the handle that its client knows: see csrc/proxy/held_handles.h.
        Returns False if the table is full. Raises NoMemory."""
    def tell_held(self, before_ms: int) -> tuple[str, str, str, str, str, int, int] | None:
        """Takes the oldest message that was received natively before before_ms and has not been reported yet: client, group, topic,
        message id, the handle that the client knows, since when it is held, and how often it was delivered before. None: there is none."""
    def is_held(self, client_id: str, group: str, first: str) -> bool:
        """Returns False if the message was never held, or was acknowledged."""
    def begin_renewal(self, client_id: str, group: str, first: str) -> bool:
        """Returns False if the message is not held, or is being renewed already. Until end_renewal its acknowledgement is left to
        Python."""
    def end_renewal(self, client_id: str, group: str, first: str, today: str = "") -> None:
        """Ends a renewal; today: the new handle, "" to keep the old one."""
    def forget_held(self, client_id: str, group: str, first: str) -> bool:
        """The message is not renewed any more. Returns False if it was not held."""
    def stats(self) -> dict[str, int]:
        """The fields of rp_proxy_stats."""
    def times(self, method: int) -> list[tuple[int, int, list[int]]]:
        """Of a METHOD_: (code of the answer, sum of nanoseconds, calls in each class of remoting/latencies.py)."""
    def close(self) -> None:
        """Idempotent. Raises Busy if its Server is not closed."""
