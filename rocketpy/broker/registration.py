"""Keeping every name server informed: all topics at the start and every 30 s, a changed topic at once, heartbeats, and goodbye.
RocketMQ: BrokerController.registerBrokerAll, registerIncrementBrokerData, BrokerOuterAPI (5.3.3 broker/), RegisterBrokerBody (remoting/).

    start, topic change, timer, new list ─► one worker ─► REGISTER_BROKER to every name server at once ─► master address, order topics

A name server with deleteTopicWithBrokerRegistration takes every REGISTER_BROKER for the broker's whole list of topics and forgets all
others. For such a name server, enableSingleTopicRegister sends a changed topic by REGISTER_TOPIC_IN_NAMESRV, which leaves the others alone.

Requests of any number of callers are merged: while one registration is under way, the topics that change meanwhile travel together in the
next. A name server that failed is tried again after 1, 2, 4, … 10 s instead of waiting for the period: a broker must not stay unknown for
half a minute because it started first. Bounds: one registration in flight per name server.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from .._core.errors import NetworkError, RocketpyError
from .._core.remoting import Command
from ..remoting.bodies import PERM_READ, PERM_WRITE, DataVersion, RegisterBrokerBody, TopicConfig
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import Fields
from ..remoting.headers import (
    BrokerHeartbeatRequestHeader,
    HeaderError,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicRequestHeader,
    UnRegisterBrokerRequestHeader,
)
from ..remoting.json_codec import read_json
from ..remoting.route import QueueData, TopicRoute
from ..threads import leave_signals
from .addresses import Identity
from .callers import GroupCaller
from .topic_texts import TopicTexts

log = logging.getLogger(__name__)

RETRY_MAX_S = 10.0
UNREGISTER_TIMEOUT_S = 1.0
SINGLE_TOPIC_TIMEOUT_S = 3.0
START_WAIT_S = 3.0
TOPICS_AT_ONCE = 1000
"""A body of more is written beside the event loop: the texts of 20,000 topics that are new, as at a start, take 144 ms."""


@dataclass(frozen=True, slots=True)
class RegistrationSettings:
    """How the broker registers, and how often."""

    period_s: float = 30.0
    timeout_s: float = 24.0
    compressed: bool = False
    force: bool = True
    acting_master: bool = False
    heartbeat_interval_s: float = 1.0
    heartbeat_timeout_s: float = 1.0
    not_active_timeout_ms: int = 10_000
    split_size: int = 0
    """Topics of one request; 0: all in one."""
    single_topics: bool = False
    """Whether a changed topic is told by a request of its own instead of a registration that holds nothing else."""


@dataclass(frozen=True, slots=True)
class RegisterResult:
    """What one name server knows about the brokers of our name."""

    name_server: str
    master_address: str | None
    ha_address: str | None
    order_topics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicsSnapshot:
    """The topics to register and their version, at one moment."""

    configs: tuple[TopicConfig, ...]
    version: DataVersion
    broker_permission: int
    queue_mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The mappings of the static topics among them."""

    def part(self, begin: int, end: int) -> TopicsSnapshot:
        configs = self.configs[begin:end]
        mappings = {each.topic_name: mapping for each in configs if (mapping := self.queue_mappings.get(each.topic_name)) is not None}
        return replace(self, configs=configs, queue_mappings=mappings)


def registered_topic(config: TopicConfig, broker_permission: int) -> TopicConfig:
    """A topic as name servers see it: a broker that may not be written or read takes that permission from all its topics."""
    if broker_permission & PERM_READ and broker_permission & PERM_WRITE:
        return config
    return replace(config, perm=config.perm & broker_permission)


