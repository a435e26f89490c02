"""Registration with name servers: at the start, on a change, in parallel, again after a failure, and goodbye; against a scripted caller
and against the name server itself."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError, RocketpyError
from rocketpy.broker import topic_texts
from rocketpy.broker.addresses import Identity, address_warnings, advertised_address, looked_up
from rocketpy.broker.registration import (
    RegisterResult,
    Registration,
    RegistrationSettings,
    TopicsSnapshot,
    body_crc32,
    register_body,
)
from rocketpy.broker.service import BrokerService
from rocketpy.broker.topic_texts import TopicTexts
from rocketpy.config import load_config
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.bodies import DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.headers import GetRouteInfoRequestHeader, RegisterBrokerRequestHeader
from rocketpy.remoting.json_codec import read_json, write_fastjson
from rocketpy.remoting.look_up import LookUps
from rocketpy.remoting.route import QueueData, TopicRoute
from tests.processes import PATIENCE_S, free_port
from tests.unit.broker.running import broker_config, eventually

IDENTITY = Identity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")
A, B = "ns-a:9876", "ns-b:9876"


@dataclass
class Answer:
    """The part of a response that registration reads."""

    code: int = 0
    remark: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class ScriptedCaller:
    """Answers every name server with `answers[address]`, or fails with it."""

    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[int, tuple[str, ...], dict[str, str], bytes]] = field(default_factory=list)
    slow: asyncio.Event | None = None

    async def invoke_all(
        self, addresses: Iterable[str], code: int, fields: Any = None, body: bytes = b"", *, timeout_s: float = 3.0
    ) -> Any:
        targets = tuple(addresses)
        self.calls.append((code, targets, fields.encode(), body))
        if self.slow is not None:
            await self.slow.wait()
        return {address: self.answers.get(address, Answer()) for address in targets}

    def codes(self) -> list[int]:
        return [call[0] for call in self.calls]


class Topics:
    """The topics of a broker, and the version that moves with each."""

    def __init__(self, *names: str) -> None:
        self.configs = {name: TopicConfig(name) for name in names}
        self.version = DataVersion(1, 0)
        self.permission = 6
        self.mappings: dict[str, dict[str, Any]] = {}

    def snapshot(self, wanted: Iterable[str] | None) -> TopicsSnapshot:
        names = list(self.configs) if wanted is None else list(wanted)
        mappings = {name: self.mappings[name] for name in names if name in self.mappings}
        return TopicsSnapshot(tuple(self.configs[name] for name in names), self.version, self.permission, mappings)


async def wait_until(holds: Any) -> None:
    """A few turns of the loop, until a condition holds."""
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never held")


def make(caller: Any, topics: Topics, servers: Iterable[str] = (A, B), **settings: Any) -> tuple[Registration, list[RegisterResult]]:
    results: list[RegisterResult] = []
    return Registration(caller, IDENTITY, RegistrationSettings(**settings), topics.snapshot, results.append, servers), results


def registered_topics(call: tuple[int, tuple[str, ...], dict[str, str], bytes]) -> set[str]:
    header = RegisterBrokerRequestHeader.decode(call[2])
    return set(RegisterBrokerBody.decode(call[3], compressed=header.compressed).topics)


def test_the_start_tells_every_name_server_every_topic() -> None:
    async def run() -> None:
        caller = ScriptedCaller({A: Answer(fields={"masterAddr": "m:1", "haServerAddr": "m:2"})})
        registration, results = make(caller, Topics("t", "u"))
        await registration.start()
        code, targets, fields, body = caller.calls[0]
        assert (code, targets) == (RequestCode.REGISTER_BROKER, (A, B))
        assert registered_topics(caller.calls[0]) == {"t", "u"}
        header = RegisterBrokerRequestHeader.decode(fields)
        assert (header.broker_name, header.broker_addr, header.ha_server_addr) == ("broker-a", "127.0.0.1:10911", "127.0.0.1:10912")
        assert header.body_crc32 == body_crc32(body) >= 0
        assert results == [RegisterResult(A, "m:1", "m:2")], "one answer speaks for all"
        await registration.stop()
        assert caller.codes()[-1] == RequestCode.UNREGISTER_BROKER and caller.calls[-1][1] == (A, B)

    asyncio.run(run())


def test_a_changed_topic_travels_alone() -> None:
    async def run() -> None:
        caller, topics = ScriptedCaller(), Topics("t", "u")
        registration, _ = make(caller, topics)
        topics.configs["new"] = TopicConfig("new")
        await registration.topics_changed(["new"])
        assert [registered_topics(call) for call in caller.calls] == [{"new"}]

    asyncio.run(run())


def test_with_single_registration_a_changed_topic_is_told_by_its_own_request() -> None:
    async def run() -> None:
        caller, topics = ScriptedCaller({A: NetworkError("gone"), B: Answer(code=1, remark="no")}), Topics("t")
        registration, results = make(caller, topics, single_topics=True)
        topics.configs |= {"new": TopicConfig("new", 3, 2), "other": TopicConfig("other")}
        topics.permission = 4
        await registration.topics_changed(["new", "other"])
        assert {fields["topic"]: targets for _, targets, fields, _ in caller.calls} == {"new": (A, B), "other": (A, B)}
        assert set(caller.codes()) == {RequestCode.REGISTER_TOPIC_IN_NAMESRV} and not results
        told = next(body for _, _, fields, body in caller.calls if fields["topic"] == "new")
        assert TopicRoute.decode(told).queue_datas == (QueueData("broker-a", 3, 2, 4),)
        assert registration.registered == {}, "a topic alone does not make the broker known"

    asyncio.run(run())


def test_changes_during_a_registration_travel_together_in_the_next() -> None:
    async def run() -> None:
        caller, topics = ScriptedCaller(slow=asyncio.Event()), Topics(*(f"t{number}" for number in range(20)))
        registration, _ = make(caller, topics)
        registration.announce(["t0"])
        await wait_until(lambda: bool(caller.calls))
        for number in range(1, 20):
            registration.announce([f"t{number}"])
        caller.slow.set()
        await registration.topics_changed(["t19"])
        assert [registered_topics(call) for call in caller.calls] == [{"t0"}, {f"t{number}" for number in range(1, 20)}]

    asyncio.run(run())


def test_nobody_waits_for_the_rounds_of_those_who_come_later() -> None:
    class Busy(ScriptedCaller):
        """While one round is under way somebody else changes something."""

        async def invoke_all(self, *arguments: Any, **options: Any) -> Any:
            if len(self.calls) < 1000:
                registration.announce(["other"])
            await asyncio.sleep(0)
            return await super().invoke_all(*arguments, **options)

    async def run() -> None:
        caller = Busy()
        nonlocal registration
        registration, _ = make(caller, Topics("mine", "other"))
        await registration.start()
        begun = len(caller.calls)
        await registration.topics_changed(["mine"], wait_s=60)
        assert len(caller.calls) - begun <= 3
        await registration.stop()

    registration: Any = None
    asyncio.run(run())


def test_an_operator_waits_no_longer_than_asked_for_a_slow_name_server() -> None:
    async def run() -> None:
        caller = ScriptedCaller(slow=asyncio.Event())
        registration, _ = make(caller, Topics("t"))
        await asyncio.wait_for(registration.topics_changed(["t"], wait_s=0.01), PATIENCE_S)
        caller.slow.set()
        await registration.stop()

    asyncio.run(run())


def test_a_name_server_that_comes_back_at_once_knows_the_broker_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing had been asked of it meanwhile: the broken connection is all there is to notice, as the next period never comes."""
    delay_s = Registration._delay_s
    period_s = RegistrationSettings().period_s

    def retries_only(self: Registration, attempt: int) -> float:
        delay = delay_s(self, attempt)
        return delay if delay < period_s else 3600.0

    monkeypatch.setattr(Registration, "_delay_s", retries_only)

    async def run() -> None:
        overrides = {"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": str(tmp_path / "kv.json")}
        first = NameServer(load_config("namesrv", None, overrides))
        await first.start()
        address = f"127.0.0.1:{first.port}"
        client = RemotingClient(on_lost=lambda lost: registration.lost(lost))
        registration = Registration(client, IDENTITY, RegistrationSettings(), Topics("t", "u").snapshot, name_servers=[address])
        await registration.start()
        assert registration.registered[address]
        await first.stop()
        again = NameServer(load_config("namesrv", None, {**overrides, "listenPort": address.rpartition(":")[2]}))
        await again.start()
        await eventually(lambda: "t" in again.routes.all_topics(), "its registration")
        await registration.stop()
        await client.stop()
        await again.stop()

    asyncio.run(run())


