"""The soak's check of a queue says what is wrong with it."""

from __future__ import annotations

import pytest

from rocketpy._core.store import Message

from .ledger import Ledger, QueueCheck, body_of, sender_of

PLACE = ("soak-0", 1)


def message(offset: int, body: bytes, topic: str = "soak-0") -> Message:
    return Message(topic, 1, offset, 0, 0, 0, 0, 0, 0, "", 0, "", 0, 0, {}, body)


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    first = made.take(7, 3)
    for number in range(3):
        made.acknowledge(PLACE, 10 + number, 7, first + number, 100)
    return made


def rows(*offsets: int) -> list[Message]:
    return [message(offset, body_of(7, offset - 10, 100)) for offset in offsets]


def test_a_whole_queue_passes_and_is_counted(ledger: Ledger) -> None:
    check = QueueCheck(ledger, PLACE, 10)
    check.see(rows(10, 11, 12))
    check.finish(13)
    assert ledger.checked == ledger.sent == 3
    ledger.forget_below(PLACE, 12)
    assert list(ledger.acknowledged[PLACE]) == [12]


@pytest.mark.parametrize(
    ("read", "word"),
    [
        (rows(10, 12), "where 11 belongs"),
        ([message(10, body_of(7, 0, 100), topic="other")], "a message of other"),
        ([message(10, body_of(7, 3, 100))], "nobody has sent"),
        ([message(10, body_of(7, 0, 100)[:-1] + b"?")], "changed"),
        ([message(10, body_of(7, 1, 100))], "acknowledged was"),
        ([*rows(10), message(11, body_of(7, 0, 100))], "behind"),
    ],
)
def test_what_is_wrong_is_named(ledger: Ledger, read: list[Message], word: str) -> None:
    with pytest.raises(AssertionError, match=word):
        QueueCheck(ledger, PLACE, 10).see(read)


def test_a_queue_that_ends_too_early_is_named(ledger: Ledger) -> None:
    check = QueueCheck(ledger, PLACE, 10)
    check.see(rows(10, 11))
    with pytest.raises(AssertionError, match="should go to 13"):
        check.finish(13)


def test_an_offset_is_given_once(ledger: Ledger) -> None:
    with pytest.raises(AssertionError, match="was given to"):
        ledger.acknowledge(PLACE, 10, 7, 9, 100)


def test_a_body_says_who_sent_it() -> None:
    assert sender_of(body_of(3, 1234567, 64)) == (3, 1234567)
    assert len(body_of(3, 1234567, 64)) == 64
