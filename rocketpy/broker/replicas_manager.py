"""Keeps a broker's standing with its controller: sends the requests that are due and heartbeats, takes the role that the answers give, and
keeps the in-sync set and the lease.
RocketMQ: ReplicasManager (5.3.3 broker/controller/).

    replica_state ─ due ─► controller_calls ─ answers ─► replica_state ─ a role ─► role_switch ─ its steps ─► role_services
    ha (slaves) ─► sync_state ─┬─ another set ─► propose, then ask the controller ─► agree
                               └─ the lease ──► the native broker, which refuses sends when it is over

Notices of a role (NOTIFY_BROKER_ROLE_CHANGED) come from whoever can reach the listener, so they are hints: the leader is asked at once.
RocketMQ takes the role from the notice.

Threads  one event loop; what may wait for the disk (files, the native set, behind whose change the queues are filled), in its executor.
Bounds   one request of each kind, one proposal, one switch of roles, one change of the native set at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from .._core.errors import NetworkError, RocketpyError, TimedOut
from ..remoting.codes import ResponseCode
from ..remoting.command import CommandError
from ..remoting.replica_bodies import SyncStateSet
from .broker_metadata import BrokerMetadata, BrokerMetadataFiles, mismatch
from .controller_calls import ControllerCalls, ReplicaBeat, ReplicaInfo
from .replica_state import Ask, ReplicaPeriods, ReplicaState, Role, Standing
from .role_switch import RoleSteps, RoleSwitch
from .sync_state import Follower, SyncStateRules, SyncStates

log = logging.getLogger(__name__)

TICK_S: Final = 0.5
"""How often lease and set are looked at when nothing happens."""
JOIN_MS: Final = 3000
JOIN_LOOK_S: Final = 0.01
FIND_MS: Final = 1000
EXPIRE_MS: Final = 60_000
NOT_OURS: Final = frozenset({ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED})
NO_SET: Final = "metadata is not existed"
"""In the remark of a set that the controller does not have at all, which has the code of one that is equal, too."""
REFUSED_ID: Final = frozenset({ResponseCode.CONTROLLER_BROKER_ID_INVALID})
REFUSED_SET: Final = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        ResponseCode.NO_PERMISSION,
        ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
        ResponseCode.CONTROLLER_BROKER_NOT_ALIVE,
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        ResponseCode.CONTROLLER_INVALID_MASTER,
        ResponseCode.CONTROLLER_INVALID_REPLICAS,
        ResponseCode.CONTROLLER_INVALID_REQUEST,
    }
)
"""Of a set that was not looked at, or not taken. After any other code, such as SYSTEM_ERROR of a controller whose log was too slow, it may
be taken yet."""


class ReplicaLog(Protocol):
    """The part of AutoSwitchHaService that is needed here."""

    @property
    def is_slave(self) -> bool: ...
    @property
    def last_epoch(self) -> int: ...
    @property
    def confirm_offset(self) -> int: ...

    @property
    def cut_offset(self) -> int | None: ...

    def log_end(self) -> int: ...
    def connection(self) -> int | None: ...
    def open(self, broker_id: int) -> None: ...
    def follow(self, ha_address: str | None) -> None: ...
    def agree(self, broker_ids: Collection[int]) -> None: ...
    def propose(self, broker_ids: Collection[int]) -> None: ...
    def forget_expired(self) -> None: ...
    def followers(self) -> list[dict[str, Any]]: ...
    def watch_set(self, set_changed: Callable[[], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """The role's settings, as configured."""

    cluster_name: str
    broker_name: str
    address: str
    controllers: tuple[str, ...]
    periods: ReplicaPeriods = field(default_factory=ReplicaPeriods)
    rules: SyncStateRules = field(default_factory=SyncStateRules)
    check_set_ms: int = 5000
    beat_timeout_ms: int = 10_000
    priority: int = 2**31 - 1
    is_learner: bool = False


