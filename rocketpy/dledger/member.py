"""One member's part in its group: role, term, vote, leader, log, and what it wants sent. DLedger: MemberState (0.3.2).

The elector decides about roles, push_handler and pusher about entries; all three work on this object. Nothing here waits, sends or looks
at a clock: `outbox` holds what is to be sent, and Replica.answered() brings the answers, or the news that there was none.

Disk  term and vote are written before they take effect here, so that nothing is said that a restart would not remember. What writing raises
      goes through to the caller, who stops this member (node.py).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from .bodies import Request
from .entry import Entry
from .settings import GroupSettings


class Role(StrEnum):
    LEADER = "LEADER"
    CANDIDATE = "CANDIDATE"
    FOLLOWER = "FOLLOWER"


class LogEnd(Protocol):
    """What an election needs to know about the entries."""

    @property
    def end_index(self) -> int: ...
    @property
    def end_term(self) -> int: ...


class Log(LogEnd, Protocol):
    """What a member needs of its entries (EntryStore)."""

    @property
    def begin_index(self) -> int: ...

    def append(self, term: int, body: bytes) -> Entry: ...
    def append_entry(self, entry: Entry) -> None: ...
    def sync(self) -> None: ...
    def get(self, index: int) -> Entry: ...
    def term_of(self, index: int) -> int: ...
    def cut(self, last_index: int) -> None: ...


class Promises(Protocol):
    """Term and vote (TermFile)."""

    @property
    def term(self) -> int: ...
    @property
    def vote(self) -> str | None: ...

    def write(self, term: int, vote: str | None) -> None: ...


L = TypeVar("L", bound=LogEnd)


class Member(Generic[L]):
    def __init__(self, settings: GroupSettings, log: L, promises: Promises) -> None:
        self.settings = settings
        self.log = log
        self.role = Role.CANDIDATE
        self.leader_id: str | None = None
        self.committed = -1
        self.outbox: list[tuple[str, Request]] = []
        self.on_role_change: list[Callable[[Role, int], None]] = []
        """Called with the role and its term; has to return at once and raise nothing."""
        self._promises = promises

    @property
    def term(self) -> int:
        return self._promises.term

    @property
    def vote(self) -> str | None:
        return self._promises.vote

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    def enter_term(self, term: int) -> None:
        """Enters a later term than the present one: no vote is given yet, and no leader is known."""
        self._promises.write(term, None)
        self.become(Role.CANDIDATE, None)

    def give_vote(self, member_id: str) -> None:
        if self.vote != member_id:
            self._promises.write(self.term, member_id)

    def become(self, role: Role, leader_id: str | None) -> None:
        changed = (role, leader_id) != (self.role, self.leader_id)
        self.role, self.leader_id = role, leader_id
        if changed:
            for callback in self.on_role_change:
                callback(role, self.term)

    def send(self, peer: str, request: Request) -> None:
        request.group = self.settings.group
        request.local_id, request.remote_id = self.settings.self_id, peer
        request.leader_id, request.term = self.settings.self_id, self.term
        self.outbox.append((peer, request))
