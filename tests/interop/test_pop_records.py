"""The same pops, acks and questions about them, to this product and to RocketMQ 5.5.0: the same answers, checkpoints, acks and retries.

Times differ between two runs, and which waits where until it is due: RocketMQ's records lie in its timer meanwhile.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.processes import wait_until

from . import wire
from .popping import (
    ACK,
    ASSIGNMENT,
    BATCH_ACK,
    CHANGE,
    NOTIFY,
    PEEK,
    POLLING,
    POLLING_TIMEOUT,
    POP,
    SET_MODE,
    Popped,
    Popper,
    handles,
    revive_topic,
)
from .products import Cluster, Product, side_by_side
from .sides import evened
from .stored import Record, queue_end, records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEND_V2, UPDATE_TOPIC, UPDATE_GROUP = 310, 17, 200
TOPIC, EMPTY, SECRET, GROUP, BLOCKED = "popped", "popped-empty", "popped-secret", "GID_popped", "GID_blocked"
SOON = "4000"


@dataclass
class Side:
    """One product, the messages that its consumer has, and what is acked of them."""

    cluster: Cluster
    held: dict[str, Popped] = field(default_factory=dict)
    """By body."""

    @property
    def popper(self) -> Popper:
        return Popper(self.cluster.broker.address, GROUP, TOPIC)

    def ask(self, code: int, fields: dict[str, Any], body: bytes = b"") -> Any:
        reply = self.popper.ask(code, {name: str(value) for name, value in fields.items() if value is not None}, body)
        remark = "" if reply.remark == "not set any response code" else evened(reply.remark or "")
        return reply.code, remark, masked(reply.fields), reply

    def pop(self, **changes: Any) -> Any:
        code, remark, fields, reply = self.ask(POP, self.popper.fields(**changes))
        found = handles(reply) if code == 0 else []
        self.held |= {each.body: each for each in found}
        return code, remark, fields, [masked_record(each.record) for each in found], [(each.kind, each.times) for each in found]

    def change(self, what: str, invisible_ms: str) -> Any:
        held = self.held[what]
        code, remark, fields, reply = self.ask(CHANGE, {**self.popper.handle_fields(held), "invisibleTime": invisible_ms})
        if code == 0 and "popTime" in reply.fields:
            _, _, _, revive, kind, broker, queue, offset = held.handle.split(" ")
            start = offset if revive != "999" else held.handle.split(" ")[0]
            times = f"{reply.fields['popTime']} {reply.fields['invisibleTime']}"
            self.held[what] = replace(held, handle=f"{start} {times} {revive} {kind} {broker} {queue} {offset}")
            if revive == "999":
                fields["invisibleTime"] = ""  # counted from the pop, which is a while ago
        return code, remark, fields


def masked(value: Any) -> Any:
    """Without times of this run."""
    if isinstance(value, dict):
        return {name: masked(each) for name, each in value.items()}
    return re.sub(r"\b1[78]\d{11}\b", "TIME", value)


def masked_record(record: Record) -> Record:
    """What is stored, of a retry as it lies in its topic: RocketMQ recodes it on its way out."""
    is_retry = "1ST_POP_TIME" in record.pairs
    left_out = ("POP_CK\x01", "ORIGIN_GROUP\x01")
    properties = "\x02".join(sorted(pair for pair in record.properties.split("\x02") if not pair.startswith(left_out)))
    changes: dict[str, Any] = {"topic": "", "size": 0, "born_host": b""} if is_retry else {}
    return replace(record.evened(), properties=masked(properties.strip("\x02")), store_host=b"", **changes)


@pytest.fixture(scope="module")
def sides(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with side_by_side(product, peer, tmp_path_factory, {"reviveQueueNum": 1}) as both:
        for cluster in both:
            for topic in (TOPIC, EMPTY, SECRET):
                cluster.create_topic(topic)
            prepare(cluster)
        yield Side(both[0]), Side(both[1])


def prepare(cluster: Cluster) -> None:
    address = cluster.broker.address
    for queue in range(4):
        for number, letter in enumerate("ABCDEF"):
            properties = f"UNIQ_KEY\x01{queue}{letter}\x02TAGS\x01{'even' if number % 2 == 0 else 'odd'}\x02KEYS\x01k\x02größe\x01äö €\x02"
            fields = {
                "a": "PID", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1700000000000", "h": "3",
                "i": properties, "j": "0", "k": "false",
            }  # fmt: skip
            assert wire.call(address, SEND_V2, fields, f"{queue}{letter}".encode()).code == 0
    fields = {
        "topic": SECRET, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "2",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    assert wire.call(address, UPDATE_TOPIC, fields).code == 0
    blocked = {"groupName": BLOCKED, "consumeEnable": False, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0}
    assert wire.call(address, UPDATE_GROUP, body=json.dumps(blocked).encode()).code == 0


def both(sides: tuple[Side, Side], ask: Any) -> Any:
    """What both answer, if it is the same."""
    ours, theirs = (ask(side) for side in sides)
    assert ours == theirs
    return ours


UNKNOWN = "nowhere"
HANDLE = f"0 1700000000000 {SOON} 0 0 broker-a 0 0"
FIELDS: dict[int, dict[str, Any]] = {
    POP: {"consumerGroup": GROUP, "topic": EMPTY, "queueId": -1, "maxMsgNums": 32, "invisibleTime": SOON, "pollTime": 0, "bornTime": 0,
          "initMode": 0, "expType": "TAG", "exp": "*", "order": "false"},
    ACK: {"consumerGroup": GROUP, "topic": EMPTY, "queueId": 0, "extraInfo": HANDLE, "offset": 0},
    CHANGE: {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "extraInfo": HANDLE, "offset": 0, "invisibleTime": SOON},
    PEEK: {"consumerGroup": GROUP, "topic": EMPTY, "queueId": -1, "maxMsgNums": 32},
    NOTIFY: {"consumerGroup": GROUP, "topic": EMPTY, "queueId": -1, "pollTime": 0, "bornTime": 0},
    POLLING: {"consumerGroup": GROUP, "topic": EMPTY, "queueId": -1},
}  # fmt: skip
NAMES = {POP: "pop", ACK: "ack", CHANGE: "change", PEEK: "peek", NOTIFY: "notify", POLLING: "polling"}
REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    **{f"{NAMES[code]}: unknown topic": (code, {"topic": UNKNOWN}) for code in FIELDS},
    **{f"{NAMES[code]}: queue past the end": (code, {"queueId": 4}) for code in FIELDS},
    **{f"{NAMES[code]}: topic not readable": (code, {"topic": SECRET}) for code in (POP, PEEK, NOTIFY, POLLING)},
    **{f"{NAMES[code]}: group disabled": (code, {"consumerGroup": BLOCKED}) for code in (POP, PEEK, NOTIFY, POLLING)},
    **{f"{NAMES[code]}: queue below 0": (code, {"queueId": -1}) for code in (ACK, CHANGE)},
    **{f"{NAMES[code]}: handle {what}": (code, {"extraInfo": text}) for code in (ACK, CHANGE) for what, text in (
        ("of too few parts", "0 1700000000000 1500 0 0"), ("that is empty", ""))},
    "ack: handle of other text": (ACK, {"extraInfo": "x 1 2 0 0 broker-a 0 0"}),  # RocketMQ refuses a change by it after the checkpoint
    "pop: 33 messages": (POP, {"maxMsgNums": 33}),
    "pop: nothing there": (POP, {}),
    "pop: nothing there, in order": (POP, {"order": "true", "attemptId": "a"}),
    "pop: queue -2": (POP, {"queueId": -2}),
    "pop: a wrong expression": (POP, {"expType": "SQL92", "exp": "a ="}),
    "pop: another kind of expression": (POP, {"expType": "REGEX", "exp": "a"}),
    "pop: no expression": (POP, {"exp": None, "expType": None}),
    "peek: nothing there": (PEEK, {}),
    "peek: one queue": (PEEK, {"queueId": 3}),
    "notify: nothing there": (NOTIFY, {}),
    "polling: nobody": (POLLING, {}),
    "ack: offset past the end": (ACK, {"offset": 1}),
    "ack: offset below the start": (ACK, {"offset": -1}),
    "change: offset at the end": (CHANGE, {"offset": 6}),
    "change: offset below the start": (CHANGE, {"offset": -1}),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_answered_as_by_rocketmq(what: str, sides: tuple[Side, Side]) -> None:
    """RocketMQ's refusals carry the fields of an answer, all of them 0. Fields that are missing are refused here, not taken for 0."""
    code, changes = REFUSED[what]
    ours, theirs = (side.ask(code, {**FIELDS[code], **changes}) for side in sides)
    assert ours[0] == theirs[0], (ours, theirs)
    if theirs[0] in (0, POLLING_TIMEOUT):
        assert ours[2] == theirs[2]
    if theirs[1] and "Exception" not in theirs[1]:
        assert ours[1] in (theirs[1], theirs[1].removesuffix(" consumer:[/ADDRESS]"))


