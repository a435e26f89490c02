"""A running member of a group whose entries flow natively: its port, its votes and heartbeats, its term file, who leads.
RocketMQ: DLedgerServer, DLedgerLeaderElector (DLedger 0.3.2), as DLedgerCommitLog has them.

    listener ─┬─ PUSH ─► native log ─ claims (a later term, another leader) ─┐
              └─ VOTE, HEART_BEAT, METADATA ──────────────► LogMember ◄──────┴─ timer
                                                              │ ├─ outbox ─► Exchange ─► other members
                                                              │ └─ enter_term, follow, lead ─► native log
                                                              └─ on_role_change ─► the broker

When the term file or the native log fails, or their disk stands still while a term begins, the member drops out: it stops leading and
following, answers DISK_ERROR to the others, and tries to begin anew every HEAL_MS, or STUCK_MS. A leader whose log is held up for longer
than a leader may be silent gives up the lead; it answers the heartbeats of others meanwhile.

Threads  one event loop, which waits for the disk half a second at most: where a term or a vote is written, a lead begins with its entry, or
         an append is under way when a term begins (patience.py). Bounds: a vote and a heartbeat to each other member.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .._core.dledger_log import DLedgerLog
from .._core.errors import Busy, InvalidArgument, ProtocolError, RocketpyError, StoreCorrupt
from .._core.remoting import Request as Command
from .._core.remoting import Server
from ..remoting.command import Response
from ..remoting.service import Handler, RemotingService
from .bodies import Answer, Message, MetadataResponse, Request
from .codes import DLedgerRequestCode
from .entry_files import read_properties, write_file
from .exchange import Exchange, member_handlers, response_of
from .identity import Identity, Question
from .lead_transfer import LeadTransfer
from .log_member import LogMember
from .member import Role
from .patience import Patience
from .replica import Sent
from .settings import GroupSettings
from .term_file import TermFile

log = logging.getLogger(__name__)

TICK_S: Final = 0.02
HEAL_MS: Final = 10_000
STUCK_MS: Final = 1000
"""The same of a log that an append holds: it may be over at once."""
CHECKPOINT_MS: Final = 3000
UNREACHED_MS: Final = 30_000
"""Between two lines that nobody reaches this member."""


class _NativeLog:
    """The native log as LogMember asks for it. One that an append has held for as long as a leader may be silent takes none: another
    member's disk may be faster."""

    def __init__(self, native: DLedgerLog, held_max_ms: int, patience: Patience) -> None:
        self._native = native
        self._held_max_ms = held_max_ms
        self._patience = patience

    @property
    def end_index(self) -> int:
        return int(self._native.state()["end_index"])

    @property
    def end_term(self) -> int:
        return int(self._native.state()["end_term"])

    @property
    def heard_ms(self) -> int:
        return int(self._native.state()["heard_ms"])

    @property
    def is_writable(self) -> bool:
        state = self._native.state()
        return bool(state["is_writable"]) and int(state["held_ms"]) < self._held_max_ms

    def enter_term(self, term: int) -> None:
        self._native.follow(term, None)

    def follow(self, term: int, leader_id: str) -> None:
        self._native.follow(term, leader_id)

    def lead(self, term: int) -> None:
        """One that comes to it later leads nobody: the next order lets it go."""
        self._patience.run(lambda: self._native.lead(term), "a lead's entry")


class _PatientTermFile(TermFile):
    def __init__(self, path: Path, patience: Patience) -> None:
        super().__init__(path)
        self._patience = patience

    def read(self) -> bool:
        self._patience.check()
        return super().read()

    def write(self, term: int, vote: str | None) -> None:
        self._patience.run(lambda: super(_PatientTermFile, self).write(term, vote), "the term file")


