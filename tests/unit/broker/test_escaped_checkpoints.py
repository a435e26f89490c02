"""Where checkpoints and acks of an acting slave go: decisions."""

from __future__ import annotations

import json

import pytest

from rocketpy._core.results import ForeignMessage, Message
from rocketpy.broker import escaped_checkpoints, names
from rocketpy.broker.escaped_checkpoints import EscapedCheckpoints, NotThere, PopRecord
from rocketpy.broker.escaping_messages import Master, Place, request_of
from rocketpy.broker.foreign_messages import request_of as request_for

MASTERS = (Master("b", "b:1", range(8)), Master("c", "c:1", range(8)))


def record(tag: str, start: int = 7, topic: str = "t", **changes: object) -> Message:
    body = {"t": topic, "c": "g", "q": 1, "so": start, "pt": 1000, "bn": "a", **changes}
    properties = {"TAGS": tag, "TIMER_DELIVER_MS": "5", "UNIQ_KEY": "k", "CLUSTER": "x"}
    return Message(
        names.REVIVE_TOPIC_PREFIX + "c", 3, 0, 0, 1, 0, 0, 0, 0, "1.1.1.1:1", 0, "1.1.1.1:1", 0, 0, properties, json.dumps(body).encode()
    )


def test_an_ack_goes_where_its_checkpoint_went() -> None:
    known = EscapedCheckpoints()
    checkpoint, ack, other = (PopRecord.read(each) for each in (record("ck"), record("bAck"), record("ack", 8)))
    assert known.place_of(ack, MASTERS) is None
    known.note(checkpoint, (MASTERS[1], 5))
    known.note(other, (MASTERS[0], 1))
    assert known.place_of(ack, MASTERS) == (MASTERS[1], 5) and known.place_of(other, MASTERS) is None
    assert known.place_of(checkpoint, MASTERS) is None, "written again it may go anywhere"
    with pytest.raises(NotThere, match="master c"):
        known.place_of(ack, MASTERS[:1])


def test_the_oldest_checkpoints_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escaped_checkpoints, "NOTED_MAX", 2)
    known = EscapedCheckpoints()
    for start in range(3):
        known.note(PopRecord.read(record("ck", start)), (MASTERS[0], 0))
    assert [known.place_of(PopRecord.read(record("ack", start)), MASTERS) for start in range(3)] == [None, *[(MASTERS[0], 0)] * 2]


@pytest.mark.parametrize(
    ("topic", "popped"), [("t", "t"), ("%RETRY%g_t", "t"), ("%RETRY%g+t", "t"), ("%RETRY%h_t", "%RETRY%h_t"), ("%RETRY%g_a_b", "a_b")]
)
def test_the_topic_is_the_one_that_consumers_name(topic: str, popped: str) -> None:
    assert PopRecord.read(record("ck", topic=topic)).popped_topic == popped


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"{", b'{"t":1,"c":"g","q":0,"so":0,"pt":0}', b"\xff"])
def test_what_is_no_record_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        PopRecord.read(record("ck")._replace(body=body))


def test_a_record_keeps_the_time_by_which_it_is_read() -> None:
    """RocketMQ's revive service goes by it."""
    sent = request_of(record("ck"), Place("r", 3), 6, "b", "own")
    assert sent.properties == "TAGS\x01ck\x02TIMER_DELIVER_MS\x015\x02UNIQ_KEY\x01k\x02" and (sent.queue_id, sent.bname) == (6, "b")


def test_one_message_is_asked_for_and_no_offset_is_committed() -> None:
    asked = request_for(ForeignMessage(1, "a", "t", 2, 30))
    assert (asked.topic, asked.queue_id, asked.queue_offset, asked.max_msg_nums) == ("t", 2, 30, 1)
    assert asked.sys_flag == 4 and asked.consumer_group == names.REVIVE_GROUP and asked.bname == "a"
