"""Which broker of a cluster a lite topic is of: its producers' proxies send to that one's queue, and its consumers read it there.
RocketMQ: LiteShardingImpl (5.5.0 broker/lite/), Hashing.consistentHash of Guava, which proxies choose the queue by.
"""

from __future__ import annotations

from collections.abc import Sequence

from .names import java_hash
from .routes import TopicRoutes

_MASK = (1 << 64) - 1
_FACTOR = 2_862_933_555_777_941_757


def consistent_hash(value: int, buckets: int) -> int:
    """The bucket of a number, of which few move when buckets are added: the jump hash of Lamping and Veach."""
    state, bucket = value & _MASK, 0
    while True:
        state = (_FACTOR * state + 1) & _MASK
        divisor = (state >> 33) + 1
        if divisor == 1 << 31:  # Java's int is negative then
            return bucket
        candidate = int((bucket + 1) / (divisor / (1 << 31)))
        if candidate >= buckets:
            return bucket
        bucket = candidate


def broker_of(lite_topic: str, senders: Sequence[str], own: str) -> str:
    """senders: the broker of each writable queue of the parent topic. Of a topic that has none it is this broker."""
    return senders[consistent_hash(java_hash(lite_topic), len(senders))] if senders and lite_topic else own


class LiteSharding:
    """The routes of parent topics, as they are known."""

    def __init__(self, routes: TopicRoutes, broker_name: str) -> None:
        self._routes = routes
        self._broker_name = broker_name

    async def senders(self, parent: str) -> list[str]:
        """As TopicRoutes.senders."""
        return await self._routes.senders(parent)

    def is_own(self, lite_topic: str, senders: Sequence[str]) -> bool:
        """Whether it is this broker's."""
        return broker_of(lite_topic, senders, self._broker_name) == self._broker_name