class LogNode:
    def __init__(
        self,
        settings: GroupSettings,
        native: DLedgerLog,
        server: Server,
        *,
        clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        chance: random.Random | None = None,
    ) -> None:
        """native: of an open store. server: of the port that the peers know this member by, with native for its handler. The owner closes
        both after stop()."""
        self.settings = settings
        self.native = native
        self.on_role_change: list[Callable[[Role, int], None]] = []
        """Called on the event loop with the role and its term; a leader's log takes appends by then."""
        self.may_take_over: Callable[[], bool] = lambda: True
        """Whether this member would be a leader like the one that hands its lead over, as far as the log does not say it."""
        self._server = server
        self._clock = clock
        self._chance = chance or random.Random()
        self._member: LogMember | None = None
        self._told_role = Role.CANDIDATE
        self._fault: RocketpyError | None = None
        self._heal_at = 0
        self._patience = Patience()
        self._checkpoint_at = 0
        self._checkpoint = ""
        self._lead_index = -1
        self._committed_lead = asyncio.Event()
        self._identity = Identity(settings, secrets.token_hex(8))
        self._unreached_due = 0
        self._transfer = LeadTransfer(self)
        self._exchange: Exchange | None = None
        self._service: RemotingService | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._checkpointing: asyncio.Task[None] | None = None

    @property
    def role(self) -> Role:
        return self._member.member.role if self._member is not None else Role.CANDIDATE

    @property
    def term(self) -> int:
        return self._member.member.term if self._member is not None else -1

    @property
    def leader_id(self) -> str | None:
        return self._member.member.leader_id if self._member is not None else None

    @property
    def fault(self) -> RocketpyError | None:
        """Why this member takes no part at the moment; None while it does."""
        return self._fault

    @property
    def handlers(self) -> dict[int, Handler]:
        """What the port answers, except for the pushes that the native log takes."""
        handlers = member_handlers(self.settings.group, self._decide, self._metadata)
        return {**handlers, int(DLedgerRequestCode.LEADERSHIP_TRANSFER): self._transfer.handle}

    @property
    def exchange(self) -> Exchange | None:
        """None before the start and after the stop."""
        return self._exchange

    async def start(self) -> None:
        """Listens and takes part. Raises StoreCorrupt: the term file does not go with the log; InvalidArgument: another process is this
        member; StoreIOError."""
        self._begin()
        try:
            self._exchange = Exchange(self.settings)
            self._service = RemotingService(self._server, self.handlers)
            self._service.start()
            self._server.start()
            self._unreached_due = self._clock() + UNREACHED_MS
            own = Question(self.settings.self_id, self.settings.address)
            await self._exchange.ask_one(own, self._identity.answered)
            if self._identity.fault:
                raise InvalidArgument(self._identity.fault)
            asyncio.get_running_loop().add_reader(self.native.claim_fd, self._claimed)
        except BaseException:
            await self.stop()
            raise
        self._ticker = asyncio.get_running_loop().create_task(self._tick_for_ever(), name="dledger ticks")

    async def stop(self) -> None:
        """When this returns, the member neither leads nor follows, and no more changes of role are reported. Idempotent."""
        self.on_role_change.clear()
        asyncio.get_running_loop().remove_reader(self.native.claim_fd)
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.wait([self._ticker])
            self._ticker = None
        if self._checkpointing is not None:
            await asyncio.wait([self._checkpointing])
        await self._transfer.stop()
        if self._service is not None:
            await self._service.stop()
            self._service = None
        if self._exchange is not None:
            await self._exchange.stop()
            self._exchange = None
        await asyncio.get_running_loop().run_in_executor(None, self._server.stop, 0)
        if self._member is not None:
            self._leave()
            await self._write_checkpoint()
        self._checkpointing = None

    async def lead_is_whole(self, term: int) -> bool:
        """Once all that the log held when this member began to lead in that term is committed, and in the queues; False when it does not
        lead in it any more."""
        while self.role is Role.LEADER and self.term == term:
            if self.is_whole():
                return True
            self._committed_lead.clear()
            await self._committed_lead.wait()
        return False

    def lease_left_ms(self) -> int | None:
        """As LogMember's."""
        return self._member.lease_left_ms(self._clock()) if self._member is not None else 0

    def stand_at_once(self) -> None:
        """In the next term, because the leader of this one hands its lead over; not where nobody reaches this member."""
        if self._identity.is_reached:
            self._with_member(lambda member: member.stand_at_once(self._clock()))

    # ---- turns ----

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                self._turn()
            except Exception as error:  # outer edge of the task: a member that never ticks again would follow a dead leader for ever
                log.exception("a turn of the member failed")
                self._fail(error)

    def _turn(self) -> None:
        now = self._clock()
        self._prove_identity(now)
        if self._member is None:
            if self._fault is not None and now >= self._heal_at:
                self._heal(now)
            return
        self._with_member(lambda member: member.tick(now, may_lead=self._identity.is_reached))
        self._transfer.tick(now)
        if self.is_whole():
            self._committed_lead.set()
        if now >= self._checkpoint_at and (self._checkpointing is None or self._checkpointing.done()):
            self._checkpoint_at = now + CHECKPOINT_MS
            self._checkpointing = asyncio.get_running_loop().create_task(self._write_checkpoint(), name="dledger checkpoint")

    def _prove_identity(self, now: int) -> None:
        identity = self._identity
        if self._exchange is not None:
            self._exchange.ask_who(identity.due(now), identity.answered)
        if identity.fault and self._member is not None:
            self._fail(InvalidArgument(identity.fault))
        if not identity.is_reached and now >= self._unreached_due:
            self._unreached_due = now + UNREACHED_MS
            text = "%s stands for no election: nobody has reached it at %s, which dLegerPeers says is its address"
            log.warning(text, self.settings.self_id, self.settings.address)

    def _with_member(self, work: Callable[[LogMember], Any]) -> Any:
        """What it decides, and sends what comes of it. None where it takes no part, or fails now."""
        member = self._member
        if member is None:
            return None
        try:
            decided = work(member)
        except (RocketpyError, OSError) as error:
            self._fail(error)
            return None
        if self._exchange is not None:
            self._exchange.ask(member.take_outbox(self._clock()), lambda sent, answer: self._told(member, sent, answer))
        return decided

    def _told(self, member: LogMember, sent: Sent, answer: Answer | None) -> None:
        if member is self._member:
            self._with_member(lambda member: member.answered(sent, answer, self._clock()))

    def _decide(self, request: Request) -> Answer | None:
        self._addressed(request)
        decided: Answer | None = self._with_member(lambda member: member.handle(request, self._clock()))
        return decided

    def _addressed(self, request: Message) -> None:
        if (request.group, request.remote_id) == (self.settings.group, self.settings.self_id):
            self._identity.addressed(request.local_id)

    def _claimed(self) -> None:
        claim = self.native.take_claim()
        if claim is None:
            return
        term, leader_id = claim
        if leader_id is None:
            self._with_member(lambda member: member.outlived(term, self._clock()))
        else:
            self._with_member(lambda member: member.pushed(leader_id, term, self._clock()))

    def _metadata(self, command: Command) -> Response:
        with contextlib.suppress(ProtocolError):  # anybody may ask, with any body
            self._addressed(Message.decode(command.body))
        peers, token = dict(self.settings.peers), self._identity.token
        return response_of(
            MetadataResponse(group=self.settings.group, leader_id=self.leader_id, term=self.term, peers=peers, instance=token)
        )

    # ---- the disk ----

    def _begin(self) -> None:
        if self._identity.fault:
            raise InvalidArgument(self._identity.fault)
        state = self.native.state()
        promises = _PatientTermFile(self.settings.term_path, self._patience)
        known = promises.read()
        if state["end_index"] >= 0 and (not known or promises.term < state["end_term"]):
            raise StoreCorrupt(
                "there are entries of later terms than this member remembers; move its store away and let it join anew",
                file=str(promises.path),
            )
        if (lost := committed_index(self.settings) - state["end_index"]) > 0:
            log.warning(
                "%d entries that were committed are not in the log of %s any more, as behind a power cut with flushDiskType=ASYNC_FLUSH: "
                "they come again from members that have them, and are lost where a majority has not",
                lost,
                self.settings.self_id,
            )
        native = _NativeLog(self.native, self.settings.silence_max_ms, self._patience)
        member = LogMember(self.settings, native, promises, self._chance, self._clock())
        member.member.on_role_change.append(self._role_changed)
        self._member = member

    def _fail(self, error: Exception) -> None:
        """Leaves the group until this member can begin anew."""
        self._fault = error if isinstance(error, RocketpyError) else StoreCorrupt(f"the term file of the group failed: {error}")
        log.error("%s of group %s takes no part: %s", self.settings.self_id, self.settings.group, error)
        term = self.term
        self._leave()
        self._heal_at = self._clock() + _pause_ms(error)
        if self._told_role is not Role.CANDIDATE:  # the member's own role is another one already where the log did not take it
            self._tell(Role.CANDIDATE, term)

    def _leave(self) -> None:
        """Ends leading and following."""
        self._member = None
        self._committed_lead.set()
        try:
            self.native.follow(max(0, int(self.native.state()["term"])), None)
        except RocketpyError as error:
            log.error("the log of group %s was not let go: %s", self.settings.group, error)

    def _heal(self, now: int) -> None:
        try:
            self._begin()
        except (RocketpyError, OSError) as error:
            self._heal_at = now + _pause_ms(error)
            log.error("%s cannot take part in group %s yet: %s", self.settings.self_id, self.settings.group, error)
            return
        log.warning("%s takes part in group %s again", self.settings.self_id, self.settings.group)
        self._fault = None

    async def _write_checkpoint(self) -> None:
        """What a start may take for committed before the group has said so. Nothing waits for the disk here: it may be busy."""
        state = self.native.state()
        text = f"endIndex={state['end_index']}\ncommittedIndex={state['committed_index']}\n"
        if text == self._checkpoint:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(None, write_file, self.settings.checkpoint_path, text)
            self._checkpoint = text
        except (RocketpyError, OSError) as error:
            log.error("the checkpoint of group %s was not written: %s", self.settings.group, error)

    # ---- roles ----

    def is_whole(self) -> bool:
        """Whether this member leads, and all that its log held when it began to lead is committed."""
        return self.role is Role.LEADER and int(self.native.state()["committed_index"]) >= self._lead_index

    def _role_changed(self, role: Role, term: int) -> None:
        log.info("%s of group %s is %s in term %d, leader %s", self.settings.self_id, self.settings.group, role, term, self.leader_id)
        if role is Role.LEADER:
            self._lead_index = int(self.native.state()["end_index"])
        self._committed_lead.set()
        self._tell(role, term)

    def _tell(self, role: Role, term: int) -> None:
        self._told_role = role
        for callback in self.on_role_change:
            try:
                callback(role, term)
            except Exception:  # outer edge: the others have to hear of it too
                log.exception("a listener for roles failed")


def _pause_ms(error: Exception) -> int:
    return STUCK_MS if isinstance(error, Busy) else HEAL_MS


def committed_index(settings: GroupSettings) -> int:
    """The committed index in the checkpoint; -1 if it has none."""
    text = (read_properties(settings.checkpoint_path) or {}).get("committedIndex", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
