"""Members of a group in one thread, under a clock and a network that a seed decides: delay, loss, repetition, overtaking, partitions,
crashes that lose what was not synced, clocks that run apart. What Raft promises is checked after every step.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketpy._core.errors import NotFound, ProtocolError
from rocketpy.dledger.bodies import Answer
from rocketpy.dledger.entry import Entry, crc_of
from rocketpy.dledger.replica import Replica, Sent
from rocketpy.dledger.settings import GroupSettings

TICK_MS = 10
TIMEOUT_MS = 150
FAULTY_MS = 3500
HEALTHY_MS = 1500


class MemoryLog:
    """A log whose unsynced end a crash may take away."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.synced = 0

    @property
    def begin_index(self) -> int:
        return 0 if self.entries else -1

    @property
    def end_index(self) -> int:
        return len(self.entries) - 1

    @property
    def end_term(self) -> int:
        return self.entries[-1].term if self.entries else -1

    def append(self, term: int, body: bytes) -> Entry:
        entry = Entry(len(self.entries), term, self._end_pos(), body, body_crc=crc_of(body))
        self.entries.append(entry)
        return entry

    def append_entry(self, entry: Entry) -> None:
        if entry.index != len(self.entries) or entry.pos != self._end_pos() or entry.term < self.end_term:
            raise ProtocolError("it does not follow")
        self.entries.append(entry)

    def sync(self) -> None:
        self.synced = len(self.entries)

    def get(self, index: int) -> Entry:
        if not 0 <= index < len(self.entries):
            raise NotFound(str(index))
        return self.entries[index]

    def term_of(self, index: int) -> int:
        return -1 if index == -1 else self.get(index).term

    def cut(self, last_index: int) -> None:
        del self.entries[last_index + 1 :]
        self.synced = min(self.synced, len(self.entries))

    def crash(self, chance: random.Random) -> None:
        del self.entries[chance.randint(self.synced, len(self.entries)) :]
        self.synced = len(self.entries)

    def _end_pos(self) -> int:
        return self.entries[-1].end_pos if self.entries else 0


class MemoryPromises:
    def __init__(self) -> None:
        self.term = 0
        self.vote: str | None = None

    def write(self, term: int, vote: str | None) -> None:
        assert term >= self.term, "the term went back"
        self.term, self.vote = term, vote

    def crash(self) -> None:
        """Everything written stays."""


@dataclass
class SimulatedMember:
    settings: GroupSettings
    log: MemoryLog
    promises: MemoryPromises
    rate: float
    offset: int
    replica: Any = None
    checked: int = -1

    def clock(self, now: int) -> int:
        return int(now * self.rate) + self.offset


class Violation(AssertionError):
    """What Raft promises did not hold."""


