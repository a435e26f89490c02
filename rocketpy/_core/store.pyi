"""Stub of rocketpy._core.store: the message store (csrc/store/message_store.h)."""

import os
from typing import Unpack

from typing_extensions import disjoint_base

from .base import LogTap, NativeObject
from .options import MessageStoreOptions as MessageStoreOptions
from .results import AppendResult as AppendResult
from .results import KeyQuery as KeyQuery
from .results import Message as Message
from .results import SyncTimes as SyncTimes

def measure_sync(directory: str | os.PathLike[str], liburing_path: str | None) -> SyncTimes:
    """Times the ways to sync, on a file of its own in directory; takes 100 ms and the length of one sync at most. Raises StoreIOError,
    DiskFull."""

def decode_message(record: bytes | bytearray | memoryview, check_crc: bool = True) -> Message:
    """Raises StoreCorrupt with the cause."""

def host_bytes(host: str) -> tuple[bytes, bool]:
    """Returns "10.0.0.1:10911" as the 20 bytes of a record's host, and whether it is IPv6. Raises InvalidArgument."""

@disjoint_base
class MessageStore(NativeObject):
    """Owns one rp_message_store, open from __init__ to close(). store_host is "ip:port", or 20 bytes with store_host_is_v6."""

    def __init__(self, root_path: str | os.PathLike[str], *, log: LogTap | None = None, **options: Unpack[MessageStoreOptions]) -> None: ...
    def close(self) -> None: ...
    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: str = "",
        *,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp_ms: int = 0,
        born_host: str = "127.0.0.1:0",
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        tags_code: int | None = None,
        inner_messages: int = 0,
    ) -> AppendResult:
        """Appends one message; properties is the wire string (name\\x01value\\x02…). tags_code None: taken from TAGS. inner_messages:
        the body is a batch of so many messages, for a batch queue."""
    def read(self, commit_log_offset: int, size: int | None = None) -> bytes:
        """Returns the bytes of the record at an offset (size None: as the record says). Raises OffsetOutOfRange, StoreCorrupt."""
    def read_in_memory(self, commit_log_offset: int) -> bytes | None:
        """Returns the bytes of the record at an offset, without asking the disk, if memory holds them, as is assumed of the log's last
        64 MiB. None if it does not, if there is no record, or if it has more than 64 KiB. Raises OffsetOutOfRange."""
    def cut_at_open(self, offset: int) -> None:
        """Makes the next open of this store cut its log at offset, and remove everything derived from what follows it. Survives kill -9.
        Raises OffsetOutOfRange, StoreIOError, DiskFull."""
    def expire_file(self) -> bool:
        """Deletes the oldest commit log file with the queue and index files that pointed only into it. Returns False if none may be
        deleted. Blocks on the file system, never on appends. Raises StoreIOError."""
    def reclaim(self) -> int:
        """Frees, in steps, the disk space of deleted files that nobody reads any more. Returns how many are still read. Blocks."""
    def query(self, topic: str, key: str, begin_ms: int, end_ms: int, offsets_max: int) -> KeyQuery:
        """Finds messages by key or unique key, stored in begin_ms..end_ms; at most 1,024 offsets."""
    def min_offset(self, topic: str, queue_id: int) -> int:
        """Returns 0 for a queue that does not exist."""
    def first_offset(self, topic: str, queue_id: int) -> int:
        """As min_offset; but for a compacted queue the offset of the first message that is kept, which may have no entry any more."""
    def max_offset(self, topic: str, queue_id: int) -> int:
        """Returns the offset after the last entry; 0 for a queue that does not exist."""
    def next_offset(self, topic: str, queue_id: int) -> int:
        """Returns the offset of the next message: after entries, too, that are held back until they are confirmed."""
    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: int = 0) -> int:
        """boundary 0: returns the first queue offset stored at timestamp_ms or later, the max offset if there is none; 1: the last one
        stored by then. 0 for a queue that does not exist. Raises StoreIOError."""
    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Returns when the queue's first message was stored, in wall clock ms; -1 if it has none."""
    def time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Returns when the message at a queue offset was stored, in wall clock ms; -1 if there is none."""
    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        """Returns (commit log offset, size, tags code) of the entries of up to count messages from offset on."""
    def queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of every queue that exists."""
    def is_batch(self, topic: str, queue_id: int) -> bool:
        """Returns whether the queue exists and is a batch queue."""
    def delete_topic(self, topic: str, log_offset: int = ...) -> int:
        """Returns how many queues with messages stay. log_offset: delete only queues whose last message lies below it."""
    def set_flush_timing(self, interval_ms: int, least_pages: int, thorough_interval_ms: int, queue_interval_ms: int) -> None:
        """Sets when log and queues are synced without anybody waiting, from now on. Raises InvalidArgument: an interval below 1 ms."""
    def set_append_timing(self, busy_timeout_ms: int, wait_timeout_ms: int) -> None:
        """Sets after which time an append counts as stuck, and how long another one waits for it, from now on."""
    def set_message_size_max(self, byte_count: int) -> None:
        """Sets the largest body of later appends."""
    def wait_flushed(self, offset: int, timeout_ms: int, cuts: int = ...) -> None:
        """Returns when every byte below offset is on disk, and in a DLedger group committed. cuts: commit_log_cuts of the stats from
        which offset comes. Raises TimedOut; OffsetOutOfRange, also if entries have been taken back since; StoreIOError, for good after a
        failed sync. Ctrl-C works."""
    def stats(self) -> dict[str, int]:
        """The fields of rp_message_store_stats."""
    def hold_compacted_gaps(self, holds: bool) -> None:
        """Makes a slave's compacted queues wait until the messages that the master kept from before their first one have been filled in."""
    def compacted_gaps(self) -> list[tuple[str, int, int, int]]:
        """Returns (topic, queue id, begin, end) of each queue that waits: the missing offsets; end is 2^63 - 1 while the queue has no
        messages."""
    def fill_compacted_gap(self, topic: str, queue_id: int, records: bytes, next_offset: int) -> None:
        """Fills in records, as a pull's response holds them. next_offset: where the next ones begin; at the gap's end or later, nothing
        is missing any more. Raises ProtocolError if they are not messages of the queue; NotFound, DiskFull, StoreIOError. Blocks."""
    def compaction_stats(self) -> dict[str, int]:
        """The fields of rp_compaction_stats."""
