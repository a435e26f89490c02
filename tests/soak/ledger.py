"""What was acknowledged, and what a queue must therefore hold: decisions only.

A body says who sent it and which one it is, and is filled by a generator seeded with that: any body can be checked alone.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from rocketpy._core.store import Message

Place = tuple[str, int]
"""A queue: topic and queue id."""
HEAD_BYTES_MAX = 24


def body_of(producer: int, sequence: int, size: int) -> bytes:
    """The one right body of that size, HEAD_BYTES_MAX at least."""
    head = f"{producer}:{sequence}:".encode()
    return head + random.Random(producer * 1_000_003 + sequence).randbytes(size - len(head))


def sender_of(body: bytes) -> tuple[int, int]:
    producer, sequence, _ = body.split(b":", 2)
    return int(producer), int(sequence)


@dataclass
class Ledger:
    """acknowledged[queue][offset]: who sent what lies there, and its size. next: sequences not yet used, by producer."""

    acknowledged: dict[Place, dict[int, tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(dict))
    next: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    refused: Counter[int] = field(default_factory=Counter)
    """By response code: stored perhaps, promised not. Negative: no answer."""
    sent: int = 0
    checked: int = 0

    def take(self, producer: int, count: int = 1) -> int:
        """The first of `count` sequences nobody has used."""
        first = self.next[producer]
        self.next[producer] += count
        return first

    def acknowledge(self, place: Place, offset: int, producer: int, sequence: int, size: int) -> None:
        held = self.acknowledged[place]
        assert offset not in held, f"{place} offset {offset} was given to {held[offset]} and to {(producer, sequence)}"
        held[offset] = (producer, sequence, size)
        self.sent += 1

    def forget_below(self, place: Place, offset: int) -> None:
        """What retention has taken."""
        held = self.acknowledged[place]
        for old in [each for each in held if each < offset]:
            del held[old]


class QueueCheck:
    """Messages of one queue in the order in which they are read, from `begin`; `finish` says what should have been there, too."""

    def __init__(self, ledger: Ledger, place: Place, begin: int) -> None:
        self._ledger = ledger
        self._place = place
        self._begin = self._next = begin
        self._last: dict[int, int] = {}

    def see(self, messages: Iterable[Message]) -> None:
        """Raises AssertionError."""
        for message in messages:
            where = f"{self._place} offset {message.queue_offset}"
            assert message.queue_offset == self._next, f"{where} where {self._next} belongs"
            assert (message.topic, message.queue_id) == self._place, f"{where}: a message of {message.topic} {message.queue_id}"
            self._next += 1
            producer, sequence = sender_of(message.body)
            assert sequence < self._ledger.next[producer], f"{where}: nobody has sent {(producer, sequence)}"
            assert message.body == body_of(producer, sequence, len(message.body)), f"{where}: {(producer, sequence)} came back changed"
            assert self._last.get(producer, -1) < sequence, f"{where}: {(producer, sequence)} behind {self._last[producer]}"
            self._last[producer] = sequence
            said = self._ledger.acknowledged[self._place].get(message.queue_offset)
            here = (producer, sequence, len(message.body))
            assert said is None or said == here, f"{where} holds {here}, acknowledged was {said}"
            self._ledger.checked += 1

    def finish(self, end: int) -> None:
        """The queue was read to `end`: everything acknowledged from begin to there was seen, as offsets have no gaps."""
        assert self._next >= end, f"{self._place}: read to {self._next}, it should go to {end}"
