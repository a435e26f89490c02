"""The proxy's server: gRPC's methods in front of the activities. RocketMQ: GrpcServer, GrpcMessagingApplication (5.3.3 proxy/grpc/).

    client ── gRPC, clear or TLS ── port ──► activity ── remoting ──► brokers, name servers

Threads  one event loop; the ports' reactors beside it. Bounds: grpc_thread_pool_queue_capacity calls at once, more are answered
         TOO_MANY_REQUESTS.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from .._core.errors import NetworkError, RocketpyError
from .._core.remoting import Command, LogTap
from ..awake_clock import AwakeClock
from ..remoting.codes import RequestCode
from ..remoting.latencies import GRPC, Kind, Latencies
from . import schema
from .authority import Authority
from .brokers import Brokers
from .clients import Clients
from .context import Context
from .copied_users import LOOK_S, CopiedUsers
from .found_messages import FoundMessages
from .grpc_port import INTERNAL, INVALID_ARGUMENT, REACTORS, Call, CallError, GrpcPort, Method
from .lite import LiteSubscriptions
from .metrics_settings import exporter_of
from .native_calls import METHODS, NativeCalls, may_be_native
from .receiving import Receiving
from .remoting_port import RemotingPort
from .routing import Routing
from .sending import Sending, refusal
from .settings import NO_PORT, ProxySettings
from .status import ProxyError, status_of
from .telemetry import Telemetry
from .told import ENDS
from .transactions import Transactions

if TYPE_CHECKING:
    from ..metrics.exporters import Exporter
    from ..metrics.families import Scrape

log = logging.getLogger(__name__)

EXPIRE_S: Final = 10.0
GRACE_S: Final = 2
"""For calls under way when the proxy stops. What polls for messages polls on elsewhere."""
_CHECKS: Final[Mapping[str, str]] = {"authentication": "unauthenticated", "authorization": "unauthorized"}
Unary = Callable[[Context, Any], Awaitable[Any]]


class ProxyService:
    """One proxy. RocketpyError from start where its port cannot be had."""

    def __init__(self, settings: ProxySettings, *, log_tap: LogTap | None = None) -> None:
        self.settings = settings
        self._log_tap = log_tap
        self._clock = AwakeClock()
        self._clients = Clients(self._clock, settings.channel_expired_timeout, settings.kept_bytes_max)
        self._brokers: Brokers | None = None
        self._lite: LiteSubscriptions | None = None
        self._grpc: GrpcPort | None = None
        self.receiving: Receiving | None = None
        self.users: CopiedUsers | None = None
        self._authority: Authority | None = None
        self._remoting: RemotingPort | None = None
        self._metrics: Exporter | None = None
        self._exporter = exporter_of(settings)
        self._latencies = Latencies() if self._exporter.is_wanted else None
        self._tasks: list[asyncio.Task[None]] = []
        self.native: NativeCalls | None = None
        self._under_way = self._streams = 0
        self._stopping = asyncio.Lock()

    @property
    def port(self) -> int:
        """Where clients connect; 0 before the start."""
        return self._grpc.port if self._grpc is not None else 0

    @property
    def remoting_port(self) -> int:
        """Where 4.x clients connect; 0: nowhere."""
        return self._remoting.port if self._remoting is not None else 0

    @property
    def metrics_port(self) -> int:
        return self._metrics.port if self._metrics is not None else 0

    async def start(self) -> None:
        settings = self.settings
        client_id = f"{settings.proxy_name or socket.gethostname()}@{os.getpid()}"
        transactions = Transactions(settings, self._clients, client_id, self._known_brokers)

        def on_request(address: str, request: Command) -> None:
            if request.code == RequestCode.CHECK_TRANSACTION_STATE:
                transactions.check(address, request)
            elif request.code == RequestCode.NOTIFY_UNSUBSCRIBE_LITE:
                lite.unsubscribe(address, request)

        brokers = self._brokers = Brokers(settings, on_request)
        lite = self._lite = LiteSubscriptions(settings, brokers, self._clients)
        await self._begin_checks(brokers)
        users = self.users.native if self.users is not None else None
        native = self.native = NativeCalls(settings, brokers, REACTORS, users) if may_be_native(settings) else None
        if native is not None:
            brokers.tell_addresses(native.know_broker)
            self._clients.tell(native.know_client)
        found = None
        if self.users is not None and self._authority is not None:
            found = FoundMessages(settings, brokers, self.users, self._authority)
        self.receiving = Receiving(settings, brokers, self._clients, native, found)
        routing = Routing(settings, brokers)
        check = self._authority.check if self._authority is not None else None
        telemetry = Telemetry(settings, brokers, self._clients, transactions, lite, check)
        sending = Sending(settings, brokers, transactions, native)
        unary: dict[str, Unary] = {
            "SendMessage": sending.send_message,
            "AckMessage": self.receiving.ack_message,
            "ChangeInvisibleDuration": self.receiving.change_invisible_duration,
            "QueryRoute": routing.query_route,
            "QueryAssignment": routing.query_assignment,
            "Heartbeat": telemetry.heartbeat,
            "NotifyClientTermination": telemetry.notify_client_termination,
            "EndTransaction": sending.end_transaction,
            "RecallMessage": sending.recall_message,
            "ForwardMessageToDeadLetterQueue": self.receiving.forward_message_to_dead_letter_queue,
            "SyncLiteSubscription": lite.sync_lite_subscription,
        }
        methods = [self._unary(name, method, refusal if name == "SendMessage" else None) for name, method in unary.items()]
        methods.insert(list(METHODS).index("ReceiveMessage"), self._answers(self.receiving.receive_message))
        methods.append(self._both(telemetry))
        assert [method.name for method in methods[: len(METHODS)]] == list(METHODS)
        handler = native.handler if native is not None else None
        self._grpc = GrpcPort(settings, methods, handler, log_tap=self._log_tap)
        routing.port = self.port
        await self._grpc.start()
        if settings.remoting_listen_port != NO_PORT:
            self._remoting = RemotingPort(
                settings, brokers, self._clients, users, self._latencies, log_tap=self._log_tap, grpc_port=self.port, found=found
            )
            await self._remoting.start()
        self._open_metrics()
        receiving = self.receiving

        async def expire() -> None:
            self._clients.expire()
            transactions.expire()

        self._tasks += [
            asyncio.ensure_future(self._clock.keep()),
            asyncio.ensure_future(_every("heartbeats to brokers", settings.transaction_heartbeat_period_second, transactions.heartbeats)),
            asyncio.ensure_future(_every("renewals", settings.renew_schedule_period_millis / 1000, receiving.renew_due)),
            asyncio.ensure_future(_every("clients that are silent", EXPIRE_S, expire)),
        ]

    async def _begin_checks(self, brokers: Brokers) -> None:
        """Without users nobody is let in: they are copied before the first call, and again and again until there are some."""
        settings = self.settings
        if settings.credentials is not None and not settings.authentication_enabled:
            text = "authenticationEnabled is false: whoever comes by this proxy has the rights of %r at the brokers"
            log.warning(text, settings.credentials.access_key)
        if settings.credentials is None and settings.inner_client_authentication_credentials.strip():
            text = "innerClientAuthenticationCredentials are not used without enableAclRpcHookForClusterMode=true"
            log.warning("%s: requests of this proxy's own are not signed, and brokers that check refuse them", text)
        if not settings.checks:
            return
        if not settings.authentication_enabled:
            log.warning("authorizationEnabled=true without authenticationEnabled: whoever names a user has that user's rights")
        users = self.users = CopiedUsers(settings, brokers)
        self._authority = Authority(settings, users)
        await users.copy()
        self._tasks = [
            asyncio.ensure_future(_every("a copy of the users", max(1, settings.user_cache_refresh_seconds), users.copy)),
            asyncio.ensure_future(_every("a look at who was refused", LOOK_S, users.look_at_gate)),
        ]

    def _open_metrics(self) -> None:
        """Raises as make_exporter and Exporter.start."""
        settings, latencies = self.settings, self._latencies
        if latencies is None:
            return
        from ..metrics.exporters import make_exporter  # here: a tenth of a second that others need not wait for
        from .metrics import ProxyMetrics

        metrics = ProxyMetrics(settings, self._exporter, self._clients, latencies)
        if self.native is not None:
            metrics.native = self.native.latencies

        def read() -> Scrape:
            metrics.refusals = self._refusals()
            metrics.guests = len(self._remoting) if self._remoting is not None else 0
            return metrics.read()

        self._metrics = make_exporter(self._exporter, read)
        self._metrics.start()

    def _refusals(self) -> dict[str, int]:
        """By check, of both ports."""
        if self._authority is None or self.users is None:
            return {}
        calls, requests = self._authority.counts, self.users.native.stats()
        return {check: calls[figure] + requests[figure] for check, figure in _CHECKS.items()}

    async def stop(self) -> None:
        """Idempotent: streams end, calls under way have GRACE_S to be answered; then what clients had is let go. Who asks again waits."""
        async with self._stopping:
            await self._stop()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        metrics, self._metrics = self._metrics, None
        if metrics is not None:
            await metrics.stop()
        for client in self._clients:
            client.tell(ENDS)
        port, self._grpc = self._grpc, None
        if port is not None:
            await port.stop(max(0, min(self.settings.grpc_shutdown_time_seconds, GRACE_S)))
        remoting, self._remoting = self._remoting, None
        if remoting is not None:  # last: calls by gRPC come by its port, too
            await remoting.stop()
        brokers, self._brokers = self._brokers, None
        if self._lite is not None:
            await self._lite.stop()
        if brokers is not None and self.receiving is not None:
            await self.receiving.let_go()  # the native side knows what was acknowledged
        native, self.native = self.native, None
        if native is not None:
            self._clients.tell_nobody()
            native.close()
        if brokers is not None:
            await brokers.stop()
        users, self.users = self.users, None
        if users is not None:
            users.close()

    def _known_brokers(self) -> Brokers:
        if self._brokers is None:
            raise NetworkError("the proxy is stopping")
        return self._brokers

    # ---- calls ----

    async def _admit(self, context: Context, request: Any) -> None:
        """Raises ProxyError."""
        if self._under_way >= self.settings.grpc_thread_pool_queue_capacity:
            raise ProxyError("TOO_MANY_REQUESTS", "flow limit")
        if self._authority is not None:
            await self._authority.check(context, request)

    def _unary(self, name: str, method: Unary, refusal: Callable[[bytes], Any] | None) -> Method:
        response = schema.response_of(name)

        async def answer(request: Any, call: Call) -> Any:
            self._under_way += 1
            try:
                context = context_of(call)
                await self._admit(context, request)
                return await method(context, request)
            except Exception as error:  # outer edge: whatever it is becomes a status
                return response(status=status_of(error))
            finally:
                self._under_way -= 1

        async def timed(request: Any, call: Call) -> Any:
            assert self._latencies is not None
            began_s = time.monotonic()
            answered = await answer(request, call)
            took_ms = (time.monotonic() - began_s) * 1000
            self._latencies.add(Kind(GRPC, name, schema.label("Code", answered.status.code)), took_ms)
            return answered

        return Method(name, answer if self._latencies is None else timed, refusal=refusal)

    def _answers(self, method: Callable[[Context, Any], AsyncGenerator[Any, None]]) -> Method:
        response = schema.response_of("ReceiveMessage")

        async def answer(request: Any, call: Call) -> AsyncGenerator[Any, None]:
            self._under_way += 1
            began_s, code = time.monotonic(), 0
            try:
                context = context_of(call)
                await self._admit(context, request)
                async with aclosing(method(context, request)) as answers:
                    async for each in answers:
                        code = each.status.code or code
                        yield each
            except (ProxyError, RocketpyError) as error:
                status = status_of(error)
                code = status.code
                yield response(status=status)
            finally:
                self._under_way -= 1
                if self._latencies is not None:
                    took_ms = (time.monotonic() - began_s) * 1000
                    self._latencies.add(Kind(GRPC, "ReceiveMessage", schema.label("Code", code), True), took_ms)

        return Method("ReceiveMessage", answer, gives_stream=True)

    def _both(self, telemetry: Telemetry) -> Method:
        async def answer(requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
            self._streams += 1
            try:
                if self._streams > self.settings.grpc_thread_pool_queue_capacity:
                    raise ProxyError("TOO_MANY_REQUESTS", "flow limit")
                try:
                    context = context_of(call)
                except ProxyError as error:
                    async for _ in requests:  # the answer to its first command, as with RocketMQ's
                        yield schema.message("TelemetryCommand")(status=status_of(error))
                        return
                    return
                async with aclosing(telemetry.telemetry(context, requests)) as answers:
                    async for each in answers:
                        yield each
            except (ProxyError, RocketpyError) as error:
                code = INVALID_ARGUMENT if isinstance(error, ProxyError) else INTERNAL
                raise CallError(code, f"process client telemetryCommand failed. {error}") from error
            finally:
                self._streams -= 1

        return Method("Telemetry", answer, takes_stream=True, gives_stream=True)


async def _every(what: str, period_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """For as long as the proxy runs: a turn that fails is no reason to leave the next one out."""
    while True:
        await asyncio.sleep(period_s)
        try:
            await work()
        except Exception:  # outer edge of a task
            log.exception("%s failed; they are tried again in %g s", what, period_s)


def context_of(call: Call) -> Context:
    """Raises ProxyError."""
    return Context.of(call.metadata, call.client, call.remaining_s)
