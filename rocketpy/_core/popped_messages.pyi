"""Stub of rocketpy._core.popped_messages: pop consumption (csrc/broker/pop.h)."""

from typing_extensions import disjoint_base

from .remoting import Handler
from .results import ForeignMessage, PopOrder

@disjoint_base
class PoppedMessages(Handler):
    """The part of Broker for pop consumption; a base class only."""

    def start_revive(self) -> None:
        """Starts to move messages that were popped and not acked in time to their retry topic. For a master. Idempotent. Raises Busy,
        NoMemory."""
    def stop_revive(self) -> None:
        """Returns when nothing is revived any more. Idempotent."""
    def wanted_retry_topic(self) -> tuple[str, int] | None:
        """Takes one of the retry topics that are missing or have too few queues, with the number of queues that it needs. Messages for
        it wait, and name it again as long as it is missing."""
    def take_foreign(self) -> ForeignMessage | None:
        """Returns the next message of another broker that a checkpoint here refers to; None: there is none that has not been taken."""
    def put_foreign(self, id: int, status: int, record: bytes) -> None:
        """Reports what became of it. status 0: found, with its record; NotFound.status: it is gone; that of another error: it may be
        taken again. Raises Busy, NoMemory: likewise."""
    def pop_orders(self) -> list[PopOrder]:
        """What order consumers hold: the content of consumerOrderInfo.json."""
    def put_pop_order(self, order: PopOrder) -> None:
        """Replaces the entry. Raises InvalidArgument if the names, the queue, the number of messages (1 to 32) or the attempt id are
        invalid; NoMemory."""
    def pop_order_version(self) -> int:
        """Increases with each change of pop_orders()."""
    def pop_stats(self) -> dict[str, int]:
        """The fields of rp_pop_stats."""
