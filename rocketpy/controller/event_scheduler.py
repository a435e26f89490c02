"""One decision after the other: decide on tables that are up to date, write the event, answer when it is committed.
RocketMQ: DLedgerController.EventScheduler, ControllerEventHandler, RoleChangeHandler (5.3.3 controller/impl/).

    request ─ wait for the turn ─ settled? ─ decide ─┬─ append ─ committed and applied ─ answer
                                     │                └─ no event: a majority says that we lead ─ answer
                                     └─ no: append an empty entry, wait for it

A leader is settled when it has seen an entry of its own term committed: then the tables hold everything that was ever committed. It is no
longer settled when the term ends, or after an append with an unknown outcome: that event may still be committed, and the next decision must
take it into account. RocketMQ goes on at once, and can accept two in-sync sets for one epoch.

An answer without an event is confirmed first, because another controller may lead already, and such an answer renews a master's lease: it
must not come from a leader of the past. RocketMQ confirms nothing, or writes an empty entry for every read (isProcessReadEvent); here that
setting does the same.

Threads  one event loop. Bounds: WAITING_MAX requests wait, then SYSTEM_BUSY; APPEND_WITHIN_S for an entry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from .._core.errors import RocketpyError
from ..remoting.codes import ResponseCode
from .consensus import Consensus
from .counters import FAILED, SUCCESS, TIMEOUT, Counters
from .decisions import Decision
from .events import encode_event

log = logging.getLogger(__name__)

WAITING_MAX = 1024
APPEND_WITHIN_S = 5.0

NOT_LEADER = Decision(ResponseCode.CONTROLLER_NOT_LEADER, "The controller is not in leader state")
BUSY = Decision(ResponseCode.SYSTEM_BUSY, f"{WAITING_MAX} requests wait for the controllers' log")


class EventScheduler:
    """The only writer of the replicated log."""

    def __init__(self, consensus: Consensus, counters: Counters | None = None) -> None:
        """counters: count the entries."""
        self._consensus = consensus
        self._counters = counters if counters is not None else Counters()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._settled_term: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether this controller leads and its tables contain everything that was committed."""
        return self._consensus.is_leader and self._settled_term == self._consensus.term

    async def run(self, decide: Callable[[], Decision], *, read_is_logged: bool = False) -> Decision:
        """Decides, and writes the event. `decide` is called with settled tables, and nothing else is decided before its event is
        applied."""
        if not self._consensus.is_leader:
            return NOT_LEADER
        if self._waiting >= WAITING_MAX:
            return BUSY
        self._waiting += 1
        try:
            async with self._turn:
                decision, is_certain = await self._decide_and_write(decide, read_is_logged)
            return decision if is_certain else await self._confirm() or decision
        finally:
            self._waiting -= 1

    async def settle(self) -> bool:
        """Brings the tables up to date. False if this controller does not lead, or cannot."""
        return (await self.run(Decision)).code == ResponseCode.SUCCESS

    async def _decide_and_write(self, decide: Callable[[], Decision], read_is_logged: bool) -> tuple[Decision, bool]:
        """Also returns whether the answer may be given as it is."""
        if not self._consensus.is_leader:
            return NOT_LEADER, True
        was_settled = self.is_settled
        if not was_settled and (failed := await self._append(b"")) is not None:
            return failed, True
        decision = decide()
        if decision.event is None:
            return (await self._append(b"") or decision, True) if read_is_logged else (decision, not was_settled)
        failed = await self._append(encode_event(decision.event))
        log.log(logging.WARNING if failed else logging.INFO, "%s: %s", decision.event, "not committed" if failed else "committed")
        return failed or decision, True

    async def _confirm(self) -> Decision | None:
        """None once it is certain that this controller led when it decided; else the answer to the client."""
        try:
            await self._consensus.confirm()
        except RocketpyError as error:
            return Decision(ResponseCode.SYSTEM_ERROR, f"is it the leader? {error}") if self._consensus.is_leader else NOT_LEADER
        return None

    async def _append(self, body: bytes) -> Decision | None:
        """None once the event is committed; else the answer to the client."""
        consensus, term, began_us = self._consensus, self._consensus.term, self._counters.now_us()
        self._settled_term = None
        try:
            async with asyncio.timeout(APPEND_WITHIN_S):
                await consensus.append(body)
        except (TimeoutError, RocketpyError) as error:
            self._counters.appended(TIMEOUT if isinstance(error, TimeoutError) else FAILED, began_us)
            if not isinstance(error, RocketpyError):
                return _not_committed(f"not committed within {APPEND_WITHIN_S:g} s")
            return _not_committed(str(error)) if consensus.is_leader else NOT_LEADER
        self._counters.appended(SUCCESS, began_us)
        self._settled_term = term
        return None


def _not_committed(cause: str) -> Decision:
    return Decision(ResponseCode.SYSTEM_ERROR, f"the controllers' log did not take it: {cause}; whether it comes true later is open")
