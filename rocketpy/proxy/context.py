"""What a call carries beside its message: who asks, and how long the caller waits.
RocketMQ: ProxyContext, HeaderInterceptor (5.3.3 proxy/).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..config import join_address
from .status import ProxyError

NO_DEADLINE_MS = 30_000


def now_ms() -> int:
    """Milliseconds since 1970, by the wall clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Context:
    """What is known about one call and its caller."""

    client_id: str
    language: str
    version: str
    host: str
    """The client's address, without its port."""
    remaining_ms: Callable[[], int]
    """Until the client gives up."""
    authorization: str = ""
    """Who it says it is, with his signature."""
    date_time: str = ""
    """What is signed."""
    access_key: str = ""
    port: int = 0

    @property
    def address(self) -> str:
        return join_address(self.host, self.port)

    @classmethod
    def of(cls, given: Mapping[str, str], client: tuple[str, int], remaining_s: Callable[[], float | None]) -> Context:
        """`given`: the call's metadata; `client`: the caller's host and port. Raises ProxyError CLIENT_ID_REQUIRED."""
        client_id = given.get("x-mq-client-id", "")
        if not client_id.strip():
            raise ProxyError("CLIENT_ID_REQUIRED", "client id cannot be empty")

        def remaining_ms() -> int:
            left_s = remaining_s()
            return NO_DEADLINE_MS if left_s is None else int(left_s * 1000)

        return cls(
            client_id,
            given.get("x-mq-language", ""),
            given.get("x-mq-client-version", ""),
            client[0],
            remaining_ms,
            given.get("authorization", ""),
            given.get("x-mq-date-time", ""),
            given.get("x-mq-authorization-ak", ""),
            client[1],
        )
