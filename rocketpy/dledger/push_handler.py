"""A follower's side of the entries: compare, append, cut, commit. DLedger: DLedgerEntryPusher.EntryHandler (0.3.2).

`_matched` is the index up to which the log is known to equal the leader's, in this term. Entries are accepted only behind it, and nothing
up to it is cut, so a request that is late or comes twice undoes nothing. DLedger keeps no such mark: there, an entry that overtakes a
comparison is written over whatever lies at its place. A leader that is told INCONSISTENT_STATE compares again, DLedger's as well as ours.
"""

from __future__ import annotations

import logging

from .._core.errors import NotFound, ProtocolError, TooLarge
from .bodies import PushRequest, PushResponse
from .codes import DLedgerResponseCode, PushType
from .elector import Elector
from .entry import Entry
from .member import Log, Member

log = logging.getLogger(__name__)


class PushHandler:
    def __init__(self, member: Member[Log], elector: Elector) -> None:
        self._member = member
        self._elector = elector
        self._matched = -1
        self._matched_term = -1

    def handle(self, request: PushRequest, now: int) -> PushResponse:
        """Answers once what was written is on disk."""
        code = self._elector.is_ours(request.leader_id, request.term, now)
        if code == DLedgerResponseCode.SUCCESS:
            code = self._take(request)
        entries = request.entries
        member_log = self._member.log
        return PushResponse(
            group=request.group,
            code=code,
            term=request.term if code == DLedgerResponseCode.SUCCESS else self._member.term,
            index=entries[0].index if entries else -1,
            count=len(entries),
            begin_index=member_log.begin_index,
            end_index=member_log.end_index,
        )

    def _take(self, request: PushRequest) -> DLedgerResponseCode:
        if self._matched_term != request.term:
            self._matched, self._matched_term = self._own_matched(request.term), request.term
        entries = request.entries
        if request.type is PushType.COMMIT:
            self._commit(request.commit_index)
            return DLedgerResponseCode.SUCCESS
        if not entries:
            return DLedgerResponseCode.UNEXPECTED_ARGUMENT
        try:
            if request.type is PushType.COMPARE:
                self._compare(entries[0])
            elif request.type is PushType.TRUNCATE:
                self._truncate(entries[0])
            else:
                self._append(entries)
        except (_Differs, ProtocolError, TooLarge) as error:
            if not isinstance(error, _Differs):
                log.warning("entries of %s were refused: %s", request.leader_id, error)
            return DLedgerResponseCode.INCONSISTENT_STATE
        self._commit(request.commit_index)
        return DLedgerResponseCode.SUCCESS

    def _own_matched(self, term: int) -> int:
        """An entry of this term is this leader's, and so is all before it: behind a restart, too, nothing of it is cut."""
        member_log = self._member.log
        return member_log.end_index if member_log.end_term == term else -1

    def _compare(self, entry: Entry) -> None:
        self._check_same(entry)
        self._matched = max(self._matched, entry.index)

    def _truncate(self, entry: Entry) -> None:
        member_log = self._member.log
        first = self._local(0)
        if entry.index == 0 and self._matched == -1 and (first is None or not entry.is_same_as(first)):  # nothing here is the leader's
            self._append_behind(-1, (entry,))
        else:
            self._check_same(entry)
            self._matched = max(self._matched, entry.index)
        if member_log.end_index > self._matched:
            self._cut(self._matched)

    def _append(self, entries: tuple[Entry, ...]) -> None:
        """Entries that are here already count as appended again."""
        first = entries[0].index
        if first > self._matched + 1 or any(entry.index != first + number for number, entry in enumerate(entries)):
            raise _Differs
        known = [entry for entry in entries if entry.index <= self._matched]
        for entry in known:
            self._check_same(entry)
        if len(known) < len(entries):
            if first == 0 and self._matched == -1 and self._member.log.end_index >= 0:
                raise _Differs  # ours begins as well: to be compared
            self._append_behind(self._matched, entries[len(known) :])

    def _append_behind(self, last: int, entries: tuple[Entry, ...]) -> None:
        member_log = self._member.log
        if entries[-1].term > self._matched_term:
            raise ProtocolError(f"entry {entries[-1].index} is of term {entries[-1].term}, its leader of {self._matched_term}")
        if member_log.end_index > last:
            self._cut(last)
        for entry in entries:
            member_log.append_entry(entry)
        member_log.sync()
        self._matched = member_log.end_index

    def _cut(self, last: int) -> None:
        member = self._member
        if last < member.committed:
            raise ProtocolError(f"entries behind {last} were to go, but {member.committed} is committed: another log than this group's")
        log.warning("entries %d to %d are not the leader's, and go", last + 1, member.log.end_index)
        member.log.cut(last)

    def _commit(self, index: int) -> None:
        member = self._member
        member.committed = max(member.committed, min(index, self._matched))

    def _check_same(self, entry: Entry) -> None:
        local = self._local(entry.index)
        if local is None or not local.is_same_as(entry):
            raise _Differs

    def _local(self, index: int) -> Entry | None:
        try:
            return self._member.log.get(index)
        except NotFound:
            return None


class _Differs(Exception):
    """What the leader sent differs from what is here."""
