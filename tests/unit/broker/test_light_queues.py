"""Light queues as a broker serves them: read before they are there and after, positions, bounds, a start that goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpy.broker.light_queues import light_queues_max, warn_of_light_queues
from rocketpy.broker.subscriptions import GroupSettings, GroupTable
from rocketpy.broker.topics import TopicSettings, TopicTable
from rocketpy.remoting.bodies import TopicConfig
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import read_json
from tests.unit.broker.running import Peer, broker_config, run, running, started

ON = {"enableLmq": "true", "enableMultiDispatch": "true"}
LIGHT, GROUP = "%LMQ%a|b", "%LMQ%reader"
SUSPEND, SUBSCRIPTION = 2, 4


def lists(*names: str) -> str:
    return f"INNER_MULTI_DISPATCH\x01{','.join(names)}\x02"


async def position(peer: Peer, code: int, topic: str = LIGHT) -> int:
    return int((await peer.ask(code, {"topic": topic, "queueId": 0, "consumerGroup": GROUP})).fields["offset"])


def test_a_light_queue_is_read_before_it_is_there_and_after_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        async with running(tmp_path, **ON) as at:
            peer = at.peer()
            assert (await peer.pull(GROUP, LIGHT)).code == ResponseCode.PULL_NOT_FOUND
            waiting = asyncio.create_task(peer.pull(GROUP, LIGHT, suspendTimeoutMillis=60_000, sysFlag=SUSPEND | SUBSCRIPTION))
            assert await position(peer, RequestCode.GET_MAX_OFFSET) == 0  # is answered behind it
            assert (await at.peer().send("t", b"one", lists(LIGHT, "%LMQ%c"))).code == 0
            assert b"one" in (await waiting).body
            assert [await position(peer, code) for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)] == [0, 1]
            update = {"topic": LIGHT, "queueId": 0, "consumerGroup": GROUP, "commitOffset": 1}
            assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)).code == 0
            offsets = await peer.value(RequestCode.GET_ALL_CONSUMER_OFFSET)
            assert offsets["lmqOffsetTable"] == {f"{LIGHT}@{GROUP}": 1} and offsets["offsetTable"] == {}
            config = await peer.value(RequestCode.GET_TOPIC_CONFIG, {"topic": LIGHT})
            assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (1, 1, 6)
            stats = read_json((await peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": LIGHT})).body)
            assert [each["maxOffset"] for each in stats["offsetTable"].values()] == [1]
            topics = await peer.value(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert not [name for name in topics["topicConfigTable"] if name.startswith("%LMQ%")]

    async def again() -> None:
        async with started(tmp_path, **ON) as peer:
            assert await position(peer, RequestCode.QUERY_CONSUMER_OFFSET) == 1
            assert (await peer.send("t", b"two", lists(LIGHT))).code == 0
            assert b"two" in (await peer.pull(GROUP, LIGHT, offset=1)).body

    run(first)
    run(again)


@pytest.mark.parametrize("settings", [{}, {"enableLmq": "true"}, {"enableMultiDispatch": "true"}])
def test_with_one_of_the_two_keys_there_are_none(tmp_path: Path, settings: dict[str, str]) -> None:
    async def test() -> None:
        async with running(tmp_path, **settings) as at:
            peer = at.peer()
            assert (await peer.send("t", b"x", lists(LIGHT))).code == 0
            assert (await peer.pull(GROUP, LIGHT)).code == ResponseCode.TOPIC_NOT_EXIST
            assert await position(peer, RequestCode.GET_MAX_OFFSET) == 0

    run(test)


def test_names_are_bounded_and_a_deleted_queue_makes_room(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, maxLmqConsumeQueueNum="2", **ON) as at:
            peer = at.peer()
            for number in range(4):  # whoever only asks takes no room from those that have messages
                answer = await peer.pull("readers", f"%LMQ%asked{number}")
                assert answer.code == (ResponseCode.PULL_NOT_FOUND if number < 2 else ResponseCode.TOPIC_NOT_EXIST)
            assert (await peer.send("t", b"x", lists("%LMQ%1", "%LMQ%2"))).code == 0
            refused = await peer.send("t", b"x", lists("%LMQ%1", "%LMQ%3"))
            assert refused.code == ResponseCode.SYSTEM_ERROR and "LMQ_CONSUME_QUEUE_NUM_EXCEEDED" in (refused.remark or "")
            assert (await peer.pull("readers", "%LMQ%2")).code == 0
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%LMQ%2"})).code == 0
            assert await position(peer, RequestCode.GET_MAX_OFFSET, "%LMQ%2") == 0
            assert (await peer.send("t", b"x", lists("%LMQ%3"))).code == 0
            assert (await peer.pull("readers", "%LMQ%3")).code == 0
            commits = ("%LMQ%g", "%LMQ%3", 0), ("readers", "%LMQ%asked9", 17), ("%LMQ%h", "%LMQ%3", 0), ("%LMQ%i", "%LMQ%3", 26)
            for group, topic, code in commits:
                fields = {"topic": topic, "queueId": 0, "consumerGroup": group, "commitOffset": 1}
                assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == code, (group, topic)

    run(test)


def test_who_asks_where_to_read_gets_its_one_queue(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ON) as at:
            peer = at.peer()
            await peer.heartbeat("client", "readers", LIGHT)
            question = {"topic": LIGHT, "consumerGroup": "readers", "clientId": "client", "strategyName": "AVG"}
            question["messageModel"] = "CLUSTERING"
            answer = await peer.value(RequestCode.QUERY_ASSIGNMENT, {}, question)
            assert [each["messageQueue"] for each in answer["messageQueueAssignments"]] == [
                {"brokerName": "broker-a", "queueId": 0, "topic": LIGHT}
            ]

    run(test)


@pytest.mark.parametrize(("keys", "limit", "most"), [(ON, "65530", 20000), (ON, "3000", 1500), (ON, "hidden", 20000), ({}, "65530", 0)])
def test_there_are_no_more_than_the_kernel_maps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, keys: dict[str, str], limit: str, most: int
) -> None:
    config, file = broker_config(tmp_path, **keys), tmp_path / "max_map_count"
    file.write_text(limit)
    assert light_queues_max(config, file) == most
    warn_of_light_queues(config, file)
    assert ("sysctl -w vm.max_map_count=40000" in caplog.text) == (most == 1500)


class Sink:
    """The native tables, as far as they are written here."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def put_topic(self, topic: str, *_: object, **__: object) -> None:
        self.names.append(topic)

    def put_group(self, group: str, **_: object) -> None:
        self.names.append(group)

    def put_lite_group(self, group: str, topic: str, is_wildcard: bool) -> None:
        assert not topic and not is_wildcard

    def delete_topic(self, topic: str) -> None:
        self.names.remove(topic)

    delete_group = delete_topic


