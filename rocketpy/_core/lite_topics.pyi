"""Stub of rocketpy._core.lite_topics: who reads which lite topics (csrc/broker/lite.h)."""

from .escaping_messages import EscapingMessages

class LiteTopics(EscapingMessages):
    """The part of Broker for lite topics; a base class only."""

    def put_lite_group(self, group: str, topic: str, is_wildcard: bool) -> None:
        """Whose lite topics the group reads, "" of none, and whether all. Raises InvalidArgument, NoMemory."""
    def put_lite_reader(self, group: str, client: str, queue: str) -> None:
        """The client reads the lite topic of that light queue. Raises InvalidArgument: no such names; Busy: a bound; NoMemory."""
    def delete_lite_reader(self, group: str, client: str, queue: str) -> None: ...
    def delete_lite_readers(self, group: str, client: str) -> None:
        """It reads nothing more; "": the wildcard group."""
    def put_lite_wildcard(self, group: str, topic: str) -> None:
        """The group reads all lite topics of the topic: what is in their queues, and what comes. Looks at every queue of the store. Raises
        InvalidArgument; Busy, NoMemory: it was not told of all."""
    def lite_wildcard_has_missed(self, group: str) -> bool:
        """Whether it was not told of something since the last time this was asked."""
    def forget_lite_queue(self, queue: str) -> None:
        """It was deleted: nobody reads it."""
    def look_at_lite_queues(self, group: str, client: str) -> None:
        """Has all looked at that the client, "": every client of the group, reads."""
    def lite_stats(self) -> dict[str, int]:
        """Counts by the names of rp_lite_stats."""
    def lite_last_pop_ms(self, group: str, client: str) -> int:
        """How long ago the client's last pop came; -1: it is not known."""
