"""Topics that have messages here but are missing in the table: the old master made them after this slave had last copied its table, and
then the slave became the master. Without a configuration, messages that producers were told are stored could not be read. RocketMQ has
nothing of the kind.

    first message not older than the table  → the topic was made after the table: it gets a configuration
    first message older                     → the topic was deleted, as the table knows: it gets none
    the table has no time                   → this slave has copied no table yet and knows of no deletion: every topic gets one

Both times are of one clock, the master's: the table's version has the time of its last change, the message the time when it was stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from .._core.store import MessageStore
from ..remoting.bodies import TopicConfig
from .attributes import BATCH_QUEUES, QUEUE_TYPE
from .names import LIGHT_QUEUE_PREFIX, PERM_READ, PERM_WRITE, SYSTEM_TOPIC_PREFIX, is_possible
from .topics import QUEUES_MAX, TopicTable

log = logging.getLogger(__name__)

_NOT_CLIENTS: Final = (LIGHT_QUEUE_PREFIX, SYSTEM_TOPIC_PREFIX)


def unlisted_topics(
    queues: Iterable[tuple[str, int]],
    is_listed: Callable[[str], bool],
    offsets: Callable[[str, int], tuple[int, int]],
    first_ms: Callable[[str, int], int],
    listed_ms: int,
) -> dict[str, int]:
    """How many queues each such topic has, as far as its messages tell.

    `offsets` gives the first one of a queue and its end, `first_ms` when its first message was stored (-1: it cannot be read); `listed_ms`
    is when the table changed last, 0: never. A topic with a queue that does not begin with its first message is older than that: nothing
    expires, and nothing is deleted, within seconds of its making."""
    found: dict[str, int] = {}
    old: set[str] = set()
    for topic, queue_id in queues:
        if topic in old or is_listed(topic) or not is_possible(topic) or topic.startswith(_NOT_CLIENTS):
            continue
        begin, end = offsets(topic, queue_id)
        if begin == end == 0:
            continue
        if listed_ms == 0 or (begin == 0 and first_ms(topic, queue_id) >= listed_ms):
            found[topic] = max(found.get(topic, 0), queue_id + 1)
        else:
            old.add(topic)
            found.pop(topic, None)
    return found


def list_unlisted(topics: TopicTable, store: MessageStore) -> None:
    """Gives them a configuration, at the start of a master whose table was read. What is not saved of it before a crash is found again."""
    found = unlisted_topics(
        store.queues(),
        topics.__contains__,
        lambda topic, queue_id: (store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)),
        lambda topic, queue_id: store.time_at(topic, queue_id, 0),
        topics.version.timestamp,
    )
    for topic, queues in found.items():
        log.warning(
            "topic %s has messages that are younger than topics.json, which does not have it: it was made just before its master went away "
            "and gets the %d queues that its messages tell of, mqadmin updateTopic makes it what else it was",
            topic,
            queues,
        )
        if store.is_batch(topic, queues - 1):
            config = TopicConfig(topic, min(queues, QUEUES_MAX), min(queues, QUEUES_MAX), PERM_READ | PERM_WRITE)
            topics.update(config, {f"+{QUEUE_TYPE}": BATCH_QUEUES})
        else:
            topics.create_plain(topic, min(queues, QUEUES_MAX), PERM_READ | PERM_WRITE)