def test_a_name_server_that_failed_is_tried_again_soon() -> None:
    caller = ScriptedCaller({A: NetworkError("connect failed"), B: Answer()})
    registration, _ = make(caller, Topics("t"))
    asyncio.run(registration.register_all())
    assert registration.registered == {A: False, B: True}
    assert [registration._delay_s(attempt) for attempt in range(6)] == [1, 2, 4, 8, 10, 10]
    caller.answers[A] = Answer()
    asyncio.run(registration.register_all())
    assert registration.registered == {A: True, B: True} and registration._delay_s(0) == 30


@pytest.mark.parametrize("forces", [True, False])
def test_a_name_server_that_goes_while_others_are_waited_for_is_not_taken_to_know_us(forces: bool) -> None:
    async def run() -> None:
        caller = ScriptedCaller(slow=asyncio.Event())
        registration, _ = make(caller, Topics("t"), force=forces)
        caller.slow.set()
        await registration.register_all()
        assert registration.registered == {A: True, B: True}
        caller.slow.clear()
        begun = len(caller.calls)
        again = asyncio.create_task(registration.register_all())
        await wait_until(lambda: len(caller.calls) > begun)
        registration.lost(A)  # it has answered
        caller.slow.set()
        await again
        assert caller.calls[-1][:2] == (RequestCode.REGISTER_BROKER, (A, B))
        assert registration.registered == {A: not forces, B: True}, "what it did not keep is told again: at once, or within seconds"
        await registration.register_all()
        assert registration.registered == {A: True, B: True}

    asyncio.run(run())


