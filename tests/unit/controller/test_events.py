"""Entries of the controllers' log are RocketMQ's bytes. The texts were written by EventSerializer of RocketMQ 5.5.0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.controller.events import (
    AlterSyncStateSetEvent,
    ApplyBrokerIdEvent,
    CleanBrokerDataEvent,
    ElectMasterEvent,
    Event,
    UpdateBrokerAddressEvent,
    decode_event,
    encode_event,
)

ODD_NAME = 'b"ü/<\n\u0001\u2028'
THEIRS: list[tuple[Event, int, str]] = [
    (
        AlterSyncStateSetEvent("broker-a", frozenset({3, 1, 2})),
        1,
        '{"brokerName":"broker-a","eventType":"ALTER_SYNC_STATE_SET_EVENT","newSyncStateSet":[1,2,3]}',
    ),
    (
        AlterSyncStateSetEvent(ODD_NAME, frozenset()),
        1,
        '{"brokerName":"b\\"ü/<\\n\\u0001\u2028","eventType":"ALTER_SYNC_STATE_SET_EVENT","newSyncStateSet":[]}',
    ),
    (
        ApplyBrokerIdEvent("c", "broker-a", "127.0.0.1:10911", 1, "127.0.0.1:10911;code"),
        2,
        '{"brokerAddress":"127.0.0.1:10911","brokerName":"broker-a","clusterName":"c","eventType":"APPLY_BROKER_ID_EVENT",'
        '"newBrokerId":1,"registerCheckCode":"127.0.0.1:10911;code"}',
    ),
    (
        ElectMasterEvent("broker-a", 2),
        3,
        '{"brokerName":"broker-a","eventType":"ELECT_MASTER_EVENT","newMasterBrokerId":2,"newMasterElected":true}',
    ),
    (ElectMasterEvent("broker-a"), 3, '{"brokerName":"broker-a","eventType":"ELECT_MASTER_EVENT","newMasterElected":false}'),
    (CleanBrokerDataEvent("broker-a"), 5, '{"brokerName":"broker-a","eventType":"CLEAN_BROKER_DATA_EVENT"}'),
    (
        CleanBrokerDataEvent("broker-a", frozenset({2, 1})),
        5,
        '{"brokerIdSetToClean":[1,2],"brokerName":"broker-a","eventType":"CLEAN_BROKER_DATA_EVENT"}',
    ),
    (
        UpdateBrokerAddressEvent("c", "broker-a", "127.0.0.1:1", 3),
        6,
        '{"brokerAddress":"127.0.0.1:1","brokerId":3,"brokerName":"broker-a","clusterName":"c","eventType":"UPDATE_BROKER_ADDRESS"}',
    ),
]


@pytest.mark.parametrize(("event", "type_id", "text"), THEIRS)
def test_an_event_is_written_and_read_as_by_rocketmq(event: Event, type_id: int, text: str) -> None:
    entry = bytes((0, type_id)) + text.encode()
    assert encode_event(event) == entry
    assert decode_event(entry) == event


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\0",
        b"\0\1",
        b"\0\1{",
        b"\0\1[]",
        b"\0\7{}",
        b"\0\4{}",
        b'\0\1{"newSyncStateSet":5}',
        b'\0\1{"newSyncStateSet":[{}]}',
        b'\0\1{"newSyncStateSet":"12"}',
        b'\0\2{"newBrokerId":"x"}',
        b'\0\3{"brokerName":[],"newMasterElected":true}',
        b"\xff\xff\xff",
    ],
)
def test_what_is_no_event_is_none(entry: bytes) -> None:
    assert decode_event(entry) is None


def test_an_election_without_its_master_is_one_of_nobody() -> None:
    assert decode_event(b'\0\3{"brokerName":"a","newMasterElected":true}') == ElectMasterEvent("a")


@given(st.binary(max_size=60))
def test_any_bytes_are_an_event_or_none(entry: bytes) -> None:
    event = decode_event(entry)
    assert event is None or decode_event(encode_event(event)) == event
