"""Decisions of the reading side without I/O: start and end of every queue, shares of a limit, splitting into partitions.
Spark: KafkaOffsetRangeCalculator, KafkaOffsetReaderAdmin (the conventions followed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from .._core.errors import InvalidArgument, OffsetOutOfRange
from .cluster import Queue, flatten
from .options import Offsets

EARLIEST, LATEST = -2, -1


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets begin..end-1 of a queue."""

    queue: Queue
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


class QueuePartition(InputPartition):
    """One Spark task: a range of one queue, and the broker's likely address."""

    def __init__(self, part: Range, addresses: tuple[str, ...]) -> None:
        super().__init__(f"{part.queue}[{part.begin},{part.end})")
        self.part = part
        self.addresses = addresses


def named_queues(given: Mapping[str, Mapping[str, Mapping[str, int]]], queues: list[Queue], option: str) -> dict[Queue, int]:
    """Numbers by queue, from topic -> broker -> queue -> number. Raises InvalidArgument for a queue that is not read."""
    named = flatten(given)
    strangers = sorted(set(named) - set(queues))
    if strangers:
        raise InvalidArgument(f"{option} names {strangers[0]}, which is not a queue of the topics read")
    return named


def resolve_offsets(
    given: Offsets, queues: list[Queue], min_offsets: Mapping[Queue, int], max_offsets: Mapping[Queue, int], option: str, unnamed: int
) -> dict[Queue, int]:
    """The offset of every queue. Queues that the JSON leaves out get `unnamed` (EARLIEST or LATEST)."""
    chosen: dict[Queue, int] = {}
    named = named_queues(given, queues, option) if isinstance(given, dict) else {}
    word = {"earliest": EARLIEST, "latest": LATEST}
    for queue in queues:
        wanted = named.get(queue, unnamed) if isinstance(given, dict) else word[given]
        chosen[queue] = {EARLIEST: min_offsets[queue], LATEST: max_offsets[queue]}.get(wanted, wanted)
    return chosen


def check_range(queue: Queue, begin: int, end: int, min_offset: int, max_offset: int, fail_on_data_loss: bool) -> Range:
    """The part of a range that can be read. Raises OffsetOutOfRange if the rest is missing and failOnDataLoss is set."""
    if fail_on_data_loss:
        if begin < min(min_offset, end):
            raise OffsetOutOfRange(
                f"offsets {begin} to {min_offset - 1} of {queue} are gone (the broker keeps {min_offset} to {max_offset - 1}); "
                "set failOnDataLoss=false to start at what is left"
            )
        if max(begin, end) > max_offset:
            raise OffsetOutOfRange(
                f"{queue} ends at offset {max_offset}, {max(begin, end)} was asked for; set failOnDataLoss=false to read what there is"
            )
    begin = max(begin, min_offset)
    return Range(queue, begin, max(begin, min(end, max_offset)))


def split_ranges(ranges: list[Range], min_partitions: int | None, max_records: int | None) -> list[Range]:
    """Splits ranges as Spark's Kafka source does: first so that none has more than max_records, then the large ones until there are
    min_partitions."""
    parts = [range_ for range_ in ranges if range_.size > 0]
    if max_records is not None:
        parts = [piece for part in parts for piece in _cut(part, -(-part.size // max_records))]
    total = sum(part.size for part in parts)
    if min_partitions is not None and total > 0 and len(parts) < min_partitions:
        parts = [piece for part in parts for piece in _cut(part, max(1, round(part.size / total * min_partitions)))]
    return parts


def _cut(part: Range, pieces: int) -> list[Range]:
    pieces = max(1, min(pieces, part.size))
    edges = [part.begin + part.size * i // pieces for i in range(pieces + 1)]
    return [Range(part.queue, begin, end) for begin, end in pairwise(edges)]


def share_out(stretches: Sequence[tuple[int, int]], size: int) -> list[list[tuple[int, int]]]:
    """Divides stretches (begin, end) into parts of about `size`, all equally large and, if there is more than one, even in number, so that
    cores which share them finish together. A part may continue from one stretch into the next."""
    total = sum(end - begin for begin, end in stretches)
    count = max(1, min(total, 2 * round(total / (2 * size))))
    parts: list[list[tuple[int, int]]] = [[]]
    dealt = 0
    for begin, end in stretches:
        while begin < end:
            room = total * len(parts) // count - dealt
            if room == 0:
                parts.append([])
                continue
            taken = min(end - begin, room)
            parts[-1].append((begin, begin + taken))
            begin, dealt = begin + taken, dealt + taken
    return parts


def limit_offsets(start: Mapping[Queue, int], latest: Mapping[Queue, int], limit: int) -> dict[Queue, int]:
    """Where a micro-batch of at most `limit` offsets ends. Each queue's share is in proportion to its backlog, and at least some move."""
    backlog = {queue: max(0, latest[queue] - start.get(queue, latest[queue])) for queue in latest}
    total = sum(backlog.values())
    if total <= limit:
        return dict(latest)
    ends = {queue: start.get(queue, latest[queue]) + size * limit // total for queue, size in backlog.items()}
    left = limit - sum(ends[queue] - start.get(queue, latest[queue]) for queue in latest)
    for queue in sorted(backlog, key=lambda queue: -backlog[queue]):
        if left <= 0:
            break
        if ends[queue] < latest[queue]:
            ends[queue] += 1
            left -= 1
    return ends


def limit_bytes(
    start: Mapping[Queue, int], latest: Mapping[Queue, int], message_bytes: Mapping[Queue, float], limit: int
) -> dict[Queue, int]:
    """Where a micro-batch of about `limit` bytes ends. Each queue moves by the same share of its backlog, and by at least one message."""
    backlog = {queue: max(0, latest[queue] - start.get(queue, latest[queue])) for queue in latest}
    total = sum(size * message_bytes[queue] for queue, size in backlog.items() if size > 0)
    if total <= limit:
        return dict(latest)
    ends = {queue: start.get(queue, latest[queue]) + int(size * limit / total) for queue, size in backlog.items()}
    if all(ends[queue] == start.get(queue, latest[queue]) for queue in latest):
        ends[max(backlog, key=lambda queue: backlog[queue])] += 1
    return ends
