"""A running controller: native listener, its member of the group, heartbeats, elections, and what tells brokers their new role.
RocketMQ: ControllerManager, DLedgerController, BrokerHousekeepingService (5.3.3 controller/).

    listener ─ RemotingService ─┬─ ControllerRequests ─┬─ EventScheduler ─► DLedgerNode ─ committed ─► tables
       │                        │                      └─ BrokerLives
       │                        └─ the other members' requests ─► DLedgerNode ─ role ─► Leadership
       │ closed connection ─┐
    silence (timer) ────────┼─ a master that is down ─► wanted elections ─ one after the other ─► RoleNotices ─ client ─► brokers
    sets without master ────┘

Like RocketMQ's, it listens on its own address in controllerDLegerPeers, for brokers and for the other members; listenPort is not used.
Only a leader elects masters and notifies brokers. A controller that stops leading forgets what it was about to do; the next leader finds
it again by looking.
Threads  one event loop beside the reactors. Bounds: those of the parts; one election waits per set, TELLING_MAX brokers are told at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .._core.errors import RocketpyError
from .._core.remoting import LogTap, Request, Server
from ..awake_clock import AwakeClock, monotonic_ms
from ..config import Config, StoredConfig, home_directory
from ..dledger import DLedgerNode, GroupSettings, parse_peers
from ..metrics.settings import exporter_settings
from ..remoting.client import RemotingClient
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.headers import ElectMasterRequestHeader, NotifyBrokerRoleChangedRequestHeader
from ..remoting.json_codec import write_fastjson
from ..remoting.listener_options import few_reactors, server_options
from ..remoting.service import RemotingService
from ..remoting.tls import ListenerTls, client_context, tls_settings
from .broker_lives import BrokerIdentity, BrokerLives
from .counters import Counters
from .decisions import RoleNotice
from .event_scheduler import EventScheduler
from .inactive_masters import sets_without_master
from .leadership import Leadership
from .replicas_info import ReplicasInfo
from .requests import ControllerRequests, Effects
from .role_notices import RoleNotices, Telling
from .state_machine import ControllerStateMachine

if TYPE_CHECKING:
    from ..metrics.exporters import Exporter

log = logging.getLogger(__name__)

TELL_TIMEOUT_S = 3.0
TELLING_MAX = 64
ENTRY_MAX = 4 << 20
ALONE_WITHIN_S = 5.0
"""A controller without others leads at once: what it is asked first is answered."""
ALONE_VOTE_MS = (1, 2)
"""For the ballot of a member that nobody can compete with."""


class Controller:
    """The controller: `controller = Controller(load_config("controller", file)); await controller.start(); … await controller.stop()`."""

    def __init__(self, config: Config, *, log_tap: LogTap | None = None) -> None:
        self.config = config
        self.tables = ReplicasInfo()
        self._clock = AwakeClock()
        self.lives = BrokerLives(self._clock)
        self._counters = Counters()
        self._metrics: Exporter | None = None
        self._log_tap = log_tap
        self._notices = RoleNotices(self.lives, monotonic_ms)
        self._stored_config = StoredConfig(config, Path(config.text("configStorePath")))
        self._wanted: dict[tuple[str, str], None] = {}
        self._wake_elector = asyncio.Event()
        self._wake_teller = asyncio.Event()
        self._tries = max(1, config.integer("electMasterMaxRetryCount"))
        self.requests: ControllerRequests | None = None
        self._node: DLedgerNode | None = None
        self._leadership: Leadership | None = None
        self._server: Server | None = None
        self._service: RemotingService | None = None
        self._client: RemotingClient | None = None
        self._tls: ListenerTls | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._tellings: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """The address that it listens on, as its peers and brokers know it."""
        member = self.config.text("controllerDLegerSelfId")
        return parse_peers(self.config.text("controllerDLegerPeers"))[member]

    @property
    def is_leader(self) -> bool:
        """Whether its group has elected this controller."""
        return self._node is not None and self._node.is_leader

    @property
    def metrics_port(self) -> int:
        """The port that Prometheus reads; 0: none."""
        return self._metrics.port if self._metrics is not None else 0

    async def start(self) -> None:
        """Reads its log, binds, listens and answers. The leader is elected after that, except in a group of one. Raises NetworkError,
        Unsupported (make_exporter), and what DLedgerNode.start raises."""
        config = self.config
        tls = tls_settings(config)
        client_tls = client_context(config, tls)
        node = self._node = DLedgerNode(self._group_settings(), ControllerStateMachine(self.tables), serves=False, tls=client_tls)
        scheduler = EventScheduler(node, self._counters)
        leadership = self._leadership = Leadership(node, scheduler, self._clock, self._begin_to_lead, self._forget)
        node.on_role_change.append(lambda role, term: leadership.role_changed())
        self._client = RemotingClient(connect_timeout_s=config.integer("connectTimeoutMillis") / 1000, tls=client_tls)
        await node.start()
        effects = Effects(self._post, self._stored_config.store)
        requests = self.requests = ControllerRequests(config, node, scheduler, self.tables, self.lives, effects, self._counters)
        self._server = self._make_server()
        self._tls = ListenerTls(tls, [self._server])
        await self._tls.start()
        if len(node.peers) == 1 and not await leadership.wait_begun(ALONE_WITHIN_S):
            log.warning("The controller is alone and does not lead yet: %s", node.fault or "its log took no entry")
        handlers = {**requests.handlers, **node.handlers}
        self._service = RemotingService(self._server, handlers, on_closed=self._connection_closed)
        self._open_metrics(node)
        self._service.start()
        self._server.start()
        create = asyncio.get_running_loop().create_task
        not_active_s, inactive_s = (config.integer(key) / 1000 for key in ("scanNotActiveBrokerInterval", "scanInactiveMasterInterval"))
        self._tasks = [
            create(self._clock.keep(), name="keep the clock"),
            create(self._every(not_active_s, self._scan_not_active), name="scan not active brokers"),
            create(self._every(inactive_s, self._scan_inactive_masters), name="scan inactive masters"),
            create(self._elect_for_ever(), name="elect masters"),
            create(self._tell_for_ever(), name="tell brokers their roles"),
        ]

    async def stop(self) -> None:
        """Stops listening, then everything else. Idempotent."""
        tasks, self._tasks = [*self._tasks, *self._tellings], []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._tls is not None:
            await self._tls.stop()
            self._tls = None
        if self._service is not None:
            await self._service.stop()
            self._service = None
        if self._metrics is not None:
            await self._metrics.stop()
            self._metrics = None
        if self._leadership is not None:
            self._leadership.stop()
            self._leadership = None
        if self._node is not None:
            await self._node.stop()
            self._node = None
        if self._client is not None:
            await self._client.stop()
            self._client = None
        if self._server is not None:
            server, self._server = self._server, None
            await asyncio.get_running_loop().run_in_executor(None, server.close)

    def _open_metrics(self, node: DLedgerNode) -> None:
        """Raises as make_exporter and Exporter.start."""
        settings = exporter_settings(self.config, "controller", self.config.text("bindAddress"))
        if not settings.is_wanted:
            return
        from ..metrics.exporters import make_exporter  # here: a tenth of a second that others need not wait for
        from .metrics import ControllerMetrics

        metrics = ControllerMetrics(self.config, settings, node, self.lives, self._counters)
        self._metrics = make_exporter(settings, metrics.read, lambda: "" if node.leader_id is not None else "no controller leads the group")
        self._metrics.start()

    def _group_settings(self) -> GroupSettings:
        config = self.config
        peers = parse_peers(config.text("controllerDLegerPeers"))
        settings = GroupSettings(
            config.text("controllerDLegerGroup") or "default",
            config.text("controllerDLegerSelfId"),
            peers,
            Path(config.text("controllerStorePath") or home_directory() / "DledgerController"),
            data_file_size=config.integer("mappedFileSize"),
            entry_size_max=min(ENTRY_MAX, config.integer("mappedFileSize") // 2),
        )
        if len(peers) > 1:
            return settings
        least, most = ALONE_VOTE_MS
        return replace(settings, vote_interval_min_ms=least, vote_interval_max_ms=most)

    def _make_server(self) -> Server:
        config = self.config
        return Server(
            log=self._log_tap,
            **server_options(config, int(self.address.rpartition(":")[2]), reactors=few_reactors(config), thread_name="controller"),
        )

    # ---- leading ----

    def _begin_to_lead(self) -> None:
        """Brokers that went while another controller led may only have been out of our reach; all get their time to be heard."""
        self.lives.forget_gone()
        self._scan_inactive_masters()

    def _forget(self) -> None:
        """Another controller leads, or none does."""
        self._wanted.clear()
        self._notices.clear()
        for telling in self._tellings:
            telling.cancel()

    # ---- brokers that go, elections ----

    def _connection_closed(self, event: Request) -> None:
        self._brokers_gone(self.lives.connection_closed(event.connection_id))

    def _scan_not_active(self) -> None:
        """Forgets brokers that were silent for too long, and closes their connections."""
        gone = self.lives.expire()
        for _, connection_id in gone:
            if self._server is not None:
                self._server.close_connection(connection_id)
        self._brokers_gone(identity for identity, _ in gone)

    def _brokers_gone(self, gone: Iterable[BrokerIdentity]) -> None:
        for identity in gone:
            log.warning("The broker with brokerId: %d in broker-set: %s has been inactive", identity.broker_id, identity.broker_name)
            found = self.tables.get(identity.broker_name)
            if found is not None and (found.sync.cluster_name, found.sync.master_broker_id) == (identity.cluster_name, identity.broker_id):
                self._want_election(identity.cluster_name, identity.broker_name)

    def _scan_inactive_masters(self) -> None:
        since_ms = self._leadership.since_ms if self._leadership is not None else None
        if since_ms is None:
            return
        for found in sets_without_master(self.tables, self.lives, self._clock() - since_ms):
            self._want_election(found.sync.cluster_name, found.sync.broker_name)

    def _want_election(self, cluster_name: str, broker_name: str) -> None:
        """Asks for an election. A set that the leader cannot find yet is found by its next scan."""
        if self._leadership is not None and self._leadership.since_ms is not None:
            self._wanted[cluster_name, broker_name] = None
            self._wake_elector.set()

    async def _elect_for_ever(self) -> None:
        while True:
            await self._wake_elector.wait()
            self._wake_elector.clear()
            while self._wanted:
                cluster_name, broker_name = next(iter(self._wanted))
                del self._wanted[cluster_name, broker_name]
                try:
                    await self._elect(cluster_name, broker_name)
                except Exception:  # outer edge: the other sets need their elections
                    log.exception("election in broker-set %s failed", broker_name)

    async def _elect(self, cluster_name: str, broker_name: str) -> None:
        """Holds an election, and tries again at once if the log did not take its event; after that the next scan does."""
        assert self.requests is not None
        header = ElectMasterRequestHeader(cluster_name=cluster_name, broker_name=broker_name, broker_id=-1, designate_elect=False)
        for _ in range(self._tries):
            decision = await self.requests.elect(header)
            if decision.code not in (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY):
                break
        if decision.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            log.warning("Failed to elect a new master for broker %s: %s", broker_name, decision.remark)

    # ---- telling brokers ----

    def _post(self, notice: RoleNotice) -> None:
        if self.is_leader:
            self._notices.post(notice)
            self._wake_teller.set()

    async def _tell_for_ever(self) -> None:
        create = asyncio.get_running_loop().create_task
        while True:
            self._wake_teller.clear()
            for telling in self._notices.take_due(TELLING_MAX - len(self._tellings)):
                task = create(self._tell(telling), name=f"tell {telling.address}")
                self._tellings.add(task)
                task.add_done_callback(self._telling_ended)
            wait_ms = self._notices.wait_ms() if len(self._tellings) < TELLING_MAX else None
            try:
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._wake_teller.wait()
            except TimeoutError:
                continue

    async def _tell(self, telling: Telling) -> None:
        notice = telling.notice
        header = NotifyBrokerRoleChangedRequestHeader(
            master_address=notice.master_address,
            master_epoch=notice.master_epoch,
            sync_state_set_epoch=notice.sync_state_set_epoch,
            master_broker_id=notice.master_broker_id,
        )
        body = write_fastjson({"syncStateSet": sorted(notice.sync_state_set), "syncStateSetEpoch": notice.sync_state_set_epoch})
        try:
            if self._client is None:
                return
            await self._client.call(telling.address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header, body, timeout_s=TELL_TIMEOUT_S)
            self._notices.told(telling)
        except RocketpyError as error:
            if not self._notices.failed(telling):
                log.error("Failed to notify broker %s that role changed: %s", telling.address, error)

    def _telling_ended(self, task: asyncio.Task[None]) -> None:
        """Wakes the next notice. Not done within the task itself, which still counts as running there."""
        self._tellings.discard(task)
        self._wake_teller.set()

    async def _every(self, interval_s: float, look: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                look()
            except Exception:  # outer edge: the next look must come
                log.exception("%s exception", look.__name__)
