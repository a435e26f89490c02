"""Stub of rocketpy._core.broker_counters: the broker's statistics (csrc/broker/broker_stats.h)."""

from typing import Any, Final

from .lite_topics import LiteTopics

INTAKE_SIZES: Final[tuple[int, ...]]
"""Upper bounds of the classes of stored messages, in bytes; the last class has none."""
ANSWER_CLASSES_MS: Final[tuple[int, ...]]
"""Upper bounds of the classes of times from request to answer, in milliseconds; the last class has none."""
END_SECONDS: Final[tuple[int, ...]]
"""Upper bounds of the classes of times from a transactional message's birth to its commit, in seconds; the last class has none."""
DELAY_SECONDS: Final[tuple[int, ...]]
"""Upper bounds of the classes of times from a timed message's birth to its delivery time, in seconds; the last class has none."""

class BrokerCounters(LiteTopics):
    """The part of Broker that reports statistics; a base class only."""

    def topic_stats(self) -> list[tuple[str, int, int, int, int]]:
        """(topic, messages in, bytes in, messages out, bytes out)."""
    def topic_intakes(self) -> list[tuple[Any, ...]]:
        """(topic, type: 0 normal, 1 fifo, 2 delay, 3 transaction, bytes in, messages in each class of INTAKE_SIZES…) of each topic and
        type that has had messages."""
    def transaction_ends(self) -> list[tuple[Any, ...]]:
        """(topic, commits, rollbacks, sum of seconds from birth to commit, commits in each class of END_SECONDS…)."""
    def timer_delays(self) -> list[tuple[Any, ...]]:
        """(topic, timed messages delivered, sum of seconds from birth to delivery time of all timed messages, how many of those are in
        each class of DELAY_SECONDS…) of each topic that has had timed messages."""
    def answer_stats(self) -> list[tuple[int, ...]]:
        """(request code, response code, 1 for answers that had to wait, sum of nanoseconds, answers in each class of
        ANSWER_CLASSES_MS…), one row for each reactor. Answers given by Python are not included."""
    def group_stats(self) -> list[tuple[str, str, int, int, int]]:
        """(group, topic, messages out, bytes out, messages sent back)."""
    def stats(self) -> dict[str, Any]:
        """The fields of rp_broker_stats; put_ms is a list."""
