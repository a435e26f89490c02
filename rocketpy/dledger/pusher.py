"""A leader's side of the entries: what each follower has, and what of it is committed. DLedger: EntryDispatcher, QuorumAckChecker (0.3.2).

    COMPARE entry n ─ same, and the follower's last ─► APPEND n+1 …      window of entries in flight
       │  ▲ differs: n-1, or the follower's end           │ INCONSISTENT_STATE: compare again
       ▼  │ same, but it has more: TRUNCATE ──────────────┘

An entry is committed when a majority has it or a later one of this leader's own term. An entry of an earlier term can still be overwritten
although a majority has it (Raft, 5.4.2; DLedger counts those too). So a leader begins its term with an empty entry.
"""

from __future__ import annotations

from .bodies import PushRequest, PushResponse
from .codes import DLedgerResponseCode, PushType
from .member import Log, Member

WINDOW = 64
WINDOW_BYTES = 4 * 1024 * 1024
RETRY_MS = 500
COMMIT_INTERVAL_MS = 1000


class _Follower:
    """What is known about one follower in this term."""

    def __init__(self) -> None:
        self.compare_at: int | None = None
        self.is_appending = False
        self.matched = -1
        self.next_index = 0
        self.in_flight: dict[int, PushRequest] = {}
        """Entries on their way, by index; what is answered of an earlier window says nothing about this one."""
        self.is_asked = False
        self.quiet_until = 0
        self.told_commit = -1
        self.told_at = 0

    def compare_again(self) -> None:
        self.compare_at = None
        self.is_appending = False
        self.in_flight.clear()


class Pusher:
    def __init__(self, member: Member[Log]) -> None:
        self._member = member
        self._followers: dict[str, _Follower] = {}

    def begin_term(self) -> None:
        """This member leads now."""
        self._followers = {peer: _Follower() for peer in self._member.settings.others}
        self._member.log.append(self._member.term, b"")
        self._member.log.sync()
        self._advance()

    def append(self, bodies: list[bytes]) -> int:
        """Writes entries and syncs them once. Returns the index of the first."""
        member_log = self._member.log
        first = member_log.end_index + 1
        for body in bodies:
            member_log.append(self._member.term, body)
        member_log.sync()
        self._advance()
        return first

    def tick(self, now: int) -> None:
        for peer, follower in self._followers.items():
            self._push(peer, follower, now)

    def answered(self, peer: str, request: PushRequest, response: PushResponse | None, now: int) -> None:
        """Takes the answer to a push; response is None if there was none in time."""
        follower = self._followers.get(peer)
        if follower is None or request.term != self._member.term:
            return
        if request.type is PushType.APPEND:
            self._append_answered(follower, request, response, now)
        elif request.type is not PushType.COMMIT:
            follower.is_asked = False
            self._compare_answered(follower, request, response, now)
        self._advance()

    def _append_answered(self, follower: _Follower, request: PushRequest, response: PushResponse | None, now: int) -> None:
        assert request.entry is not None
        index = request.entry.index
        is_current = follower.in_flight.get(index) is request
        if is_current:
            del follower.in_flight[index]
        if response is not None and response.code == DLedgerResponseCode.SUCCESS:
            follower.matched = max(follower.matched, index)
        elif is_current:
            if response is None or response.code != DLedgerResponseCode.INCONSISTENT_STATE:
                follower.quiet_until = now + RETRY_MS
            follower.compare_again()

    def _compare_answered(self, follower: _Follower, request: PushRequest, response: PushResponse | None, now: int) -> None:
        assert request.entry is not None
        index, end_index = request.entry.index, self._member.log.end_index
        if response is None or response.code not in (DLedgerResponseCode.SUCCESS, DLedgerResponseCode.INCONSISTENT_STATE):
            follower.quiet_until = now + RETRY_MS
            follower.compare_again()
        elif response.code == DLedgerResponseCode.SUCCESS:
            follower.matched = max(follower.matched, index)
            if request.type is PushType.TRUNCATE or response.end_index == index:
                follower.is_appending = True
                follower.next_index = index + 1
            else:
                follower.compare_at = index
                follower.is_asked = True
                self._send(request.remote_id or "", PushType.TRUNCATE, index)
        elif request.type is PushType.TRUNCATE:
            follower.quiet_until = now + RETRY_MS
            follower.compare_again()
        else:
            at = min(index - 1, response.end_index, end_index) if response.end_index >= 0 else -1
            follower.compare_at = max(at, 0)
            if at < 0:  # nothing is the same
                follower.is_asked = True
                self._send(request.remote_id or "", PushType.TRUNCATE, 0)

    def _push(self, peer: str, follower: _Follower, now: int) -> None:
        if now < follower.quiet_until or follower.is_asked:
            return
        if not follower.is_appending:
            if follower.compare_at is None:
                follower.compare_at = self._member.log.end_index
            follower.is_asked = True
            self._send(peer, PushType.COMPARE, follower.compare_at)
            return
        flying = sum(len(each.entry.body) for each in follower.in_flight.values() if each.entry is not None)
        while follower.next_index <= self._member.log.end_index and len(follower.in_flight) < WINDOW and flying < WINDOW_BYTES:
            request = self._send(peer, PushType.APPEND, follower.next_index)
            follower.in_flight[follower.next_index] = request
            follower.next_index += 1
            follower.told_commit, follower.told_at = min(self._member.committed, follower.next_index - 1), now
            flying += len(request.entry.body) if request.entry is not None else 0
        commit = min(self._member.committed, follower.matched)
        if not follower.in_flight and (commit > follower.told_commit or now - follower.told_at >= COMMIT_INTERVAL_MS):
            follower.told_commit, follower.told_at = commit, now
            self._member.send(peer, PushRequest(type=PushType.COMMIT, commit_index=commit))

    def _send(self, peer: str, kind: PushType, index: int) -> PushRequest:
        # Not above what the follower has by then: DLedger's applies as far as it is told, fails where its log ends, and begins anew.
        request = PushRequest(type=kind, commit_index=min(self._member.committed, index), entry=self._member.log.get(index))
        self._member.send(peer, request)
        return request

    def _advance(self) -> None:
        member = self._member
        matched = sorted([member.log.end_index, *(follower.matched for follower in self._followers.values())], reverse=True)
        index = matched[member.settings.majority - 1]
        if index > member.committed and member.log.term_of(index) == member.term:
            member.committed = index