def test_a_name_server_that_goes_between_the_parts_of_a_registration_has_to_hear_all_of_them_again() -> None:
    async def run() -> None:
        caller = ScriptedCaller(slow=asyncio.Event())
        registration, _ = make(caller, Topics("t", "u", "v"), split_size=2)
        task = asyncio.create_task(registration.register_all())
        await wait_until(lambda: caller.calls)
        registration.lost(A)  # and with it the first part
        caller.slow.set()
        await task
        assert len(caller.calls) == 2 and registration.registered == {A: False, B: True}

    asyncio.run(run())


@pytest.mark.parametrize("answer", [NetworkError("gone"), Answer(code=1, remark="no"), Answer(body=b"{"), Answer(body=b"[1]")])
def test_bad_answers_do_not_stop_the_others(answer: Any) -> None:
    caller = ScriptedCaller({A: answer})
    registration, results = make(caller, Topics("t"))
    outcome = asyncio.run(registration.register_all())
    assert isinstance(outcome[B], RegisterResult)
    assert isinstance(outcome[A], RocketpyError | RegisterResult) and results


def test_a_registration_that_failed_in_itself_does_not_keep_the_broker_from_taking_its_leave() -> None:
    async def run() -> None:
        caller, topics = ScriptedCaller(), Topics("t")
        registration, _ = make(caller, topics)
        await registration.start()
        await registration.topics_changed(["no such topic"])  # KeyError in the task
        await registration.stop()
        assert caller.codes()[-1] == RequestCode.UNREGISTER_BROKER

    asyncio.run(run())


def test_order_topics_come_with_the_answer() -> None:
    body = write_fastjson({"table": {"orders": "broker-a:4"}})
    registration, results = make(ScriptedCaller({A: Answer(body=body)}), Topics("t"))
    asyncio.run(registration.register_all())
    assert results[0].order_topics == {"orders": "broker-a:4"}


def test_a_slave_follows_the_master_that_one_of_its_name_servers_knows() -> None:
    """The first may have been cut off from the master, which it forgets after two minutes; the slave would never find it."""
    caller = ScriptedCaller({B: Answer(fields={"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"})})
    registration, results = make(caller, Topics("t"))
    asyncio.run(registration.register_all())
    assert [(result.name_server, result.master_address) for result in results] == [(B, "10.0.0.1:10911")]


