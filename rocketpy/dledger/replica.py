"""Everything one member decides, put together: no sockets, no tasks, no clock of its own. The service around it is node.py.

    requests of others ─ handle() ─► answer          after every call: send `outbox`, apply up to `committed`
    answers to ours ─── answered()
    time ────────────── tick()

Threads  one at a time. Errors: what the log or the promises raise goes through; then nothing more may be asked of this object.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from .._core.errors import ProtocolError, StoreReadOnly
from .bodies import Answer, HeartBeatRequest, HeartBeatResponse, PushRequest, PushResponse, Request, VoteRequest, VoteResponse
from .codes import DLedgerResponseCode, VoteResult
from .elector import Elector
from .member import Log, Member, Promises
from .push_handler import PushHandler
from .pusher import Pusher
from .settings import GroupSettings

T = TypeVar("T", VoteResponse, HeartBeatResponse, PushResponse)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that is under way, and when it was sent."""

    peer: str
    request: Request
    at: int


class Replica:
    def __init__(self, settings: GroupSettings, log: Log, promises: Promises, chance: random.Random, now: int) -> None:
        self.member: Member[Log] = Member(settings, log, promises)
        self._elector = Elector(self.member, chance, now)
        self._push_handler = PushHandler(self.member, self._elector)
        self._pusher = Pusher(self.member)
        self._begun_term = -1

    def tick(self, now: int) -> None:
        """To be called every few tens of milliseconds, and after entries were appended or answers have arrived."""
        self._elector.tick(now)
        if self.member.is_leader:
            self._begin_leading()
            self._pusher.tick(now)

    def take_outbox(self, now: int) -> list[Sent]:
        outbox, self.member.outbox = self.member.outbox, []
        return [Sent(peer, request, now) for peer, request in outbox]

    def append(self, bodies: Sequence[bytes]) -> int:
        """The index of the first of the entries, which are on disk but not committed yet. Raises StoreReadOnly if this member does not
        lead."""
        if not self.member.is_leader:
            raise StoreReadOnly(f"{self.member.settings.self_id} does not lead its group")
        self._begin_leading()
        return self._pusher.append(list(bodies))

    def ask_around(self, now: int) -> None:
        self._elector.ask_around(now)

    def led_at(self) -> int | None:
        """A majority has agreed to a heartbeat that was sent then."""
        return self._elector.led_at()

    def handle(self, request: Request, now: int) -> Answer:
        code = address_fault(self.member.settings, request)
        if isinstance(request, VoteRequest):
            if code != DLedgerResponseCode.SUCCESS:
                return VoteResponse(code=code, term=self.member.term, vote_result=VoteResult.UNKNOWN)
            return self._elector.handle_vote(request, now)
        if isinstance(request, HeartBeatRequest):
            if code != DLedgerResponseCode.SUCCESS:
                return HeartBeatResponse(code=code, term=self.member.term)
            return self._elector.handle_heart_beat(request, now)
        if code != DLedgerResponseCode.SUCCESS:
            return PushResponse(code=code, term=self.member.term)
        return self._push_handler.handle(request, now)

    def answered(self, sent: Sent, answer: Answer | None, now: int) -> None:
        """Takes the answer to a request of the outbox; None if there was none in time."""
        request = sent.request
        if isinstance(request, VoteRequest):
            self._elector.vote_answered(sent.peer, request, answer_of(VoteResponse, answer), now)
            if self.member.is_leader:
                self._begin_leading()
        elif isinstance(request, HeartBeatRequest):
            self._elector.heart_beat_answered(sent.peer, request, answer_of(HeartBeatResponse, answer), sent.at, now)
        elif self.member.is_leader:
            self._pusher.answered(sent.peer, request, answer_of(PushResponse, answer), now)

    def _begin_leading(self) -> None:
        if self._begun_term != self.member.term:
            self._begun_term = self.member.term
            self._pusher.begin_term()


def address_fault(settings: GroupSettings, request: VoteRequest | HeartBeatRequest | PushRequest) -> DLedgerResponseCode:
    """The code for a request to another group, or to somebody else than this member (the sender has another list of peers); else
    SUCCESS."""
    if request.remote_id != settings.self_id:
        return DLedgerResponseCode.UNKNOWN_MEMBER
    if request.group != settings.group:
        return DLedgerResponseCode.UNKNOWN_GROUP
    return DLedgerResponseCode.SUCCESS


def answer_of(kind: type[T], answer: Answer | None) -> T | None:
    """The answer, as the type that it has to be. Raises ProtocolError."""
    if answer is None or isinstance(answer, kind):
        return answer
    raise ProtocolError(f"{type(answer).__name__} came where {kind.__name__} belongs")
