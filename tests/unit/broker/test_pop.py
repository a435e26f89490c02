"""Pop consumption through a whole broker: what is made for it, what order consumers have after a restart, what a slave sees."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketpy._core.results import PopOrder
from rocketpy.broker import names
from rocketpy.broker.consumer_offsets import ConsumerOffsets, SavedOffsets
from rocketpy.broker.consumer_orders import KEPT_MS, ORDERS_FILE, ConsumerOrders, SavedOrders
from rocketpy.broker.durable_offsets import DurableOffsets
from rocketpy.broker.parts import Parts
from rocketpy.broker.pop import RetryTopics
from rocketpy.broker.slave_synchronize import is_logged
from rocketpy.broker.topics import TopicSettings, TopicTable
from rocketpy.ha.service import LogMark
from rocketpy.remoting.bodies import DataVersion
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError
from rocketpy.remoting.json_codec import read_json, write_fastjson
from tests.unit.broker.pair import pair
from tests.unit.broker.recorder import Clock, Recorder
from tests.unit.broker.running import Peer, Running, eventually, run, running, started

REVIVE_TOPIC = names.REVIVE_TOPIC_PREFIX + "DefaultCluster"


async def pop(peer: Peer, topic: str = "t", group: str = "g", **changes: Any) -> Any:
    header = {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000, "pollTime": 0, "bornTime": 0,
        "initMode": 0, "expType": "TAG", "exp": "*", "order": False, **changes,
    }  # fmt: skip
    return await peer.ask(RequestCode.POP_MESSAGE, header)


def test_the_first_pop_makes_its_group_and_its_retry_topic(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await peer.send("t")
            assert (await pop(peer)).code == 0
            parts = at.broker.parts
            assert parts is not None and "g" in parts.groups
            config = parts.topics.get("%RETRY%g_t")
            assert config is not None and (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)
            assert "%RETRY%g_t" in (tmp_path / "store/config/topics.json").read_text()
            assert (await pop(peer)).code == ResponseCode.POLLING_TIMEOUT
            assert parts.native.pop_stats()["pops_punted"] == 1, "once"
            answer = await pop(peer, group="in-order", order=True)
            assert answer.code == 0 and "%RETRY%in-order_t" not in parts.topics

    run(test)


def test_a_pop_that_is_refused_makes_no_retry_topic(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await peer.send("t")
            for number, wrong in enumerate(({"queueId": 99}, {"maxMsgNums": 33}, {"maxMsgNums": 0})):
                for _ in ("the first of its group", "the second"):
                    assert (await pop(peer, group=f"g{number}", **wrong)).code == ResponseCode.INVALID_PARAMETER
                assert at.broker.parts is not None and f"%RETRY%g{number}_t" not in at.broker.parts.topics
                assert (await pop(peer, group=f"g{number}")).code == 0 and f"%RETRY%g{number}_t" in at.broker.parts.topics

    run(test)


def test_retry_topics_are_named_as_the_configuration_says(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, enableRetryTopicV2="true") as at:
            peer = at.peer()
            await peer.send("t")
            await pop(peer)
            assert at.broker.parts is not None and "%RETRY%g+t" in at.broker.parts.topics

    run(test)


def test_what_cannot_be_popped_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, autoCreateSubscriptionGroup="false") as at:
            peer = at.peer()
            await peer.send("t")
            assert (await pop(peer, "unknown")).code == ResponseCode.TOPIC_NOT_EXIST
            assert (await pop(peer)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        async with running(tmp_path / "other", enablePropertyFilter="false") as at:
            peer = at.peer()
            long_topic = "t" * 120
            await peer.send(long_topic)
            assert (await pop(peer, long_topic, "g" * 130)).code == ResponseCode.INVALID_PARAMETER, "no room for the retry topic's name"
            await peer.send("t")
            for kind, expression, code in (
                ("SQL92", "a =", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
                ("REGEX", "a", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
                ("SQL92", "a = 1", ResponseCode.SYSTEM_ERROR),
            ):
                assert (await pop(peer, expType=kind, exp=expression)).code == code

    run(test)


def test_questions_about_pops_make_the_group_and_no_retry_topic(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await peer.send("t")
            for number, code in enumerate((RequestCode.PEEK_MESSAGE, RequestCode.NOTIFICATION, RequestCode.POLLING_INFO)):
                fields = {"consumerGroup": f"g{number}", "topic": "t", "queueId": 0, "maxMsgNums": 1, "pollTime": 0, "bornTime": 0}
                assert (await peer.ask(code, fields)).code == 0
                assert (await peer.ask(code, {**fields, "topic": "unknown"})).code == ResponseCode.TOPIC_NOT_EXIST
                assert at.broker.parts is not None and f"g{number}" in at.broker.parts.groups
                assert not [each for each in at.broker.parts.topics if each.topic_name == f"%RETRY%g{number}_t"]

    run(test)


def test_a_group_that_begins_at_the_end_gets_the_last_message_and_all_that_come_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, initPopOffsetByCheckMsgInMem="false") as at:
            peer = at.peer()
            assert at.broker.parts is not None
            await at.broker.parts.make_topic("%RETRY%g_t", 1)
            for topic in ("t", "%RETRY%g_t"):
                for body in (b"A", b"B", b"C"):
                    await peer.send(topic, body)
            answer = await pop(peer, initMode=1)
            assert sorted(answer.fields["msgOffsetInfo"].split(";")) == ["0 0 2", "1 0 0,1,2"]
            await peer.send("t", b"D")
            answer = await pop(peer, initMode=1)
            assert answer.fields["msgOffsetInfo"] == "0 0 3", "it has begun"

    run(test)


def test_an_order_consumer_waits_for_what_was_not_acked_in_time(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await peer.send("t", queue_id=0)
            await peer.send("t", queue_id=2)
            first = await pop(peer, order=True, invisibleTime=300)
            again = await pop(peer, order=True, pollTime=60_000)
            assert again.code == 0
            assert sorted(again.fields["orderCountInfo"].split(";")) == ["0 0 1", "0 2 1", "0 qo0%0 1", "0 qo2%0 1"]
            assert int(again.fields["popTime"]) - int(first.fields["popTime"]) >= 300

    run(test)


def test_an_order_consumer_is_blocked_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            for body in (b"A", b"B", b"C"):
                await peer.send("t", body)
            assert (await pop(peer, queueId=0, order=True, maxMsgNums=2, attemptId="one")).code == 0
        file = tmp_path / "store/config" / ORDERS_FILE
        (info,) = read_json(file.read_bytes())["table"]["t@g"].values()
        assert (info["a"], info["cm"], info["i"], info["o"], info["oc"]) == ("one", 0, 60_000, [0, 1], {})
        async with started(tmp_path) as again:
            assert (await pop(again, queueId=0, order=True)).code == ResponseCode.POLLING_TIMEOUT
            answer = await pop(again, queueId=0, order=True, attemptId="one")
            assert answer.code == 0 and answer.fields["msgOffsetInfo"] == "0 0 0,1,2"
        file.write_bytes(b"{")
        (file.parent / (ORDERS_FILE + ".bak")).unlink(missing_ok=True)
        async with started(tmp_path) as again:
            assert (await pop(again, queueId=0, order=True)).code == 0, "nobody knows: they are popped again"

    run(test)


def test_a_slave_refuses_and_copies_no_offset_before_its_checkpoint(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.master.send("t")
            await both.settled()
            assert (await pop(both.slave)).code == ResponseCode.SYSTEM_ERROR
            assert (await pop(both.master)).code == 0
            master, slave = both.at.broker.parts, both.slave_service.parts
            assert master is not None and slave is not None
            end = master.store.stats()["commit_log_max_offset"]
            await eventually(lambda: slave.ha.log_end() >= end, "the checkpoint is at the slave")
            await both.copy_tables()
            assert slave.offsets.query("g", "t", 0) == 1 and "%RETRY%g_t" in slave.topics
            assert sum(slave.store.max_offset(REVIVE_TOPIC, queue) for queue in range(8)) == 1

    run(test)


def test_offsets_of_what_is_popped_are_about_the_log() -> None:
    topics = TopicTable(TopicSettings(), Recorder(), Clock())
    for topic in ("t", "%RETRY%g_t", "u", "%RETRY%h+u"):
        topics.create_plain(topic, 1, 6)
    about = {
        (topic, group)
        for topic in ("t", "u", "%RETRY%g_t", "%RETRY%h+u", "%RETRY%g", REVIVE_TOPIC)
        for group in ("g", "h", names.REVIVE_GROUP)
        if is_logged(topics, topic, group)
    }
    of_revive_group = {each for each in about if each[1] == names.REVIVE_GROUP}
    assert about - of_revive_group == {("t", "g"), ("u", "h"), ("%RETRY%g_t", "g"), ("%RETRY%h+u", "h")}
    saved = SavedOffsets({"t@g": {0: 1}, "u@g": {0: 2}}, DataVersion())
    assert saved.without(lambda topic, group: is_logged(topics, topic, group)).offsets == {"u@g": {0: 2}}


class Log:
    """One whose syncs are noted."""

    def __init__(self) -> None:
        self.synced: list[int] = []

    def mark(self) -> LogMark:
        return LogMark(500)

    def wait_durable(self, mark: LogMark, timeout_ms: int) -> None:
        self.synced.append(mark.end)


@pytest.mark.parametrize(("stats", "synced"), [((0, 0), []), ((1, 0), [500]), ((0, 1), [500])])
def test_offsets_are_written_behind_a_sync_once_something_was_popped(stats: tuple[int, int], synced: list[int]) -> None:
    recorder, log = Recorder(), Log()
    recorder.put_offset("g", "t", 0, 7)
    pop_stats = dict(zip(("pops_found", "revived"), stats, strict=True))
    offsets = DurableOffsets(ConsumerOffsets(recorder, Clock()), log, lambda: pop_stats, light=False)
    text = offsets.text(offsets.snapshot())
    assert SavedOffsets.from_json(read_json(text)).offsets == {"t@g": {0: 7}} and log.synced == synced


# ---- the file ----


class Orders:
    """A native table."""

    def __init__(self, *orders: PopOrder) -> None:
        self.orders = list(orders)

    def pop_orders(self) -> list[PopOrder]:
        return self.orders

    def put_pop_order(self, order: PopOrder) -> None:
        self.orders.append(order)

    def pop_order_version(self) -> int:
        return len(self.orders)


@pytest.fixture
def topics() -> Iterator[TopicTable]:
    table = TopicTable(TopicSettings(), Recorder(), Clock())
    table.create_plain("t", 4, 6)
    yield table


def order(**changes: Any) -> PopOrder:
    values = {
        "group": "g", "topic": "t", "queue_id": 3, "pop_time_ms": 5, "invisible_ms": 60, "last_consume_ms": 1_000_000, "acked": 2,
        "attempt_id": "a", "messages": ((7, 0, 0), (9, 80, 2), (12, 0, 1)), **changes,
    }  # fmt: skip
    return PopOrder(**values)


def orders_of(sink: Orders, topics: TopicTable, clock: Clock) -> ConsumerOrders:
    return ConsumerOrders(sink, topics, lambda group: group == "g", clock)


def test_the_file_is_what_rocketmq_writes_and_reads(topics: TopicTable) -> None:
    value = orders_of(Orders(order(), order(queue_id=1, attempt_id=None, messages=((4, 0, 0),))), topics, Clock()).snapshot()
    assert write_fastjson(value).decode() == (
        '{"table":{"t@g":{1:{"cm":2,"i":60,"l":1000000,"o":[4],"oc":{},"popTime":5},'
        '3:{"a":"a","cm":2,"i":60,"l":1000000,"o":[7,2,5],"oc":{9:2,12:1},"ot":{9:80},"popTime":5}}}}'
    )
    read = Orders()
    orders_of(read, topics, Clock()).load(SavedOrders.from_json(read_json(write_fastjson(value))))
    assert sorted(read.orders) == sorted([order(), order(queue_id=1, attempt_id=None, messages=((4, 0, 0),))])


@pytest.mark.parametrize(
    "changes", [{"group": "gone"}, {"topic": "gone"}, {"queue_id": 4}, {"queue_id": -1}, {"last_consume_ms": 1_000_000 - KEPT_MS - 1}]
)
def test_queues_that_are_gone_are_left_out(changes: dict[str, Any], topics: TopicTable) -> None:
    sink = Orders(order(**changes))
    assert orders_of(sink, topics, Clock()).snapshot() == {"table": {}}
    read = Orders()
    orders_of(read, topics, Clock()).load(SavedOrders((order(**changes),)))
    assert read.orders == []


NONSENSE = [
    7, {}, {"o": 1}, {"o": []}, {"o": ["x"]}, {"o": [0] * 33}, {"o": [-1]}, {"o": [1 << 63]}, {"o": [0], "cm": "x"}, {"o": [0], "i": {}},
    {"o": [0], "oc": {"x": 1}},
]  # fmt: skip


@pytest.mark.parametrize("info", NONSENSE, ids=str)
def test_a_queue_of_which_the_file_says_nonsense_is_free(info: Any) -> None:
    good = {"o": [3], "oc": 7, "ot": {"3": "x"}, "a": "a" * 300}
    (read,) = SavedOrders.from_json({"table": {"t@g": {"0": info, "1": good}}}).orders
    assert (read.queue_id, read.messages, read.attempt_id) == (1, ((3, 0, 0),), None)


def test_a_file_that_is_none_is_refused() -> None:
    for value in (7, [], {"table": 7}, {"table": {"t@g": 7}}):
        with pytest.raises(ValueError, match="expected an object"):
            SavedOrders.from_json(value)
    for number in ("x", str(2**63)):
        with pytest.raises(ValueError, match=f"order info of t@g: a queue is '?{number}'?, expected a number"):
            SavedOrders.from_json({"table": {"t@g": {number: {"o": [3]}}}})
    assert SavedOrders.from_json({}).orders == ()


class FewParts:
    """Of a broker that refuses topics with "no" in their names."""

    settings = SimpleNamespace(is_slave=True)

    def __init__(self, wanted: list[str]) -> None:
        self.native = self
        self.wanted = wanted
        self.made: list[str] = []

    def wanted_retry_topic(self) -> tuple[str, int] | None:
        return (self.wanted.pop(), 1) if self.wanted else None

    async def make_topic(self, topic: str, queues: int) -> str:
        if "no" in topic:
            raise CommandError(ResponseCode.SYSTEM_ERROR, "no room")
        self.made.append(topic)
        return topic

    async def widen_topic(self, topic: str, queues: int) -> None:
        pass


def test_a_retry_topic_that_cannot_be_made_stops_no_other_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        for _ in range(3):
            parts.wanted += ["two", "no-two", "one", "no-one"]
            await topics.make_wanted()

    parts = FewParts([])
    topics = RetryTopics(cast(Parts, parts))
    run(test)
    assert sorted(parts.made) == ["one"] * 3 + ["two"] * 3 and not parts.wanted
    assert sorted(record.getMessage().split()[3] for record in caplog.records) == ["no-one", "no-two"]


async def make_topic(peer: Peer, topic: str, queues: int) -> None:
    header = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
    }  # fmt: skip
    assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)).code == 0


def queues_of(at: Running, topic: str) -> tuple[int, int]:
    assert at.broker.parts is not None
    config = at.broker.parts.topics.get(topic)
    return (config.read_queue_nums, config.write_queue_nums) if config is not None else (0, 0)


def test_a_retry_topic_gets_as_many_queues_as_its_topic_and_keeps_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, useSeparateRetryQueue="true") as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            await make_topic(peer, "t", 4)
            await pop(peer)
            assert queues_of(at, "%RETRY%g_t") == (4, 4)
            await make_topic(peer, "t", 8)
            await pop(peer)
            assert queues_of(at, "%RETRY%g_t") == (8, 8)
            saved = read_json((tmp_path / "store/config/topics.json").read_bytes())["topicConfigTable"]["%RETRY%g_t"]
            assert (saved["readQueueNums"], saved["writeQueueNums"]) == (8, 8)
            await make_topic(peer, "t", 2)
            await pop(peer)
            assert queues_of(at, "%RETRY%g_t") == (8, 8), "what is in the others would not be popped"
            assert parts.native.pop_stats()["pops_punted"] == 2, "once each time"

    run(test)


async def let_come_again(peer: Peer, offset: int) -> None:
    """Of queue 3, by a checkpoint that is over."""
    checkpoint = (
        f'{{"bm":0,"bn":"broker-a","c":"g","d":[0],"it":1000,"n":1,"pt":{time.time_ns() // 1_000_000 - 60_000},"q":3,'
        f'"ro":0,"so":{offset},"t":"t"}}'
    )
    await peer.send(REVIVE_TOPIC, checkpoint.encode(), "TAGS\x01ck\x02UNIQ_KEY\x01k\x02")


def test_separate_retry_queues_are_turned_on_and_off_and_nothing_is_lost(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            store = parts.store
            await make_topic(peer, "t", 4)
            await peer.heartbeat("c", "g", "t")
            for body in (b"first", b"second"):
                await peer.send("t", body, queue_id=3)
            await let_come_again(peer, 0)
            await eventually(lambda: store.max_offset("%RETRY%g_t", 0) == 1, "it comes again in the only queue")
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"useSeparateRetryQueue=true\n")).code == 0
            await let_come_again(peer, 1)
            await eventually(lambda: store.max_offset("%RETRY%g_t", 3) == 1, "it comes again in its own")
            assert queues_of(at, "%RETRY%g_t") == (4, 4)
        async with running(tmp_path) as at:
            bodies = b""
            for _ in range(3):
                bodies += (await pop(at.peer(), queueId=0)).body
            assert bodies.count(b"first") == bodies.count(b"second") == 1

    run(test)


def test_queues_of_a_retry_topic_that_its_broker_was_killed_before_writing_down_are_popped(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, useSeparateRetryQueue="true") as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            store = parts.store
            await make_topic(peer, "t", 4)
            await peer.heartbeat("c", "g", "t")
            await peer.send("t", b"to come again", queue_id=3)
            await let_come_again(peer, 0)
            await eventually(lambda: store.max_offset("%RETRY%g_t", 3) == 1, "it comes again in its own")
        file = tmp_path / "store/config/topics.json"
        tables = read_json(file.read_bytes())
        tables["topicConfigTable"]["%RETRY%g_t"] |= {"readQueueNums": 1, "writeQueueNums": 1}
        file.write_bytes(write_fastjson(tables))
        async with running(tmp_path) as at:
            await eventually(lambda: queues_of(at, "%RETRY%g_t") == (4, 4), "as many as have messages")
            assert (await pop(at.peer(), queueId=0)).body.count(b"to come again") == 1

    run(test)


def test_retry_topics_that_are_made_together_are_written_down_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            parts = at.broker.parts
            assert parts is not None
            wanted, writes, write = [(f"%RETRY%g_{at}", 4) for at in range(40)], [0], parts.saved.topics._write

            def count(value: Any) -> None:
                writes[0] += 1
                write(value)

            monkeypatch.setattr(parts.saved.topics, "_write", count)
            named = SimpleNamespace(wanted_retry_topic=lambda: wanted.pop() if wanted else None)
            few = SimpleNamespace(
                native=named, settings=SimpleNamespace(is_slave=True), make_topic=parts.make_topic, widen_topic=parts.widen_topic
            )
            await RetryTopics(cast(Parts, few)).make_wanted()
            assert not wanted and writes[0] <= 2 and all(queues_of(at, f"%RETRY%g_{each}") == (4, 4) for each in range(40))
            assert not parts.topics.withheld

    run(test)


def test_missing_retry_topics_are_made_for_what_waits_there(tmp_path: Path) -> None:
    """A store in which nobody has popped the topic since RocketMQ did."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            parts = at.broker.parts
            assert parts is not None
            await peer.send("t", b"to come again")
            await peer.heartbeat("c", "g", "t")
            checkpoint = (
                f'{{"bm":0,"bn":"broker-a","c":"g","d":[0],"it":1000,"n":1,"pt":{time.time_ns() // 1_000_000 - 60_000},"q":0,'
                '"ro":0,"so":0,"t":"t"}'
            )
            assert "%RETRY%g_t" not in parts.topics
            await peer.send(REVIVE_TOPIC, checkpoint.encode(), "TAGS\x01ck\x02UNIQ_KEY\x01k\x02")
            await eventually(lambda: parts.store.max_offset("%RETRY%g_t", 0) == 1, "it comes again")
            answer = await pop(peer, queueId=3)
            assert answer.code == 0 and b"to come again" in answer.body

    run(test)
