"""The same timed sends and recalls, to this product and to RocketMQ 5.5.0: the same answers, the same records stored while they wait, the
same records delivered when their time has come."""

from __future__ import annotations

import base64
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.processes import PATIENCE_S, wait_until

from . import wire
from .products import Product, side_by_side
from .sides import Case, Side, same
from .stored import Record, records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RUNTIME_INFO, GET_CHECKPOINT, GET_METRICS, SEND_V2, RECALL = 28, 60, 61, 310, 370
WHEEL, TOPIC = "rmq_sys_wheel_timer", "timed"
PRECISION_MS = 100
MAX_DELAY_S = 3 * 24 * 3600

PLAIN = {"a": "PID", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "3", "j": "0", "k": "false"}


def send(what: str, properties: str, waits: bool = True, code: int = SEND_V2, **changes: str) -> Case:
    """ "{+1500}" stands for the time 1,500 ms from now, "{=2000}" for the start of a second then."""
    fields = {**PLAIN, "i": f"UNIQ_KEY\x01{what.replace(' ', '-')}\x02{properties}", **changes}
    return Case(what, code, fields, int(waits), (fields["b"], int(fields["e"])), what.encode())


def timely(case: Case, now_ms: int) -> Case:
    text = re.sub(r"\{\+(-?\d+)\}", lambda found: str(now_ms + int(found[1])), case.fields["i"])
    text = re.sub(r"\{=(\d+)\}", lambda found: str((now_ms + int(found[1])) // 1000 * 1000), text)
    return replace(case, fields={**case.fields, "i": text})


TIMED = [
    send("seconds", "TIMER_DELAY_SEC\x015\x02"),
    send("milliseconds", "TAGS\x01t\x02KEYS\x01a b\x02TIMER_DELAY_MS\x014800\x02", e="1"),
    send("a time", "a\x01b\x02WAIT\x01true\x02größe\x01äö €\x02TIMER_DELIVER_MS\x01{+5234}\x02", e="2"),
    send("a time at the edge of a slot", "TIMER_DELIVER_MS\x01{=6000}\x02"),
    send("all three", "TIMER_DELIVER_MS\x01{+900000}\x02TIMER_DELAY_MS\x01900000\x02TIMER_DELAY_SEC\x015\x02"),
    send("two", "TIMER_DELIVER_MS\x01{+900000}\x02TIMER_DELAY_MS\x015000\x02"),
    send("a sign", "TIMER_DELAY_SEC\x01+5\x02"),
    send("consumed again", "TIMER_DELAY_SEC\x015\x02", j="2"),
    send("compressed", "TIMER_DELAY_SEC\x015\x02", f="1"),
    send("does not wait", "WAIT\x01false\x02TIMER_DELAY_SEC\x015\x02"),
    send("another cluster's", "CLUSTER\x01other\x02MSG_REGION\x01moon\x02TRACE_ON\x01no\x02TIMER_DELAY_SEC\x015\x02"),
    send("real topic given", "REAL_TOPIC\x01elsewhere\x02REAL_QID\x017\x02TIMER_DELAY_SEC\x015\x02"),
    send("no queue chosen", "TIMER_DELAY_SEC\x015\x02", b="timed-to-one-queue", e="-1"),
    send("to a topic that is made", "TIMER_DELAY_SEC\x015\x02", b="made-for-timers"),
    send("no seconds", "TIMER_DELAY_SEC\x010\x02", False, e="3"),
    send("below no seconds", "TIMER_DELAY_SEC\x01-1\x02", False, e="3"),
    send("a time that is over", "TIMER_DELIVER_MS\x01{+-5000}\x02", False, e="3"),
    send("a time before all", "TIMER_DELIVER_MS\x01-9223372036854775808\x02", False, e="3"),
    send("delivered before", "TIMER_OUT_MS\x015\x02TIMER_DELAY_SEC\x01600\x02", False, e="3"),
]  # fmt: skip
"""Their seconds are enough for RocketMQ to enter them before they are due: it marks those that it was too late for (TIMER_ENQUEUE_MS)."""
REFUSED = [
    send("too many seconds", f"TIMER_DELAY_SEC\x01{MAX_DELAY_S + 60}\x02"),
    send("too many milliseconds", f"TIMER_DELAY_MS\x01{(MAX_DELAY_S + 60) * 1000}\x02"),
    send("too far away", f"TIMER_DELIVER_MS\x01{{+{(MAX_DELAY_S + 60) * 1000}}}\x02"),
    send("farther than numbers reach", "TIMER_DELIVER_MS\x019223372036854775807\x02"),
    send("no number", "TIMER_DELAY_SEC\x01soon\x02"),
    send("no number, in milliseconds", "TIMER_DELAY_MS\x011.5\x02"),
    send("no number, as a time", "TIMER_DELIVER_MS\x01 1\x02"),
    send("a number too large", "TIMER_DELIVER_MS\x019223372036854775808\x02"),
    send("a recall whose time is over", "TIMER_DEL_UNIQKEY\x01a\x02TIMER_DELIVER_MS\x01{+-1000}\x02"),
    send("queue past the end", "TIMER_DELAY_SEC\x011\x02", e="4"),
    send("illegal topic", "TIMER_DELAY_SEC\x011\x02", b="a b"),
    send("system topic", "TIMER_DELAY_SEC\x011\x02", b="SCHEDULE_TOPIC_XXXX"),
]  # fmt: skip


@pytest.fixture(scope="module")
def sides(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    settings = {"timerPrecisionMs": PRECISION_MS, "messageDelayLevel": "1s 2s", "recallMessageEnable": "true"}
    with side_by_side(product, peer, tmp_path_factory, settings) as both:
        for cluster in both:
            cluster.create_topic(TOPIC)
            cluster.create_topic("timed-to-one-queue", queues=1)
        yield Side(both[0]), Side(both[1])


def ask(side: Side, case: Case) -> tuple[Any, list[str]]:
    """The answer without its recall handle, and what that holds; its time is a slot's."""
    code, remark, fields = side.ask(case)
    handle = base64.urlsafe_b64decode(fields.pop("recallHandle", "")).decode().split(" ")
    if len(handle) > 1:
        assert (int(handle[3]) - 1) % PRECISION_MS == 0
    return (code, remark, fields), handle


def without_times(record: Record) -> Record:
    """The times at which the broker dealt with it, and those that follow from when it was sent. The digits stay."""
    text = re.sub(r"((?:TIMER_(?:OUT|ENQUEUE|DEQUEUE)_MS|BORN_TIMESTAMP)\x01\d{3})\d{10}", r"\1~", record.properties)
    return replace(record, properties=text, queue_offset=0)


def by_body(found: list[Record]) -> list[Record]:
    return sorted((without_times(each) for each in found), key=lambda each: each.body)


def in_wheel(side: Side, *bodies: bytes) -> list[Record]:
    """Those that were stored to wait, as they were stored."""
    return [each for each in records(side.address, WHEEL, 0) if each.body in bodies]


def test_timed_sends_are_answered_stored_and_delivered_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    begun_ms = time.time_ns() // 1_000_000
    for case in TIMED:
        case = timely(case, time.time_ns() // 1_000_000)
        (ours, our_handle), (theirs, their_handle) = (ask(side, case) for side in sides)
        assert ours == theirs, case.what
        assert ours[0] == 0, (case.what, ours)
        assert our_handle[:3] + our_handle[4:] == their_handle[:3] + their_handle[4:], case.what
        assert (len(our_handle) > 1) == bool(case.level)
        if "TIMER_DELAY" not in case.fields["i"]:
            assert our_handle == their_handle, case.what
    waiting = {case.body for case in TIMED if case.level}
    ours, theirs = (in_wheel(side, *waiting) for side in sides)
    same(by_body(ours), by_body(theirs))
    assert {each.body for each in ours} == waiting
    for queue, topic, count in queues(TIMED):
        ours, theirs = (side.table(topic, queue, count) for side in sides)
        same(by_body(ours), by_body(theirs))
        for each in ours:
            if each.body in waiting:
                assert (each.pairs["REAL_TOPIC"], each.pairs["REAL_QID"]) == (topic, str(queue)), "RocketMQ takes them out in memory only"
                assert each.store_timestamp >= int(each.pairs["TIMER_OUT_MS"]) >= begun_ms - PRECISION_MS


def queues(cases: list[Case]) -> list[tuple[int, str, int]]:
    counts: dict[tuple[str, int], int] = {}
    for case in cases:
        place = (case.target[0], max(case.target[1], 0))
        counts[place] = counts.get(place, 0) + 1
    return [(queue, topic, count) for (topic, queue), count in counts.items()]


def test_a_level_says_more_than_a_time(sides: tuple[Side, Side]) -> None:
    times = "TIMER_DELAY_SEC\x01600\x02TIMER_DELAY_MS\x011\x02TIMER_DELIVER_MS\x01soon\x02"
    case = send("at a level", f"DELAY\x011\x02{times}a\x01b\x02", b="at-a-level")
    ours, theirs = (ask(side, case) for side in sides)
    assert ours == theirs and ours[0][0] == 0
    ours, theirs = (side.table("at-a-level", 0, 1) for side in sides)
    same(ours, theirs)
    assert not any(name.startswith("TIMER") for name in ours[0].pairs) and ours[0].pairs["a"] == "b"


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.what)
def test_timed_sends_are_refused_as_by_rocketmq(case: Case, sides: tuple[Side, Side]) -> None:
    case = timely(case, time.time_ns() // 1_000_000)
    ours, theirs = (ask(side, case) for side in sides)
    assert ours == theirs
    assert ours[0][0] != 0


# ---- recalls ----


def handle(topic: str = TOPIC, broker: str = "broker-a", time_text: str = "{+5000}", key: str = "K", version: str = "v1") -> str:
    return " ".join((version, topic, broker, time_text, key))


def recall(text: str | None, topic: str = TOPIC, group: str | None = "PID", now_ms: int | None = None) -> Case:
    """`text` of the handle, to be encoded."""
    now_ms = now_ms or time.time_ns() // 1_000_000
    text = text and re.sub(r"\{\+(-?\d+)\}", lambda found: str(now_ms + int(found[1])), text)
    encoded = None if text is None else base64.urlsafe_b64encode(text.encode()).decode()
    fields = {"producerGroup": group, "topic": topic, "recallHandle": encoded}
    return Case("recall", RECALL, {name: value for name, value in fields.items() if value is not None})


RECALLS_REFUSED = {
    "no topic there": lambda: recall(handle("nowhere"), "nowhere"),
    "another topic": lambda: recall(handle("timed-to-one-queue")),
    "another broker": lambda: recall(handle(broker="broker-b")),
    "another version": lambda: recall(handle(version="v2")),
    "no key": lambda: recall(f"v1 {TOPIC} broker-a {{+5000}}"),
    "the time is over": lambda: recall(handle(time_text="{+-1}")),
    "the time is too far away": lambda: recall(handle(time_text=f"{{+{MAX_DELAY_S * 1000 + 1000}}}")),
    "the time is not a number": lambda: recall(handle(time_text="soon")),
    "the time is larger than numbers are": lambda: recall(handle(time_text="9223372036854775808")),
    "an empty handle": lambda: recall(""),
    "no base 64": lambda: replace(recall("x"), fields={"producerGroup": "PID", "topic": TOPIC, "recallHandle": "*"}),
    "the other base 64": lambda: replace(recall("x"), fields={"producerGroup": "PID", "topic": TOPIC, "recallHandle": "+/+/"}),
    "half a character": lambda: replace(recall("x"), fields={"producerGroup": "PID", "topic": TOPIC, "recallHandle": "djE"}),
    "nothing of it": lambda: recall(None),
}


@pytest.mark.parametrize("what", RECALLS_REFUSED)
def test_recalls_are_refused_as_by_rocketmq(what: str, sides: tuple[Side, Side]) -> None:
    case = RECALLS_REFUSED[what]()
    ours, theirs = (side.ask(case) for side in sides)
    assert ours == theirs
    assert ours[0] != 0


def test_a_recalled_message_is_not_delivered_and_its_recall_is_stored_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    kept, taken = (send(what, "TIMER_DELIVER_MS\x01{=3000}\x02", b="recalled-from") for what in ("goes on waiting", "is taken back"))
    now_ms = time.time_ns() // 1_000_000
    for side in sides:
        ask(side, timely(kept, now_ms))
        _, given = ask(side, timely(taken, now_ms))
        code, _, fields = side.ask(recall(" ".join(given), "recalled-from"))
        assert (code, fields) == (0, {"MSG_REGION": "DefaultRegion", "msgId": "is-taken-back"})
    ours, theirs = (in_wheel(side, b"0") for side in sides)
    assert len(ours) == len(theirs) == 1 and ours[0].pairs["TAGS"] == "_RECALL_TAG_"
    assert all(abs(each.born_timestamp - now_ms) < 1000 * PATIENCE_S for each in (*ours, *theirs)), "when it was recalled"
    for each in theirs:  # which has a property without a value, too
        assert "TRACE_CONTEXT\x01\x02" in each.properties
    same(*([plain_recall(each) for each in by_body(found)] for found in (ours, theirs)))
    for side in sides:
        (found,) = side.table("recalled-from", 0, 1)
        assert found.body == b"goes on waiting"
    behind = send("behind both", "TIMER_DELAY_MS\x01500\x02", b="recalled-from")
    for side in sides:
        ask(side, behind)
        assert [each.body for each in side.table("recalled-from", 0, 2)] == [b"goes on waiting", b"behind both"]


def plain_recall(record: Record) -> Record:
    return replace(record, born_timestamp=0, size=0, properties=record.properties.replace("TRACE_CONTEXT\x01\x02", ""))


# ---- what operators and slaves see ----


def test_what_is_told_of_timers_has_the_shape_of_rocketmq(sides: tuple[Side, Side]) -> None:
    case = send("waits for long", "TIMER_DELAY_SEC\x013600\x02", b="told-of")
    for side in sides:
        assert ask(side, case)[0][0] == 0

    def counts(side: Side) -> Any:
        return wire.call(side.address, GET_METRICS).json()["timingCount"].get("told-of")

    for side in sides:
        wait_until(lambda side=side: (counts(side) or {}).get("count") == 1, PATIENCE_S, "it is counted")  # type: ignore[misc]
    ours, theirs = (wire.call(side.address, GET_METRICS) for side in sides)
    assert ours.code == theirs.code == 0
    assert set(ours.json()) == set(theirs.json()) and set(ours.json()["dataVersion"]) == set(theirs.json()["dataVersion"])
    assert set(counts(sides[0])) == set(counts(sides[1])) and abs(counts(sides[0])["timeStamp"] - time.time_ns() // 1_000_000) < 600_000
    checkpoints = [struct.unpack(">7q", wire.call(side.address, GET_CHECKPOINT).body) for side in sides]
    now_ms = time.time_ns() // 1_000_000
    for read_ms, flushed, entered, masters, *_ in checkpoints:
        assert now_ms - 600_000 < read_ms < now_ms + 1000 and flushed % 52 == 0 and entered <= masters
    shown = [wire.call(side.address, RUNTIME_INFO).json()["table"] for side in sides]
    names = [{name: value for name, value in table.items() if name.startswith("timer")} for table in shown]
    assert set(names[0]) == set(names[1])
    for each in names:
        assert int(each["timerCongestNum"]) >= 1 and int(each["timerReadBehind"]) < 60 and int(each["timerOffsetBehind"]) < 60
        assert re.fullmatch(r"\d+\.\d+(E-?\d+)?", each["timerEnqueueTps"]) and re.fullmatch(r"\d+\.\d+(E-?\d+)?", each["timerDequeueTps"])