def test_tables_serve_names_up_to_their_bounds_and_keep_none() -> None:
    sink = Sink()
    topics = TopicTable(TopicSettings(light_queues_max=2), sink, lambda: 1)
    groups = GroupTable(sink, lambda: 1, settings=GroupSettings(light_groups_max=1))
    before = topics.version, groups.version, len(topics), len(groups)
    sink.names.clear()
    served = [topics.serve_light(f"%LMQ%{number}", has_messages=number % 2 == 1) for number in range(6)]
    assert served == [True, True, False, True, False, True]
    assert topics.serve_light("%LMQ%0", has_messages=False)
    assert [groups.find_or_create(f"%LMQ%g{number}") is not None for number in range(2)] == [True, False]
    assert sink.names == ["%LMQ%0", "%LMQ%1", "%LMQ%3", "%LMQ%5", "%LMQ%g0"]
    assert not topics.update(TopicConfig("%LMQ%0", 8, 8, 6))
    assert (topics.version, groups.version, len(topics), len(groups)) == before
    topics.delete("%LMQ%1")
    groups.delete("%LMQ%g0")
    assert sink.names == ["%LMQ%0", "%LMQ%3", "%LMQ%5"]
    assert "%LMQ%any" in topics and "%LMQ%any" in groups
    assert not any(name in topics for name in ("%LMQ%", "%LMQ%a/b", "%LMQ%" + "x" * 251, "%lmq%a"))


def test_lite_topics_without_messages_leave_names_to_others() -> None:
    topics = TopicTable(TopicSettings(light_queues_max=4), Sink(), lambda: 1)
    lite = [topics.serve_light(f"%LMQ%$parent${number}", has_messages=False) for number in range(3)]
    assert lite == [True, True, False] and topics.serve_light("%LMQ%$parent$0", has_messages=False)
    assert [topics.serve_light(f"%LMQ%{number}", has_messages=False) for number in range(3)] == [True, True, False]
    assert [topics.serve_light(f"%LMQ%$parent$m{number}", has_messages=True) for number in range(5)] == [True] * 4 + [False]
