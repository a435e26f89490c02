"""The same delayed sends and messages sent back, to this product and to RocketMQ 5.5.0: the same answers, the same records stored, the
same records delivered when their time has come."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes import PATIENCE_S, wait_until

from . import wire
from .products import Product, side_by_side
from .sides import Case, Side, same
from .stored import Record, queue_end, records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEND, SEND_BACK, GET_TOPICS, GET_DELAY_OFFSETS, RUNTIME_INFO, UPDATE_GROUP, SEND_V2, SEND_BATCH = 10, 36, 21, 45, 28, 200, 310, 320
SCHEDULE, TOPIC, CONSUMED = "SCHEDULE_TOPIC_XXXX", "delayed", "consumed"
LEVELS = "1s 2s 3s 1s 1s 2s"
LAST = 6

PLAIN = {"a": "PID", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "3", "j": "0", "k": "false"}
LONG = {
    "producerGroup": "PID", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "1", "sysFlag": "0",
    "bornTimestamp": "1700000000000", "flag": "3", "properties": "UNIQ_KEY\x01L\x02DELAY\x011\x02", "reconsumeTimes": "0",
    "unitMode": "false",
}  # fmt: skip


def send(what: str, properties: str, level: int, code: int = SEND_V2, **changes: str) -> Case:
    fields = {**PLAIN, "i": properties, **changes}
    return Case(what, code, fields, level, (fields["b"], int(fields["e"])), what.encode())


DELAYED = [
    send("level 1", "UNIQ_KEY\x01K1\x02DELAY\x011\x02", 1),
    send("level 2, tags and keys", "TAGS\x01t\x02KEYS\x01a b\x02UNIQ_KEY\x01K2\x02DELAY\x012\x02", 2, e="1"),
    send("level 3, other properties", "a\x01b\x02UNIQ_KEY\x01K3\x02WAIT\x01true\x02größe\x01äö €\x02DELAY\x013", 3, e="2"),
    send("above the last level", "UNIQ_KEY\x01K4\x02DELAY\x0199\x02", LAST),
    send("far above the last level", "UNIQ_KEY\x01K5\x02DELAY\x012147483647\x02", LAST),
    send("delay first", "DELAY\x011\x02UNIQ_KEY\x01K6\x02", 1),
    send("consumed again", "UNIQ_KEY\x01K7\x02DELAY\x011\x02", 1, j="2", f="0"),
    send("compressed", "UNIQ_KEY\x01K8\x02DELAY\x011\x02", 1, f="1"),
    send("does not wait", "UNIQ_KEY\x01K9\x02WAIT\x01false\x02DELAY\x011\x02", 1),
    send("another cluster's", "UNIQ_KEY\x01KA\x02CLUSTER\x01other\x02MSG_REGION\x01moon\x02TRACE_ON\x01no\x02DELAY\x011\x02", 1),
    send("real topic given", "UNIQ_KEY\x01KB\x02REAL_TOPIC\x01elsewhere\x02REAL_QID\x017\x02DELAY\x011\x02", 1),
    send("no queue chosen", "UNIQ_KEY\x01KC\x02DELAY\x011\x02", 1, b="delayed-to-one-queue", e="-1"),
    Case("long names", SEND, LONG, 1, (TOPIC, 1), b"long names"),
    send("to a topic that is made", "UNIQ_KEY\x01KD\x02DELAY\x011\x02", 1, b="made-for-delays"),
    send("level 0", "UNIQ_KEY\x01KE\x02DELAY\x010\x02", 0, e="3"),
    send("below level 0", "UNIQ_KEY\x01KF\x02DELAY\x01-1\x02", 0, e="3"),
]  # fmt: skip
REFUSED = [
    send("queue past the end", "UNIQ_KEY\x01R1\x02DELAY\x011\x02", 0, e="4"),
    send("illegal topic", "UNIQ_KEY\x01R2\x02DELAY\x011\x02", 0, b="a b"),
    send("system topic", "UNIQ_KEY\x01R3\x02DELAY\x011\x02", 0, b=SCHEDULE),
    Case("batch with a delay in its header", SEND_BATCH, {**PLAIN, "i": "DELAY\x011\x02", "m": "true"}, 0, (TOPIC, 0), bytes.fromhex(
        "0000001b" "00000000" "00000000" "00000005" "00000003" "6f6e65" "0002" "4101")),
]  # fmt: skip


@pytest.fixture(scope="module")
def sides(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with side_by_side(product, peer, tmp_path_factory, {"messageDelayLevel": LEVELS}) as both:
        for cluster in both:
            cluster.create_topic(TOPIC)
            cluster.create_topic("delayed-to-one-queue", queues=1)
            cluster.create_topic(CONSUMED, queues=1)
        yield Side(both[0]), Side(both[1])


def delivered_order(found: list[Record]) -> list[Record]:
    """Levels are delivered side by side: by body and level, and without the offsets that follow from that."""
    without_offsets = [Record(**{**each_fields(each), "queue_offset": 0}) for each in found]
    return sorted(without_offsets, key=lambda each: (each.body, each.size, each.pairs.get("DELAY", "")))


def each_fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in Record.__dataclass_fields__}


def per_queue(cases: list[Case]) -> dict[tuple[str, int], int]:
    counts: dict[tuple[str, int], int] = {}
    for case in cases:
        target = (case.target[0], max(case.target[1], 0))
        counts[target] = counts.get(target, 0) + 1
    return counts


def test_delayed_sends_are_answered_stored_and_delivered_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    for case in DELAYED:
        ours, theirs = (side.ask(case) for side in sides)
        assert ours == theirs, case.what
        assert ours[0] == 0, (case.what, ours)
    for level in range(1, LAST + 1):
        count = sum(case.level == level for case in DELAYED)
        ours, theirs = (side.table(SCHEDULE, level - 1, count) for side in sides)
        same(ours, theirs)
        assert all(each.topic == SCHEDULE and each.pairs["DELAY"] == str(level) for each in ours)
    for (topic, queue_id), count in per_queue(DELAYED).items():
        ours, theirs = (side.table(topic, queue_id, count) for side in sides)
        same(delivered_order(ours), delivered_order(theirs))
        for each in ours:
            assert each.topic == topic
            if int(each.pairs["DELAY"]) > 0:  # which RocketMQ takes out in memory only: the record keeps it
                assert (each.pairs["REAL_TOPIC"], each.pairs["REAL_QID"]) == (topic, str(queue_id))


def test_a_delayed_message_comes_no_earlier_than_its_level_says(sides: tuple[Side, Side]) -> None:
    """By the times of storing: what came before another of the same level is delivered before it, too."""
    for number in range(20):
        case = send(f"{number:02}", f"UNIQ_KEY\x01T{number}\x02DELAY\x012\x02", 2, b="timed-delays", e="0")
        for side in sides:
            assert side.ask(case)[0] == 0
    for side in sides:
        entered = [each for each in records(side.address, SCHEDULE, 1) if each.pairs["REAL_TOPIC"] == "timed-delays"]
        came = side.table("timed-delays", 0, 20)
        assert [each.body for each in came] == [each.body for each in entered] == [f"{number:02}".encode() for number in range(20)]
        late = [later.store_timestamp - each.store_timestamp - 2000 for each, later in zip(entered, came, strict=True)]
        print(f"{side.cluster.broker.product.name}: late by {min(late)} to {max(late)} ms")
        assert min(late) >= 0


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.what)
def test_delayed_sends_are_refused_as_by_rocketmq(case: Case, sides: tuple[Side, Side]) -> None:
    ours, theirs = (side.ask(case) for side in sides)
    assert ours == theirs
    assert ours[0] != 0


# ---- messages sent back, and messages sent to retry topics ----

GROUPS = {"GID_back": (2, 1), "GID_no_retries": (16, 0), "GID_many": (16, 3), "GID_none_allowed": (0, 1)}
"""group → (retryMaxTimes, retryQueueNums)"""


@pytest.fixture(scope="module")
def consumed(sides: tuple[Side, Side]) -> tuple[Side, Side]:
    """Three messages each that a consumer could send back, and the groups."""
    for side in sides:
        for group, (times, queues) in GROUPS.items():
            body = (
                f'{{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"{group}",'
                f'"groupSysFlag":0,"retryMaxTimes":{times},"retryQueueNums":{queues},"whichBrokerWhenConsumeSlowly":1}}'
            )
            assert wire.call(side.address, UPDATE_GROUP, {}, body.encode()).code == 0
        for name, extra, times in (("plain", "", "0"), ("tagged", "TAGS\x01t\x02KEYS\x01k\x02x\x01y\x02", "0"), ("tried", "", "2")):
            case = send(name, f"UNIQ_KEY\x01{name}\x02WAIT\x01true\x02{extra}", 0, b=CONSUMED, j=times)
            assert side.ask(case)[0] == 0
        side.positions = {each.body.decode(): each.physical_offset for each in side.table(CONSUMED, 0, 3)}
    return sides


def back(message: str, delay_level: int, version: int = 501, **changes: str | None) -> tuple[str, dict[str, str], int]:
    fields = {"group": "GID_back", "delayLevel": str(delay_level), "originMsgId": "ID", "originTopic": CONSUMED, "unitMode": "false"}
    fields = {**fields, **changes}  # type: ignore[dict-item]
    return message, {name: value for name, value in fields.items() if value is not None}, version


BACK = {
    "first try": back("plain", 0),
    "first try, a maximum given": back("plain", 0, maxReconsumeTimes="5"),
    "first try, none allowed": back("plain", 0, maxReconsumeTimes="0"),
    "first try, the group allows none": back("plain", 0, group="GID_none_allowed"),
    "level given": back("tagged", 1),
    "level above the last": back("tagged", 99),
    "level below 0": back("tagged", -1),
    "tried as often as the group allows": back("tried", 0),
    "tried, more allowed than by the group": back("tried", 0, maxReconsumeTimes="3"),
    "tried, a client too old to say how often": back("tried", 0, 100, maxReconsumeTimes="3"),
    "only what must be said": back("plain", 1, originMsgId=None, originTopic=None, unitMode=None),
    "unit mode": back("plain", 1, unitMode="true", group="GID_many"),
}
NOT_BACK = {
    "group unknown": back("plain", 0, group="GID_never_heard_of"),
    "group without retry queues": back("plain", 0, group="GID_no_retries"),
    "no message there": back("", 0, offset=str(1 << 40)),
    "in the middle of a message": back("plain", 0, offset="+1"),
    "before the log": back("", 0, offset="-1"),
}

MALFORMED = {
    "no group": back("plain", 0, group=None),
    "no level": ("plain", {"group": "GID_back"}, 501),
    "no offset": back("", 0),
    "level that is not a number": back("plain", 0, delayLevel="x"),
}


def send_back(side: Side, message: str, fields: dict[str, str], version: int) -> Any:
    fields = dict(fields)
    if message:
        fields["offset"] = str(side.positions[message] + int(fields.get("offset", "0")))
    code, remark, answered = side.ask(Case("back", SEND_BACK, fields, version=version))
    return code, re.sub(r"-?\d{3,}", "NUMBER", remark.split("\n")[0]), answered


def back_stored(side: Side, counts: dict[tuple[str, int], int]) -> dict[tuple[str, int], list[Record]]:
    return {place: delivered_order(side.table(*place, count)) for place, count in counts.items()}


def retry_topics(side: Side) -> dict[str, Any]:
    table = wire.parse_json(wire.call(side.address, GET_TOPICS).body.decode())["topicConfigTable"]
    wanted = ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag", "order", "topicFilterType")
    return {
        name: {each: config[each] for each in wanted} for name, config in table.items() if name.startswith(("%RETRY%GID_", "%DLQ%GID_"))
    }


def test_messages_sent_back_are_stored_and_delivered_as_by_rocketmq(consumed: tuple[Side, Side]) -> None:
    begins = [sum(queue_end(side.address, SCHEDULE, number) for number in range(LAST)) for side in consumed]
    assert begins[0] == begins[1]
    for what, request in BACK.items():
        ours, theirs = (send_back(side, *request) for side in consumed)
        assert ours == theirs == (0, "", {}), what
    many = [
        wait_until(
            lambda side=side: [number for number in range(3) if queue_end(side.address, "%RETRY%GID_many", number)],  # type: ignore[misc]
            2 * PATIENCE_S,
            "the retry of a group with three retry queues, of which one is chosen at random",
        )
        for side in consumed
    ]
    assert [len(each) for each in many] == [1, 1]
    counts = {("%RETRY%GID_back", 0): 6, ("%DLQ%GID_back", 0): 4, ("%DLQ%GID_none_allowed", 0): 1}
    ours, theirs = (back_stored(side, counts) for side in consumed)
    for place in counts:
        same(ours[place], theirs[place])
    for place, found in ours.items():
        for each in found:
            origin = each.pairs["ORIGIN_MESSAGE_ID"]
            assert int(origin[16:], 16) == consumed[0].positions[each.body.decode()]
            assert each.pairs["RETRY_TOPIC"] == CONSUMED and each.pairs["WAIT"] == "false"
            assert each.reconsume_times == (3 if each.body == b"tried" else 1), place
    for level in range(1, LAST + 1):
        ours_entered, theirs_entered = (
            [each for each in records(side.address, SCHEDULE, level - 1) if each.pairs["REAL_TOPIC"] == "%RETRY%GID_back"]
            for side in consumed
        )
        same(ours_entered, theirs_entered)
    assert retry_topics(consumed[0]) == retry_topics(consumed[1])


@pytest.mark.parametrize("what", NOT_BACK)
def test_messages_are_not_sent_back_where_rocketmq_does_not(what: str, consumed: tuple[Side, Side]) -> None:
    ours, theirs = (send_back(side, *NOT_BACK[what]) for side in consumed)
    assert ours == theirs


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_request_to_send_back_gets_the_code_of_rocketmq(what: str, consumed: tuple[Side, Side]) -> None:
    """Its remark there is the trace of a NullPointerException."""
    ours, theirs = (send_back(side, *MALFORMED[what]) for side in consumed)
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])


def to_retry_topic(what: str, times: int, maximum: int | None, group: str, delay: str = "", **changes: str) -> Case:
    properties = f"UNIQ_KEY\x01{what}\x02RETRY_TOPIC\x01{CONSUMED}\x02{delay}"
    fields = {"b": f"%RETRY%{group}", "j": str(times), "i": properties, **changes}
    if maximum is not None:
        fields["l"] = str(maximum)
    return Case(what, SEND_V2, {**PLAIN, **fields}, body=what.encode())


TO_RETRY_TOPICS = {
    "below the maximum": to_retry_topic("below", 1, 2, "GID_sent"),
    "at the maximum": to_retry_topic("at", 2, 2, "GID_sent"),
    "past the maximum": to_retry_topic("past", 3, 2, "GID_sent"),
    "past the maximum, delayed": to_retry_topic("past, delayed", 3, 2, "GID_sent", "DELAY\x011\x02"),
    "below the maximum, delayed": to_retry_topic("below, delayed", 1, 2, "GID_sent", "DELAY\x011\x02"),
    "past the group's maximum": to_retry_topic("past the group's", 3, None, "GID_sent"),
    "at the group's maximum": to_retry_topic("at the group's", 2, None, "GID_sent"),
}


def test_sends_to_retry_topics_past_the_maximum_go_to_the_dead_letter_queue(sides: tuple[Side, Side]) -> None:
    for side in sides:
        body = (
            '{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"GID_sent",'
            '"groupSysFlag":0,"retryMaxTimes":2,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
        )
        assert wire.call(side.address, UPDATE_GROUP, {}, body.encode()).code == 0
    for what, case in TO_RETRY_TOPICS.items():
        ours, theirs = (side.ask(case) for side in sides)
        assert ours == theirs, what
    counts = {("%RETRY%GID_sent", 0): 4, ("%DLQ%GID_sent", 0): 3}
    ours, theirs = (back_stored(side, counts) for side in sides)
    for place in counts:
        same(ours[place], theirs[place])


def test_a_send_to_the_retry_topic_of_an_unknown_group_is_answered_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    ours, theirs = (side.ask(to_retry_topic("unknown", 1, 2, "GID_unknown")) for side in sides)
    assert ours == theirs


# ---- what operators see ----


def test_delay_offsets_are_told_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    """After all tests above, whose levels are the same on both sides."""

    def offsets(side: Side) -> Any:
        reply = wire.call(side.address, GET_DELAY_OFFSETS)
        assert reply.code == 0, reply
        return reply.json()

    def delivered_all(side: Side) -> bool:
        told = offsets(side)["offsetTable"]
        ends = {str(level): queue_end(side.address, SCHEDULE, level - 1) for level in range(1, LAST + 1)}
        return {level: end for level, end in ends.items() if end} == {level: value for level, value in told.items() if value}

    for side in sides:
        wait_until(lambda side=side: delivered_all(side), 2 * PATIENCE_S, "everything is delivered")  # type: ignore[misc]
    ours, theirs = (offsets(side) for side in sides)
    assert ours["offsetTable"] == theirs["offsetTable"]
    assert sorted(set(ours) - {"logEnd"}) == sorted(theirs), "slaves are told where our log ends, too"
    assert sorted(ours["dataVersion"]) == sorted(theirs["dataVersion"])
    shown = [
        {name: value for name, value in wire.call(side.address, RUNTIME_INFO).json()["table"].items() if name.startswith("schedule")}
        for side in sides
    ]
    assert shown[0] == shown[1], json.dumps(shown)
