"""Stub of rocketpy._core.popped_messages: pop consumption (csrc/broker/pop.h)."""

from typing_extensions import disjoint_base

from .remoting import Handler
from .results import ForeignMessage, PopOrder

@disjoint_base
class PoppedMessages(Handler):
    """The part of Broker for pop consumption; a base class only."""

    def start_revive(self) -> None:
        """What was popped and not acked in time goes to its retry topic. A master's. Idempotent. Raises Busy, NoMemory."""
    def stop_revive(self) -> None:
        """Returns when nothing is revived any more. Idempotent."""
    def wanted_retry_topic(self) -> tuple[str, int] | None:
        """Takes a retry topic that is missing or has too few queues, of some, and how many it is to have; what goes there waits for it, and
        names it again while it is missing."""
    def take_foreign(self) -> ForeignMessage | None:
        """The next message of another broker that a checkpoint here stands for; None: there is none that nobody has taken."""
    def put_foreign(self, id: int, status: int, record: bytes) -> None:
        """What became of it: 0 and its record; NotFound.status: it is gone; another error's: it may be taken again. Raises Busy, NoMemory:
        so it may."""
    def pop_orders(self) -> list[PopOrder]:
        """What order consumers have: of consumerOrderInfo.json."""
    def put_pop_order(self, order: PopOrder) -> None:
        """In place of what is there. Raises InvalidArgument: names, queue, 1 to 32 messages or attempt id cannot be; NoMemory."""
    def pop_order_version(self) -> int:
        """Grows with each change of pop_orders()."""
    def pop_stats(self) -> dict[str, int]:
        """Counters by the names of rp_pop_stats."""
