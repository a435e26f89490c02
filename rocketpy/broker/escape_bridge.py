"""Messages of a slave that stands in for its master go to another master of the cluster (enableRemoteEscape).
RocketMQ: EscapeBridge, TopicRouteInfoManager (5.3.3 broker/failover/, broker/topic/).

    native delivery, timers, revive ─ event fd ─► records ─┐
    native pops, acks ── checkpoints, acks ────────────────┤
                                                           ├─ put ─ route ─ SEND_MESSAGE ─► another master
    prepared messages (escaped_halves.py) ─────────────────┘

The part that gave a message gets an answer once another master has it or has refused it; the bridge itself gives nothing up. When no master
answers, or all are busy, the answer comes a second later, so that the masters are asked no oftener; it says nothing about the message.
When a master refuses a message for its content or its topic, the answer comes at once, and the part that gave the message sets it aside.
For a checkpoint or an ack of POP a request is waiting, so whatever became of it is told at once.

Threads  one event loop. Bounds: IN_FLIGHT messages, BYTES_IN_FLIGHT of their records and one more; ROUTES_MAX routes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from .._core.errors import InvalidArgument, NetworkError, NoMemory, RocketpyError, TooLarge
from .._core.results import Message
from .._core.store import decode_message
from ..awake_clock import monotonic_ms
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError
from ..remoting.headers import GetRouteInfoRequestHeader, GetSubscriptionGroupConfigRequestHeader
from ..remoting.route import TopicRoute
from ..repeated_warning import RepeatedWarning
from . import names
from .escaped_checkpoints import EscapedCheckpoints, NotThere, PopRecord
from .escaping_messages import Master, Place, choose, is_of_pop, other_masters, place_of, popped_topics, request_of, topics_to_ask
from .parts import Parts

log = logging.getLogger(__name__)

IN_FLIGHT: Final = 64
BYTES_IN_FLIGHT: Final = 8 << 20
ROUTES_MAX: Final = 1000
ROUTE_MS: Final = 5_000
NO_ROUTE_MS: Final = 1_000
FAILING_MS: Final = 3_000
KNOWING_MS: Final = 60_000
TIMEOUT_S: Final = 3.0
REFUSED_S: Final = 1.0
STORED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
BUSY: Final = (
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.FLOW_CONTROL,
)
"""Of a master, whatever it is sent."""
PASSED_ON: Final = 0
WAITS: Final = NetworkError.status
STUCK: Final = InvalidArgument.status
TELL_AGAIN_S: Final = 60.0


class Refused(Exception):
    """Why a message is not with another master; one that is not may be taken by nobody."""


class Stuck(Refused):
    """It is this message, or its topic; others may be taken."""


class NativeEscape(Protocol):
    """The part of Broker that is needed here."""

    @property
    def escape_fd(self) -> int: ...
    def take_escaping(self) -> tuple[int, bytes] | None: ...
    def settle_escaping(self, id: int, status: int) -> None: ...


@dataclass(frozen=True, slots=True)
class _Route:
    masters: tuple[Master, ...]
    until_ms: int


class EscapeBridge:
    """`start` before what it serves, `stop` behind that; `put` in between."""

    def __init__(self, parts: Parts, *, clock_ms: Callable[[], int] = monotonic_ms) -> None:
        self._parts = parts
        self._native: NativeEscape = parts.native
        self._clock_ms = clock_ms
        self._routes: dict[str, _Route] = {}
        self._failing: dict[str, int] = {}
        self._tasks: set[asyncio.Task[int]] = set()
        self._bytes = 0
        self._is_refused = self._is_started = False
        self._stuck = RepeatedWarning(log, self._clock_s, TELL_AGAIN_S)
        self._refused_pops = RepeatedWarning(log, self._clock_s, TELL_AGAIN_S)
        self._popped = EscapedCheckpoints()
        self._knowing: dict[tuple[str, str], int] = {}
        identity = parts.registration.identity
        self._own_group = f"InnerProducerGroup_{identity.broker_name}_{identity.broker_id}"
        self.passed_on = 0

    def start(self) -> None:
        self._is_started = True
        asyncio.get_running_loop().add_reader(self._native.escape_fd, self._read)

    async def stop(self) -> None:
        """Idempotent. Whoever waits for what was on its way has to be refused before."""
        self._is_started = False
        asyncio.get_running_loop().remove_reader(self._native.escape_fd)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def put(self, message: Message) -> int:
        """PASSED_ON: another master has it now; WAITS; STUCK."""
        try:
            await self._send(message)
        except (Stuck, TooLarge, InvalidArgument, ValueError) as error:
            self._tell_stuck(message, error)
            return STUCK
        except (Refused, RocketpyError, CommandError) as error:
            if not self._is_refused:
                log.warning("a message of topic %s cannot be passed on: %s; it is tried again, as others are", message.topic, error)
            self._is_refused = True
            await asyncio.sleep(REFUSED_S)
            return WAITS
        if self._is_refused:
            log.warning("messages are passed on again")
        self._is_refused = False
        self.passed_on += 1
        return PASSED_ON

    async def _put_of_pop(self, message: Message) -> int:
        try:
            record = PopRecord.read(message)
            self._forget_failures()
            place = Place(message.topic, message.queue_id)
            masters = await self._masters_of_pop(message.topic, record)
            noted = self._popped.place_of(record, masters)
            if noted is None:
                masters = await self._that_know(record.group, masters)
            chosen = noted or choose(masters, place, self._failing)
            if chosen is None:
                raise Stuck(f"no other master has topic {record.popped_topic} and group {record.group}, of which it is")
            if noted is not None and noted[0].address in self._failing:
                raise Refused(f"master {noted[0].broker_name}, which has the checkpoint, does not answer")
            await self._send_to(message, place, chosen)
            self._popped.note(record, chosen)
        except (Refused, NotThere, RocketpyError, CommandError, ValueError) as error:
            self._refused_pops.warning(
                "a checkpoint or an ack of popped messages cannot be passed on: %s; who pops or acks is refused", error
            )
            return STUCK if isinstance(error, (Stuck, ValueError)) else WAITS
        self.passed_on += 1
        return PASSED_ON

    async def _that_know(self, group: str, masters: tuple[Master, ...]) -> tuple[Master, ...]:
        """Those that have the group, or make it because they are asked: others would drop its checkpoints."""
        return tuple([master for master in masters if master.address not in self._failing and await self._knows(group, master)])

    async def _knows(self, group: str, master: Master) -> bool:
        known = master.address, group
        if self._knowing.get(known, 0) > self._clock_ms():
            return True
        header = GetSubscriptionGroupConfigRequestHeader(group=group)
        try:
            answer = await self._parts.client.invoke(master.address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header, timeout_s=TIMEOUT_S)
        except RocketpyError:
            self._failing[master.address] = self._clock_ms() + FAILING_MS
            return False
        if answer.code != ResponseCode.SUCCESS:
            return False
        if len(self._knowing) >= ROUTES_MAX:
            self._knowing.clear()
        self._knowing[known] = self._clock_ms() + KNOWING_MS
        return True

    def _forget_failures(self) -> None:
        now_ms = self._clock_ms()
        self._failing = {address: until_ms for address, until_ms in self._failing.items() if until_ms > now_ms}

    async def _masters_of_pop(self, revive_topic: str, record: PopRecord) -> tuple[Master, ...]:
        """Those that have the popped topic, too: others would not know what to do with the record."""
        named = {master.broker_name for master in await self._masters_that_have(record.popped_topic)}
        return tuple(master for master in await self._masters_that_have(revive_topic) if master.broker_name in named)

    async def _masters_that_have(self, topic: str) -> tuple[Master, ...]:
        key = f"{topic} itself"  # no topic's name
        known = self._routes.get(key)
        if known is not None and known.until_ms > self._clock_ms():
            return known.masters
        return self._keep_route(key, await self._fetch(topic))

    def _tell_stuck(self, message: Message, error: Exception) -> None:
        self._stuck.warning(
            "a message of topic %s cannot be passed on: %s; it is set aside and tried again, less and less", message.topic, error
        )

    def _clock_s(self) -> float:
        return self._clock_ms() / 1000

    # ---- from the native services ----

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._native.escape_fd)
        self._take()

    def _take(self) -> None:
        while self._is_started and len(self._tasks) < IN_FLIGHT and self._bytes < BYTES_IN_FLIGHT:
            try:
                taken = self._native.take_escaping()
            except NoMemory:
                asyncio.get_running_loop().call_later(REFUSED_S, self._take)
                return
            if taken is None:
                return
            number, record = taken
            task = asyncio.create_task(self._pass_on(record), name="message to another master")
            self._tasks.add(task)
            self._bytes += len(record)
            task.add_done_callback(functools.partial(self._settle, number, len(record)))

    async def _pass_on(self, record: bytes) -> int:
        try:
            message = decode_message(record)
            if is_of_pop(message.topic):
                return await self._put_of_pop(message)
            if place_of(message) is not None:
                return await self.put(message)
        except RocketpyError as error:
            log.error("a message cannot be passed on: %s", error)
            return WAITS
        log.error("a message is not passed on: its properties name no queue that it may go to")
        return TooLarge.status

    def _settle(self, number: int, size: int, task: asyncio.Task[int]) -> None:
        """Not at the end of _pass_on: of one that is cancelled in the turn that it came in nothing is run."""
        self._tasks.discard(task)
        self._bytes -= size
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a message cannot be passed on", exc_info=error)
        self._native.settle_escaping(number, WAITS if task.cancelled() or error is not None else task.result())
        self._take()

    # ---- to another master ----

    async def _send(self, message: Message) -> None:
        place = place_of(message)
        if place is None:
            raise Stuck("its properties name no queue that it may go to")
        self._forget_failures()
        chosen = choose(await self._masters(place.topic), place, self._failing)
        if chosen is None:
            refusal = Stuck if await self._masters(names.SELF_TEST_TOPIC) else Refused
            raise refusal(f"no other master takes messages of topic {place.topic}")
        await self._send_to(message, place, chosen)

    async def _send_to(self, message: Message, place: Place, chosen: tuple[Master, int]) -> None:
        master, queue_id = chosen
        header = request_of(message, place, queue_id, master.broker_name, self._own_group)
        try:
            answer = await self._parts.client.invoke(master.address, RequestCode.SEND_MESSAGE, header, message.body, timeout_s=TIMEOUT_S)
        except RocketpyError:
            self._failing[master.address] = self._clock_ms() + FAILING_MS
            raise
        if answer.code not in STORED or "msgId" not in answer.fields:
            self._routes.pop(place.topic, None)
            raise (Refused if answer.code in BUSY else Stuck)(
                f"master {master.broker_name} at {master.address} answers {answer.code}, {answer.remark}"
            )

    async def _masters(self, wanted: str) -> tuple[Master, ...]:
        """That take messages of the topic."""
        known = self._routes.get(wanted)
        if known is not None and known.until_ms > self._clock_ms():
            return known.masters
        masters: tuple[Master, ...] = ()
        popped = popped_topics(wanted, self._parts.groups.__contains__, self._parts.topics.__contains__)
        for topic in topics_to_ask(wanted, popped):
            masters = await self._fetch(topic)
            if masters:
                if topic in popped:  # the retry topic is made by what is sent to it, and a queue of this number may not be there then
                    masters = tuple(replace(master, queues=(0,)) for master in masters)
                break
        return self._keep_route(wanted, masters)

    def _keep_route(self, key: str, masters: tuple[Master, ...]) -> tuple[Master, ...]:
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        self._routes[key] = _Route(masters, self._clock_ms() + (ROUTE_MS if masters else NO_ROUTE_MS))
        return masters

    async def _fetch(self, topic: str) -> tuple[Master, ...]:
        parts, header = self._parts, GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        for address in list(parts.registration.name_servers):
            try:
                answer = await parts.client.invoke(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_s=TIMEOUT_S)
            except RocketpyError:
                continue
            if answer.code == ResponseCode.SUCCESS:
                return other_masters(TopicRoute.decode(answer.body), parts.registration.identity.broker_name)
        return ()