BATCHES: dict[str, Any] = {
    "no body": b"",
    "no acks": {"brokerName": "broker-a"},
    "none of them": {"brokerName": "broker-a", "acks": []},
    "unknown topic": {
        "acks": [{"c": GROUP, "t": UNKNOWN, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1700000000000, "it": 1500, "b": "AQ=="}]
    },
    "unknown queue": {"acks": [{"c": GROUP, "t": TOPIC, "r": "0", "so": 0, "q": 9, "rq": 0, "pt": 1700000000000, "it": 1500, "b": "AQ=="}]},
    "past the end": {"acks": [{"c": GROUP, "t": TOPIC, "r": "0", "so": 99, "q": 0, "rq": 0, "pt": 1700000000000, "it": 1500, "b": "AQ=="}]},
}


@pytest.mark.parametrize("what", BATCHES)
def test_batches_of_nothing_are_answered_as_by_rocketmq(what: str, sides: tuple[Side, Side]) -> None:
    batch = BATCHES[what]
    ours, theirs = (side.ask(BATCH_ACK, {}, batch if isinstance(batch, bytes) else json.dumps(batch).encode()) for side in sides)
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])


def test_modes_and_assignments_are_answered_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    def mode(side: Side, **changes: Any) -> Any:
        body = {"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0, **changes}
        return side.ask(SET_MODE, {}, json.dumps(body).encode())[:3]

    def assigned(side: Side, **changes: Any) -> Any:
        body = {"topic": TOPIC, "consumerGroup": GROUP, "clientId": "c", "messageModel": "CLUSTERING", "strategyName": "AVG", **changes}
        code, remark, _, reply = side.ask(ASSIGNMENT, {}, json.dumps(body).encode())
        rows = (reply.json() or {}).get("messageQueueAssignments")
        key = lambda row: (row["messageQueue"]["queueId"], row["mode"])  # noqa: E731
        return code, remark, None if rows is None else sorted(rows, key=key)

    assert both(sides, mode)[0] == 0
    assert both(sides, lambda side: mode(side, topic=f"%RETRY%{GROUP}"))[0] != 0
    assert both(sides, lambda side: mode(side, topic=UNKNOWN))[0] != 0
    assert both(sides, assigned)[2] is None, "nobody is connected"
    found = both(sides, lambda side: assigned(side, messageModel="BROADCASTING"))
    assert [row["mode"] for row in found[2]] == ["POP"] * 4
    assert both(sides, lambda side: assigned(side, topic=UNKNOWN))[2] is None


def test_messages_are_popped_acked_and_stored_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    """Queue by queue, as a pop of all queues begins at any."""
    pop_and_ack(sides)
    what_is_stored(sides)


def pop_and_ack(sides: tuple[Side, Side]) -> None:
    pop = {"invisibleTime": SOON}
    answer = both(sides, lambda side: side.pop(queueId=0, maxMsgNums=2, **pop))
    assert answer[0] == 0 and answer[2]["restNum"] == "4"
    both(sides, lambda side: side.pop(queueId=0, **pop))
    answer = both(sides, lambda side: side.pop(queueId=1, exp="even", **pop))
    assert answer[2]["msgOffsetInfo"] == "0 1 0,2,4"
    assert both(sides, lambda side: side.pop(queueId=1, exp="odd", **pop))[0] != 0
    answer = both(sides, lambda side: side.pop(queueId=2, order="true", maxMsgNums=3, attemptId="one", **pop))
    assert answer[2]["orderCountInfo"] == "0 2 0"
    both(sides, lambda side: side.pop(queueId=2, order="true", attemptId="two", **pop))
    both(sides, lambda side: side.pop(queueId=2, order="true", maxMsgNums=3, attemptId="one", **pop))
    both(sides, lambda side: side.ask(PEEK, side.popper.fields(queueId=3))[:3])
    both(sides, lambda side: side.ask(NOTIFY, side.popper.fields(queueId=3))[:3])
    both(sides, lambda side: side.ask(ACK, side.popper.handle_fields(side.held["0A"]))[:3])
    both(sides, lambda side: side.ask(ACK, side.popper.handle_fields(side.held["2A"]))[:3])
    both(sides, lambda side: side.ask(ACK, side.popper.handle_fields(side.held["2A"]))[:3])
    both(sides, lambda side: side.ask(BATCH_ACK, {}, side.popper.batch([side.held[f"0{each}"] for each in "CE"]))[:3])
    both(sides, lambda side: side.ask(BATCH_ACK, {}, side.popper.batch([side.held["2B"]]))[:3])
    both(sides, lambda side: side.change("0F", SOON))
    both(sides, lambda side: side.change("0F", SOON))
    assert len(both(sides, lambda side: side.pop(queueId=3, **pop))[3]) == 6
    both(sides, lambda side: side.ask(BATCH_ACK, {}, side.popper.batch([side.held[f"3{each}"] for each in "ABCDEF"]))[:3])
    assert set(both(sides, lambda side: side.change("2C", "0"))[2]) == {"popTime", "invisibleTime", "reviveQid"}
    answer = both(sides, lambda side: side.pop(queueId=2, order="true", **pop))
    assert answer[2]["orderCountInfo"] and answer[4][0] == ("0", 1)
    both(sides, lambda side: [side.cluster.committed(GROUP, TOPIC, queue) for queue in range(4)])


def what_is_stored(sides: tuple[Side, Side]) -> None:
    """Checkpoints, acks and retries, when all is due."""
    retries = f"%RETRY%{GROUP}_{TOPIC}"
    expected = ["0B", "0D", "0F", "1A", "1C", "1E"]

    def revived(side: Side) -> list[Record]:
        address = side.cluster.broker.address
        wait_until(lambda: queue_end(address, retries, 0) >= len(expected), what="what was not acked comes again")
        return sorted(records(address, retries, 0), key=lambda each: each.body)

    ours, theirs = (revived(side) for side in sides)
    assert [each.body.decode() for each in ours] == [each.body.decode() for each in theirs] == expected
    for our, their in zip(ours, theirs, strict=True):
        assert as_revived(our) == as_revived(their), our.body

    def checkpoints(side: Side) -> list[tuple[str, str, str]]:
        """Without what 5.5.0 adds to 5.3.3's, and without acks of what was never popped, which RocketMQ stores whatever their topic is."""
        found = [each for each in records(side.cluster.broker.address, revive_topic(), 0) if b"1700000000000" not in each.body]
        rows = ((each.pairs["TAGS"], each.pairs["UNIQ_KEY"], each.body.decode().replace(',"sp":false', "")) for each in found)
        return sorted(tuple(masked(text) for text in row) for row in rows)  # type: ignore[misc]

    wait_until(lambda: len(checkpoints(sides[1])) >= 11, what="RocketMQ's timer has brought all records")
    mine, others = (Counter(checkpoints(side)) for side in sides)
    assert sorted((others - mine).elements()) == []
    assert {tag for tag, *_ in mine - others} <= {"bAck"}, "what came again is acked, so that it does not once more after a kill"
    assert [tag for tag, *_ in sorted(others.elements())] == ["ack"] * 3 + ["bAck"] * 2 + ["ck"] * 6
    answer = both(sides, lambda side: sorted_pop(side.pop(queueId=3)))
    assert len(answer[3]) == len(expected) and {kind for kind, _ in answer[4]} == {"1"}


def as_revived(record: Record) -> Record:
    """5.5.0 notes the group, for its own waking; 5.3.3 does not."""
    pairs = sorted(pair for pair in record.properties.split("\x02") if pair and not pair.startswith("ORIGIN_GROUP\x01"))
    return replace(record.evened(), size=0, queue_offset=0, properties=masked("\x02".join(pairs)))


def sorted_pop(answer: Any) -> Any:
    """The order in which messages came again is not that of RocketMQ's timer."""
    code, remark, fields, found, kinds = answer
    found = sorted((replace(each, queue_offset=0) for each in found), key=lambda each: each.body)
    return code, remark, fields, found, kinds
