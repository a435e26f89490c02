"""Stub of rocketpy._core.broker_counters: what the broker has counted (csrc/broker/broker_stats.h)."""

from typing import Any, Final

from .lite_topics import LiteTopics

INTAKE_SIZES: Final[tuple[int, ...]]
"""Bytes of a stored message, at most, in each class of sizes but the last."""
ANSWER_CLASSES_MS: Final[tuple[int, ...]]
"""Milliseconds from a request's arrival to its answer, at most, in each class but the last."""
END_SECONDS: Final[tuple[int, ...]]
"""Seconds from a transactional message's birth to its commit, at most, in each class but the last."""
DELAY_SECONDS: Final[tuple[int, ...]]
"""Seconds from a timed message's birth to its time, at most, in each class but the last."""

class BrokerCounters(LiteTopics):
    """The part of Broker that tells what was counted; a base class only."""

    def topic_stats(self) -> list[tuple[str, int, int, int, int]]:
        """(topic, messages in, bytes in, messages out, bytes out)."""
    def topic_intakes(self) -> list[tuple[Any, ...]]:
        """(topic, type: 0 normal, 1 fifo, 2 delay, 3 transaction, bytes in, messages in each class of INTAKE_SIZES and above the last…)
        of each topic and type that has had messages."""
    def transaction_ends(self) -> list[tuple[Any, ...]]:
        """(topic, commits, rollbacks, the commits' seconds from birth to commit in all, commits in each class of END_SECONDS and above the
        last…)."""
    def timer_delays(self) -> list[tuple[Any, ...]]:
        """(topic, timed messages delivered, seconds from birth to time of all that came to wait, how many of those are in each class of
        DELAY_SECONDS and above the last…) of each topic that has had timed messages."""
    def answer_stats(self) -> list[tuple[int, ...]]:
        """(request code, response code, 1 for answers that had to wait, nanoseconds of all, answers in each class of ANSWER_CLASSES_MS and
        above the last…), one row for each reactor. Answers that Python gave are not in it."""
    def group_stats(self) -> list[tuple[str, str, int, int, int]]:
        """(group, topic, messages out, bytes out, messages sent back)."""
    def stats(self) -> dict[str, Any]:
        """The fields of rp_broker_stats; put_ms is a list."""
