"""Where reading starts and ends in every queue: by offsets, by times, by a group's offsets. Runs in the driver.
Spark: KafkaOffsetReaderAdmin (the conventions followed). RocketMQ: MessageStore.getOffsetInQueueByTime.

A broker's search by time answers with a message near the wanted time. Which one it is among several of the same millisecond, and what the
broker says when no message is that new, differs between versions. So the answer is only a hint, and the messages around it are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from .._core.errors import InvalidArgument
from .cluster import Cluster, Queue
from .plan import EARLIEST, LATEST, QueuePartition, Range, named_queues, resolve_offsets
from .queue_read import ReadSettings, read_queue
from .rows import RowSettings

LOOKS_AT_ONCE = 16
SAMPLE_ROWS = 32


def first_not_before(low: int, high: int, hint: int, wanted_ms: int, stored_ms: Callable[[int], int | None]) -> int:
    """The first offset from low to high-1 whose message was stored at wanted_ms or later, else high. Looks at the hint and its neighbour
    first. A message that is gone (None) counts as too old."""
    offsets = [offset for offset in (hint, hint - 1) if low <= offset < high]
    while low < high:
        middle = offsets.pop(0) if offsets else (low + high) // 2
        if not low <= middle < high:
            continue
        stored = stored_ms(middle)
        if stored is not None and stored >= wanted_ms:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, slots=True)
class Topics:
    """The queues as they were when a query was planned."""

    cluster: Cluster
    settings: ReadSettings
    queues: list[Queue]
    min_offsets: Mapping[Queue, int]
    max_offsets: Mapping[Queue, int]

    def starts(self, options: Mapping[str, Any], default: str) -> dict[Queue, int]:
        """The first that is given of startingTimestamp, startingOffsetsByTimestamp, startingOffsets, the group's offsets and the default
        decides."""
        times = self._times(options, "starting")
        if times:
            found = self.at_times(times)
            if options["startingOffsetsByTimestampStrategy"] == "error":
                for queue, offset in found.items():
                    if self.min_offsets[queue] < offset == self.max_offsets[queue]:  # an empty queue has nothing to miss
                        raise InvalidArgument(
                            f"{queue} has no message stored at {times[queue]} ms or later; set startingOffsetsByTimestampStrategy=latest "
                            "to start at its end"
                        )
            return {queue: found.get(queue, self.min_offsets[queue]) for queue in self.queues}
        if options["startingOffsets"] is not None:
            return self._resolve(options["startingOffsets"], "startingOffsets", EARLIEST)
        begins = self._resolve(default, "startingOffsets", EARLIEST)
        if options["consumerGroup"] is not None:
            begins |= self.cluster.group_offsets(self.queues, options["consumerGroup"])
        return begins

    def ends(self, options: Mapping[str, Any]) -> dict[Queue, int]:
        """Decided by endingTimestamp, endingOffsetsByTimestamp or endingOffsets; exclusive."""
        times = self._times(options, "ending")
        if times:
            found = self.at_times(times)
            return {queue: found.get(queue, self.max_offsets[queue]) for queue in self.queues}
        return self._resolve(options["endingOffsets"], "endingOffsets", LATEST)

    def at_times(self, times: Mapping[Queue, int]) -> dict[Queue, int]:
        """By queue, the first offset stored at its time or later; the queue's end if there is none."""
        hints: dict[Queue, int] = {}
        for wanted_ms in sorted(set(times.values())):
            hints |= self.cluster.offsets_at([queue for queue, ms in times.items() if ms == wanted_ms], wanted_ms)
        addresses = self.cluster.addresses_of(times)
        settings = replace(self.settings, rows=RowSettings(("storeTimestamp",)), sub_expression="*", fail_on_data_loss=False, pull_batch=1)

        def find(queue: Queue) -> int:
            def stored_ms(offset: int) -> int | None:
                for batch in read_queue(settings, QueuePartition(Range(queue, offset, offset + 1), addresses[queue])):
                    return int(batch.column(0)[0].value // 1000)
                return None

            return first_not_before(self.min_offsets[queue], self.max_offsets[queue], hints[queue], times[queue], stored_ms)

        with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
            return dict(zip(times, pool.map(find, times), strict=True))

    def _times(self, options: Mapping[str, Any], side: str) -> dict[Queue, int]:
        if options[f"{side}Timestamp"] is not None:
            return dict.fromkeys(self.queues, options[f"{side}Timestamp"])
        name = f"{side}OffsetsByTimestamp"
        return named_queues(options[name], self.queues, name) if options[name] is not None else {}

    def _resolve(self, given: Any, option: str, unnamed: int) -> dict[Queue, int]:
        return resolve_offsets(given, self.queues, self.min_offsets, self.max_offsets, option, unnamed)


def message_bytes(settings: ReadSettings, addresses: tuple[str, ...], part: Range) -> float:
    """About how many bytes (body and properties) a message of this range has: the mean of its first few."""
    sample = replace(
        settings,
        rows=RowSettings(("body", "properties"), decompress=False),
        sub_expression="*",
        fail_on_data_loss=False,
        pull_batch=SAMPLE_ROWS,
    )
    first = Range(part.queue, part.begin, min(part.end, part.begin + SAMPLE_ROWS))
    rows = size = 0
    for batch in read_queue(sample, QueuePartition(first, addresses)):
        rows, size = rows + batch.num_rows, size + batch.nbytes
    return size / rows if rows else 1.0
