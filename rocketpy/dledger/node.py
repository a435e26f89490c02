"""A running member of a DLedger group: its port, its calls to the others, its disk, and the state machine behind it.
RocketMQ: DLedgerServer, DLedgerRpcNettyService, StateMachineCaller (DLedger 0.3.2).

    node = DLedgerNode(settings, machine)
    await node.start()
    result = await node.append(body)        # of machine.apply, once a majority has the entry on disk; raises NotLeader, TimedOut, …

    listener ─ RemotingService ─ handlers ─┐                        ┌─ outbox ─► RemotingClient ─► other members
    timer, append() ───────────────────────┴─► Replica ─ store, term┴─ committed ─► machine.apply ─► append()'s caller

The entry of an append() that raised may have been written, and may be committed later. The appends of one turn of the event loop share one
sync. When the disk fails, the member logs it, gives up the lead and answers DISK_ERROR to the others; every heal_interval it opens its log
anew, as a restart would.

Threads  one event loop, which waits for the disk: entries are small and few. Bounds: pending_max appends waiting, APPLY_MAX entries
         applied a turn.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from .._core.errors import Busy, Closed, RocketpyError, StoreCorrupt, TimedOut, TooLarge
from .._core.remoting import Request as Command
from .._core.remoting import Server
from ..remoting.client import split_address
from ..remoting.command import Response
from ..remoting.service import Handler, RemotingService
from .bodies import Answer, MetadataResponse, Request
from .entry import HEADER
from .entry_store import EntryStore
from .exchange import Exchange, member_handlers, response_of
from .member import Role
from .replica import Replica, Sent
from .settings import GroupSettings
from .term_file import TermFile

log = logging.getLogger(__name__)

TICK_S = 0.02
ROUND_S = 0.002
"""How long those who want to know whether this member still leads gather for one round of heartbeats."""
HEAL_MS = 10_000
CHECKPOINT_MS = 3000
APPLY_MAX = 256


class StateMachine(Protocol):
    def apply(self, index: int, body: bytes) -> object:
        """Called once for each committed entry that has a body, in order, on the node's event loop; from entry 0 on after every start.
        What it returns or raises is what append() of this node returns or raises."""
        ...


class NotLeader(RocketpyError):
    """This member does not lead, or stopped leading before the entry was committed; it is then open whether the entry will be."""

    def __init__(self, message: str, leader_id: str | None = None, leader_address: str | None = None) -> None:
        super().__init__(message)
        self.leader_id = leader_id
        self.leader_address = leader_address


class DLedgerNode:
    def __init__(
        self,
        settings: GroupSettings,
        machine: StateMachine,
        *,
        serves: bool = True,
        bind_address: str = "0.0.0.0",
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        chance: random.Random | None = None,
    ) -> None:
        """serves: listen on the port of its own address; otherwise the owner of a server routes `handlers` to it. tls: for its own requests
        to the other members."""
        self.settings = settings
        self.on_role_change: list[Callable[[Role, int], None]] = []
        """Called on the event loop with the role and its term. A leader may append at once; what earlier terms left is applied before."""
        self._machine = machine
        self._serves = serves
        self._bind_address = bind_address
        self._tls = tls
        self._clock = clock
        self._chance = chance or random.Random()
        self._store: EntryStore | None = None
        self._replica: Replica | None = None
        self._fault: RocketpyError | None = None
        self._heal_at = 0
        self._checkpoint_at = 0
        self._applied = -1
        self._unwritten: list[tuple[bytes, asyncio.Future[object]]] = []
        self._waiting: dict[int, tuple[int, asyncio.Future[object]]] = {}
        self._unconfirmed: list[tuple[int, asyncio.Future[object]]] = []
        self._round_is_due = False
        self._turn_due = False
        self._server: Server | None = None
        self._service: RemotingService | None = None
        self._exchange: Exchange | None = None
        self._ticker: asyncio.Task[None] | None = None

    @property
    def role(self) -> Role:
        return self._replica.member.role if self._replica is not None else Role.CANDIDATE

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def group(self) -> str:
        return self.settings.group

    @property
    def peers(self) -> Mapping[str, str]:
        return self.settings.peers

    @property
    def term(self) -> int:
        return self._replica.member.term if self._replica is not None else -1

    @property
    def leader_id(self) -> str | None:
        return self._replica.member.leader_id if self._replica is not None else None

    @property
    def leader_address(self) -> str | None:
        leader = self.leader_id
        return self.settings.peers.get(leader) if leader is not None else None

    @property
    def committed_index(self) -> int:
        return self._replica.member.committed if self._replica is not None else -1

    @property
    def applied_index(self) -> int:
        return self._applied

    @property
    def fault(self) -> RocketpyError | None:
        """Why this member takes no part at the moment; None while it does."""
        return self._fault

    @property
    def handlers(self) -> dict[int, Handler]:
        """What a member's port answers."""
        return member_handlers(self.group, self._decide, self._metadata)

    async def start(self) -> None:
        """Recovers the log, listens, takes part. Raises what EntryStore.open and a taken port raise."""
        self._open()
        try:
            self._exchange = Exchange(self.settings, self._tls)
            if self._serves:
                _, port = split_address(self.settings.peers[self.settings.self_id])
                self._server = Server(bind_address=self._bind_address, port=port, thread_name="dledger")
                self._service = RemotingService(self._server, self.handlers)
                self._service.start()
                self._server.start()
        except BaseException:
            await self.stop()
            raise
        self._ticker = asyncio.get_running_loop().create_task(self._tick_for_ever(), name="dledger ticks")

    async def stop(self) -> None:
        """Waiting appends fail with Closed. Idempotent."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.wait([self._ticker])
            self._ticker = None
        if self._service is not None:
            await self._service.stop()
            self._service = None
        if self._exchange is not None:
            await self._exchange.stop()
            self._exchange = None
        if self._server is not None:
            server, self._server = self._server, None
            await asyncio.get_running_loop().run_in_executor(None, server.close)
        self._fail_waiting(Closed("this member of the group was stopped"))
        self._close(write_checkpoint=True)

    async def append(self, body: bytes) -> object:
        """What machine.apply returned for the entry, once it is committed; None for an empty one.

        Raises NotLeader, TimedOut, Busy, TooLarge, Closed and what the disk raises; but for Busy, TooLarge and NotLeader of one that
        did not lead when asked, the entry may still be committed later."""
        self._check_leads()
        if len(self._waiting) + len(self._unwritten) >= self.settings.pending_max:
            raise Busy(f"{self.settings.pending_max} entries wait for a majority already")
        if HEADER.size + len(body) > self.settings.entry_size_max:
            raise TooLarge(f"an entry of {len(body)} bytes is too large for the group's log")
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._unwritten.append((bytes(body), future))
        self._turn_soon()
        return await self._outcome(future, "had the entry", "; it may still be committed")

    async def confirm(self) -> None:
        """Returns once a majority, asked after this call, has agreed that this member leads: what was applied here at the call was all
        that was committed then. Raises NotLeader, TimedOut, Busy, Closed."""
        self._check_leads()
        if not self.settings.others:
            return
        if len(self._unconfirmed) >= self.settings.pending_max:
            raise Busy(f"{self.settings.pending_max} wait for a majority's word already")
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._unconfirmed.append((self._clock(), future))
        self._round_soon()
        await self._outcome(future, "said that this member leads")

    def _check_leads(self) -> None:
        if self._replica is None:
            raise self._fault or Closed("this member of the group does not run")
        if not self.is_leader:
            raise self._not_leader("does not lead its group")

    async def _outcome(self, future: asyncio.Future[object], wanted: str, otherwise: str = "") -> object:
        try:
            done, _ = await asyncio.wait([future], timeout=self.settings.append_timeout_ms / 1000)
        except asyncio.CancelledError:
            if not future.cancel():
                future.exception()  # seen: it failed in the turn in which whoever asked gave up, as at the end of a lead or a stop
            raise
        if not done:
            future.cancel()
            raise TimedOut(f"no majority {wanted} within {self.settings.append_timeout_ms} ms{otherwise}")
        return future.result()

    # ---- turns ----

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._turn()

    def _turn_soon(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self, *, asks_around: bool = False) -> None:
        self._turn_due = False
        try:
            self._take_turn(self._clock(), asks_around=asks_around)
        except Exception as error:  # outer edge: a member that never ticks again would follow a dead leader, and leave appends waiting
            self._fail(error)

    def _take_turn(self, now: int, *, asks_around: bool) -> None:
        """Writes what is to be appended, lets the replica decide, sends, applies."""
        if self._replica is None:
            if self._fault is not None and now >= self._heal_at:
                self._heal(now)
            return
        if asks_around:
            self._replica.ask_around(now)
        self._write_appends()
        self._replica.tick(now)
        self._send(now)
        self._apply()
        self._confirm()
        if now >= self._checkpoint_at and self._store is not None:
            self._checkpoint_at = now + CHECKPOINT_MS
            self._store.write_checkpoint(self.committed_index)

    def _round_soon(self) -> None:
        if not self._round_is_due:
            self._round_is_due = True
            asyncio.get_running_loop().call_later(ROUND_S, self._ask_around)

    def _ask_around(self) -> None:
        """One round of heartbeats for everybody who asks. Whoever asks within the same millisecond gets the next round."""
        self._round_is_due = False
        if self._replica is None or not self._unconfirmed:
            return
        now = self._clock()
        self._turn(asks_around=True)
        if any(asked >= now for asked, _ in self._unconfirmed):
            self._round_soon()

    def _confirm(self) -> None:
        if self._replica is None or not self._unconfirmed:
            return
        led_at, waiting = self._replica.led_at(), self._unconfirmed
        self._unconfirmed = []
        for asked, future in waiting:
            if future.done():
                continue
            if led_at is not None and led_at > asked:
                future.set_result(None)
            else:
                self._unconfirmed.append((asked, future))

    def _write_appends(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        wanted = [(body, future) for body, future in unwritten if not future.done()]
        if not wanted or self._replica is None:
            return
        if not self.is_leader:
            for _, future in wanted:
                future.set_exception(self._not_leader("stopped to lead before the entry was written"))
            return
        self._unwritten = wanted  # theirs to be failed, should the disk fail now
        first = self._replica.append([body for body, _ in wanted])
        self._unwritten = []
        for number, (_, future) in enumerate(wanted):
            self._waiting[first + number] = (self.term, future)

    def _send(self, now: int) -> None:
        assert self._replica is not None
        if self._exchange is not None:
            self._exchange.ask(self._replica.take_outbox(now), functools.partial(self._told, self._replica))

    def _told(self, replica: Replica, sent: Sent, answer: Answer | None) -> None:
        if replica is not self._replica:
            return
        try:
            replica.answered(sent, answer, self._clock())
        except Exception as error:  # as in a turn
            self._fail(error)
            return
        self._turn_soon()

    def _apply(self) -> None:
        assert self._store is not None
        last = min(self.committed_index, self._applied + APPLY_MAX)
        while self._applied < last:
            entry = self._store.get(self._applied + 1)
            self._applied = entry.index
            result: object = None
            error: Exception | None = None
            if entry.body:
                try:
                    result = self._machine.apply(entry.index, entry.body)
                except Exception as failure:  # outer edge: the machine's own; the entries behind it are committed all the same
                    log.exception("applying entry %d failed", entry.index)
                    error = failure
            term, future = self._waiting.pop(entry.index, (entry.term, None))
            if future is None or future.done():
                continue
            if term != entry.term:
                error = self._not_leader("lost the entry to another leader")
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
        if self._applied < self.committed_index:
            self._turn_soon()

    # ---- requests ----

    def _decide(self, request: Request) -> Answer | None:
        if self._replica is None:
            return None
        try:
            answer = self._replica.handle(request, self._clock())
        except Exception as error:  # as in a turn
            self._fail(error)
            return None
        self._turn_soon()
        return answer

    def _metadata(self, command: Command) -> Response:
        return response_of(MetadataResponse(group=self.group, leader_id=self.leader_id, term=self.term, peers=dict(self.peers)))

    # ---- the disk ----

    def _open(self) -> None:
        store = EntryStore(self.settings)
        store.open()
        try:
            promises = TermFile(self.settings.term_path)
            known = promises.read()
            if store.end_index >= 0 and (not known or promises.term < store.end_term):
                raise StoreCorrupt(
                    "there are entries of later terms than this member remembers; move its directory away and let it join anew",
                    file=str(promises.path),
                )
            if store.begin_index > 0 or store.end_index < self._applied:
                raise StoreCorrupt(
                    f"the log holds {store.begin_index} to {store.end_index}, but entries from {self._applied + 1} on are needed",
                    file=str(self.settings.directory),
                )
        except BaseException:
            store.close()
            raise
        self._store = store
        self._replica = Replica(self.settings, store, promises, self._chance, self._clock())
        self._replica.member.on_role_change.append(self._role_changed)

    def _close(self, *, write_checkpoint: bool) -> None:
        if self._store is not None:
            if write_checkpoint:
                try:
                    self._store.write_checkpoint(self.committed_index)
                except RocketpyError as error:
                    log.error("the checkpoint was not written: %s", error)
            self._store.close()
        self._store = self._replica = None

    def _fail(self, error: Exception) -> None:
        """Leaves the group until the log can be opened anew, because what is on disk is not known."""
        was = self.role
        self._fault = _fault_of(error)
        where = None if isinstance(error, RocketpyError | OSError) else error
        told = (self.settings.self_id, self.group, self._fault)
        log.error("%s of group %s takes no part until its log is opened again: %s", *told, exc_info=where)
        term = self.term
        self._close(write_checkpoint=False)
        self._heal_at = self._clock() + HEAL_MS
        self._fail_waiting(self._fault)
        if was is not Role.CANDIDATE:
            self._tell(Role.CANDIDATE, term)

    def _heal(self, now: int) -> None:
        try:
            self._open()
        except (RocketpyError, OSError) as error:
            self._heal_at = now + HEAL_MS
            log.error("the log of group %s cannot be opened yet: %s", self.group, error)
            return
        log.warning("%s takes part in group %s again", self.settings.self_id, self.group)
        self._fault = None

    # ---- roles ----

    def _role_changed(self, role: Role, term: int) -> None:
        log.info("%s of group %s is %s in term %d, leader %s", self.settings.self_id, self.group, role, term, self.leader_id)
        if role is not Role.LEADER:
            self._fail_waiting(self._not_leader("stopped to lead before the entry was committed, which it may still be"))
        self._tell(role, term)

    def _tell(self, role: Role, term: int) -> None:
        for callback in self.on_role_change:
            try:
                callback(role, term)
            except Exception:  # outer edge: the others have to hear of it too
                log.exception("a listener for roles failed")

    def _fail_waiting(self, error: RocketpyError) -> None:
        futures = [future for _, future in (*self._waiting.values(), *self._unwritten, *self._unconfirmed)]
        self._waiting.clear()
        self._unconfirmed.clear()
        self._unwritten.clear()
        for future in futures:
            if not future.done():
                future.set_exception(error)

    def _not_leader(self, message: str) -> NotLeader:
        return NotLeader(f"{self.settings.self_id} {message}", self.leader_id, self.leader_address)


def _fault_of(error: Exception) -> RocketpyError:
    if isinstance(error, RocketpyError):
        return error
    if isinstance(error, OSError):
        return StoreCorrupt(f"the log of the group failed: {error}")
    return RocketpyError(f"a mistake of this member's own, its files are not to blame: {type(error).__name__}: {error}")
