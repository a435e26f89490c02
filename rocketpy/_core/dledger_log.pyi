"""Stub of rocketpy._core.dledger_log: one member's part in a DLedger commit log, but for the votes (csrc/ha/dledger_log.h)."""

from typing import Any

from typing_extensions import disjoint_base

from .broker import Broker
from .remoting import Handler
from .store import MessageStore

@disjoint_base
class DLedgerLog(Handler):
    """Owner of one rp_dledger_log. It is the handler of the DLedger port's Server: pushes are answered natively, all else comes up to
    Python. Give it to that Server, with reactors=1; close it after that Server has stopped and before broker and store."""

    def __init__(self, store: MessageStore, broker: Broker | None = None, *, log: Any | None = None, **options: Any) -> None:
        """store was opened with ledger_index_path (and commit_log_path of the data files). options are the fields of
        rp_dledger_options. What is committed completes the broker's parked responses: of such a store each send waits for it, for
        slave_timeout_ms at most, whatever slave_acks says. Follows nobody until lead() or follow(). Raises InvalidArgument."""
    def lead(self, term: int) -> None:
        """This member has won the vote of the term: the store takes appends when this returns. Raises OffsetOutOfRange for an older
        term, StoreCorrupt, StoreIOError, DiskFull: then it does not lead."""
    def follow(self, term: int, leader_id: str | None) -> None:
        """The term has begun, and that member leads it; None: nobody is known to. The store takes no appends when this returns. To be
        called for every change of the elector's term, leader or role but that to leader. Raises InvalidArgument, OffsetOutOfRange."""
    def pause(self, is_paused: bool) -> None:
        """While this member leads: the store takes no appends when this returns, and pushes what it has, until it takes them again or the
        lead is another's. Raises StoreReadOnly: it does not lead; Busy: an append is held up by the disk."""
    @property
    def claim_fd(self) -> int:
        """Readable since somebody claimed a later term, or to lead this one, until take_claim()."""
    def take_claim(self) -> tuple[int, str | None] | None:
        """(term, leader id): a push of a leader whom this member does not follow; for Elector.is_ours, then follow(). Leader None: a
        follower answered with a later term. None when there is no claim."""
    def state(self) -> dict[str, Any]:
        """The fields of rp_dledger_state; leader_id is "" when nobody is known to lead. end_index and end_term are what votes are asked
        and judged with, begin_index too; heard_ms is the monotonic clock's when the leader's last push came."""
    def followers(self) -> list[dict[str, Any]]:
        """One dict per other member: the fields of rp_dledger_follower_row."""
    def close(self) -> None: ...
