"""A running broker: the native store, data plane and listeners, the tables of the control plane, and everything that keeps them true.
RocketMQ: BrokerController, BrokerStartup (5.3.3 broker/).

    start   store ─ native broker ─ tables from config/*.json ─ listeners bound ─ handlers
            ─ a master that returns takes its slaves' offsets ─ reactors run ─ registered
    stop    pulls dismissed ─ unregistered ─ handlers end ─ reactors end ─ tables saved ─ native broker
            ─ store (flushed, checkpoint, abort gone)

                       ┌─ ClientRequests, SendRequests, PullRequests ──┐
    listener, VIP ─ RemotingService ─ TopicAdmin, GroupAdmin, … ───────┼─ Parts (tables, store, name servers)
                       └─ closed connection ─► client tables ──────────┘

Threads  one event loop beside the native threads. Periodic work runs in tasks of their own (housekeeping.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .._core.base import LogTap
from .._core.broker import Broker
from .._core.errors import NetworkError, RocketpyError, StoreIOError
from .._core.remoting import Request, Server
from .._core.store import MessageStore
from ..auth.service import AuthService
from ..awake_clock import AwakeClock, monotonic_ms
from ..config import Config, Value, join_address
from ..config.rules import VIP_PORT_DISTANCE
from ..garbage import loading_anew
from ..ha.service import HaService
from ..remoting.client import RemotingClient
from ..remoting.listen_address import numeric_address
from ..remoting.listener_options import server_options
from ..remoting.service import Handler, RemotingService
from ..remoting.tls import ListenerTls, client_context, tls_settings
from . import unsupported
from .acting_state import ActingState
from .addresses import identity_of
from .admin_broker import BrokerAdmin
from .admin_groups import GroupAdmin
from .admin_lite import LiteAdmin
from .admin_messages import MessageAdmin
from .admin_offsets import OffsetAdmin
from .admin_topics import TopicAdmin
from .client_link import ServiceLink
from .client_requests import ClientRequests
from .clients import Action, Channel, CloseChannel, ConsumerTable, Notify, ProducerTable
from .cold_flow import ColdFlowAdmin
from .consumer_offsets import LIGHT_OFFSETS_FILE, OFFSETS_FILE, ConsumerOffsets
from .consumer_orders import ConsumerOrders
from .controlled import Elected, ReplicaAdmin, acknowledged_by_replicas
from .copied_users import copied_users
from .delay_offsets import DelayOffsets
from .durable_offsets import DurableOffsets
from .elected import begin_elected, make_elected, make_ha, start_elected
from .group_members import Members, group_members
from .housekeeping import Housekeeping
from .ledger_options import check_no_other_log, ledger_path, log_directory, member_settings
from .listen_ports import HA_PORT_DISTANCE, free_port, store_ip
from .lite_requests import LiteRequests
from .lite_subscriptions import LiteSubscriptions
from .live_settings import apply_changes
from .loaded_tables import load_tables
from .member_notices import MemberNotices
from .metrics_settings import metrics_settings
from .native_options import (
    FLUSH_BACKENDS,
    broker_options,
    native_settings,
    reactor_count,
    store_options,
)
from .other_brokers import OtherBrokers
from .parts import Parts, SettingsHolder, now_ms
from .persistence import save_for_good
from .pop import PopRequests
from .pull import PullRequests
from .queue_mappings import QueueMappings
from .rebalance_locks import RebalanceLocks
from .recalls import RecallRequests
from .registration import RegisterResult, Registration, TopicsSnapshot
from .request_modes import RequestModes
from .retention_service import make_retention
from .retries import ConsumerRetries
from .returning_master import return_as_master
from .routes import TopicRoutes, own_queues
from .send import SendRequests
from .settings import broker_settings, group_settings, is_elected, registration_settings, topic_settings
from .slave_synchronize import SlaveSynchronize, copied_states
from .start_checks import warn_at_start, warn_of_namesakes
from .state_files import saved_states
from .stats import BrokerStats, appended
from .store_directory import check_kind_of_store, check_no_ledger, check_place_of_log, make_log_directory, make_store_directory
from .store_reads import StoreReads
from .subscriptions import GroupTable
from .timer_metrics import TimerMetrics
from .timers import FollowedTimers, TimerAdmin, start_timers
from .topic_deletion import TopicDeletion
from .topics import TopicTable
from .transactions import TransactionRequests

if TYPE_CHECKING:
    from ..metrics.exporters import Exporter

log = logging.getLogger(__name__)

MAIN_LISTENER = 0
STOP_DRAIN_S = 0.3


class BrokerService:
    """`broker = BrokerService(load_config("broker", file)); await broker.start(); … await broker.stop()`."""

    def __init__(self, config: Config, *, log_tap: LogTap | None = None) -> None:
        self.config = config
        self._log_tap = log_tap
        self._stopping = asyncio.Event()
        self._life = asyncio.Lock()
        self._reopening: asyncio.Task[None] | None = None
        config.subscribe(self._config_changed)
        self._begin()

    def _begin(self) -> None:
        """Nothing is open."""
        self.parts: Parts | None = None
        self._servers: list[Server] = []
        self._services: list[RemotingService] = []
        self._tls: ListenerTls | None = None
        self._store: MessageStore | None = None
        self._native: Broker | None = None
        self._ha: HaService | None = None
        self._synchronize: SlaveSynchronize | None = None
        self._client: RemotingClient | None = None
        self._auth: AuthService | None = None
        self._housekeeping: Housekeeping | None = None
        self._settings: SettingsHolder | None = None
        self._runtime: BrokerAdmin | None = None
        self._metrics: Exporter | None = None
        self._elected: Elected | None = None
        self._notices = MemberNotices(ServiceLink(self._servers, self._services))
        self._is_closing = False

    @property
    def port(self) -> int:
        """The port clients connect to; 0 before the start."""
        return self._servers[MAIN_LISTENER].port if self._servers else 0

    @property
    def address(self) -> str:
        """The address that is registered for clients; "" before the start."""
        return self.parts.address if self.parts is not None else ""

    @property
    def flush_backend(self) -> str:
        """SYSCALL or IO_URING: how the running store makes its syncs."""
        assert self._store is not None, "the broker is not running"
        return FLUSH_BACKENDS[self._store.stats()["flush_backend"]]

    @property
    def slaves_in_sync(self) -> int:
        """Slaves that this master knows to hold its log, or nearly so; 0 on a slave."""
        assert self.parts is not None, "the broker is not running"
        return int(self.parts.ha.runtime_info()["inSyncSlaveNums"])

    @property
    def metrics_port(self) -> int:
        """The port Prometheus reads; 0 without metricsExporterType=PROM."""
        return self._metrics.port if self._metrics is not None else 0

    @property
    def name(self) -> str:
        return self.config.text("brokerName")

    def runtime_table(self) -> dict[str, str]:
        """What mqadmin brokerStatus prints."""
        assert self._runtime is not None, "the broker is not running"
        return self._runtime.runtime_table()

    async def start(self) -> None:
        """Opens everything and registers. What fails closes what was open and is raised: StoreLocked, StoreCorrupt, NetworkError, …"""
        try:
            async with self._life:
                await self._open()
        except BaseException:
            try:
                await self.stop()
            except (RocketpyError, OSError) as error:
                log.error("what was open did not stop cleanly: %s", error)
            raise

    async def stop(self) -> None:
        """Leaves the cluster, saves what changed, closes the store cleanly. Idempotent.

        Raises StoreIOError, DiskFull, … when something did not reach the disk; everything is closed nevertheless."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        try:
            async with self._life:
                await self._close()
        finally:
            if self._reopening is not None:  # it opens nothing any more
                self._reopening.cancel()
                await asyncio.gather(self._reopening, return_exceptions=True)

    async def _close(self) -> None:
        self._is_closing = True
        if self._elected is not None:
            await self._elected.stop()
        if self._ha is not None:
            self._ha.unwatch()
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        if self._tls is not None:
            await self._tls.stop()
        if self.parts is not None:
            self.parts.native.dismiss_pulls()  # first: their clients know it before their connections end
            await self.parts.registration.stop()
            await self.parts.routes.stop()
        for service in self._services:
            await service.stop(STOP_DRAIN_S)
        if self._metrics is not None:
            await self._metrics.stop()
        loop = asyncio.get_running_loop()
        for server in self._servers:
            await loop.run_in_executor(None, server.stop, int(STOP_DRAIN_S * 1000))
        faults: list[Exception] = []
        if self._native is not None:
            await loop.run_in_executor(None, self._native.stop_delivery)
            await loop.run_in_executor(None, self._native.stop_revive)
            try:
                await loop.run_in_executor(None, self._native.stop_timers)
            except RocketpyError as error:
                faults.append(error)
        if self.parts is not None:
            faults += await save_for_good(self.parts.saved, self.parts.ha.is_uncommitted)
        if self._client is not None:
            await self._client.stop()
        try:
            await loop.run_in_executor(None, self._close_native)
        except (RocketpyError, OSError) as error:
            faults.append(error)
        if faults:
            raise faults[0] if len(faults) == 1 else StoreIOError("; ".join(map(str, faults)))

    # ---- opening ----

    async def _open(self) -> None:
        config = self.config
        begin_elected(config)
        if config.integer("listenPort") == 0:
            config.override("listenPort", free_port(numeric_address("bindAddress", config.text("bindAddress"))))
        if config.integer("haListenPort") == 0:
            config.override("haListenPort", config.integer("listenPort") + HA_PORT_DISTANCE)
        loop = asyncio.get_running_loop()
        tls = self._tls = ListenerTls(tls_settings(config), self._servers)
        client = client_context(config, tls.settings)  # before the store: what is wrong with it is known at once
        await loop.run_in_executor(None, self._open_native)
        parts = self._make_parts(client)
        assert self._auth is not None
        load_tables(parts, self._auth, self._directory("config"))
        self.parts = parts  # stop saves its tables: not before their files were read
        apply_changes(parts, {})  # what changed while the store was being opened
        self._open_listeners()
        await tls.start()
        parts.ha.start()  # behind them: of two brokers with the same ports the second is told of listenPort
        parts.ha.follow(config.text("haMasterAddress"))
        self._elected = make_elected(parts, self._synchronize, self._reopen_cut)
        self._serve(parts)
        housekeeping = self._housekeeping = Housekeeping(parts, self._synchronize)
        if config.boolean("fetchNameSrvAddrByDnsLookup"):
            parts.registration.name_servers = await housekeeping.looked_up_name_servers(config.addresses("namesrvAddr"))
        warn_at_start(parts, self._directory("config"))
        self._open_metrics(parts)
        members = await self._members(parts) if self._is_returning(parts) else None
        if members is not None:
            await return_as_master(parts, (address for broker_id, address in members if broker_id > 0))
        if not parts.ha.is_slave:
            parts.native.start_delivery()  # first: what comes while a position is past its queue's end would be passed over
        await loop.run_in_executor(None, start_timers, parts)
        if not parts.ha.is_slave:
            parts.native.start_revive()
        for server in self._servers:
            server.start()
        warn_of_namesakes(await self._members(parts) if members is None else members, parts.registration.identity)
        await parts.registration.start()
        await housekeeping.save_all()
        housekeeping.start()
        await start_elected(self._elected, parts, self._synchronize, housekeeping)

    def _open_native(self) -> None:
        config = self.config
        store_host = join_address(store_ip(config.text("brokerIP1")), config.integer("listenPort"))
        root = Path(config.text("storePathRootDir"))
        self._auth = AuthService(config, self._log_tap)
        make_store_directory("storePathRootDir", root)
        if (root / "config").exists():
            make_store_directory("storePathRootDir", root / "config")
        check_kind_of_store(root)
        if config.boolean("enableDLegerCommitLog"):
            check_no_other_log(config)
            is_alone = len(member_settings(config).peers) == 1  # or the leader fills it again
            make_log_directory(root, "storePathDLedgerCommitLog", ledger_path(config), may_be_cut=not is_alone)
        else:
            check_no_ledger(root)
            if not config.text("storePathCommitLog"):
                check_place_of_log(root)
            make_log_directory(root, "storePathCommitLog", log_directory(config), may_be_cut=config.boolean("enableControllerMode"))
        self._store = MessageStore(root, log=self._log_tap, **store_options(config, store_host))
        self._native = Broker(self._store, log=self._log_tap, **broker_options(config, store_host))
        self._native.set_settings(**native_settings(config))
        self._ha = make_ha(config, self._store, self._native, self._log_tap)

    def _open_listeners(self) -> None:
        config = self.config
        port = config.integer("listenPort")
        self._servers.append(self._listen(port, reactor_count(config), "broker"))
        if port > VIP_PORT_DISTANCE:
            try:
                self._servers.append(self._listen(port - VIP_PORT_DISTANCE, 1, "vip", is_vip=True))
            except NetworkError as error:
                log.warning(
                    "no VIP channel on port %d, clients with vipChannelEnabled=true cannot connect: %s", port - VIP_PORT_DISTANCE, error
                )

    def _open_metrics(self, parts: Parts) -> None:
        settings = metrics_settings(self.config)
        if settings.exporter.is_wanted:
            from .metrics import exporter_of  # here: a tenth of a second that others need not wait for

            self._metrics = exporter_of(parts, settings)
            self._metrics.start()

    def _listen(self, port: int, reactors: int, thread_name: str, *, is_vip: bool = False) -> Server:
        options = server_options(self.config, port, reactors=reactors, thread_name=thread_name, is_vip=is_vip)
        server = Server(handler=self._native, log=self._log_tap, **options)
        assert self._auth is not None
        self._auth.guard(server)
        return server

    def _make_parts(self, client_tls: ssl.SSLContext | None) -> Parts:
        assert self._store is not None and self._native is not None and self._ha is not None and self._auth is not None
        config, native, store = self.config, self._native, self._store
        settings = self._settings = SettingsHolder(broker_settings(config))
        current = settings.current
        self._client = RemotingClient(
            connect_timeout_s=config.integer("connectTimeoutMillis") / 1000,
            on_lost=lambda address: self._connection_lost(registration, address),
            tls=client_tls,
            credentials=self._auth.settings.credentials,
        )
        topics = TopicTable(topic_settings(config), native, now_ms, is_copy=self._ha.is_slave)
        queue_mappings = QueueMappings(current.broker_name, topics, native, now_ms)
        groups = GroupTable(
            native,
            now_ms,
            settings=group_settings(config),
            on_forbidden=lambda group, topic: consumers.republish(group, topic),
        )
        clock, expires_ms = AwakeClock(), config.integer("channelExpiredTimeout")
        consumers = ConsumerTable(
            native,
            clock,
            expires_ms=expires_ms,
            is_readable=groups.is_readable,
            notifies=lambda group: (known := groups.get(group)) is None or known.notify_ids_changed,
        )
        offsets = ConsumerOffsets(native, now_ms, config.integer("consumerOffsetUpdateVersionStep"))
        modes = RequestModes(current.default_request_mode, current.default_pop_share)
        delay_offsets = DelayOffsets(native, self._ha.durable_log, now_ms, config.integer("delayOffsetUpdateVersionStep"))
        boot_ms = now_ms()
        timer_metrics = TimerMetrics(native, boot_ms)
        registration = Registration(
            self._client,
            identity_of(config),
            registration_settings(config),
            lambda names: self._topics_snapshot(topics, queue_mappings, names),
            lambda result: self._registered(topics, result),
            config.addresses("namesrvAddr"),
            topics.texts,
        )
        routes = TopicRoutes(
            self._client, lambda: registration.name_servers, lambda topic: own_queues(topics, current.broker_name, topic), monotonic_ms
        )
        orders = ConsumerOrders(native, topics, groups.__contains__, now_ms)
        is_light = config.boolean("enableLmq")
        saved = saved_states(
            self._directory("config"),
            topics,
            groups,
            offsets,
            modes,
            delay_offsets,
            timer_metrics,
            orders,
            self._auth.metadata,
            queue_mappings,
            durable_offsets=DurableOffsets(offsets, self._ha.durable_log, native.pop_stats, light=is_light),
            offsets_file=LIGHT_OFFSETS_FILE if is_light else OFFSETS_FILE,
        )
        deletion = TopicDeletion(store.delete_topic)
        if self._ha.is_slave:
            timers = FollowedTimers(native) if config.boolean("timerWheelEnable") else None
            states = copied_states(topics, queue_mappings, offsets, groups, modes, delay_offsets, saved, self._ha, deletion, timers)
            self._synchronize = SlaveSynchronize(self._client, (*states, *copied_users(config, self._auth, saved.auth)), self._ha)
        return Parts(
            config=config,
            settings_holder=settings,
            store=store,
            reads=StoreReads(store),
            copies=StoreReads(store),
            native=native,
            topics=topics,
            queue_mappings=queue_mappings,
            groups=groups,
            offsets=offsets,
            consumers=consumers,
            producers=ProducerTable(native, clock, expires_ms=expires_ms),
            locks=RebalanceLocks(clock, on_granted=lambda group: native.set_locked(group, True)),
            lite=LiteSubscriptions(native, clock, groups.get, lambda: settings.current.lite_subscriptions_max),
            request_modes=modes,
            consumer_orders=orders,
            stats=BrokerStats(
                native,
                monotonic_ms,
                settings.current.cluster_name,
                replicated=functools.partial(appended, store) if self._ha.is_slave else None,
                timers=native.timer_stats,
            ),
            saved=saved,
            releasing=asyncio.Lock(),
            delay_offsets=delay_offsets,
            timer_metrics=timer_metrics,
            registration=registration,
            routes=routes,
            other_brokers=OtherBrokers(self._client, registration, monotonic_ms, config.integer("forwardTimeout") / 1000),
            client=self._client,
            link=ServiceLink(self._servers, self._services),
            ha=self._ha,
            acting=ActingState(),
            retention=make_retention(config, store, native, self._directory("consumequeue")),
            deletion=deletion,
            catch_up=self._catch_up,
            follow=self._follow if not is_elected(self.config) else lambda *_: None,
            act=self._act,
            auth=self._auth,
            server_of=lambda listener: self._servers[listener],
            clock=clock,
            boot_ms=boot_ms,
            memory_bytes=config.integer("memory"),
        )

    def _directory(self, name: str) -> Path:
        return Path(self.config.text("storePathRootDir")) / name

    def _is_returning(self, parts: Parts) -> bool:
        """A master that has been here before: slaves may have served its consumers since."""
        return not parts.ha.is_slave and parts.store.stats()["commit_log_max_offset"] > 0

    async def _members(self, parts: Parts) -> Members:
        return await group_members(parts.client, parts.registration.name_servers, parts.registration.identity)

    def _serve(self, parts: Parts) -> None:
        retries = ConsumerRetries(parts)
        transactions = TransactionRequests(parts)
        clients, sends = ClientRequests(parts), SendRequests(parts, retries)
        readers = (PullRequests(parts), PopRequests(parts), LiteRequests(parts))
        self._runtime = BrokerAdmin(parts)
        admins = (
            TopicAdmin(parts),
            GroupAdmin(parts),
            OffsetAdmin(parts),
            MessageAdmin(parts),
            LiteAdmin(parts),
            TimerAdmin(parts),
            ColdFlowAdmin(parts),
            RecallRequests(parts),
            ReplicaAdmin(parts, self._elected),
            retries,
            transactions,
            self._runtime,
        )
        shared: dict[int, Handler] = {**unsupported.handlers()}
        for admin in admins:
            shared |= admin.handlers()
        assert self._auth is not None
        shared |= self._auth.handlers(parts.saved.auth.save, lambda: self._elected is not None and parts.ha.is_slave)
        shared = acknowledged_by_replicas(shared, parts, self._elected)
        for listener, server in enumerate(self._servers):
            handlers = {**shared, **clients.handlers(listener), **sends.handlers(listener)}
            for reader in readers:
                handlers |= reader.handlers(listener)
            closed = functools.partial(self._connection_closed, listener)
            self._services.append(RemotingService(server, handlers, on_closed=closed, latencies=parts.latencies))
            self._services[-1].start()

    # ---- closing ----

    def _close_native(self) -> None:
        """Closes borrowers before lenders. Reactors have ended, but flusher and slaves wake them until the broker is closed."""
        if self._ha is not None:
            self._ha.close()
        if self._native is not None:
            self._native.close()
        for server in self._servers:
            server.close()
        if self._auth is not None:
            self._auth.close()
        if self._store is not None:
            self._store.close()

    # ---- opening anew ----

    def _reopen_cut(self, offset: int) -> None:
        self._reopening = asyncio.create_task(self._reopen(offset), name="opening anew")

    async def _reopen(self, offset: int) -> None:
        """Of a slave whose log ends with what its master does not have, and with queues of that: all of it goes while nothing is open.
        Where that fails it is tried again, every ten seconds at last, until the stop."""
        log.warning("the log is cut at %d: the master does not have what is behind it; the broker opens anew", offset)
        for attempt in itertools.count():
            async with self._life:
                if self._stopping.is_set() or await self._opens_anew(offset):
                    return
            await asyncio.sleep(min(10, 1 << min(attempt, 8)))

    async def _opens_anew(self, offset: int) -> bool:
        try:
            if self._store is not None:
                await asyncio.get_running_loop().run_in_executor(None, self._store.cut_at_open, offset)
                await self._close()
            self._begin()
            with loading_anew():
                await self._open()
        except Exception as error:  # outer edge of the task: the broker would stay closed without a word
            log.error("the broker could not open anew, and tries again: %s: %s", type(error).__name__, error)
            with contextlib.suppress(Exception):
                await self._close()
            self._begin()
            return False
        return True

    # ---- events ----

    def _connection_lost(self, registration: Registration, address: str) -> None:
        registration.lost(address)
        if self._elected is not None:
            self._elected.lost(address)

    def _connection_closed(self, listener: int, event: Request) -> None:
        if self.parts is None or self._is_closing:
            return
        channel = Channel(listener, event.connection_id)
        self.parts.producers.channel_closed(channel)
        self._act(self.parts.consumers.channel_closed(channel))

    def _act(self, actions: Iterable[Action]) -> None:
        """Carries out what the client tables decided."""
        assert self.parts is not None
        for action in actions:
            if isinstance(action, CloseChannel):
                self.parts.link.close(action.channel)
            elif isinstance(action, Notify) and self.parts.settings.notify_ids_changed:
                self._notices.add(action)

    def _registered(self, topics: TopicTable, result: RegisterResult) -> None:
        topics.update_order_topics(result.order_topics)
        if self._elected is not None:
            self._elected.heard_of_master(result.master_address, result.ha_address)
        else:
            self._follow(result.master_address, result.ha_address)

    def _follow(self, master_address: str | None, ha_address: str | None) -> None:
        if self._synchronize is not None and self._ha is not None:
            self._synchronize.follow(master_address)
            self._ha.follow(self.config.text("haMasterAddress") or ha_address)

    def _topics_snapshot(self, topics: TopicTable, mappings: QueueMappings, names: Iterable[str] | None) -> TopicsSnapshot:
        assert self._settings is not None
        configs = tuple(topics) if names is None else tuple(config for name in names if (config := topics.get(name)) is not None)
        infos = mappings.infos(config.topic_name for config in configs) if mappings else {}
        return TopicsSnapshot(configs, topics.version, self._settings.current.permission, infos)

    def _config_changed(self, changes: Mapping[str, Value]) -> None:
        if self.parts is not None and not self._is_closing:
            apply_changes(self.parts, changes)

    async def _catch_up(self, *, with_users: bool = False) -> None:
        if self._synchronize is not None and self._housekeeping is not None:
            await self._housekeeping.find_master()
            await self._synchronize.catch_up(with_users=with_users)
