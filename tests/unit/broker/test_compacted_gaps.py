"""What a slave asks its master for of compacted topics, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy._core.remoting import Command
from rocketpy.broker.compacted_gaps import PULLS_A_ROUND, CompactedGaps, Gap, piece_of
from rocketpy.remoting.codes import ResponseCode

from .stand_in import answered

GAP = Gap("T", 3, 0, 100)


def answer(code: int, next_offset: int = 0, body: bytes = b"") -> Command:
    fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "200"}
    return answered(code, None, fields, body)


@pytest.mark.parametrize(
    ("code", "next_offset", "body", "wanted"),
    [
        (ResponseCode.SUCCESS, 40, b"records", (b"records", 40)),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 40, b"", (b"", 40)),
        (ResponseCode.PULL_OFFSET_MOVED, 60, b"", (b"", 60)),
        (ResponseCode.PULL_OFFSET_MOVED, 0, b"", (b"", 100)),
        (ResponseCode.PULL_NOT_FOUND, 0, b"", (b"", 100)),
        (ResponseCode.SUCCESS, 10, b"records", (b"records", 100)),  # a master that does not get on
        (ResponseCode.NO_PERMISSION, 0, b"", None),
    ],
)
def test_an_answer_says_what_is_filled_and_where_the_next_begins(code: int, next_offset: int, body: bytes, wanted: Any) -> None:
    piece = piece_of(GAP, 10, answer(code, next_offset, body))
    assert (piece and (piece.records, piece.next_offset)) == wanted


class Store:
    def __init__(self, *gaps: tuple[str, int, int, int]) -> None:
        self.gaps, self.filled = list(gaps), list[tuple[str, int, bytes, int]]()

    def compacted_gaps(self) -> list[tuple[str, int, int, int]]:
        return self.gaps

    def fill_compacted_gap(self, topic: str, queue_id: int, records: bytes, next_offset: int) -> None:
        self.filled.append((topic, queue_id, records, next_offset))


class Master:
    """Keeps every tenth message."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.is_there = True

    async def call(self, address: str, code: int, fields: Any = None, body: bytes = b"", *, timeout_s: float = 0) -> Command:
        if not self.is_there:
            raise NetworkError(f"nobody listens on {address}")
        if fields["topic"] != "T":
            return answer(ResponseCode.TOPIC_NOT_EXIST)
        at = int(fields["queueOffset"])
        self.asked.append((fields["topic"], at))
        return answer(ResponseCode.SUCCESS, at + 10, b"%d" % at)


def test_a_gap_is_filled_piece_by_piece_and_one_that_nobody_can_fill_is_over() -> None:
    store, master = Store(("unknown", 0, 0, 5), ("T", 1, 0, 25)), Master()
    asyncio.run(CompactedGaps(master, store).fill("master"))
    assert store.filled == [("unknown", 0, b"", 5), ("T", 1, b"0", 10), ("T", 1, b"10", 20), ("T", 1, b"20", 30)]


def test_a_round_ends_though_many_queues_miss_much() -> None:
    """The slave copies nothing else meanwhile."""
    much = 10 * (PULLS_A_ROUND - 1)
    store, master = Store(("T", 0, 0, much), ("T", 1, 0, much), ("T", 2, 0, much)), Master()
    asyncio.run(CompactedGaps(master, store).fill("master"))
    assert len(master.asked) == PULLS_A_ROUND and store.filled[-1] == ("T", 1, b"0", 10)


def test_a_master_that_does_not_answer_is_asked_again_and_complained_of_once(caplog: pytest.LogCaptureFixture) -> None:
    store, master = Store(("T", 0, 0, 10)), Master()
    gaps = CompactedGaps(master, store)
    master.is_there = False
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            asyncio.run(gaps.fill("master"))
    assert len(caplog.records) == 1 and not store.filled
    master.is_there = True
    asyncio.run(gaps.fill("master"))
    assert store.filled == [("T", 0, b"0", 10)]


def test_a_round_ends() -> None:
    store, master = Store(("T", 0, 0, 1 << 62)), Master()
    asyncio.run(CompactedGaps(master, store).fill("master"))
    assert len(master.asked) == PULLS_A_ROUND
