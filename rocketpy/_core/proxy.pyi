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
    """Owner of one rp_proxy. It is the handler of the gRPC port's Server and of what speaks gRPC there; close it after that Server."""

    def __init__(self, *, gate: Gate | None = None, credentials: tuple[str, str, str | None] | None = None, **options: Any) -> None:
        """gate: whom its users are let in by. credentials: an access key, its secret and perhaps a token, to sign with what goes to
        brokers. options are the other fields of rp_proxy_options. Raises InvalidArgument, NoMemory."""
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
        """Messages of these TYPE_ bits go to these queues, (place among the brokers, id), of brokers by name, address and port, until the
        monotonic times: see csrc/proxy/route_table.h. False: there are as many topics as may be. Raises InvalidArgument, NoMemory."""
    def forget_route(self, topic: str) -> None:
        """Its messages are Python's from now on."""
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
        """A group reads the topic from these brokers, until the times; its messages come in order or not, and so often again. False: there
        are as many as may be. Raises as put_route."""
    def forget_reading(self, topic: str, group: str) -> None:
        """What is asked for it is Python's from now on."""
    def put_client(self, client_id: str, reserve_ms: int) -> bool:
        """One that has sent its settings: see csrc/proxy/known_clients.h. False: there are as many as may be. Raises InvalidArgument,
        NoMemory."""
    def forget_client(self, client_id: str) -> None:
        """What it receives is Python's from now on."""
    def put_broker(self, name: str, address: bytes, port: int) -> bool:
        """Where its master is. False: there are as many brokers as may be. Raises InvalidArgument, NoMemory."""
    def forget_broker(self, name: str) -> None:
        """What is for it is Python's from now on."""
    def hold(self, client_id: str, group: str, first: str) -> bool:
        """A message that is renewed from now on, by the handle that its client knows: see csrc/proxy/held_handles.h. False: there are as
        many as may be. Raises NoMemory."""
    def tell_held(self, before_ms: int) -> tuple[str, str, str, str, str, int, int] | None:
        """Of the messages that were received natively before then the oldest that was not told yet: client, group, topic, message id, the
        handle that the client knows, since when it is held, and how often it came before. None: there is none."""
    def is_held(self, client_id: str, group: str, first: str) -> bool:
        """False: nobody held it, or it was acknowledged."""
    def begin_renewal(self, client_id: str, group: str, first: str) -> bool:
        """False: it is not held, or renewed already. While it is renewed its acknowledgement is Python's."""
    def end_renewal(self, client_id: str, group: str, first: str, today: str = "") -> None:
        """With the handle it has now; without one it is the same as before."""
    def forget_held(self, client_id: str, group: str, first: str) -> bool:
        """It is not renewed any more. False: it was not held."""
    def stats(self) -> dict[str, int]:
        """The fields of rp_proxy_stats."""
    def times(self, method: int) -> list[tuple[int, int, list[int]]]:
        """Of a METHOD_: (code of the answer, nanoseconds together, how many by the classes of remoting/latencies.py)."""
    def close(self) -> None:
        """Idempotent. Raises Busy while its Server is not closed."""
