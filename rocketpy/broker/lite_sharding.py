"""Which broker of a cluster holds a lite topic: the proxies of its producers send to that broker's queue, and its consumers read it there.
RocketMQ: LiteShardingImpl (5.5.0 broker/lite/).
"""

from __future__ import annotations

from collections.abc import Sequence

from .names import consistent_hash, java_hash
from .routes import TopicRoutes


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
