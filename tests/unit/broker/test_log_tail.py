"""What tells one log from another: the CRC of the bytes in front of an offset."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rocketpy._core.errors import OffsetOutOfRange
from rocketpy.broker import log_tail
from rocketpy.broker.log_tail import TAIL_BYTES, LogTail

FILE = 10_000


class Log:
    """Of files of `file` bytes, none of which is read past its end."""

    def __init__(self, data: bytes, file: int = FILE) -> None:
        self.data, self.file = data, file

    def read(self, commit_log_offset: int, size: int | None = None) -> bytes:
        assert size is not None
        last = commit_log_offset + size - 1
        if commit_log_offset < 0 or last >= len(self.data) or commit_log_offset // self.file != last // self.file:
            raise OffsetOutOfRange("not there", offset=commit_log_offset)
        return self.data[commit_log_offset : commit_log_offset + size]


@pytest.mark.parametrize("begin", [0, FILE])
@pytest.mark.parametrize("end", [0, 1, FILE, FILE + 1, 2 * FILE, 2 * FILE + 77])
def test_a_log_has_the_tail_that_it_gave_and_another_one_has_not(begin: int, end: int) -> None:
    own = Log(random.Random(end).randbytes(3 * FILE))
    tail = LogTail.of(own, begin, end, FILE)
    assert LogTail.from_json(tail.to_json()) == tail and tail.is_of(own, FILE)
    assert (tail.end, tail.size) == (max(begin, end), max(0, end - begin))
    if end > begin:
        for at in (begin, end - 1):
            parted = Log(own.data[:at] + bytes([own.data[at] ^ 1]) + own.data[at + 1 :])
            assert not tail.is_of(parted, FILE)
        with pytest.raises(OffsetOutOfRange):
            tail.is_of(Log(own.data[: end - 1]), FILE)


def test_a_tail_is_read_in_pieces_of_the_files_that_a_log_has_and_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tail, "TAIL_BYTES", 2 * FILE)
    monkeypatch.setattr(log_tail, "_PIECE_BYTES", 777)
    own, one_file = Log(random.Random(1).randbytes(3 * FILE)), Log(random.Random(1).randbytes(3 * FILE), 3 * FILE)
    tail = LogTail.of(own, 0, 3 * FILE - 5, FILE)
    assert (tail.end, tail.size) == (3 * FILE - 5, 2 * FILE)
    assert tail == LogTail.of(one_file, 0, 3 * FILE - 5, 3 * FILE) and tail.is_of(one_file, 3 * FILE)


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