def register_body(snapshot: TopicsSnapshot, texts: TopicTexts, *, compressed: bool = False) -> bytes:
    """The body of REGISTER_BROKER. Where it tells the topics as they are, their texts are kept from one to the next: tens of thousands of
    topics are told every 30 s, and hardly one has changed."""
    topics = {config.topic_name: registered_topic(config, snapshot.broker_permission) for config in snapshot.configs}
    if compressed or any(topics[config.topic_name] is not config for config in snapshot.configs):
        return RegisterBrokerBody(topics, snapshot.version, queue_mappings=snapshot.queue_mappings).encode(compressed=compressed)
    others = RegisterBrokerBody({}, snapshot.version, queue_mappings=snapshot.queue_mappings).encode()
    return others.replace(b'"topicConfigTable":{}', b'"topicConfigTable":' + texts.table(topics.values()).encode(), 1)


def topic_body(config: TopicConfig, broker_name: str, broker_permission: int) -> bytes:
    """The body of REGISTER_TOPIC_IN_NAMESRV: the topic's queues on this broker."""
    topic = registered_topic(config, broker_permission)
    queues = QueueData(broker_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag)
    return TopicRoute((queues,), ()).encode(standard=True)


async def _beside(write: Callable[[], bytes]) -> bytes:
    """On a thread of its own: all of the shared ones may wait for a disk, and a broker whose disk hangs is registered all the same, as is
    one whose system has no more threads to give."""
    executor = ThreadPoolExecutor(1, "register-body", leave_signals)
    try:
        written = asyncio.get_running_loop().run_in_executor(executor, write)
    except RuntimeError:
        return write()
    finally:
        executor.shutdown(wait=False)  # it ends behind its work
    return await written


def body_crc32(body: bytes) -> int:
    """CRC-32 without its sign bit, as RocketMQ keeps it in an int."""
    return zlib.crc32(body) & 0x7FFFFFFF


