"""The term this member is in and whom it voted for there, on disk before they are said. DLedger: MemberState (0.3.2), file `currterm`.

DLedger writes the file without syncing it, and not in one step. But a vote that is forgotten can be given twice, and then two members lead
in one term.

Errors  StoreIOError, DiskFull; StoreCorrupt for a file that lacks the term or the vote.
"""

from __future__ import annotations

import re
from pathlib import Path

from .._core.errors import StoreCorrupt
from .entry_files import read_properties, write_file

TERM_MAX = (1 << 63) - 1


class TermFile:
    """The term and the vote that were last promised. write() has to be called before more is promised."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.term = 0
        self.vote: str | None = None

    def read(self) -> bool:
        """False if there is no file."""
        values = read_properties(self.path)
        if values is None:
            return False
        term = values.get("currTerm", "")
        if not re.fullmatch("[0-9]{1,19}", term) or int(term) > TERM_MAX or "voteLeader" not in values:
            raise StoreCorrupt(
                "the member's term and vote cannot be read, and what it has promised is unknown; to let it join anew without a log, "
                "move its directory away while a majority of the others is up",
                file=str(self.path),
            )
        self.term, self.vote = int(term), values["voteLeader"] or None
        return True

    def write(self, term: int, vote: str | None) -> None:
        write_file(self.path, f"currTerm={term}\nvoteLeader={vote or ''}\n")
        self.term, self.vote = term, vote
