"""Whether this process is the member that the others reach under its id. A copied configuration starts two processes with one dLegerSelfId:
they would give two votes for one member, and so a term could get two leaders.

    our address in dLegerPeers, and those by which others know us ─ METADATA ─► an answer with our token ─► we are reached
                                                                            └─ any other answer ─► somebody else is: we are not the member
    a request of another member, addressed to us ─► we are reached

A process that the others do not reach does not stand for election: the group sends its entries to somebody else. Some networks do not let
a process reach its own address. There, the same question from another member proves it as well: every member sends it to all.

Threads  none: decisions only. Bounds: a question to each address every ASK_MS until it has been answered; ADDRESSES_MAX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..remoting.client import split_address
from .bodies import MetadataResponse
from .settings import GroupSettings

ASK_MS: Final = 5000
ADDRESSES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Question:
    """METADATA, to the process that is `member` at that address."""

    member: str
    address: str


class Identity:
    def __init__(self, settings: GroupSettings, token: str) -> None:
        """token: known to this process only; its answers to METADATA contain it."""
        self._settings = settings
        self.token = token
        self.is_reached = len(settings.peers) == 1
        """Who is alone in its group has nobody to share votes with."""
        self._taken: set[str] = set()
        self._unanswered = {Question(member, address): -ASK_MS for member, address in settings.peers.items()}

    @property
    def fault(self) -> str:
        """Which other process is this member; empty as long as none is known to be."""
        if not self._taken:
            return ""
        member, group = self._settings.self_id, self._settings.group
        return (
            f"another process than this one answers at {', '.join(sorted(self._taken))}, where group {group} has its member {member}: two "
            "of one dLegerSelfId would vote twice. Each member needs an id of its own, and the same dLegerPeers"
        )

    def due(self, now: int) -> list[Question]:
        """The questions to ask now."""
        questions = [question for question, asked in self._unanswered.items() if now - asked >= ASK_MS]
        self._unanswered.update(dict.fromkeys(questions, now))
        return questions

    def answered(self, question: Question, answer: MetadataResponse) -> None:
        if question.member == self._settings.self_id:
            if answer.instance != self.token:
                self._taken.add(question.address)
                return  # asked again: it may go away
            self.is_reached = True
            self._taken.discard(question.address)
        elif answer.group == self._settings.group:
            self._hear_of_address((answer.peers or {}).get(self._settings.self_id))
        self._unanswered.pop(question, None)

    def addressed(self, by: str | None) -> None:
        """A request came to our port; `by` is the member that sent it. It was addressed to our id, so that member reaches us."""
        self.is_reached = self.is_reached or by in self._settings.others

    def _hear_of_address(self, address: str | None) -> None:
        """By which another member knows us: it may be ours under another name, or somebody else's."""
        question = Question(self._settings.self_id, address or "")
        if not address or question in self._unanswered or address == self._settings.address:
            return
        try:
            split_address(address)
        except ConnectionError:
            return
        if len(self._unanswered) < ADDRESSES_MAX + len(self._settings.peers):
            self._unanswered[question] = -ASK_MS
