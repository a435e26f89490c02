"""The same prepared messages, commits and rollbacks, to this product and to RocketMQ 5.5.0: the same answers, the same records.

Not of delayed ones: a Java client takes the level out of what it prepares, and RocketMQ delays the prepared message and forgets its topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from .products import Product, side_by_side
from .sides import Case, Side, same
from .stored import Record, queue_end

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

END, SEND_V2, GET_TOPICS = 37, 310, 21
COMMIT, ROLL_BACK, UNKNOWN, PREPARED = "8", "12", "0", "4"
HALF, TOPIC, GROUP = "RMQ_SYS_TRANS_HALF_TOPIC", "transactional", "PID"
LONG_AGO = 1_700_000_000_000


def send(what: str, properties: str = "", **changes: str) -> Case:
    fields = {
        "a": GROUP, "b": TOPIC, "c": "TBW102", "d": "4", "e": "1", "f": PREPARED, "g": str(LONG_AGO), "h": "3", "j": "0", "k": "false",
        "i": f"UNIQ_KEY\x01{what}\x02TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02WAIT\x01true\x02{properties}", **changes,
    }  # fmt: skip
    return Case(what, SEND_V2, fields, body=what.encode())


SENT = [
    send("plain", "TAGS\x01t\x02KEYS\x01a b\x02größe\x01äö €\x02"),
    send("flag not said", f="0"),
    send("real topic given", "REAL_TOPIC\x01elsewhere\x02REAL_QID\x017\x02__transactionId__\x01x\x02"),
    send("compressed", f="5", e="2"),
    send("asked late", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02"),
    send("asked at once", "CHECK_IMMUNITY_TIME_IN_SECONDS\x010\x02"),
    send("immunity is not a number", "CHECK_IMMUNITY_TIME_IN_SECONDS\x01x\x02"),
    send("TRAN_MSG says TRUE", i=f"UNIQ_KEY\x01U\x02TRAN_MSG\x01TRUE\x02PGROUP\x01{GROUP}\x02"),
    send("of no group", i="UNIQ_KEY\x01U\x02TRAN_MSG\x01true\x02"),
    send("no queue chosen", b="transactional-of-one-queue", e="-1"),
    send("to a topic that is made", b="made-by-a-transaction", e="0"),
    send("another try", "DELAY\x012\x02RECONSUME_TIME\x011\x02", j="1", f="0"),
]
NOT_HALF = {"another try"}


@pytest.fixture(scope="module")
def sides(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """With the messages prepared; nobody is asked about them."""
    settings = {"messageDelayLevel": "1s 1h", "transactionCheckInterval": 3_600_000}
    with side_by_side(product, peer, tmp_path_factory, settings) as clusters:
        for cluster in clusters:
            cluster.create_topic(TOPIC)
            cluster.create_topic("transactional-of-one-queue", queues=1)
        both = Side(clusters[0]), Side(clusters[1])
        for case in SENT:
            ours, theirs = (side.ask(case) for side in both)
            assert ours == theirs, case.what
            assert ours[0] == 0, (case.what, ours)
        for side in both:
            side.positions = {each.body.decode(): each.physical_offset for each in side.table(HALF, 0, len(SENT) - len(NOT_HALF))}
        yield both


def offsets() -> dict[str, int]:
    return {case.what: number for number, case in enumerate(case for case in SENT if case.what not in NOT_HALF)}


def end(side: Side, what: str, decision: str, **changes: str | None) -> Case:
    fields = {
        "producerGroup": GROUP, "tranStateTableOffset": str(offsets()[what]), "commitLogOffset": str(side.positions[what]),
        "commitOrRollback": decision, "fromTransactionCheck": "false", "msgId": what, "transactionId": what, "topic": TOPIC, **changes,
    }  # fmt: skip
    return Case(what, END, {name: value for name, value in fields.items() if value is not None})


def test_prepared_messages_are_stored_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    ours, theirs = (side.table(HALF, 0, len(SENT) - len(NOT_HALF)) for side in sides)
    same(ours, theirs)
    assert all(each.sys_flag & 0xC == 0 and each.pairs["REAL_TOPIC"] for each in ours)


REFUSED = {
    "another group": ("plain", COMMIT, {"producerGroup": "other"}),
    "another offset": ("plain", COMMIT, {"tranStateTableOffset": "99"}),
    "another offset, rolled back": ("plain", ROLL_BACK, {"tranStateTableOffset": "99"}),
    "no message there": ("plain", COMMIT, {"commitLogOffset": str(1 << 40)}),
    "before the log": ("plain", ROLL_BACK, {"commitLogOffset": "-1"}),
    "too late": ("asked late", COMMIT, {}),
    "too late to roll back": ("asked at once", ROLL_BACK, {}),
    "too late, by a text": ("immunity is not a number", COMMIT, {}),
    "no group": ("plain", COMMIT, {"producerGroup": None}),
    "no log offset": ("plain", COMMIT, {"commitLogOffset": None}),
    "offset that is not a number": ("plain", COMMIT, {"tranStateTableOffset": "x"}),
    "prepared again": ("plain", PREPARED, {}),
    "no decision": ("plain", None, {}),
    "message of no group": ("of no group", COMMIT, {}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_ends_are_refused_as_by_rocketmq(what: str, sides: tuple[Side, Side]) -> None:
    message, decision, changes = REFUSED[what]
    ours, theirs = (side.ask(end(side, message, decision, **changes)) for side in sides)
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])
    assert ours[0] != 0
    if "Exception" not in theirs[1]:
        assert ours[1].split("\n")[0] == theirs[1].split("\n")[0]


ENDED = [
    ("plain", COMMIT, {}),
    ("flag not said", COMMIT, {"fromTransactionCheck": "true"}),
    ("real topic given", COMMIT, {"topic": None, "transactionId": None, "fromTransactionCheck": None}),
    ("compressed", COMMIT, {}),
    ("asked late", COMMIT, {"fromTransactionCheck": "true"}),
    ("asked at once", ROLL_BACK, {"fromTransactionCheck": "true"}),
    ("TRAN_MSG says TRUE", COMMIT, {}),
    ("no queue chosen", COMMIT, {}),
    ("to a topic that is made", COMMIT, {}),
]


def unplaced(record: Record) -> Record:
    return replace(record.evened(), prepared_transaction_offset=0)


def test_what_is_committed_is_stored_as_by_rocketmq(sides: tuple[Side, Side]) -> None:
    """Once, whatever is refused before."""
    for message, decision, changes in ENDED:
        ours, theirs = (side.ask(end(side, message, decision, **changes)) for side in sides)
        assert ours == theirs, message
        assert ours[0] == 0, (message, ours)
    counts = {(TOPIC, 1): 5, (TOPIC, 2): 1, ("transactional-of-one-queue", 0): 1, ("made-by-a-transaction", 0): 1}
    for place, count in counts.items():
        ours, theirs = (side.table(*place, count) for side in sides)
        for our, their in zip(ours, theirs, strict=True):
            assert unplaced(our) == unplaced(their), our.body
        for side, found in zip(sides, (ours, theirs), strict=True):
            for each in found:
                assert each.sys_flag & 0xC == 8 and each.prepared_transaction_offset == side.positions[each.body.decode()]


def test_an_end_that_says_unknown_changes_nothing(sides: tuple[Side, Side]) -> None:
    """RocketMQ does not even answer."""
    ours, _ = sides
    before = len(ours.table(HALF, 0, len(SENT) - len(NOT_HALF)))
    assert ours.ask(end(ours, "plain", UNKNOWN))[0] == 0
    assert queue_end(ours.address, HALF, 0) == before