def test_without_force_only_name_servers_with_an_older_version_are_told() -> None:
    async def run() -> None:
        caller = ScriptedCaller({A: Answer(fields={"changed": "false"}), B: Answer(fields={"changed": "true"})})
        registration, _ = make(caller, Topics("t"), force=False)
        await registration.register_all()
        assert caller.codes() == [RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER]
        assert caller.calls[1][1] == (B,)

    asyncio.run(run())


def test_without_force_a_name_server_that_was_away_and_has_forgotten_nothing_knows_the_broker() -> None:
    """Else it would be asked every ten seconds for ever, and the loss of its connection would not be noticed."""

    async def run() -> None:
        caller = ScriptedCaller({A: Answer(fields={"changed": "true"})})
        registration, _ = make(caller, Topics("t"), servers=(A,), force=False)
        await registration.register_all()
        caller.answers[A] = NetworkError("gone")
        await registration.register_all()
        assert registration.registered == {A: False} and registration._delay_s(0) == 1
        caller.answers[A] = Answer(fields={"changed": "false"})
        await registration.register_all()
        assert registration.registered == {A: True} and registration._delay_s(0) == 30

    asyncio.run(run())


def test_many_topics_may_be_split() -> None:
    caller = ScriptedCaller()
    registration, _ = make(caller, Topics(*"abcde"), split_size=2)
    asyncio.run(registration.register_all())
    assert [len(registered_topics(call)) for call in caller.calls] == [2, 2, 1]


def test_a_name_server_that_missed_a_part_is_not_registered_with() -> None:
    class Forgetful(ScriptedCaller):
        async def invoke_all(self, *arguments: Any, **options: Any) -> Any:
            answers = await super().invoke_all(*arguments, **options)
            return answers | {A: NetworkError("busy")} if len(self.calls) == 2 else answers

    registration, _ = make(Forgetful(), Topics(*"abcde"), split_size=2)
    results = asyncio.run(registration.register_all())
    assert registration.registered == {A: False, B: True}
    assert isinstance(results[A], NetworkError) and isinstance(results[B], RegisterResult)


def test_a_broker_that_may_not_be_written_says_so_of_all_its_topics() -> None:
    topics = Topics("t")
    topics.permission = 4
    body = RegisterBrokerBody.decode(register_body(topics.snapshot(None), TopicTexts()))
    assert body.topics["t"].perm == 4


@pytest.mark.parametrize("compressed", [False, True])
def test_the_body_is_what_a_name_server_reads(compressed: bool) -> None:
    topics = Topics("t")
    topics.configs["t"] = TopicConfig("t", 4, 5, 6, attributes={"message.type": "FIFO"})
    body = RegisterBrokerBody.decode(register_body(topics.snapshot(None), TopicTexts(), compressed=compressed), compressed=compressed)
    assert body.topics == topics.configs and body.data_version == topics.version


