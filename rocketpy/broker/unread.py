"""The oldest message of the log that a reader of its queue has not read yet, and so which group would lose messages if files were deleted.

The readers of a queue are the groups that have committed an offset in it. Broadcasting groups keep their offsets to themselves, so they do
not count, nor do RocketMQ's own groups (CID_RMQ_SYS_…). A queue without readers holds nothing back. A group that is gone for good holds
its messages until an operator deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._core.store import MessageStore
from .names import SYSTEM_GROUP_PREFIX
from .retention import Unread


def oldest_unread(offsets: Iterable[tuple[str, str, int, int]], store: MessageStore) -> Unread | None:
    """offsets: (group, topic, queue id, committed). Blocks on the disk, because it reads an entry for each queue that is not read to its
    end. Raises StoreIOError."""
    oldest: Unread | None = None
    for group, topic, queue_id, committed in offsets:
        if group.startswith(SYSTEM_GROUP_PREFIX) or committed >= store.max_offset(topic, queue_id):
            continue
        offset = max(committed, store.min_offset(topic, queue_id))
        for log_offset, _, _ in store.entries(topic, queue_id, offset, 1):
            if oldest is None or log_offset < oldest.log_offset:
                oldest = Unread(log_offset, group, topic, queue_id, offset)
    return oldest