class Registration:
    """One broker's registration with its name servers. `start`, then `stop`, which also unregisters."""

    def __init__(
        self,
        client: GroupCaller,
        identity: Identity,
        settings: RegistrationSettings,
        snapshot: Callable[[Iterable[str] | None], TopicsSnapshot],
        on_result: Callable[[RegisterResult], None] = lambda result: None,
        name_servers: Iterable[str] = (),
        texts: TopicTexts | None = None,
    ) -> None:
        self._client = client
        self.identity = identity
        self._settings = settings
        self._snapshot = snapshot
        self._on_result = on_result
        self._texts = texts or TopicTexts()
        self.name_servers: list[str] = list(name_servers)
        self.registered: dict[str, bool] = {}
        self._has_told = False  # a broker that never registered has nothing to take back: the address may be somebody else's
        self.is_isolated = False
        """An isolated broker keeps quiet: its group decides first who is master (controller mode)."""
        self._lock = asyncio.Lock()
        self._lost = asyncio.Event()  # a name server that knew us has failed: do not sleep out the period
        self._left: set[str] = set()  # whose connection has ended since they were asked last: what they answered is of before
        self._changed: set[str] = set()
        self._waiting: asyncio.Task[None] | None = None
        self._told: asyncio.Future[None] | None = None  # done when what is in _changed now has been told
        self._tasks: list[asyncio.Task[object]] = []
        self._announcing: set[asyncio.Task[object]] = set()

    def why_nowhere(self) -> str:
        """Why clients cannot find this broker; empty if a name server has it."""
        if any(self.registered.values()):
            return ""
        return f"registered with none of the name servers: {', '.join(self.name_servers) or 'none is configured'}"

    def apply(self, settings: RegistrationSettings) -> None:
        """Takes settings that changed at run time. They count from the next registration on."""
        self._settings = settings

    async def start(self) -> None:
        """Registers with every name server, then again and again. Name servers that do not answer do not make the start fail."""
        first: asyncio.Task[object] = asyncio.create_task(self.register_all(), name="first registration")
        try:
            await asyncio.wait({first}, timeout=START_WAIT_S)
        finally:  # also where this start is given up: stop ends it before it unregisters
            if not first.done():
                self._tasks.append(first)
        if not first.done():
            log.warning("a name server of %s did not answer within %g s; the broker starts without it", self.name_servers, START_WAIT_S)
        self._tasks.append(asyncio.create_task(self._run(), name="registration"))
        if self._settings.acting_master:
            self._tasks.append(asyncio.create_task(self._run_heartbeats(), name="broker heartbeat"))

    async def stop(self) -> None:
        """Ends the tasks and, where anything was ever registered, unregisters everywhere. Idempotent."""
        tasks: list[asyncio.Task[object]] = [*self._tasks, *self._announcing]
        if self._waiting is not None:
            tasks.append(self._waiting)
        self._tasks, self._waiting = [], None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # one that had failed is no reason to stay registered
        if self._has_told:
            await self.unregister_all()

    async def register_all(self, *, is_forced: bool = False) -> dict[str, RegisterResult | RocketpyError]:
        """Tells every name server about every topic. With forceRegister=false, and unless is_forced, only those are told that do not know
        all of them."""
        if self.is_isolated:
            log.info("Skip register for broker is isolated")
            return {}
        self._has_told = True
        async with self._lock:
            self._changed.clear()
            targets = self.name_servers if is_forced or self._settings.force else await self._outdated()
            results: dict[str, RegisterResult | RocketpyError] = {}
            failed: dict[str, RocketpyError] = {}
            for part in self._parts(self._snapshot(None)):
                results = await self._register(targets, part)
                failed |= {address: result for address, result in results.items() if isinstance(result, RocketpyError)}
            for address in failed.keys() & set(self.name_servers):  # whichever part it missed: it does not know all topics
                self.registered[address] = False
            return results | failed

    def lost(self, address: str) -> None:
        """The connection to a server has ended. A name server that was restarted, or that took this for our end, does not know us any
        more."""
        if address in self.name_servers:
            self._left.add(address)
        if self.registered.get(address):
            log.warning("the connection to name server %s was lost: registering again", address)
            self.registered[address] = False
            self._lost.set()

    async def topics_changed(self, topics: Iterable[str], *, wait_s: float = 3.0) -> None:
        """Tells every name server these topics; returns when they know, or after wait_s when one of them is slow."""
        if self.announce(topics):
            assert self._told is not None
            await asyncio.wait({self._told}, timeout=wait_s)

    def announce(self, topics: Iterable[str]) -> bool:
        """As topics_changed, without waiting. False if there is nobody to tell."""
        if self.is_isolated or not self.name_servers:
            return False
        self._changed.update(topics)
        if self._told is None:
            self._told = asyncio.get_running_loop().create_future()
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.create_task(self._register_changed(), name="register changed topics")
        return True

    def announce_all(self, name_servers: Iterable[str] | None = None) -> None:
        """Tells all name servers everything soon, and first takes over the new list if there is one. `settled` waits for it."""
        work = self.register_all() if name_servers is None else self.set_name_servers(name_servers)
        task: asyncio.Task[object] = asyncio.create_task(work, name="register everything")
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def settled(self, wait_s: float = 3.0) -> None:
        """Returns when what was announced is known, or after wait_s if a name server is slow."""
        if self._announcing:
            await asyncio.wait(self._announcing, timeout=wait_s)

    async def set_name_servers(self, addresses: Iterable[str]) -> None:
        """Takes a new list. Name servers that are not on it any more get an unregistration, all others get everything."""
        new = list(addresses)
        gone = [address for address in self.name_servers if address not in new]
        self.name_servers = new
        log.info("Set user specified name server address: %s", ";".join(new))
        if gone:
            await self._unregister(gone)
        await self.register_all()

    async def unregister_all(self) -> None:
        await self._unregister(self.name_servers)

    def _parts(self, snapshot: TopicsSnapshot) -> Iterable[TopicsSnapshot]:
        size = self._settings.split_size or max(1, len(snapshot.configs))
        for begin in range(0, max(1, len(snapshot.configs)), size):
            yield snapshot.part(begin, begin + size)

    async def _register_changed(self) -> None:
        """In rounds: what changes during one travels in the next, and nobody waits for a later round than that of his change."""
        self._has_told = True
        while self._told is not None:
            async with self._lock:
                topics, self._changed = self._changed, set()
                told, self._told = self._told, None
                try:
                    if topics:
                        await self._register_some(self._snapshot(topics))
                finally:
                    if not told.done():
                        told.set_result(None)

    async def _register_some(self, snapshot: TopicsSnapshot) -> None:
        """Static topics by a registration in any case: it alone tells their queue mappings, and for it no name server forgets others."""
        if not self._settings.single_topics:
            await self._register(self.name_servers, snapshot)
            return
        static = tuple(config for config in snapshot.configs if config.topic_name in snapshot.queue_mappings)
        if static:
            await self._register(self.name_servers, replace(snapshot, configs=static))
        await self._register_topics(replace(snapshot, configs=tuple(config for config in snapshot.configs if config not in static)))

    async def _register_topics(self, snapshot: TopicsSnapshot) -> None:
        """Each topic by itself. A name server that misses one learns it with the next registration of all."""
        for config in snapshot.configs:
            answers = await self._client.invoke_all(
                self.name_servers,
                RequestCode.REGISTER_TOPIC_IN_NAMESRV,
                RegisterTopicRequestHeader(topic=config.topic_name),
                topic_body(config, self.identity.broker_name, snapshot.broker_permission),
                timeout_s=SINGLE_TOPIC_TIMEOUT_S,
            )
            for address, answer in answers.items():
                if isinstance(answer, RocketpyError):
                    log.warning("Register single topic %s to name server %s: %s", config.topic_name, address, answer)
                elif answer.code != ResponseCode.SUCCESS:
                    log.warning("Register single topic %s to name server %s: %d %s", config.topic_name, address, answer.code, answer.remark)

    async def _register(self, targets: Iterable[str], snapshot: TopicsSnapshot) -> dict[str, RegisterResult | RocketpyError]:
        settings = self._settings
        write = functools.partial(register_body, snapshot, self._texts, compressed=settings.compressed)
        is_long = len(snapshot.configs) > TOPICS_AT_ONCE
        body = await _beside(write) if is_long else write()
        identity = self.identity
        header = RegisterBrokerRequestHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            heartbeat_timeout_millis=settings.not_active_timeout_ms if settings.acting_master else None,
            enable_acting_master=settings.acting_master,
            compressed=settings.compressed,
            body_crc32=body_crc32(body),
        )
        answers = await self._ask(targets, RequestCode.REGISTER_BROKER, header, body)
        results = {address: self._result(address, answer) for address, answer in answers.items()}
        known = [result for result in results.values() if isinstance(result, RegisterResult)]
        if known:  # one speaks for all, as in RocketMQ; of a slave's, one that knows its master: others may have lost sight of that
            self._on_result(next((result for result in known if result.master_address), known[0]))
        return results

    async def _ask(self, targets: Iterable[str], code: RequestCode, fields: Fields, body: bytes) -> Mapping[str, Command | RocketpyError]:
        """All of them at once: one that has answered may have gone by the time that the last does. Whoever is taken off the list meanwhile
        is told that the broker leaves: a request behind that would bring it back, and what he answers does not count."""
        asked = [address for address in targets if address in self.name_servers]
        self._left -= set(asked)
        answers = await self._client.invoke_all(asked, code, fields, body, timeout_s=self._settings.timeout_s)
        answers = {address: answer for address, answer in answers.items() if address in self.name_servers}
        gone = {address: NetworkError(f"the connection to {address} ended behind its answer") for address in answers.keys() & self._left}
        return {**answers, **gone}

    def _result(self, address: str, answer: Command | RocketpyError) -> RegisterResult | RocketpyError:
        try:
            if isinstance(answer, RocketpyError):
                raise answer
            if answer.code != ResponseCode.SUCCESS:
                raise RocketpyError(f"CODE: {answer.code}  DESC: {answer.remark}")
            header = RegisterBrokerResponseHeader.decode(answer.fields)
            result = RegisterResult(address, header.master_addr, header.ha_server_addr, _order_topics(answer.body))
        except (RocketpyError, HeaderError, ValueError) as error:
            if self.registered.get(address) is not False:
                self._lost.set()
                log.error("Failed to register current broker to name server. TargetHost=%s: %s", address, error)
            self.registered[address] = False
            return error if isinstance(error, RocketpyError) else RocketpyError(str(error))
        if not self.registered.get(address):
            log.info("register broker[%d] to name server %s OK", self.identity.broker_id, address)
        self.registered[address] = True
        return result

    async def _outdated(self) -> list[str]:
        """Name servers whose copy of our topics is not the newest, or who could not say. The others know us, also one that was away."""
        header = QueryDataVersionRequestHeader(
            broker_name=self.identity.broker_name,
            broker_addr=self.identity.address,
            cluster_name=self.identity.cluster_name,
            broker_id=self.identity.broker_id,
        )
        body = self._snapshot(()).version.encode()
        answers = await self._ask(self.name_servers, RequestCode.QUERY_DATA_VERSION, header, body)
        outdated = [address for address, answer in answers.items() if _is_outdated(answer)]
        self.registered |= dict.fromkeys(answers.keys() - set(outdated), True)
        return outdated

    async def _unregister(self, targets: Iterable[str]) -> None:
        header = UnRegisterBrokerRequestHeader(
            broker_name=self.identity.broker_name,
            broker_addr=self.identity.address,
            cluster_name=self.identity.cluster_name,
            broker_id=self.identity.broker_id,
        )
        answers = await self._client.invoke_all(targets, RequestCode.UNREGISTER_BROKER, header, timeout_s=UNREGISTER_TIMEOUT_S)
        for address, answer in answers.items():
            self.registered.pop(address, None)
            if isinstance(answer, RocketpyError):
                log.warning("unregisterBroker Exception, NamesrvAddr: %s, %s", address, answer)
            else:
                log.info("unregisterBroker OK, NamesrvAddr: %s", address)

    def _delay_s(self, attempt: int) -> float:
        """Seconds until the next registration: the period, or less while a name server does not know us."""
        period = min(60.0, max(10.0, self._settings.period_s))
        missing = any(not self.registered.get(address) for address in self.name_servers)
        return min(period, RETRY_MAX_S, float(1 << min(attempt, 4))) if missing else period

    async def _run(self) -> None:
        attempt = 0
        while True:
            self._lost.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._delay_s(attempt)):
                    await self._lost.wait()
                    attempt = 0
                    continue
            try:
                await self.register_all()
            except Exception:  # outer edge of the task: the next period tries again
                log.exception("registerBrokerAll Exception")
            missing = any(not self.registered.get(address) for address in self.name_servers)
            attempt = attempt + 1 if missing else 0

    async def _run_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_s)
            if self.is_isolated:
                continue
            header = BrokerHeartbeatRequestHeader(
                cluster_name=self.identity.cluster_name,
                broker_addr=self.identity.address,
                broker_name=self.identity.broker_name,
                broker_id=self.identity.broker_id,
            )
            try:
                await self._client.invoke_all(
                    self.name_servers, RequestCode.BROKER_HEARTBEAT, header, timeout_s=self._settings.heartbeat_timeout_s
                )
            except Exception:  # outer edge of the task
                log.exception("sendHeartbeat Exception")


def _order_topics(body: bytes) -> dict[str, str]:
    """Topics of the ORDER_TOPIC_CONFIG namespace, which name servers may send along."""
    if not body:
        return {}
    value: Any = read_json(body)
    table = value.get("table") if isinstance(value, Mapping) else None
    return {str(topic): str(order) for topic, order in table.items()} if isinstance(table, Mapping) else {}


def _is_outdated(answer: Command | RocketpyError) -> bool:
    if isinstance(answer, RocketpyError) or answer.code != ResponseCode.SUCCESS:
        return True
    try:
        return QueryDataVersionResponseHeader.decode(answer.fields).changed
    except HeaderError:
        return True
