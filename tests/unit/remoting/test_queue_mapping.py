"""Pieces of global queues: offsets, rows that can stand, and which row may take the place of another."""

from __future__ import annotations

import pytest

from rocketpy.remoting.json_codec import read_json, write_fastjson
from rocketpy.remoting.queue_mapping import (
    MappingFault,
    MappingItem,
    QueueMapping,
    StaticTopic,
    check_items,
    check_successor,
    find_item,
    find_next,
    led_queues,
    mock_broker_name,
)

A, B, C = MappingItem(0, 2, "a", 0), MappingItem(1, 1, "b", 10_000), MappingItem(2, 3, "a", 20_000)
UNPLACED = MappingItem(3, 4, "c", -1)


def test_offsets_of_a_piece() -> None:
    piece = MappingItem(1, 1, "b", 10_000, start_offset=5, end_offset=8)
    assert [piece.global_offset(each) for each in (0, 5, 7, 9)] == [10_000, 10_000, 10_002, 10_004]
    assert [piece.global_offset_within(each) for each in (0, 5, 7, 9)] == [10_000, 10_000, 10_002, 10_003]
    assert UNPLACED.global_offset_within(7) == -1
    assert [piece.offset(each) for each in (10_000, 10_003, 9_000)] == [5, 8, -995]
    assert piece.max_global_offset == 10_003 and B.max_global_offset == 10_000 and piece.has_end and not B.has_end


@pytest.mark.parametrize(("offset", "found"), [(-1, A), (0, A), (9_999, A), (10_000, B), (19_999, B), (20_000, C), (1 << 62, C)])
def test_where_an_offset_lies(offset: int, found: MappingItem) -> None:
    assert find_item((A, B, C, UNPLACED), offset) is found


def test_what_was_cleaned_is_read_from_the_first_piece_that_is_left() -> None:
    assert find_item((B, C), 5) is B
    assert find_item((UNPLACED,), 5) is None and find_item((), 5) is None
    assert find_next((A, B, C, UNPLACED), A) is B and find_next((A, B, C, UNPLACED), C) is None and find_next((A,), A) is None


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ((MappingItem(-1, 0, "a", 0),), "The field is illegal, should not be negative"),
        ((MappingItem(0, 0, "a", 0, start_offset=-1),), "The field is illegal, should not be negative"),
        ((MappingItem(0, 65_536, "a", 0),), "The field is illegal, it is out of bounds"),
        ((MappingItem(0, 0, "a", 1 << 62),), "The field is illegal, it is out of bounds"),
        ((MappingItem(0, 0, "a", -2),), "The field is illegal, it is out of bounds"),
        ((UNPLACED, MappingItem(4, 0, "a", 5)), "The non-latest item has negative logic offset"),
        ((A, MappingItem(0, 1, "b", 10_000)), "The gen does not increase monotonically"),
        ((MappingItem(0, 2, "a", 0, 5, 4), B), "The endOffset is smaller than the start offset"),
        ((B, MappingItem(2, 0, "a", 10_000)), "The base logic offset does not increase monotonically"),
        ((MappingItem(0, 2, "a", 0, end_offset=10_000), B), "The max logic offset does not increase monotonically"),
    ],
)
def test_rows_that_cannot_stand(items: tuple[MappingItem, ...], fault: str) -> None:
    with pytest.raises(MappingFault) as raised:
        check_items(items)
    assert str(raised.value) == fault


def test_rows_that_can() -> None:
    for items in ((), (A,), (A, B, C), (B, C), (A, B, C, UNPLACED), (UNPLACED,)):
        check_items(items)
        check_successor((), items, same_epoch=True)
        if items:
            check_successor(items, items, same_epoch=True)
    check_successor((A, B, C), (B, C, UNPLACED), same_epoch=False)
    check_successor((A, UNPLACED), (A, MappingItem(3, 4, "c", 10_000)), same_epoch=True)
    with pytest.raises(MappingFault, match="null or empty"):
        check_successor((A,), (), same_epoch=False)


def topic(broker: str, epoch: int, hosted: dict[int, tuple[MappingItem, ...]], total: int = 2) -> QueueMapping:
    return QueueMapping("t", total, broker, epoch, hosted)


def test_who_leads() -> None:
    other = MappingItem(0, 0, "b", 0)
    led = led_queues([topic("a", 1, {0: (A, B)}), topic("b", 1, {0: (A, B), 1: (other,)})], complete=True)
    assert {each: mapping.broker_name for each, (mapping, _) in led.items()} == {0: "b", 1: "b"}
    for mappings, options, fault in (
        ([topic("b", 1, {0: (A, B)})], {"complete": True}, "does not match the real hosted queues 2 != 1"),
        ([topic("b", 1, {0: (A, B), 2: (other,)})], {"complete": True}, "The queue number 1 is not in globalIdMap"),
        ([topic("b", 1, {0: (A, B)}), topic("a", 1, {0: (A,)})], {}, "The queue id is duplicated"),
        ([topic("b", 1, {0: (A, B), 1: (B,)})], {}, "global queue id 1 and 0 shared the same physical queue b-1"),
    ):
        with pytest.raises(MappingFault, match=fault):
            led_queues(mappings, **options)
    newest = led_queues([topic("a", 1, {0: (A,)}), topic("b", 2, {0: (A, B)})], newest=True)
    assert newest[0][0].broker_name == "b"


def test_json_is_rocketmqs() -> None:
    mapping = topic("a", 7, {0: (A, B), 1: (C,)})
    text = write_fastjson(mapping.to_json()).decode()
    assert text == (
        '{"bname":"a","currIdMap":{},"dirty":false,"epoch":7,"hostedQueues":{0:['
        '{"bname":"a","endOffset":-1,"gen":0,"logicOffset":0,"queueId":2,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1},'
        '{"bname":"b","endOffset":-1,"gen":1,"logicOffset":10000,"queueId":1,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}],1:['
        '{"bname":"a","endOffset":-1,"gen":2,"logicOffset":20000,"queueId":3,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}]},'
        '"scope":"__global__","topic":"t","totalQueues":2}'
    )
    assert QueueMapping.from_json(read_json(text)) == mapping
    both = StaticTopic.empty("t", "a", 2, 7)
    assert StaticTopic.from_json(read_json(write_fastjson(both.to_json()))) == both
    assert (mock_broker_name("__global__"), mock_broker_name("own")) == ("__syslo__global__", "__syslo__own")