def test_a_registration_writes_only_topics_that_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 topics that are told every 30 s took 0.2 s of the event loop each time."""
    written: list[str] = []
    real, to_json = topic_texts._member, TopicConfig.to_json
    monkeypatch.setattr(topic_texts, "_member", lambda config: written.append(config.topic_name) or real(config))
    monkeypatch.setattr(TopicConfig, "to_json", lambda config: written.append(config.topic_name) or to_json(config))
    topics, caller = Topics(*(f"t{number}" for number in range(100))), ScriptedCaller()
    topics.mappings["t3"] = {"bname": "a", "topic": "t3"}

    async def scenario() -> None:
        registration, _ = make(caller, topics)
        for _ in range(3):
            await registration.register_all()
        assert len(written) == 100
        topics.configs["t7"] = TopicConfig("t7", 9, 9)
        await registration.register_all()
        assert written[100:] == ["t7"]
        bodies = [RegisterBrokerBody.decode(body) for _, _, _, body in caller.calls]
        assert bodies[3].topics["t7"].read_queue_nums == 9 and bodies[3].topics.keys() == topics.configs.keys()
        assert bodies[3].queue_mappings == topics.mappings

    asyncio.run(scenario())


def test_the_texts_of_many_topics_are_no_work_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    writers: set[threading.Thread] = set()
    real = topic_texts._member
    monkeypatch.setattr(topic_texts, "_member", lambda config: writers.add(threading.current_thread()) or real(config))
    topics, caller = Topics(*(f"t{number}" for number in range(1001))), ScriptedCaller()
    asyncio.run(make(caller, topics)[0].register_all())
    assert registered_topics(caller.calls[0]) == topics.configs.keys() and threading.current_thread() not in writers


def test_a_new_list_of_name_servers() -> None:
    caller = ScriptedCaller()
    registration, _ = make(caller, Topics("t"))
    asyncio.run(registration.register_all())
    asyncio.run(registration.set_name_servers([B, "ns-c:9876"]))
    assert [(code, targets) for code, targets, _, _ in caller.calls[1:]] == [
        (RequestCode.UNREGISTER_BROKER, (A,)),
        (RequestCode.REGISTER_BROKER, (B, "ns-c:9876")),
    ]


def test_an_isolated_broker_keeps_quiet() -> None:
    caller = ScriptedCaller()
    registration, _ = make(caller, Topics("t"))
    registration.is_isolated = True
    assert asyncio.run(registration.register_all()) == {} and caller.calls == []


def test_one_name_stands_for_every_address_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(host: str, port: int | None, *unused: Any, **options: Any) -> Any:
        hosts = {"ns": [("10.0.0.2", port), ("10.0.0.1", port)], "six": [("fd00::1", port, 0, 0)]}
        if host not in hosts:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, 1, 6, "", address) for address in hosts[host]]

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    assert asyncio.run(looked_up(["ns:9876", "six:2", "ns:9876"], LookUps())) == ["10.0.0.1:9876", "10.0.0.2:9876", "[fd00::1]:2"]
    with pytest.raises(NetworkError, match="name server gone:1 cannot be looked up: Name or service not known"):
        asyncio.run(looked_up(["ns:9876", "gone:1"], LookUps()))


def test_a_broker_follows_the_name_servers_behind_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    known = ["127.0.0.1"]
    real = socket.getaddrinfo

    def lookup(host: str, port: int | None, *arguments: Any, **options: Any) -> Any:
        if host == "ns" and not known:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return [(socket.AF_INET, 1, 6, "", (each, port)) for each in known] if host == "ns" else real(host, port, *arguments, **options)

    async def run() -> None:
        servers = []
        port = str(free_port())
        for number, host in enumerate(("127.0.0.1", "127.0.0.2")):
            overrides = {"listenPort": port, "bindAddress": host, "kvConfigPath": str(tmp_path / f"kv{number}.json")}
            servers.append(NameServer(load_config("namesrv", None, overrides)))
            await servers[-1].start()
        config = broker_config(tmp_path, namesrvAddr=f"ns:{port}", fetchNameSrvAddrByDnsLookup="true")
        config.override("updateNameServerAddrPeriod", 50)
        broker = BrokerService(config)
        await broker.start()
        assert "TBW102" in servers[0].routes.all_topics() and servers[1].routes.all_topics() == []
        known.append("127.0.0.2")
        await eventually(lambda: "TBW102" in servers[1].routes.all_topics())
        known.remove("127.0.0.1")
        await eventually(lambda: servers[0].routes.all_topics() == [])
        known.clear()
        await eventually(lambda: "cannot be looked up" in caplog.text)
        assert "TBW102" in servers[1].routes.all_topics(), "a name that cannot be looked up takes nothing away"
        await broker.stop()
        for server in servers:
            await server.stop()

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    asyncio.run(run())


async def route_of(client: RemotingClient, address: str, topic: str) -> Any:
    answer = await client.invoke(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic))
    return read_json(answer.body) if answer.code == 0 else None


def test_real_name_servers_learn_forget_and_follow(tmp_path: Path) -> None:
    async def run() -> None:
        servers = []
        for number in (1, 2):
            overrides = {"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": str(tmp_path / f"kv{number}.json")}
            servers.append(NameServer(load_config("namesrv", None, overrides)))
            await servers[-1].start()
        addresses = [f"127.0.0.1:{server.port}" for server in servers]
        async with RemotingClient() as client:
            topics = Topics("t", "u")  # a broker that is unknown and names one topic alone is refused
            registration, results = make(client, topics, addresses)
            await registration.start()
            assert results[0].name_server == addresses[0]
            for address in addresses:
                route = await route_of(client, address, "t")
                assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}
            topics.configs["new"] = TopicConfig("new", 3, 3)
            topics.version = topics.version.next()
            await registration.topics_changed(["new"])
            assert (await route_of(client, addresses[1], "new"))["queueDatas"][0]["readQueueNums"] == 3
            await registration.stop()
            for address in addresses:
                assert await route_of(client, address, "t") is None
        for server in servers:
            await server.stop()

    asyncio.run(asyncio.wait_for(run(), 4 * PATIENCE_S))


def test_a_static_topic_travels_with_its_queue_mapping() -> None:
    async def run() -> None:
        caller, topics = ScriptedCaller({A: Answer(), B: Answer()}), Topics("plain", "static", "more")
        topics.mappings["static"] = {"bname": "broker-a", "currIdMap": {0: 2}, "topic": "static"}
        registration, _ = make(caller, topics, split_size=2, single_topics=True)
        await registration.register_all()
        whole = [RegisterBrokerBody.decode(body) for _, _, _, body in caller.calls]
        assert [sorted(part.queue_mappings) for part in whole] == [["static"], []]
        caller.calls.clear()
        await registration.topics_changed(["plain", "static"])
        told = {code: body for code, _, _, body in caller.calls}
        assert set(told) == {RequestCode.REGISTER_BROKER, RequestCode.REGISTER_TOPIC_IN_NAMESRV}
        part = RegisterBrokerBody.decode(told[RequestCode.REGISTER_BROKER])
        assert (list(part.topics), part.queue_mappings["static"]["currIdMap"]) == (["static"], {"0": 2})

    asyncio.run(run())


def test_single_registration_keeps_the_other_topics_of_a_name_server_that_takes_lists_for_whole(tmp_path: Path) -> None:
    async def routes_after_a_change(server: NameServer, client: RemotingClient, single: bool) -> list[bool]:
        address, topics = f"127.0.0.1:{server.port}", Topics("t", "u")
        registration, _ = make(client, topics, [address], single_topics=single)
        await registration.start()
        topics.configs["new"] = TopicConfig("new")
        topics.version = topics.version.next()
        await registration.topics_changed(["new"])
        known = [await route_of(client, address, topic) is not None for topic in ("t", "u", "new")]
        await registration.stop()
        return known

    async def run() -> None:
        overrides = {"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": str(tmp_path / "kv.json")}
        server = NameServer(load_config("namesrv", None, {**overrides, "deleteTopicWithBrokerRegistration": "true"}))
        await server.start()
        async with RemotingClient() as client:
            assert await routes_after_a_change(server, client, single=True) == [True, True, True]
            assert await routes_after_a_change(server, client, single=False) == [False, False, True], "as with RocketMQ's"
        await server.stop()

    asyncio.run(asyncio.wait_for(run(), 4 * PATIENCE_S))


@pytest.mark.parametrize(
    ("advertise", "address"),
    [
        ("", "10.0.0.1:10911"),
        ("broker.example", "broker.example:10911"),
        ("broker.example:80", "broker.example:80"),
        ("::1", "[::1]:10911"),
        ("[::1]", "[::1]:10911"),
        ("[::1]:80", "[::1]:80"),
    ],
)
def test_the_advertised_address_replaces_the_own_one(advertise: str, address: str) -> None:
    assert advertised_address(advertise, "10.0.0.1", 10911) == address


@pytest.mark.parametrize(
    ("address", "server", "words"),
    [
        ("127.0.0.1:10911", "127.0.0.1:9876", None),
        ("127.0.0.1:10911", "localhost:9876", None),
        ("127.0.0.1:10911", "10.0.0.2:9876", "loopback"),
        ("localhost:10911", "ns.example:9876", "loopback"),
        ("10.0.0.1:10911", "10.0.0.2:9876", None),
        ("172.17.0.2:10911", "8.8.8.8:9876", "private"),
        ("8.8.4.4:10911", "8.8.8.8:9876", None),
        ("broker.example:10911", "8.8.8.8:9876", None),
        ("0.0.0.0:10911", "127.0.0.1:9876", "wildcard"),
    ],
)
def test_an_address_others_cannot_reach_is_said_at_the_start(address: str, server: str, words: str | None) -> None:
    warnings = address_warnings(address, [server])
    assert warnings == [] if words is None else words in warnings[0]