class Replicas:
    """The role behind a controller. `start` once the store is open; `stop` before it is closed."""

    def __init__(
        self,
        settings: ReplicaSettings,
        calls: ControllerCalls,
        files: BrokerMetadataFiles,
        own_log: ReplicaLog,
        renew_lease: Callable[[int], None],
        cut: Callable[[int], None],
        clock_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        look_up: Callable[[Iterable[str]], Awaitable[list[str]]] | None = None,
    ) -> None:
        """renew_lease: accept sends until that time of clock_ms; negative: without an end. cut: called once, with an offset, when the log
        ends with messages that its master does not have; the log has to be opened again without those behind the offset. clock_ms:
        monotonic. look_up: the addresses behind those of the controllers."""
        self._settings = settings
        self.controllers = settings.controllers
        self._calls = calls
        self._files = files
        self._log = own_log
        self._renew_lease = renew_lease
        self._cut = cut
        self._look_up = look_up
        self._clock_ms = clock_ms
        self._wall_ms = wall_ms
        self.state = ReplicaState(settings.periods, is_learner=settings.is_learner)
        self.switch: RoleSwitch | None = None
        self._states: SyncStates | None = None
        self._states_of = -1
        self._granted_ms = 0
        self._check_ms = 0
        self._find_ms = 0
        self._expire_ms = 0
        self._is_cut = False
        self._wanted_code = ""
        self._complaints: dict[Ask, set[int]] = {}
        self._stranger = ""
        self._woken = asyncio.Event()
        self._set_changes = asyncio.Lock()
        self._asks: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    # ---- life ----

    async def start(self, steps: RoleSteps) -> None:
        """Raises StoreCorrupt or StoreIOError because of the files of the id, NetworkError because of the HA port."""
        own, asked = await self._blocking(self._files.read)
        for metadata in (own, asked):
            if metadata and (fault := mismatch(metadata, self._settings.cluster_name, self._settings.broker_name)):
                raise RocketpyError(f"this store has the id of another broker: {fault}; set it back, or use another storePathRootDir")
        self.state = ReplicaState(
            self._settings.periods,
            own.broker_id if own else None,
            asked.broker_id if asked and not own else None,
            is_learner=self._settings.is_learner,
        )
        self._wanted_code = asked.check_code if asked else ""
        self.switch = RoleSwitch(steps, on_whole=self._woken.set)  # a slave looks for its master's log at once
        if own is not None:
            self._log.open(own.broker_id)
        self._log.watch_set(self._look_at_set)
        self._tasks = [asyncio.create_task(self.switch.run(), name="role"), asyncio.create_task(self._run(), name="replicas")]

    async def stop(self) -> None:
        """Waits for a change of roles that is under way. Idempotent."""
        if self.switch is not None:
            self.switch.stop()
        for task in (*self._asks, *self._tasks[1:]):
            task.cancel()
        await asyncio.gather(*self._asks, *self._tasks, return_exceptions=True)
        self._tasks = []

    async def has_role(self, wait_s: float) -> bool:
        """As RoleSwitch.has_role."""
        assert self.switch is not None
        return await self.switch.has_role(wait_s)

    # ---- what others tell ----

    def hint(self) -> None:
        """A controller says that the role has changed."""
        self.state.hint()
        self._woken.set()

    def lost(self, address: str) -> None:
        """The connection to a server has ended."""
        if address == self.state.leader:
            self.hint()

    def heard_of_master(self, master_address: str | None, ha_address: str | None) -> None:
        """Takes the master's address, from a name server or from the master itself. Only the broker that the controller names is the
        master."""
        role = self.switch.current if self.switch is not None else None
        if role is not None and not role.is_master and role.master_address == master_address:
            self._log.follow(ha_address)

    async def led(self, role: Role) -> None:
        """This broker leads the log, and sends are about to be accepted."""
        if self._states is None or self._states_of != role.epoch:
            rules, granted_ms = self._settings.rules, self._granted_ms
            self._states, self._states_of = SyncStates(rules, role.master_id, role.sync_state_set, granted_ms), role.epoch
        else:
            self._states.take(role.sync_state_set)
        await self._agree()
        self._renew()

    # ---- for operators ----

    def sync_state_set(self) -> SyncStateSet:
        """The in-sync set as last known."""
        if self._states is not None and not self._log.is_slave:
            return self._states.known
        return self.state.role.sync_state_set if self.state.role is not None else SyncStateSet()

    def others_in_sync(self) -> frozenset[int]:
        """On a master, the other brokers that may be elected. Empty on a slave."""
        if self._log.is_slave or self.state.broker_id is None:
            return frozenset()
        return self.sync_state_set().ids - {self.state.broker_id}

    def counters(self) -> dict[str, str]:
        """Lines for the output of brokerStatus."""
        role, switch = self.state.role, self.switch
        known = self.sync_state_set()
        lines = {
            "controllerLeader": self.state.leader or "",
            "replicaState": self.state.standing.name,
            "brokerControllerId": str(self.state.broker_id if self.state.broker_id is not None else -1),
            "masterBrokerId": str(role.master_id if role is not None else -1),
            "masterAddress": role.master_address if role is not None else "",
            "masterEpoch": str(role.epoch if role is not None else -1),
            "syncStateSet": ",".join(map(str, sorted(known.ids))),
            "syncStateSetEpoch": str(known.epoch),
            "roleSwitches": str(switch.switches if switch is not None else 0),
            "roleFailure": self._stranger or (switch.failure if switch is not None else ""),
        }
        if self._states is not None and not self._log.is_slave:
            left_ms = self._states.lease_left_ms(self._followers(), self._clock_ms())
            lines["leaseLeftMillis"] = "-1" if left_ms is None else str(left_ms)
        return lines

    # ---- the loop ----

    async def _run(self) -> None:
        while True:
            now_ms = self._clock_ms()
            for ask in self.state.due(now_ms):
                self._spawn(self._ask(ask, now_ms), ask.name)
            try:
                self._tick(now_ms)
            except Exception:  # outer edge of the task: the next look must come
                log.exception("the set of replicas in sync could not be looked at")
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(TICK_S, self.state.next_ms(now_ms) / 1000 + 0.001)):
                    await self._woken.wait()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"controller {name}")
        self._asks.add(task)
        task.add_done_callback(self._asks.discard)

    async def _ask(self, ask: Ask, asked_ms: int) -> None:
        leader, is_done = self.state.leader or "", False
        try:
            await self._carry_out(ask, leader, asked_ms)
            is_done = True
            self._complaints.pop(ask, None)
        except CommandError as error:
            is_done = self._take_refusal(ask, leader, error)
        except (NetworkError, TimedOut) as error:
            self._complain(ask, error)
            if ask is not Ask.LEADER:
                self.state.lost_leader(leader)
        except Exception as error:  # an answer that cannot be read, a disk that is full: it is asked again
            self._complain(ask, error)
        finally:
            self.state.over(ask, self._clock_ms(), is_done=is_done)
            self._woken.set()

    async def _carry_out(self, ask: Ask, leader: str, asked_ms: int) -> None:
        state, calls, settings = self.state, self._calls, self._settings
        match ask:
            case Ask.LEADER:
                if self._look_up is not None:
                    self.controllers = tuple(await self._look_up(settings.controllers))
                found = await calls.leader(self.controllers)
                if found is None:
                    raise RocketpyError(f"none of {';'.join(self.controllers)} knows a leader")
                if found != state.leader:
                    log.info("Update controller leader address to %s", found)
                state.found_leader(found)
            case Ask.BROKER_ID:
                offered = await calls.next_broker_id(leader)
                if offered is None:
                    raise RocketpyError("the controller offered no broker id")
                self._wanted_code = f"{settings.address};{self._wall_ms()}"
                wish = BrokerMetadata(settings.cluster_name, settings.broker_name, offered, self._wanted_code)
                await self._blocking(lambda: self._files.write_temporary(wish))
                state.offered(offered)
            case Ask.APPLY:
                assert state.offered_id is not None
                await calls.apply_broker_id(leader, state.offered_id, self._wanted_code)
                own = BrokerMetadata(settings.cluster_name, settings.broker_name, state.offered_id)
                await self._blocking(lambda: self._files.write(own))
                self._log.open(own.broker_id)
                log.info("the controller gave this broker the id %d", own.broker_id)
                state.given()
            case Ask.REGISTER:
                assert state.broker_id is not None
                info = await calls.register(leader, state.broker_id)
                state.registered()
                self._stranger = ""
                await self._beat()  # whoever has not been heard cannot be elected
                self._take(info, asked_ms)
            case Ask.ELECT:
                assert state.broker_id is not None
                await self._beat()
                self._take(await calls.elect(leader, state.broker_id), asked_ms)
            case Ask.REPLICA_INFO:
                await self._beat()  # before it: what renews our lease has the controller count from here, too
                self._take(await calls.replica_info(leader), asked_ms)
            case Ask.BEAT:
                await self._beat()

    async def _beat(self) -> None:
        state, settings = self.state, self._settings
        assert state.broker_id is not None
        beat = ReplicaBeat(
            state.broker_id,
            self._log.last_epoch,
            self._log.log_end(),
            self._log.confirm_offset,
            settings.beat_timeout_ms,
            settings.priority,
        )
        await self._calls.beat(self.controllers, beat)

    def _take_refusal(self, ask: Ask, leader: str, error: CommandError) -> bool:
        """Takes a refusal. True if it is an answer to continue with."""
        if ask is Ask.REGISTER and error.code in NOT_OURS:
            self._stranger = self._not_known(leader, error)
        self._complain(ask, error)
        if error.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self.state.lost_leader(leader)
        elif ask is Ask.APPLY and error.code in REFUSED_ID:
            self.state.refused()
            return True
        elif error.code in NOT_OURS and ask is not Ask.REGISTER:
            self.state.unknown()
        return False

    def _not_known(self, leader: str, error: CommandError) -> str:
        """The id is on disk, but the controller does not know it any more. Asking again does not change that; only an operator can. The
        broker does not apply for a new id by itself: if the controller has forgotten all replicas, the first one to come would become the
        master, with whatever its log holds."""
        path = self._files.path
        return (
            f"controller {leader} does not know broker {self.state.broker_id} of {self._settings.broker_name} ({path}): {error.remark}. "
            f"If that id was cleaned there (cleanBrokerMetadata) and others of the set serve, stop this broker, move {path} away and start "
            "it: it gets a new id and follows the master. If the whole set is unknown, start the controllers with the directories they "
            "had, or name the right ones (controllerAddr)"
        )

    def _complain(self, ask: Ask, error: Exception) -> None:
        """Logs once per outage and kind, not every second."""
        told = self._complaints.setdefault(ask, set())
        kind = int(error.code) if isinstance(error, CommandError) else 0
        if kind not in told and ask is Ask.REGISTER and kind in NOT_OURS:
            log.error("%s; it is asked again until then", self._stranger)
        elif kind not in told:
            log.warning("%s at controller %s: %s; it is tried again", ask.name, self.state.leader or "?", error)
        told.add(kind)

    # ---- roles ----

    def _take(self, info: ReplicaInfo, asked_ms: int) -> None:
        assert self.switch is not None
        if info.master_id is None:
            self.state.masterless()
            return
        role = self.state.take(info)
        known = self.state.role
        is_ours = known is not None and known.is_master and info.master_epoch == known.epoch and info.master_id == known.master_id
        if is_ours and self._states is not None and self._states_of == info.master_epoch:
            self._states.confirmed(asked_ms)
            if self._states.take(info.sync_state_set):
                self._spawn(self._agree(), "the set of replicas in sync")
            self._renew()
        elif role is not None:
            self._granted_ms = asked_ms
            self._begin(role)

    def _begin(self, role: Role) -> None:
        assert self.switch is not None
        if role.epoch < self._log.last_epoch:
            log.error(
                "the controller names a master of epoch %d, and this log has been written to in epoch %d: the controller has lost what it "
                "knew; nobody is served here until its epochs are past that",
                role.epoch,
                self._log.last_epoch,
            )
            return
        current = self.switch.current
        if not role.is_master and current is not None and (current.epoch, current.master_id) == (role.epoch, role.master_id):
            return  # a slave's set concerns its master
        self.switch.want(role)

    # ---- set and lease ----

    def _followers(self) -> list[Follower]:
        now_ms = self._clock_ms()
        return [
            Follower(
                row["broker_id"],
                None if row["caught_up_age_ms"] is None else now_ms - row["caught_up_age_ms"],
                bool(row["has_caught_up"]),
                bool(row["is_learner"]),
            )
            for row in self._log.followers()
        ]

    def _look_at_set(self) -> None:
        self._check_ms = 0
        self._woken.set()

    def _tick(self, now_ms: int) -> None:
        if now_ms >= self._expire_ms:
            self._expire_ms = now_ms + EXPIRE_MS
            self._spawn(self._forget_expired(), "epochs of files that are gone")
        if self._log.is_slave:
            self._look_for_master(now_ms)
        else:
            self._keep_set(now_ms)

    def _keep_set(self, now_ms: int) -> None:
        if self._states is None or self.switch is None or self.switch.current is None:
            return
        self._renew()
        leader = self.state.leader
        if now_ms < self._check_ms or leader is None or self.state.standing is Standing.NAMED:
            return  # no controller would take a set of ours
        self._check_ms = now_ms + self._settings.check_set_ms
        wanted = self._states.proposal(self._followers(), now_ms)
        if wanted is not None:
            self._spawn(self._alter(self._states, self._states_of, wanted, leader), "ALTER_SYNC_STATE_SET")

    def _look_for_master(self, now_ms: int) -> None:
        """On a slave: looks up where the master sends its log from, and has our log cut if it holds something that the master does not
        have."""
        role = self.switch.current if self.switch is not None else None
        if role is None or role.is_master:
            return
        cut_offset = self._log.cut_offset
        if cut_offset is not None and not self._is_cut:
            self._is_cut = True
            self._cut(cut_offset)
        elif self._log.connection() is None and now_ms >= self._find_ms:
            self._find_ms = now_ms + FIND_MS
            self._spawn(self._find(role), "the master's HA address")

    async def _find(self, role: Role) -> None:
        try:
            self.heard_of_master(role.master_address, await self._calls.ha_address(role.master_address))
        except (RocketpyError, ValueError) as error:
            log.info("master %s does not say where its log is sent from: %s", role.master_address, error)

    async def _forget_expired(self) -> None:
        try:
            await self._blocking(self._log.forget_expired)
        except RocketpyError as error:
            log.warning("epochs of files that are gone stay in their file: %s", error)

    async def _alter(self, states: SyncStates, epoch: int, wanted: SyncStateSet, leader: str) -> None:
        """leader: it may be lost before this begins."""
        assert self.state.broker_id is not None
        try:
            await self._propose(states)  # before the request leaves: it may be carried out at any time then
            if await self._hold_confirmed(wanted.ids - states.known.ids):
                known = await self._calls.alter_sync_state_set(leader, self.state.broker_id, epoch, wanted)
                log.info("SyncStateSet changed from %s to %s", sorted(states.known.ids), sorted(known.ids))
                states.answered(known)
            else:
                states.refused()
        except CommandError as error:
            self._set_refused(states, wanted, error)
            if error.code == ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED and NO_SET in (error.remark or ""):
                self.state.unknown()  # not a word about the set: it is not asked about again before we are registered
            self.hint()
        except asyncio.CancelledError:
            states.failed(self._clock_ms())
            raise
        except (RocketpyError, ValueError) as error:
            self._set_open(states, wanted, error)
            self.state.lost_leader(leader)
        if states is self._states:
            await self._agree()
            self._renew()

    def _set_refused(self, states: SyncStates, wanted: SyncStateSet, error: CommandError) -> None:
        if error.code not in REFUSED_SET:
            self._set_open(states, wanted, error)
        elif error.code == ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED and wanted.ids == states.known.ids and "equal" in str(error):
            states.unchanged(self._clock_ms())
            if states.is_settled:
                log.info("the SyncStateSet is %s still", sorted(wanted.ids))
        else:
            states.refused()
            log.warning("the controller does not make the SyncStateSet %s: %s", sorted(wanted.ids), error)

    def _set_open(self, states: SyncStates, wanted: SyncStateSet, error: Exception) -> None:
        level = logging.DEBUG if states.is_open else logging.WARNING  # once, not with each question until it is settled
        states.failed(self._clock_ms())
        log.log(level, "the controller did not say whether the SyncStateSet is %s now: %s; both are waited for", sorted(wanted.ids), error)

    async def _hold_confirmed(self, newcomers: frozenset[int]) -> bool:
        """Waits until these slaves also hold what was acknowledged without them since they were proposed. False if they do not in time."""
        deadline_ms = self._clock_ms() + JOIN_MS
        while not newcomers <= {follower.broker_id for follower in self._followers() if follower.may_join}:
            if self._clock_ms() > deadline_ms:
                return False
            await asyncio.sleep(JOIN_LOOK_S)
        return True

    async def _propose(self, states: SyncStates) -> None:
        async with self._set_changes:
            await self._blocking(functools.partial(self._log.propose, sorted(states.waited_for)))

    async def _agree(self) -> None:
        """Passes the in-sync set on to the native side."""
        async with self._set_changes:
            if self._states is None or not self._states.is_settled:
                return
            ids = sorted(self._states.known.ids)
            try:
                await self._blocking(functools.partial(self._log.agree, ids))
            except RocketpyError as error:
                log.error("the controller's SyncStateSet %s is not taken over: %s", ids, error)

    def _renew(self) -> None:
        assert self._states is not None
        until_ms = self._states.lease_until_ms(self._followers(), self._clock_ms())
        self._renew_lease(-1 if until_ms is None else until_ms)

    async def _blocking(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, work)
