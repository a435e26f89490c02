"""How many requests a command makes of so many topics, groups and brokers, and how many at once; told by a client that counts them.

Later places answer first here, so that what is said in their order was put into it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.admin import beside, session
from rocketpy.admin.beside import PLACES_MAX, ask_beside, show_beside
from rocketpy.admin.brokers import broker_status, get_broker_config
from rocketpy.admin.clients import consumer_status
from rocketpy.admin.clusters import cluster_list
from rocketpy.admin.command_line import Given
from rocketpy.admin.errors import AdminError
from rocketpy.admin.exports import export_metrics
from rocketpy.admin.groups import get_consumer_config
from rocketpy.admin.monitoring import look_at
from rocketpy.admin.offsets import clone_group_offset
from rocketpy.admin.output import Output
from rocketpy.admin.progress import consumer_progress
from rocketpy.admin.reading import address_of_queue
from rocketpy.admin.session import REQUESTS_MAX, Session
from rocketpy.admin.stats import stats_all
from rocketpy.admin.topics import topic_list, topic_status
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S

NAMESRV = "127.0.0.1:3"
TOPICS, GROUPS, BROKERS, QUEUES, CLIENTS = 30, 20, 3, 2, 25
TURNS = 40


def answer(body: Any = None, code: int = 0, fields: dict[str, str] | None = None, remark: str = "") -> Command:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return decode_command(encode_command(code, fields or {}, raw, opaque=1, flag=1, remark=remark))


def table(rows: dict[tuple[str, str, int], dict[str, int]]) -> bytes:
    """A table by queue, as RocketMQ writes it."""
    each = (
        f'{{"brokerName":"{name}","queueId":{number},"topic":"{topic}"}}:{json.dumps(row)}' for (topic, name, number), row in rows.items()
    )
    return f'{{"consumeTps":0.5,"topicPutTps":0.1,"offsetTable":{{{",".join(each)}}}}}'.encode()


class World:
    """A name server and BROKERS brokers, each with all topics and groups. Every group consumes every topic, but for the first, which has
    consumed nothing and has no consumer."""

    def __init__(self, topics: int = TOPICS, groups: int = GROUPS, puts: Callable[[str], int] = lambda topic: 1) -> None:
        self.topics = [f"T{number:05}" for number in range(topics)]
        self.groups = [f"G{number:05}" for number in range(groups)]
        self.asked: Counter[RequestCode] = Counter()
        self.at_once = self.most = 0
        self._puts = puts
        self._turns = TURNS

    def session(self) -> Session:
        return Session(cast(RemotingClient, self), (NAMESRV,), clock=lambda: 1)

    def is_connected(self, address: str) -> bool:
        return True

    async def invoke(self, address: str, code: int, fields: Any = None, body: bytes = b"", **more: Any) -> Command:
        self.asked[RequestCode(code)] += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self._turns = (self._turns - 1) % TURNS
        for _ in range(self._turns):
            await asyncio.sleep(0)
        self.at_once -= 1
        return self.give(address, RequestCode(code), fields)

    def give(self, address: str, code: RequestCode, fields: Any) -> Command:
        names = [f"b{number}" for number in range(BROKERS)]
        addresses = {name: f"10.0.0.{number}:10911" for number, name in enumerate(names)}
        name = next((each for each, known in addresses.items() if known == address), "")
        brokers = {each: {"brokerName": each, "cluster": "C", "brokerAddrs": {"0": known}} for each, known in addresses.items()}
        rows = {(topic, name, number): {"brokerOffset": 9, "consumerOffset": 4} for topic in self.topics for number in range(QUEUES)}
        match code:
            case RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
                return answer({"topicList": [*self.topics, *(f"%RETRY%{group}" for group in self.groups)]})
            case RequestCode.GET_BROKER_CLUSTER_INFO:
                return answer({"brokerAddrTable": brokers, "clusterAddrTable": {"C": names}})
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                queues = [{"brokerName": each, "perm": 6, "readQueueNums": QUEUES, "writeQueueNums": QUEUES} for each in names]
                return answer({"brokerDatas": list(brokers.values()), "queueDatas": queues})
            case RequestCode.QUERY_TOPIC_CONSUME_BY_WHO:
                return answer({"groupList": self.groups})
            case RequestCode.VIEW_BROKER_STATS_DATA:
                put = self._puts(fields.stats_key)
                return answer({"statsMinute": {"sum": put, "tps": 0.1 * put}})
            case RequestCode.GET_CONSUME_STATS if fields.consumer_group == self.groups[0]:
                return answer(table({}))
            case RequestCode.GET_CONSUME_STATS if fields.topic:
                return answer(table({queue: row for queue, row in rows.items() if queue[0] == fields.topic}))
            case RequestCode.GET_CONSUME_STATS:
                return answer(table(rows))
            case RequestCode.GET_TOPIC_STATS_INFO:
                return answer(table({(fields.topic, name, number): {"minOffset": 1, "maxOffset": 9} for number in range(QUEUES)}))
            case RequestCode.GET_CONSUMER_CONNECTION_LIST if fields.consumer_group == self.groups[0]:
                return answer(code=ResponseCode.CONSUMER_NOT_ONLINE, remark="not online")
            case RequestCode.GET_CONSUMER_CONNECTION_LIST:
                clients = [{"clientId": f"c{number:02}", "version": 479, "language": "JAVA"} for number in range(CLIENTS)]
                return answer({"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "connectionSet": clients})
            case RequestCode.GET_BROKER_RUNTIME_INFO:
                return answer({"table": {"brokerVersionDesc": name}})
            case RequestCode.GET_BROKER_CONFIG:
                return answer(b"brokerName=" + name.encode())
            case RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
                return answer({"subscriptionGroupTable": {group: {"groupName": group} for group in self.groups}})
            case _:
                return answer({})


def run(world: World, command: Any, out: Output | None = None, **options: str) -> str:
    """What a command says."""
    said: list[str] = []
    on = world.session()
    asyncio.run(command(on, Given(options, {}), Output(said.append, is_json=False)))
    assert on.troubles == []
    return "".join(said)


def test_a_topic_costs_its_route_and_one_question_about_its_groups() -> None:
    world = World()
    said = run(world, topic_list, c="").splitlines()[1:]
    assert world.asked == {
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: 1,
        RequestCode.GET_BROKER_CLUSTER_INFO: 1,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: TOPICS,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: TOPICS,
    }
    assert [line.split()[1:] for line in said] == [[topic, group] for topic in world.topics for group in world.groups]
    assert world.most == REQUESTS_MAX


def test_figures_of_topics_cost_each_route_once() -> None:
    world = World()
    said = run(world, stats_all).splitlines()[1:]
    pairs = TOPICS * GROUPS
    assert world.asked == {
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: 1,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: TOPICS + GROUPS,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: TOPICS,
        RequestCode.VIEW_BROKER_STATS_DATA: BROKERS * (TOPICS + pairs),
        RequestCode.GET_CONSUME_STATS: BROKERS * pairs,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: TOPICS,  # of the group without offsets
    }
    assert [line.split()[:2] for line in said] == [[topic, group] for topic in world.topics for group in world.groups]
    assert said[1].split()[2:] == [str(5 * BROKERS * QUEUES), "0.30", "0.30", str(BROKERS), str(BROKERS)]
    assert world.most == REQUESTS_MAX


def test_only_what_is_active_is_asked_how_far_it_is_behind() -> None:
    world = World(puts=lambda key: int(key.startswith("T00003")))
    said = run(world, stats_all, a="").splitlines()[1:]
    assert [line.split()[:2] for line in said] == [["T00003", group] for group in world.groups]
    assert world.asked[RequestCode.GET_CONSUME_STATS] == BROKERS * GROUPS


def test_a_group_costs_its_route_its_offsets_and_its_consumers_once() -> None:
    """Each of its topics, too, is asked for once: its route tells whether it is a static one."""
    world = World()
    said = run(world, consumer_progress).splitlines()[1:]
    assert world.asked == {
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: 1,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: GROUPS + TOPICS,
        RequestCode.GET_CONSUME_STATS: BROKERS * GROUPS,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: GROUPS,
    }
    assert [line.split()[0] for line in said] == world.groups
    assert said[0].split()[1:] == ["0", "OFFLINE", "0", "0"] and said[1].split()[-1] == str(5 * BROKERS * QUEUES * TOPICS)
    assert world.most == REQUESTS_MAX


def test_the_topics_of_a_large_group_are_asked_for_beside_each_other() -> None:
    world = World(topics=200)
    said = run(world, consumer_progress, g="G00001", s="true").splitlines()
    assert world.asked == {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: 1 + 200,
        RequestCode.GET_CONSUME_STATS: BROKERS,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: 1,
        RequestCode.GET_CONSUMER_RUNNING_INFO: CLIENTS,
    }
    rows = [line.split()[:3] for line in said[1 : 1 + 200 * BROKERS * QUEUES]]
    assert rows == [[topic, f"b{broker}", str(queue)] for topic in world.topics for broker in range(BROKERS) for queue in range(QUEUES)]
    assert world.most == REQUESTS_MAX


def test_a_clients_report_costs_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    world = World()
    said = run(world, consumer_status, g="G00001").splitlines()[1:]
    assert world.asked == {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: 1,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: 1,
        RequestCode.GET_CONSUMER_RUNNING_INFO: CLIENTS,
    }
    assert [line.split()[:2] for line in said[:CLIENTS]] == [[str(number + 1), f"c{number:02}"] for number in range(CLIENTS)]
    assert world.most == REQUESTS_MAX


def test_offsets_are_cloned_beside_each_other() -> None:
    world = World()
    run(world, clone_group_offset, s="G00001", d="G00002", t="T00000")
    assert world.asked == {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: 2,
        RequestCode.GET_CONSUME_STATS: BROKERS,
        RequestCode.UPDATE_CONSUMER_OFFSET: BROKERS * QUEUES * TOPICS,
    }
    assert world.most == REQUESTS_MAX


def test_a_group_is_asked_for_its_clients_once_and_not_at_each_master(tmp_path: Path) -> None:
    world = World()
    run(world, export_metrics, c="C", f=str(tmp_path))
    assert world.asked[RequestCode.GET_CONSUMER_CONNECTION_LIST] == world.asked[RequestCode.GET_ROUTEINFO_BY_TOPIC] == GROUPS
    reports = json.loads((tmp_path / "metrics.json").read_text())["evaluateReport"]
    assert [report["runtimeVersion"]["clientInfo"] for report in reports.values()] == [["JAVA%V5_3_3"]] * BROKERS


@pytest.mark.parametrize(
    ("command", "options", "code"),
    [
        (cluster_list, {}, RequestCode.GET_BROKER_RUNTIME_INFO),
        (broker_status, {"c": "C"}, RequestCode.GET_BROKER_RUNTIME_INFO),
        (get_broker_config, {"c": "C"}, RequestCode.GET_BROKER_CONFIG),
        (get_consumer_config, {"g": "G00001"}, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        (topic_status, {"t": "T00000"}, RequestCode.GET_TOPIC_STATS_INFO),
    ],
)
def test_brokers_are_asked_beside_each_other(command: Any, options: dict[str, str], code: RequestCode) -> None:
    world = World()
    said = run(world, command, **options)
    assert (world.asked[code], world.asked.total(), world.most) == (BROKERS, BROKERS + 1, BROKERS)
    names = ("10.0.0.0", "10.0.0.1", "10.0.0.2") if command in (broker_status, get_broker_config) else ("b0", "b1", "b2")
    assert sorted(names, key=said.index) == list(names)


def test_the_route_of_a_queue_is_asked_for_once() -> None:
    world = World()
    assert asyncio.run(address_of_queue(world.session(), "T00000", "b1", 1)) == "10.0.0.1:10911"
    assert world.asked == {RequestCode.GET_ROUTEINFO_BY_TOPIC: 1}


# ---- what is kept, and for how long ----


def test_answers_are_kept_for_a_round_and_only_where_a_command_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWERS_MAX", 3)

    async def routes(on: Session, *topics: str) -> None:
        await asyncio.gather(*(on.part().route(topic) for topic in topics))

    async def ask() -> list[int]:
        on = world.session()

        async def cost(topics: str) -> int:
            before = world.asked.total()
            await routes(on, *topics)
            return world.asked.total() - before

        counts = [await cost("AA")]
        on.keep_answers()
        counts += [await cost(topics) for topics in ("AAA", "BC", "BCA", "D", "A", "B")]
        on.take_troubles()
        return [*counts, await cost("B")]

    world = World()
    assert asyncio.run(ask()) == [2, 1, 2, 0, 1, 0, 1, 1], "B went for D: it was used longest ago"


@pytest.mark.parametrize(("gone", "asked"), [(answer(code=ResponseCode.TOPIC_NOT_EXIST), 1), (NetworkError("lost"), 3)])
def test_a_refusal_is_kept_and_silence_is_not(gone: Any, asked: int) -> None:
    class Gone(World):
        def give(self, address: str, code: RequestCode, fields: Any) -> Command:
            if isinstance(gone, Exception):
                raise gone
            return cast(Command, gone)

    async def ask() -> None:
        on = world.session()
        on.keep_answers()
        for _ in range(3):
            with pytest.raises(AdminError):
                await on.route("T")

    world = Gone()
    asyncio.run(ask())
    assert world.asked.total() == asked


def test_a_round_of_monitoring_begins_with_nothing_kept() -> None:
    async def look() -> None:
        on = world.session()
        on.keep_answers()
        for _ in range(2):
            await look_at(on, Output(lambda text: None, is_json=False), "G00000")
            on.take_troubles()

    world = World(topics=0)
    asyncio.run(look())
    assert world.asked[RequestCode.GET_ROUTEINFO_BY_TOPIC] == 2


# ---- the order of what was asked at once ----


def test_what_fails_is_told_in_the_order_of_places_and_once() -> None:
    async def show(part: Session, aside: Output, place: int) -> None:
        for _ in range(TURNS - place):
            await asyncio.sleep(0)
        aside.line(f"row {place}")
        aside.add("rows", place)
        if place % 2:
            part.note(AdminError("every other"))
        if place in (3, 4):
            raise AdminError(f"at {place}")

    async def places() -> list[str]:
        on = World().session()
        assert not await show_beside(on, out, range(TURNS), show)
        assert await show_beside(on, out, (), show)
        return [error.cause for error in on.troubles]

    said: list[str] = []
    out = Output(said.append, is_json=False)
    assert asyncio.run(places()) == ["every other", "at 3", "at 4"]
    assert "".join(said).split("\n")[:-1] == [f"row {place}" for place in range(TURNS)]
    out = Output(said.append, is_json=True)
    out.add("rows", -1)
    asyncio.run(places())
    out.end()
    assert json.loads(said[-1]) == {"rows": list(range(-1, TURNS))}


def test_what_ends_a_command_ends_the_places_that_are_not_taken_yet() -> None:
    """Text of the places before it has been put out by then."""
    begun: list[int] = []
    ended: list[int] = []
    said: list[str] = []

    async def ask(part: Session, place: int) -> int:
        begun.append(place)
        try:
            if place == 2:
                raise KeyError("strange")
            await asyncio.sleep(0 if place < 2 else PATIENCE_S)
        except asyncio.CancelledError:
            ended.append(place)
            raise
        return place

    with pytest.raises(KeyError):
        asyncio.run(ask_beside(World().session(), range(1000), ask, lambda place, found: said.append(str(found))))
    assert (said, ended) == (["0", "1"], begun[3:]) and 3 < len(begun) <= 2 + PLACES_MAX


def test_no_more_places_than_a_window_are_ahead_of_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "PLACES_MAX", 4)
    ahead: list[int] = []
    begun = taken = 0

    async def ask(part: Session, place: int) -> None:
        nonlocal begun
        begun += 1
        ahead.append(begun - taken)
        await asyncio.sleep(0)

    def take(place: int, nothing: None) -> None:
        nonlocal taken
        taken += 1

    assert asyncio.run(ask_beside(World().session(), range(50), ask, take))
    assert (max(ahead), taken) == (4, 50)
