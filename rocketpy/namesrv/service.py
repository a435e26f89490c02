"""A running name server: native listener, tables, and the timer that notices silent brokers.
RocketMQ: NamesrvController, BrokerHousekeepingService, BatchUnregistrationService (5.3.3 namesrv/).

    listener ─ RemotingService ─ NamesrvRequests ─ RouteInfo, KvConfig
       │ closed connection ──┐
    scan timer ─ silence ────┼─► departures ─ next loop turn ─► RouteInfo.unregister_brokers ─► notices ─► brokers
    UNREGISTER_BROKER ───────┘

The departures of one turn of the loop are processed together, so that a cluster that goes down costs one pass over the tables; those of one
broker name always are, so that nobody is told of a state in between.
Threads  one event loop beside the reactors. Bounds: unRegisterBrokerQueueCapacity departures waiting, then SYSTEM_ERROR for who asks; of
closed connections and of silence one for each registration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from .._core.errors import RocketpyError
from .._core.remoting import LogTap, Request, Server
from ..awake_clock import AwakeClock, monotonic_ms
from ..config import Config, StoredConfig, Value
from ..remoting.client import RemotingClient
from ..remoting.codes import RequestCode
from ..remoting.headers import NotifyMinBrokerIdChangeRequestHeader
from ..remoting.listener_options import few_reactors, server_options
from ..remoting.service import RemotingService
from ..remoting.tls import ListenerTls, client_context, tls_settings
from .events import Departure, MinBrokerIdNotice, RouteSettings
from .kv_config import ORDER_TOPIC_CONFIG, KvConfig
from .requests import Effects, NamesrvRequests, request_settings
from .route_info import RouteInfo

log = logging.getLogger(__name__)

NOTIFY_TIMEOUT_S = 0.3
NOTIFICATIONS_MAX = 1024
DEPARTED_TOPICS_MAX = 5000
"""Of brokers that go in one turn of the loop, some ten milliseconds."""


class NameServer:
    """The name server: `server = NameServer(load_config("namesrv", file)); await server.start(); … await server.stop()`."""

    def __init__(self, config: Config, *, log_tap: LogTap | None = None) -> None:
        self.config = config
        self.kv_config = KvConfig(config.text("kvConfigPath"), self._kv_changed)
        self._clock = AwakeClock()
        self.routes = RouteInfo(_route_settings(config), self._clock, self._order_conf)
        self._log_tap = log_tap
        self._stored_config = StoredConfig(config, Path(config.text("configStorePath")))
        self._departures_max = config.integer("unRegisterBrokerQueueCapacity")
        self._order_in_routes = config.boolean("orderMessageEnable")
        self._requests: NamesrvRequests | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._service: RemotingService | None = None
        self._client: RemotingClient | None = None
        self._tls: ListenerTls | None = None
        self._timers: list[asyncio.Task[None]] = []
        self._departures: dict[Departure, None] = {}
        self._notifications: set[asyncio.Task[None]] = set()
        self._started_ms = 0
        config.subscribe(self._config_changed)

    @property
    def port(self) -> int:
        """The port listened on; 0 before start."""
        return self._server.port if self._server is not None else 0

    def stats(self) -> dict[str, int]:
        """Sizes of the tables and the listener's counters."""
        figures = self.routes.counts()
        if self._server is not None and self._service is not None:
            figures |= self._server.stats()
            figures["requests_rejected_tasks"] = self._service.busy_rejections
        return figures

    async def start(self) -> None:
        """Binds, listens and answers. Raises NetworkError when the port is taken."""
        self.kv_config.load()
        self._loop = asyncio.get_running_loop()
        self._started_ms = monotonic_ms()
        config = self.config
        tls = tls_settings(config)
        client_tls = client_context(config, tls)
        server = self._server = Server(
            log=self._log_tap, **server_options(config, config.integer("listenPort"), reactors=few_reactors(config), thread_name="namesrv")
        )
        self._tls = ListenerTls(tls, [server])
        await self._tls.start()
        config.override("listenPort", server.port)
        self._client = RemotingClient(connect_timeout_s=config.integer("connectTimeoutMillis") / 1000, tls=client_tls)
        requests = self._requests = NamesrvRequests(
            config,
            self.routes,
            self.kv_config,
            Effects(self._notify, self._unregister, self._stored_config.store),
            lambda: monotonic_ms() - self._started_ms,
        )
        self._service = RemotingService(server, requests.handlers, on_closed=self._connection_closed)
        self._service.start()
        server.start()
        scan_s = config.integer("scanNotActiveBrokerInterval") / 1000
        create = self._loop.create_task
        self._timers = [
            create(self._clock.keep(), name="keep the clock"),
            create(self._scan_for_ever(scan_s), name="scan not active brokers"),
        ]

    async def stop(self) -> None:
        """Stops listening, then everything else. Idempotent."""
        timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()
        if timers:
            await asyncio.wait(timers)
        if self._tls is not None:
            await self._tls.stop()
            self._tls = None
        if self._service is not None:
            await self._service.stop()
            self._service = None
        for task in self._notifications:
            task.cancel()
        if self._notifications:
            await asyncio.wait(self._notifications)
        if self._client is not None:
            await self._client.stop()
            self._client = None
        if self._server is not None:
            server, self._server = self._server, None
            await asyncio.get_running_loop().run_in_executor(None, server.close)

    # ---- brokers that go ----

    def _connection_closed(self, event: Request) -> None:
        if self._requests is not None:
            self._requests.turns.connection_closed(event.connection_id)
        for departure in self.routes.departures_of_connection(event.connection_id):
            log.info("the broker's channel destroyed, submit the unregister request at once, broker info: %s", departure)
            self._depart(departure)

    def _unregister(self, departure: Departure) -> bool:
        """Of a broker that asks for it. False: too many wait."""
        if len(self._departures) >= self._departures_max:
            return False
        self._depart(departure)
        return True

    def _depart(self, departure: Departure) -> None:
        if not self._departures:
            asyncio.get_running_loop().call_soon(self._take_out_departures)
        self._departures[departure] = None

    def _take_out_departures(self) -> None:
        """Of as many broker names as have DEPARTED_TOPICS_MAX topics together, or of one; the others after who else asks: a network that
        breaks takes hundreds of brokers with thousands of topics at once."""
        topics, names = 0, set[str]()
        for departure in self._departures:
            if topics >= DEPARTED_TOPICS_MAX:
                break
            if departure.broker_name not in names:
                names.add(departure.broker_name)
                topics += self.routes.topic_count(departure.broker_name)
        departures = [departure for departure in self._departures if departure.broker_name in names]
        for departure in departures:
            del self._departures[departure]
        if self._departures:
            asyncio.get_running_loop().call_soon(self._take_out_departures)
        self._notify(self.routes.unregister_brokers(departures))

    async def _scan_for_ever(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                self.scan_not_active_brokers()
            except Exception:  # outer edge: the next scan must come
                log.exception("scanNotActiveBroker exception")

    def scan_not_active_brokers(self) -> None:
        """Removes brokers that have been silent for too long, and closes their connections."""
        for departure, connection_id in self.routes.departures_by_silence():
            if self._server is not None:
                self._server.close_connection(connection_id)
            self._depart(departure)

    # ---- telling brokers ----

    def _notify(self, notices: Iterable[MinBrokerIdNotice]) -> None:
        for notice in notices:
            log.info(
                "min broker id changed to %d, notify %s, offline broker addr %s",
                notice.min_broker_id,
                notice.targets,
                notice.offline_address,
            )
            header = NotifyMinBrokerIdChangeRequestHeader(
                min_broker_id=notice.min_broker_id,
                broker_name=notice.broker_name,
                min_broker_addr=notice.min_broker_address,
                offline_broker_addr=notice.offline_address,
                ha_broker_addr=notice.ha_address,
            )
            for address in notice.targets:
                if len(self._notifications) >= NOTIFICATIONS_MAX:
                    log.warning("%d notifications under way: %s is not told", NOTIFICATIONS_MAX, address)
                    continue
                task = asyncio.get_running_loop().create_task(self._notify_one(address, header), name=f"notify {address}")
                self._notifications.add(task)
                task.add_done_callback(self._notifications.discard)

    async def _notify_one(self, address: str, header: NotifyMinBrokerIdChangeRequestHeader) -> None:
        if self._client is None:
            return
        try:
            await self._client.invoke_oneway(address, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header, timeout_s=NOTIFY_TIMEOUT_S)
        except RocketpyError as error:
            log.warning("notify %s of its group's least broker id failed: %s", address, error)

    # ---- configuration ----

    def _order_conf(self, topic: str) -> str | None:
        return self.kv_config.get(ORDER_TOPIC_CONFIG, topic) if self._order_in_routes else None

    def _kv_changed(self, namespace: str) -> None:
        """Called in the thread that has stored the change."""
        if namespace == ORDER_TOPIC_CONFIG and self._loop is not None:
            self._loop.call_soon_threadsafe(self.routes.forget_encoded_routes)

    def _config_changed(self, changes: Mapping[str, Value]) -> None:
        self._order_in_routes = self.config.boolean("orderMessageEnable")
        self.routes.set_settings(_route_settings(self.config))
        if self._requests is not None:
            self._requests.settings = request_settings(self.config)


def _route_settings(config: Config) -> RouteSettings:
    return RouteSettings(
        support_acting_master=config.boolean("supportActingMaster"),
        delete_unlisted_topics=config.boolean("deleteTopicWithBrokerRegistration"),
        notify_min_broker_id=config.boolean("notifyMinBrokerIdChanged"),
    )
