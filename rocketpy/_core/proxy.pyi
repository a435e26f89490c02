"""Stub of rocketpy._core.proxy: gRPC calls that are answered without Python (csrc/proxy/proxy.h)."""

from typing import Any, Final

from typing_extensions import disjoint_base

from .remoting import Handler

TYPE_NORMAL: Final[int]
TYPE_FIFO: Final[int]
TYPE_DELAY: Final[int]

@disjoint_base
class Proxy(Handler):
    """Owner of one rp_proxy. It is the handler of the gRPC port's Server and of what speaks gRPC there; close it after that Server."""

    def __init__(self, **options: Any) -> None:
        """options are the fields of rp_proxy_options. Raises InvalidArgument, NoMemory."""
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
    def stats(self) -> dict[str, int]:
        """The fields of rp_proxy_stats."""
    def times(self) -> list[tuple[int, int, list[int]]]:
        """Of SendMessage: (code of the answer, nanoseconds together, how many by the classes of remoting/latencies.py)."""
    def close(self) -> None:
        """Idempotent. Raises Busy while its Server is not closed."""
