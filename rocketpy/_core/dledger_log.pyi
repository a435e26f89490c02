"""Stub of rocketpy._core.dledger_log: one member's part in a DLedger commit log, except for votes (csrc/ha/dledger_log.h)."""

from typing import Any

from typing_extensions import disjoint_base

from .broker import Broker
from .remoting import Handler
from .store import MessageStore

@disjoint_base
class DLedgerLog(Handler):
    """Owns one rp_dledger_log. It is the handler of the DLedger port's Server, which must have reactors=1: pushes are answered natively,
    everything else comes up to Python. Close it after that Server has stopped, and before broker and store."""

    def __init__(self, store: MessageStore, broker: Broker | None = None, *, log: Any | None = None, **options: Any) -> None:
        """The store must have been opened with ledger_index_path (and commit_log_path of the data files). options are the fields of
        rp_dledger_options. Commits complete the broker's parked responses: with such a store each send waits for its commit, for at most
        slave_timeout_ms, whatever slave_acks says. Follows nobody until lead() or follow(). Raises InvalidArgument."""
    def lead(self, term: int) -> None:
        """To be called when this member has won the vote of the term: the store takes appends when this returns. Raises OffsetOutOfRange
        for an older term, StoreCorrupt, StoreIOError, DiskFull; then it does not lead."""
    def follow(self, term: int, leader_id: str | None) -> None:
        """To be called after every change of the elector's term, leader or role, except to leader: the term has begun, and leader_id
        leads it; None: no leader is known. The store takes no appends when this returns. Raises InvalidArgument, OffsetOutOfRange."""
    def pause(self, is_paused: bool) -> None:
        """While this member leads: stops the store's appends, and pushes what it has, until resumed or until another member leads.
        Raises StoreReadOnly: it does not lead; Busy: the disk holds up an append."""
    @property
    def claim_fd(self) -> int:
        """Readable from when another member claims a later term, or to lead this one, until take_claim()."""
    def take_claim(self) -> tuple[int, str | None] | None:
        """Returns (term, leader id) of a push from a leader whom this member does not follow: to be checked by Elector.is_ours, then
        follow(). Leader None: a follower answered with a later term. Returns None if there is no claim."""
    def state(self) -> dict[str, Any]:
        """The fields of rp_dledger_state; leader_id is "" if no leader is known. Votes are requested and judged with end_index and
        end_term, and with begin_index; heard_ms is when the leader's last push arrived, by the monotonic clock."""
    def followers(self) -> list[dict[str, Any]]:
        """One dict for each other member: the fields of rp_dledger_follower_row."""
    def close(self) -> None: ...
