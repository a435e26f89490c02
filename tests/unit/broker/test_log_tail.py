"""What tells one log from another: the CRC of the bytes in front of an offset."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rocketpy._core.errors import OffsetOutOfRange
from rocketpy.broker.log_tail import TAIL_BYTES, LogTail

FILE = 10_000


class Log:
    """Of files of FILE bytes, none of which is read past its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, commit_log_offset: int, size: int | None = None) -> bytes:
        assert size is not None
        last = commit_log_offset + size - 1
        if commit_log_offset < 0 or last >= len(self.data) or commit_log_offset // FILE != last // FILE:
            raise OffsetOutOfRange("not there", offset=commit_log_offset)
        return self.data[commit_log_offset : commit_log_offset + size]


@pytest.mark.parametrize("end", [0, 1, TAIL_BYTES, TAIL_BYTES + 1, FILE, FILE + 1, 2 * FILE, 2 * FILE + 77])
def test_a_log_has_the_tail_that_it_gave_and_another_one_has_not(end: int) -> None:
    own = Log(random.Random(end).randbytes(3 * FILE))
    tail = LogTail.of(own, end, FILE)
    assert LogTail.from_json(tail.to_json()) == tail and tail.is_of(own)
    if end > 0:
        parted = Log(own.data[: end - 1] + bytes([own.data[end - 1] ^ 1]))
        assert not tail.is_of(parted)
        with pytest.raises(OffsetOutOfRange):
            tail.is_of(Log(own.data[: end - 1]))


@pytest.mark.parametrize(
    "told",
    [
        [],
        "x",
        {},
        {"end": 10, "crc": 1},
        {"end": 10, "size": -1, "crc": 1},
        {"end": 10, "size": 11, "crc": 1},
        {"end": 1 << 40, "size": TAIL_BYTES + 1, "crc": 1},
        {"end": -1, "size": 0, "crc": 0},
        {"end": 1 << 64, "size": 1, "crc": 0},
    ],
)
def test_what_is_no_tail_is_refused(told: Any) -> None:
    with pytest.raises(ValueError, match="logTail"):
        LogTail.from_json(told)
