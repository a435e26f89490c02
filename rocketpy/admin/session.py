"""One run of a command: its client, its name servers, its bounds, and what went wrong in it without ending it.

Threads  one event loop. Bounds: every request has timeout_s, from when it is sent; REQUESTS_MAX at once where a handler
         asks beside (beside.py).
Errors   AdminError of every request, with where and what; UsageError where name servers are needed and none was named.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from .._core.errors import RocketpyError, TimedOut
from .._core.remoting import Command
from ..broker.names import RETRY_PREFIX
from ..remoting.bodies import BodyError
from ..remoting.client import ConnectFailed, RemotingClient, split_address
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import Fields
from ..remoting.headers import GetRouteInfoRequestHeader
from ..remoting.json_codec import JsonError, read_json, write_json
from ..remoting.route import MASTER_ID, TopicRoute
from .cluster import ClusterInfo, address_of
from .command_line import Given
from .errors import AdminError, UsageError, refused, unanswered

T = TypeVar("T")

TIMEOUT_S, TIMEOUT_MAX_S = 5.0, 3600.0
SLOW_TIMES = 3
"""Requests that walk over all of a broker's groups may take so many times timeout_s (DefaultMQAdminExtImpl)."""
REQUESTS_MAX = 8
"""What a command has in flight at once: half as many as a broker of RocketMQ has threads for them (adminBrokerThreadPoolNums)."""
ANSWERS_MAX = 4096
"""How many routes are kept at most: a topic's are asked for one after another, those of retry topics again and again."""
WITH_B = " with -b and its address"
"""For a command that takes -b: the end of the advice how to do its work at a broker that it left out."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def read_answer(response: Command, address: str, code: int) -> Any:
    """The JSON of a response; None if it has none. Raises AdminError. Tables whose keys are queues are not standard JSON, and large."""
    try:
        return read_json(response.body, tolerant_max=None) if response.body else None
    except JsonError as error:
        raise AdminError(f"the answer cannot be read: {error}", address=address, request=code) from error


@dataclass
class Known:
    """What is known of the servers in this round; parts of a session share it."""

    answering: str = ""
    """The name server that answered last: it is asked first, so that one that is away is waited for once."""
    unreached: dict[str, AdminError] = field(default_factory=dict)
    """Addresses that could not be reached. They are not tried again: one that swallows packets would cost seconds for each queue, group or
    topic."""
    keeps_answers: bool = False
    answers: dict[tuple[int, str], asyncio.Task[Any]] = field(default_factory=dict)
    """By request and topic; those used last at the end."""
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(REQUESTS_MAX))

    def forget(self) -> None:
        self.unreached.clear()
        self.answers.clear()


@dataclass
class Session:
    client: RemotingClient
    name_servers: tuple[str, ...]
    timeout_s: float = TIMEOUT_S
    troubles: list[AdminError] = field(default_factory=list)
    """What failed at one place of several: each is said at the end, and the exit status is 1."""
    clock: Callable[[], int] = now_ms
    was_given: Callable[[str], bool] = lambda address: True
    """Whether a text stands on the command line: an error in one that does not is not wrong usage."""
    _noted: set[str] = field(default_factory=set)
    _known: Known = field(default_factory=Known)

    def part(self) -> Session:
        """A session for one of several places that are asked at once: its troubles are its own, until take_part."""
        return replace(self, troubles=[], _noted=set())

    def take_part(self, part: Session) -> None:
        """Records what failed in a part, where it is its turn."""
        for error in part.troubles:
            self.note(error)

    def keep_answers(self) -> None:
        """From now on a route, or who is in the clusters, is asked for once a round: for commands that ask about many topics or groups, and
        change nothing that these tell."""
        self._known.keeps_answers = True

    def note(self, error: AdminError) -> None:
        """Records what failed at one place. The same error is recorded once: a broker that is away fails for each of its groups."""
        if str(error) not in self._noted:
            self._noted.add(str(error))
            self.troubles.append(error)

    def take_troubles(self) -> list[AdminError]:
        """Returns the troubles so far and forgets them, which addresses could not be reached, and answers: a new round begins."""
        taken, self.troubles = self.troubles, []
        self._noted.clear()
        self._known.forget()
        return taken

    def try_again(self, address: str) -> None:
        """Lets the next request connect even if the last one could not."""
        self._known.unreached.pop(address, None)

    async def invoke(self, address: str, code: int, fields: Fields = None, body: bytes = b"", *, times: float = 1) -> Command:
        """The response, whatever its code. Raises AdminError, at once where this round has found nobody at the address; UsageError for an
        option that should be an address."""
        try:
            split_address(address)
        except RocketpyError as error:
            if self.was_given(address):
                raise UsageError(str(error)) from error
            remedy = "somebody registered under it; clusterList shows who"
            raise AdminError(str(error), remedy=remedy, address=address, request=code) from error
        async with self._known.slots:
            if address in self._known.unreached:
                raise self._known.unreached[address].with_traceback(None)
            try:
                return await self.client.invoke(address, code, fields, body, timeout_s=min(self.timeout_s, TIMEOUT_MAX_S) * times)
            except RocketpyError as error:
                failed = unanswered(address, code, error)
                if isinstance(error, ConnectFailed) or (isinstance(error, TimedOut) and not self.client.is_connected(address)):
                    failed = self._known.unreached.setdefault(address, failed)  # as told to who asks later
                raise failed from error

    async def call(self, address: str, code: int, fields: Fields = None, body: bytes = b"", *, times: float = 1) -> Command:
        """The response, which must be SUCCESS. Raises AdminError."""
        response = await self.invoke(address, code, fields, body, times=times)
        if response.code != ResponseCode.SUCCESS:
            raise refused(address, code, response.code, response.remark)
        return response

    async def value(self, address: str, code: int, fields: Fields = None, body: Any = None, *, times: float = 1) -> Any:
        """The JSON of a response; the body of the request is JSON, too. Raises AdminError."""
        response = await self.call(address, code, fields, b"" if body is None else write_json(body), times=times)
        return read_answer(response, address, code)

    async def members(self, address: str, code: int, fields: Fields = None, body: Any = None, *, times: float = 1) -> dict[str, Any]:
        """As value, for an answer that has to be an object; {} for an answer without a body. Raises AdminError."""
        value = await self.value(address, code, fields, body, times=times)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise AdminError(f"the answer is {type(value).__name__}, expected an object", address=address, request=code)
        return value

    # ---- name servers ----

    def named(self) -> tuple[str, ...]:
        """The name servers that were given. Raises UsageError."""
        if not self.name_servers:
            raise UsageError("name servers are needed: -n HOST:PORT, or NAMESRV_ADDR in the environment")
        return self.name_servers

    async def ask_name_server(self, code: int, fields: Fields = None) -> Command:
        """The response of the first name server that gives one. Raises AdminError, UsageError."""
        *others, last = sorted(self.named(), key=lambda address: address != self._known.answering)
        for address in others:
            try:
                return await self._ask_one(address, code, fields)
            except AdminError:
                continue
        return await self._ask_one(last, code, fields)

    async def _ask_one(self, address: str, code: int, fields: Fields) -> Command:
        response = await self.invoke(address, code, fields)
        self._known.answering = address
        return response

    async def from_name_server(self, code: int, fields: Fields = None) -> Any:
        """As ask_name_server, but the response has to be SUCCESS: its JSON, {} without a body. Raises AdminError, UsageError."""
        response = await self.ask_name_server(code, fields)
        where = ";".join(self.named())
        if response.code != ResponseCode.SUCCESS:
            raise refused(where, code, response.code, response.remark)
        value = read_answer(response, where, code)
        return {} if value is None else value

    async def _kept(self, key: tuple[int, str], ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What ask returns, asked once a round where answers are kept. A refusal is an answer, too; who gave none is asked again."""
        if not self._known.keeps_answers:
            return await ask()
        answers = self._known.answers
        task = answers.pop(key, None) or asyncio.get_running_loop().create_task(ask())
        answers[key] = task
        if len(answers) > ANSWERS_MAX:
            del answers[next(iter(answers))]
        try:
            return cast(T, await asyncio.shield(task))
        except AdminError as error:
            if error.code is None and answers.get(key) is task:
                del answers[key]
            raise

    async def cluster(self) -> ClusterInfo:
        """Raises AdminError, UsageError."""
        return await self._kept((RequestCode.GET_BROKER_CLUSTER_INFO, ""), self._ask_cluster)

    async def _ask_cluster(self) -> ClusterInfo:
        value = await self.from_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        try:
            return ClusterInfo.from_json(value if isinstance(value, dict) else {})
        except BodyError as error:
            raise AdminError(str(error), address=";".join(self.named()), request=RequestCode.GET_BROKER_CLUSTER_INFO) from error

    async def topics(self) -> list[str]:
        """All topics that the name servers know, sorted. Raises AdminError, UsageError."""
        value = await self.from_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(str(topic) for topic in (value or {}).get("topicList") or ())

    async def route(self, topic: str) -> TopicRoute:
        """Raises AdminError, UsageError."""
        return await self._kept((RequestCode.GET_ROUTEINFO_BY_TOPIC, topic), lambda: self._ask_route(topic))

    async def _ask_route(self, topic: str) -> TopicRoute:
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        response = await self.ask_name_server(code, GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True))
        where = ";".join(self.named())
        if response.code == ResponseCode.TOPIC_NOT_EXIST and topic.startswith(RETRY_PREFIX):
            remedy = "no consumer of that group has connected yet; brokerConsumeStats shows offsets without one"
            raise AdminError(f"no topic {topic}", remedy=remedy, address=where, request=code, code=response.code)
        if response.code != ResponseCode.SUCCESS:
            raise refused(where, code, response.code, response.remark)
        try:
            return TopicRoute.decode(response.body)
        except BodyError as error:
            raise AdminError(str(error), address=where, request=code) from error

    async def addresses(self, topic: str, route: TopicRoute | None = None) -> dict[str, str]:
        """The address to ask about a topic at each of its brokers, by broker name. route: the topic's, if the caller has it. Raises
        AdminError, UsageError."""
        route = route or await self.route(topic)
        brokers = sorted(route.broker_datas, key=lambda broker: broker.broker_name)
        found = {broker.broker_name: address_of(broker.broker_addrs) for broker in brokers if broker.broker_addrs}
        if not found:
            raise AdminError(f"the route of {topic} names no broker", remedy="clusterList shows the brokers there are")
        return found

    # ---- whom a command means ----

    async def masters(self, given: Given) -> list[str]:
        """The broker of -b, or the masters of the cluster of -c. Raises AdminError, UsageError."""
        if given.has("b"):
            return [given.text("b")]
        return await self.masters_of(given.text("c"), WITH_B)

    async def masters_to_ask(self, given: Given) -> list[str]:
        """As masters, for requests that change nothing: that a broker has no master is a trouble only when nobody is left to ask. Raises
        AdminError, UsageError."""
        if given.has("b"):
            return [given.text("b")]
        name = given.text("c")
        return (await self.cluster()).masters(name) or await self.masters_of(name, WITH_B)

    async def masters_of(self, name: str, how: str = "") -> list[str]:
        """The masters of a cluster. A broker without a master is noted as a trouble, since nothing is done there. how: the end of the
        advice in that note (WITH_B). Raises AdminError, UsageError."""
        cluster = await self.cluster()
        self.note_masterless(cluster, name, how)
        return cluster.masters(name)

    def note_masterless(self, cluster: ClusterInfo, name: str, how: str = "") -> None:
        """Notes each broker of the cluster that has no master. Raises AdminError for a cluster that does not exist."""
        for broker in cluster.groups(name):
            if MASTER_ID not in broker.broker_addrs:
                remedy = f"clusterList shows who is there; once it has one, do this again{how}"
                self.note(AdminError(f"broker {broker.broker_name} of cluster {name} has no master now and was left out", remedy=remedy))

    async def brokers(self, given: Given) -> list[str]:
        """The broker of -b, or all masters and slaves of the cluster of -c. Raises AdminError, UsageError."""
        if given.has("b"):
            return [given.text("b")]
        return (await self.cluster()).addresses(given.text("c"))

    async def each(self, places: Iterable[T], work: Callable[[T], Awaitable[None]]) -> bool:
        """Does the work at each place, one after the other, also after it has failed at one (that is noted). True: it failed nowhere."""
        is_done = True
        for place in places:
            try:
                await work(place)
            except AdminError as error:
                self.note(error)
                is_done = False
        return is_done

    async def first_found(self, places: Iterable[str], find: Callable[[str], Awaitable[T | None]]) -> tuple[str, T] | None:
        """The first place where find returns something, and what that is; None when all places were asked and none had it. Raises
        AdminError when none had it and one of them could not be asked."""
        failed: AdminError | None = None
        for place in places:
            try:
                found = await find(place)
            except AdminError as error:
                failed = failed or error
                continue
            if found:
                return place, found
        if failed is not None:
            raise failed
        return None

    async def found_at_master(self, given: Given, find: Callable[[str], Awaitable[T | None]]) -> tuple[str, T] | None:
        """first_found of the broker of -b or the masters of the cluster of -c; one without a master is a trouble where nothing was found.
        Raises AdminError, UsageError."""
        if given.has("b"):
            return await self.first_found([given.text("b")], find)
        cluster, name, found = await self.cluster(), given.text("c"), None
        try:
            found = await self.first_found(cluster.masters(name), find)
        finally:
            if found is None:
                self.note_masterless(cluster, name, WITH_B)
        return found

    async def from_any(self, places: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> T:
        """The answer of the first place that gives one. places: at least one. A refusal is an answer, too, and is raised; the next place is
        asked only when one cannot be reached. Raises AdminError."""
        *others, last = places
        for place in others:
            try:
                return await ask(place)
            except AdminError as error:
                if error.code is not None:
                    raise
        return await ask(last)