class Simulation:
    def __init__(
        self,
        size: int,
        seed: int,
        make_log: Callable[[], MemoryLog] = MemoryLog,
        make_promises: Callable[[], MemoryPromises] = MemoryPromises,
        make_replica: Callable[..., Any] = Replica,
    ) -> None:
        self.chance = random.Random(seed)
        self._make_replica = make_replica
        self.now = 0
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.leaders: dict[int, str] = {}
        self._began: dict[int, int] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._blocked: set[tuple[str, str]] = set()
        self._is_faulty = True
        self._appended = 0
        peers = {f"n{number}": f"127.0.0.1:{number + 1}" for number in range(size)}
        self.members = {
            name: SimulatedMember(
                GroupSettings(
                    "g",
                    name,
                    peers,
                    Path("/nowhere"),
                    heartbeat_interval_ms=100,
                    heartbeats_missed_max=3,
                    vote_interval_min_ms=40,
                    vote_interval_max_ms=160,
                ),
                make_log(),
                make_promises(),
                self.chance.uniform(0.9, 1.1),
                self.chance.randrange(1_000_000),
            )
            for name in peers
        }
        for name in peers:
            self._start(name)
            self._after(self.chance.randrange(TICK_MS), lambda name=name: self._tick(name))
        self._after(0, self._append)
        self._after(500, self._trouble)

    def run(self) -> None:
        """Raises Violation."""
        self._until(FAULTY_MS)
        self._is_faulty = False
        self._blocked.clear()
        for name, member in self.members.items():
            if member.replica is None:
                self._start(name)
        appended = self._appended
        self._until(FAULTY_MS + HEALTHY_MS)
        self._check_healed(appended)

    def _until(self, end: int) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = end

    def _after(self, delay: int, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), event))

    def _start(self, name: str) -> None:
        member = self.members[name]
        member.replica = self._make_replica(member.settings, member.log, member.promises, self.chance, member.clock(self.now))
        member.checked = -1

    def _tick(self, name: str) -> None:
        member = self.members[name]
        if member.replica is not None:
            member.replica.tick(member.clock(self.now))
            self._after_step(name)
        self._after(TICK_MS, lambda: self._tick(name))

    def _append(self) -> None:
        """Whoever believes to lead is asked, as clients do."""
        for name, member in self.members.items():
            if member.replica is not None and member.replica.member.is_leader:
                self._appended += 1
                member.replica.append([b"%d" % self._appended])
                self._after_step(name)
        self._after(self.chance.randrange(10, 60), self._append)

    def _trouble(self) -> None:
        if not self._is_faulty:
            return
        names = list(self.members)
        kind = self.chance.randrange(4)
        if kind == 0:
            self._blocked = {(a, b) for a in names for b in names if a != b and self.chance.random() < 0.4}
        elif kind == 1:
            side = set(self.chance.sample(names, self.chance.randrange(1, len(names))))
            self._blocked = {(a, b) for a in names for b in names if (a in side) != (b in side)}
        else:
            name = self.chance.choice(names)
            member = self.members[name]
            if member.replica is not None:
                member.replica = None
                member.log.crash(self.chance)
                member.promises.crash()
                self._after(self.chance.randrange(20, 600), lambda: self._restart(name))
        if self.chance.random() < 0.4:
            self._blocked.clear()
        self._after(self.chance.randrange(50, 500), self._trouble)

    def _restart(self, name: str) -> None:
        if self.members[name].replica is None:
            self._start(name)

    def _after_step(self, name: str) -> None:
        member = self.members[name]
        assert member.replica is not None
        self._check(name, member)
        for sent in member.replica.take_outbox(member.clock(self.now)):
            self._send(name, member.replica, sent)

    def _send(self, name: str, replica: Any, sent: Sent) -> None:
        answered: list[bool] = []

        def answer(response: Answer | None) -> None:
            if not answered and self.members[name].replica is replica:
                answered.append(True)
                replica.answered(sent, response, self.members[name].clock(self.now))
                self._after_step(name)

        def arrive() -> None:
            target = self.members[sent.peer]
            if target.replica is None or (name, sent.peer) in self._blocked:
                return
            response = target.replica.handle(sent.request, target.clock(self.now))
            self._after_step(sent.peer)
            if (sent.peer, name) not in self._blocked and not self._is_lost():
                self._after(self._delay(), lambda: answer(response))

        if not self._is_lost():
            self._after(self._delay(), arrive)
        if self._is_faulty and self.chance.random() < 0.05:
            self._after(self._delay() + self.chance.randrange(300), arrive)
        self._after(TIMEOUT_MS, lambda: answer(None))

    def _is_lost(self) -> bool:
        return self._is_faulty and self.chance.random() < 0.05

    def _delay(self) -> int:
        if not self._is_faulty:
            return 3
        return self.chance.randrange(1, 120) if self.chance.random() < 0.1 else self.chance.randrange(1, 6)

    def _check(self, name: str, member: SimulatedMember) -> None:
        assert member.replica is not None
        state = member.replica.member
        if state.is_leader and self.leaders.setdefault(state.term, name) != name:
            raise Violation(f"{name} and {self.leaders[state.term]} both lead term {state.term}")
        if state.is_leader:
            self._check_certainty(name, member, state.term)
        while member.checked < state.committed:
            member.checked += 1
            entry = member.log.get(member.checked)
            if self.committed.setdefault(entry.index, (entry.term, entry.body)) != (entry.term, entry.body):
                raise Violation(f"{name} committed another entry {entry.index} than {self.committed[entry.index]}")

    def _check_certainty(self, name: str, member: SimulatedMember, term: int) -> None:
        assert member.replica is not None
        began = member.clock(self._began.setdefault(term, self.now))
        led_at = member.replica.led_at()
        if led_at is None or led_at <= began:  # nobody asks before it leads
            return
        for later, start in self._began.items():
            if later > term and led_at > member.clock(start):
                raise Violation(f"{name} of term {term} was certain to lead at {led_at}, term {later} began at {member.clock(start)}")

    def _check_healed(self, appended: int) -> None:
        logs = [member.log.entries for member in self.members.values()]
        shortest = min(len(entries) for entries in logs)
        committed = len(self.committed)
        if self._appended <= appended or committed < shortest - 10:
            raise Violation(f"nothing goes on: {committed} of {shortest} committed, {self._appended - appended} appended since")
        for index in range(min(committed, shortest)):
            if any((entries[index].term, entries[index].body) != self.committed[index] for entries in logs):
                raise Violation(f"logs differ at {index}")
        if shortest < committed - 10:
            raise Violation(f"a member has {shortest} entries of {committed} only")
