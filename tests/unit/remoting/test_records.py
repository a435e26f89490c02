"""What consumers make of records: a batch in one record becomes its messages."""

from __future__ import annotations

import struct

import pytest

from rocketpy._core.errors import ProtocolError
from rocketpy._core.results import Message
from rocketpy.remoting.records import unwrapped


def record(body: bytes, sys_flag: int, queue_offset: int) -> Message:
    return Message("t", 0, queue_offset, 700, 0, 0, sys_flag, 0, 0, "", 0, "", 0, 0, {"UNIQ_KEY": "batch"}, body)


def inner(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    return struct.pack(">IIIiI", 0, 0, 0, flag, len(body)) + body + struct.pack(">H", len(properties)) + properties


BATCH = inner(b"one", b"KEYS\x01k\x02TAGS\x01T\x02", flag=-3) + inner(b"", b"")


def test_a_batch_is_taken_apart_and_what_stands_beside_it_is_not() -> None:
    found = list(unwrapped([record(b"single", 0x80, 4), record(BATCH, 0xC0, 5), record(BATCH, 0, 7)]))
    assert [(each.queue_offset, each.body, each.flag) for each in found] == [(4, b"single", 0), (5, b"one", -3), (6, b"", 0), (7, BATCH, 0)]
    assert [each.properties for each in found[1:3]] == [{"KEYS": "k", "TAGS": "T"}, {}]


@pytest.mark.parametrize("cut", range(1, 22))
def test_a_batch_that_is_cut_off_is_no_batch(cut: int) -> None:
    with pytest.raises(ProtocolError, match="at commit log offset 700 is cut off"):
        list(unwrapped([record(BATCH[:-cut], 0xC0, 0)]))
