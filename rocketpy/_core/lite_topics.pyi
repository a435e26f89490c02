"""Stub of rocketpy._core.lite_topics: which clients read which lite topics (csrc/broker/lite.h)."""

from .escaping_messages import EscapingMessages

class LiteTopics(EscapingMessages):
    """The part of Broker for lite topics; a base class only."""

    def put_lite_group(self, group: str, topic: str, is_wildcard: bool) -> None:
        """Sets the topic whose lite topics the group reads, "" for none, and whether it reads all of them. Raises InvalidArgument,
        NoMemory."""
    def put_lite_reader(self, group: str, client: str, queue: str) -> None:
        """The client reads the lite topic of that light queue. Raises InvalidArgument: a name is invalid; Busy: a bound is reached;
        NoMemory."""
    def delete_lite_reader(self, group: str, client: str, queue: str) -> None: ...
    def delete_lite_readers(self, group: str, client: str) -> None:
        """The client reads nothing any more; "": the wildcard group."""
    def put_lite_wildcard(self, group: str, topic: str) -> None:
        """The group reads all lite topics of the topic: the messages in their queues, and later ones. Looks at every queue of the store.
        Raises InvalidArgument; Busy, NoMemory: the group was not told of all messages."""
    def lite_wildcard_has_missed(self, group: str) -> bool:
        """Returns whether the group was not told of a message since the last call."""
    def forget_lite_queue(self, queue: str) -> None:
        """The light queue was deleted: nobody reads it any more."""
    def look_at_lite_queues(self, group: str, client: str) -> None:
        """Checks all light queues that the client reads for messages; "": those of every client of the group."""
    def lite_stats(self) -> dict[str, int]:
        """The fields of rp_lite_stats."""
    def lite_last_pop_ms(self, group: str, client: str) -> int:
        """How long ago the client's last pop arrived; -1: not known."""
