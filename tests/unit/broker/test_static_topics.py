"""Static topics: a global queue that moves from one broker to another while it is written and read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import NoMemory, Unsupported
from rocketpy._core.remoting import Command
from rocketpy.broker.mapping_cleaner import MappingCleaner, leaders_of, rows_left
from rocketpy.broker.persistence import SavedState
from rocketpy.broker.queue_mappings import QueueMappings, SavedMappings
from rocketpy.broker.topics import TopicSettings, TopicTable
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import read_json, write_json
from rocketpy.remoting.queue_mapping import MappingItem, QueueMapping
from tests.soak.wire import batch_body
from tests.unit.broker.pair import pair
from tests.unit.broker.recorder import Clock, Recorder
from tests.unit.broker.running import Peer, Running, eventually, run, running, started
from tests.unit.broker.test_auth import ALICE, ASKING, ROOT, make_alice

TOPIC = "orders"
GROUP = "readers"


def item(gen: int, broker: str, queue_id: int, logic_offset: int) -> MappingItem:
    return MappingItem(gen, queue_id, broker, logic_offset)


def mapping(broker: str, epoch: int, hosted: dict[int, tuple[MappingItem, ...]], total: int = 1) -> QueueMapping:
    return QueueMapping(TOPIC, total, broker, epoch, hosted)


async def put(peer: Peer, mapped: QueueMapping, queues: int = 4, **fields: Any) -> Command:
    header = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False, "force": False,
    }  # fmt: skip
    return await peer.ask(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, {**header, **fields}, mapped.to_json())


FIRST = (item(0, "broker-a", 2, 0),)
UNDECIDED = (*FIRST, item(1, "broker-b", 1, -1))
MOVED = (*FIRST, item(1, "broker-b", 1, 10_000))
BACK = (*MOVED, item(2, "broker-a", 3, 20_000))


@dataclass
class Both:
    """Two masters of one cluster."""

    at: Running
    a: Peer
    b: Peer

    async def put(self, *mapped: QueueMapping) -> None:
        for each in mapped:
            answer = await put(self.a if each.broker_name == "broker-a" else self.b, each)
            assert answer.code == 0, answer.remark

    async def move(self, items: tuple[MappingItem, ...] = MOVED, epoch: int = 2) -> None:
        await self.put(mapping("broker-b", epoch, {0: items}), mapping("broker-a", epoch, {0: items}))


@asynccontextmanager
async def both_brokers(home: Path) -> AsyncIterator[Both]:
    async with running(home / "a") as at:
        names = f"127.0.0.1:{at.namesrv.port}"
        async with started(home / "b", brokerName="broker-b", namesrvAddr=names) as b:
            both = Both(at, at.peer(), b)
            for peer in (both.a, both.b):
                assert (await peer.heartbeat("c", GROUP, TOPIC)).code == 0
            yield both


def numbers(answer: Command, *names: str) -> tuple[int, ...]:
    return tuple(int(answer.fields[name]) for name in names)


def pulled(answer: Command) -> tuple[int, ...]:
    return (answer.code, *numbers(answer, "nextBeginOffset", "minOffset", "maxOffset", "offsetDelta"))


async def offset(peer: Peer, code: int, **fields: Any) -> int:
    answer = await peer.ask(code, {"topic": TOPIC, "queueId": 0, "consumerGroup": GROUP, **fields})
    assert answer.code == 0, f"{answer.code} {answer.remark}"
    return int(answer.fields["offset"])


def test_a_global_queue_is_written_and_read_through_two_brokers(tmp_path: Path) -> None:
    async def check() -> None:
        async with both_brokers(tmp_path) as both:
            a, b = both.a, both.b
            await both.put(mapping("broker-a", 1, {0: FIRST}), mapping("broker-b", 1, {}))
            sent = [await a.send(TOPIC, b"old %d" % number) for number in range(3)]
            assert [numbers(answer, "queueId", "queueOffset") for answer in sent] == [(0, 0), (0, 1), (0, 2)]
            await both.put(mapping("broker-b", 2, {0: UNDECIDED}), mapping("broker-a", 2, {0: UNDECIDED}))
            early = await b.send(TOPIC, b"new 0")
            assert numbers(early, "queueId", "queueOffset") == (0, -1), "stored before its offset is known"
            assert pulled(await b.pull(GROUP, TOPIC, offset=3)) == (ResponseCode.PULL_NOT_FOUND, 3, 0, 3, 0), "nothing to go on to yet"
            assert await offset(b, RequestCode.GET_MAX_OFFSET) == 3
            await both.move(epoch=3)
            assert numbers(await b.send(TOPIC, b"new 1"), "queueId", "queueOffset") == (0, 10_001)
            refused = await a.send(TOPIC)
            assert (refused.code, refused.remark) == (
                ResponseCode.NOT_LEADER_FOR_QUEUE,
                "orders-0 does not exit in request process of current broker broker-a",
            )
            found = await b.pull(GROUP, TOPIC, offset=1)
            assert pulled(found) == (0, 3, 0, 10_000, 0) and b"old 1" in found.body and b"old 2" in found.body
            assert pulled(await b.pull(GROUP, TOPIC, offset=3)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 10_000, 10_000, 10_000, 10_000)
            found = await b.pull(GROUP, TOPIC, offset=10_000)
            assert pulled(found) == (0, 10_002, 10_000, 10_002, 10_000) and b"new 0" in found.body and b"new 1" in found.body
            assert [await offset(b, code) for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)] == [0, 10_002]
            assert await offset(b, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=0) == 0
            assert await offset(b, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=1 << 50) == 10_002

    run(check)


def test_offsets_are_kept_where_their_messages_are(tmp_path: Path) -> None:
    async def check() -> None:
        async with both_brokers(tmp_path) as both:
            b = both.b
            await both.move()
            asked = {"topic": TOPIC, "queueId": 0, "consumerGroup": GROUP}
            assert (await b.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).code == ResponseCode.QUERY_NOT_FOUND
            for committed, kept_by, queue_id, kept in ((2, both.a, 2, 2), (10_001, b, 1, 1)):
                assert (await b.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": committed})).code == 0
                assert await offset(b, RequestCode.QUERY_CONSUMER_OFFSET) == committed
                assert await offset(kept_by, RequestCode.QUERY_CONSUMER_OFFSET, queueId=queue_id, lo=False) == kept
            pull = {"sysFlag": 4 | 1, "commitOffset": 10_005}
            assert (await b.pull(GROUP, TOPIC, offset=10_000, **pull)).code == ResponseCode.PULL_NOT_FOUND
            assert await offset(b, RequestCode.QUERY_CONSUMER_OFFSET) == 10_005, "a pull commits in the same offsets"
            assert (await both.a.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).code == ResponseCode.NOT_LEADER_FOR_QUEUE

    run(check)


def test_a_group_that_reads_on_is_not_behind_where_it_was(tmp_path: Path) -> None:
    async def check() -> None:
        async with both_brokers(tmp_path) as both:
            a, b = both.a, both.b
            await both.put(mapping("broker-a", 1, {0: FIRST}), mapping("broker-b", 1, {}))
            for _ in range(3):
                assert (await a.send(TOPIC)).code == 0
            commit = {"topic": TOPIC, "queueId": 0, "consumerGroup": GROUP}
            assert (await a.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**commit, "commitOffset": 1})).code == 0
            await both.move()
            assert (await b.pull(GROUP, TOPIC, offset=10_000, sysFlag=4 | 1, commitOffset=10_000)).code == ResponseCode.PULL_NOT_FOUND
            assert (await b.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**commit, "commitOffset": 10_000})).code == 0
            assert await offset(a, RequestCode.QUERY_CONSUMER_OFFSET, queueId=2, lo=False) == 3
            assert await offset(b, RequestCode.QUERY_CONSUMER_OFFSET) == 10_000
            other = {**commit, "consumerGroup": "others", "commitOffset": 10_000}
            assert (await b.heartbeat("d", "others", TOPIC)).code == 0
            assert (await b.ask(RequestCode.UPDATE_CONSUMER_OFFSET, other)).code == 0
            there = {"topic": TOPIC, "queueId": 2, "consumerGroup": "others", "lo": False, "setZeroIfNotFound": False}
            assert (await a.ask(RequestCode.QUERY_CONSUMER_OFFSET, there)).code == ResponseCode.QUERY_NOT_FOUND, "it was never there"

    run(check)


def test_a_queue_that_came_back_is_read_through_all_its_pieces(tmp_path: Path) -> None:
    async def check() -> None:
        async with both_brokers(tmp_path) as both:
            a, b = both.a, both.b
            await both.put(mapping("broker-a", 1, {0: FIRST}), mapping("broker-b", 1, {}))
            assert (await a.send(TOPIC, b"first")).code == 0
            await both.move()
            assert (await b.send(TOPIC, b"second")).code == 0
            await both.put(mapping("broker-a", 3, {0: BACK}), mapping("broker-b", 3, {0: BACK}))
            assert numbers(await a.send(TOPIC, b"third"), "queueId", "queueOffset") == (0, 20_000)
            bodies, offset_asked, steps = [], -5, 0
            while offset_asked < 20_001:
                steps += 1
                assert steps < 10
                answer = await a.pull(GROUP, TOPIC, offset=offset_asked)
                bodies.append(answer.body[-200:].split(b"UNIQ_KEY")[0] if answer.body else b"")
                assert answer.code in (0, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)
                (offset_asked,) = numbers(answer, "nextBeginOffset")
            assert [word for body in bodies for word in (b"first", b"second", b"third") if word in body] == [b"first", b"second", b"third"]
            earliest = {"topic": TOPIC, "queueId": 0}
            there = int((await a.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, earliest)).fields["timestamp"])
            assert there > 0
            assert await offset(a, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=there) == 0
            assert await offset(a, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=there + (1 << 40)) == 20_001
            assert await offset(a, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=0, boundaryType="upper") == 0

    run(check)


def test_a_pull_waits_in_global_offsets_and_is_sent_away_when_the_queue_moves(tmp_path: Path) -> None:
    async def check() -> None:
        async with both_brokers(tmp_path) as both:
            a, b = both.a, both.b
            await both.move()
            waits = {"sysFlag": 4 | 2, "suspendTimeoutMillis": 60_000}
            waiting = asyncio.ensure_future(b.pull(GROUP, TOPIC, offset=10_000, **waits))
            assert numbers(await b.send(TOPIC, b"woken"), "queueOffset") == (10_000,)
            assert pulled(await waiting) == (0, 10_001, 10_000, 10_001, 10_000)
            assert pulled(await b.pull(GROUP, TOPIC, offset=10_007, **waits))[:2] == (ResponseCode.PULL_OFFSET_MOVED, 10_001)
            waiting = asyncio.ensure_future(b.pull(GROUP, TOPIC, offset=10_001, **waits))
            await asyncio.sleep(0)
            await both.put(mapping("broker-a", 3, {0: BACK}), mapping("broker-b", 3, {0: BACK}))
            assert (await waiting).code == ResponseCode.PULL_RETRY_IMMEDIATELY
            assert (await b.pull(GROUP, TOPIC, offset=10_001, **waits)).code == ResponseCode.NOT_LEADER_FOR_QUEUE
            assert pulled(await a.pull(GROUP, TOPIC, offset=10_001))[:2] == (ResponseCode.PULL_RETRY_IMMEDIATELY, 20_000)

    run(check)


REFUSED = [
    ("broker-a", 1, MOVED, "Can't accept data with small epoch 1 < 2"),
    ("broker-a", 2, BACK, "The new leader is different but epoch equal"),
    ("broker-a", 2, (), "Cannot accept equal epoch with null data"),
    ("broker-a", 3, (*FIRST, item(1, "broker-b", 2, 10_000)), "The item of gen 1 is not the queue that it was"),
    ("broker-a", 3, (*FIRST, item(1, "broker-b", 1, 20_000)), "The logic offset of gen 1 was decided: 10000 != 20000"),
    (
        "broker-a",
        3,
        (*MOVED, item(2, "broker-a", 4, 20_000)),
        "The physical queue id is overflow the write queues: 4 of global queue 0, of 4",
    ),
    ("broker-a", 3, (*MOVED, item(1, "broker-a", 3, 20_000)), "The gen does not increase monotonically"),
    ("broker-a", 3, (*MOVED, item(2, "broker-a", -1, 20_000)), "The field is illegal, should not be negative"),
    ("broker-b", 3, BACK, "The mapping is of broker broker-b, this is broker-a"),
]


def test_a_mapping_that_cannot_follow_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await put(peer, mapping("broker-a", 2, {0: MOVED}))).code == 0
            before = await peer.value(RequestCode.GET_TOPIC_CONFIG, {"topic": TOPIC, "lo": True})
            for broker, epoch, items, fault in REFUSED:
                answer = await put(peer, mapping(broker, epoch, {0: items} if items else {}))
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, fault)
                assert await peer.value(RequestCode.GET_TOPIC_CONFIG, {"topic": TOPIC, "lo": True}) == before

    run(check)


def test_strange_mappings_are_refused_in_words(tmp_path: Path) -> None:
    good = mapping("broker-a", 1, {0: FIRST}).to_json()
    strange: list[Any] = [
        [], {}, {**good, "hostedQueues": {"x": []}}, {**good, "hostedQueues": {"70000": []}}, {**good, "totalQueues": -1},
        {**good, "hostedQueues": {"0": [{**FIRST[0].to_json(), "logicOffset": 1 << 62}]}},
        {**good, "hostedQueues": {"0": [{**FIRST[0].to_json(), "gen": "many"}]}},
        {**good, "hostedQueues": {"0": [7]}}, {**good, "topic": "other"}, {**good, "scope": 7},
    ]  # fmt: skip

    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            header = {"topic": TOPIC, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG"}
            for body in (b"", b"{", *(write_json(each) for each in strange)):
                answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, body)
                assert answer.code in (ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR) and answer.remark, body
            assert (await peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": TOPIC})).code == ResponseCode.TOPIC_NOT_EXIST
            assert (await put(peer, mapping("broker-a", 1, {0: FIRST}))).code == 0
            for fields in ({"offset": -(1 << 63)}, {"offset": (1 << 63) - 1}, {"queue_id": -1}, {"queue_id": 1 << 20}):
                assert (await peer.pull("g", TOPIC, **fields)).code in (ResponseCode.PULL_OFFSET_MOVED, 19, 501), fields
            assert numbers(await peer.send(TOPIC, queue_id=-1), "queueId", "queueOffset") == (0, 0), "any that is led here"

    run(check)


def test_batches_and_messages_that_wait_are_told_of_in_global_queues(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await put(peer, mapping("broker-a", 1, {0: BACK}))).code == 0
            header = {"a": "p", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "j": 0, "k": False, "m": True}
            answer = await peer.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch_body([(b"one", "A\1b\2"), (b"two", "A\1b\2")]))
            assert numbers(answer, "queueId", "queueOffset") == (0, 20_000) and answer.fields["msgId"].count(",") == 1
            assert numbers(await peer.send(TOPIC, b"three"), "queueOffset") == (20_002,)
            for properties in ("DELAY\0011\2", "TRAN_MSG\1true\2", "TIMER_DELAY_SEC\0011000\2"):
                answer = await peer.send(TOPIC, b"later", properties)
                assert (answer.code, numbers(answer, "queueId")) == (0, (0,)), properties
            found = await peer.pull(GROUP, TOPIC, offset=20_000)
            assert pulled(found)[:2] == (0, 20_003) and all(body in found.body for body in (b"one", b"two", b"three"))

    run(check)


def test_mappings_are_kept_over_a_restart_and_go_with_their_topic(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await put(peer, mapping("broker-a", 2, {0: BACK, 1: (item(0, "broker-a", 0, 0),)}, total=2))).code == 0
            route = await at.namesrv_route(TOPIC)
            assert route["topicQueueMappingByBroker"]["broker-a"]["currIdMap"] == {"0": 3, "1": 0}
        async with running(tmp_path) as at:
            peer = at.peer()
            saved = read_json((tmp_path / "store/config/topicQueueMapping.json").read_bytes())
            assert QueueMapping.from_json(saved["topicQueueMappingInfoMap"][TOPIC]).hosted[0] == BACK
            assert numbers(await peer.send(TOPIC), "queueId", "queueOffset") == (0, 20_000)
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})).code == 0
            assert read_json((tmp_path / "store/config/topicQueueMapping.json").read_bytes())["topicQueueMappingInfoMap"] == {}
            assert numbers(await peer.send(TOPIC, queue_id=3), "queueId", "queueOffset") == (3, 0), "a plain topic of that name"

    run(check)


def test_a_light_queue_is_no_static_topic(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path, enableLmq="true", enableMultiDispatch="true") as at:
            peer = at.peer()
            answer = await put(peer, replace(mapping("broker-a", 1, {0: FIRST}), topic="%LMQ%a"), topic="%LMQ%a")
            assert answer.code == ResponseCode.INVALID_PARAMETER and "light queue" in (answer.remark or "")
            assert (await peer.pull("g", "%LMQ%a")).code == ResponseCode.PULL_NOT_FOUND

    run(check)


def test_a_deletion_that_is_killed_leaves_no_mapping_behind_its_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await put(peer, mapping("broker-a", 2, {0: BACK}))).code == 0
            written: list[str] = []
            save = SavedState.save

            async def noted(self: SavedState) -> None:
                written.append(self.file.path.name)
                await save(self)

            monkeypatch.setattr(SavedState, "save", noted)
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})).code == 0
            assert written.index("topicQueueMapping.json") < written.index("topics.json")

    run(check)


def test_a_broker_that_is_gone_is_named(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            elsewhere = (item(0, "broker-x", 0, 0), item(1, "broker-a", 0, 10_000))
            assert (await put(peer, mapping("broker-a", 1, {0: elsewhere}))).code == 0
            for answer in (
                await peer.pull(GROUP, TOPIC, offset=5),
                await peer.ask(RequestCode.GET_MIN_OFFSET, {"topic": TOPIC, "queueId": 0}),
            ):
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "cannot find addr for broker broker-x")
            assert pulled(await peer.pull(GROUP, TOPIC, offset=10_000)) == (ResponseCode.PULL_NOT_FOUND, *3 * (10_000,), 10_000)

    run(check)


def test_pieces_without_messages_are_cleaned(tmp_path: Path) -> None:
    async def check() -> None:
        async with both_brokers(tmp_path) as both:
            parts = both.at.broker.parts
            assert parts is not None
            cleaner = MappingCleaner(parts)
            await both.put(mapping("broker-a", 3, {0: BACK}), mapping("broker-b", 3, {0: BACK}))
            await cleaner.run()
            assert parts.queue_mappings.get(TOPIC) == mapping("broker-a", 3, {0: BACK[1:]}), "one a round"
            assert (await both.b.send(TOPIC, queue_id=1, lo=False)).code == 0
            await cleaner.run()
            assert parts.queue_mappings.get(TOPIC) == mapping("broker-a", 3, {0: BACK[1:]}), "it has a message"
            await both.b.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
            await cleaner.run()
            assert parts.queue_mappings.get(TOPIC) == mapping("broker-a", 3, {0: BACK[1:]}), "nobody says that it is empty"
            await both.put(mapping("broker-b", 3, {0: BACK}))
            for _ in range(2):
                await cleaner.run()
            assert parts.queue_mappings.get(TOPIC) == mapping("broker-a", 3, {0: BACK[2:]}), "the last stays"

    run(check)


def test_a_row_of_a_queue_that_has_moved_on_is_cleaned() -> None:
    here = mapping("broker-a", 3, {0: MOVED, 1: FIRST})
    on = (*MOVED, item(2, "broker-c", 0, 20_000))
    leader = QueueMapping(TOPIC, 1, "broker-c", 3, {0: on})
    assert rows_left(here, {0: "broker-c"}, {"broker-c": leader}) == {0: (MOVED, ())}
    for leaders, remote in (
        ({0: "broker-b"}, {"broker-b": leader}),
        ({}, {"broker-c": leader}),
        ({0: "broker-c"}, {}),
        ({0: "broker-c"}, {"broker-c": replace(leader, epoch=4)}),
        ({0: "broker-c"}, {"broker-c": replace(leader, hosted={0: MOVED})}),
    ):
        assert rows_left(here, leaders, remote) == {}
    infos = {each.broker_name: each.info_json() for each in (here, leader, replace(leader, broker_name="broker-d", epoch=2))}
    assert leaders_of(infos, "__global__") == {0: "broker-c", 1: "broker-a"}
    assert leaders_of(infos, "other") == {}


def test_a_slave_has_its_masters_mappings(tmp_path: Path) -> None:
    async def check() -> None:
        async with pair(tmp_path) as both:
            assert (await put(both.master, mapping("broker-a", 2, {0: BACK}))).code == 0
            parts, master = both.slave_service.parts, both.at.broker.parts
            assert parts is not None and master is not None
            await eventually(lambda: TOPIC in parts.queue_mappings, "the copy")
            assert parts.queue_mappings.get(TOPIC) == mapping("broker-a", 2, {0: BACK})
            assert parts.queue_mappings.version == master.queue_mappings.version

    run(check)


def test_a_file_with_a_row_that_cannot_stand_is_not_served(tmp_path: Path) -> None:
    file = tmp_path / "store/config/topicQueueMapping.json"
    file.parent.mkdir(parents=True)
    wrong = mapping("broker-a", 1, {0: (item(1, "broker-a", 0, 0), item(0, "broker-a", 1, 5))})
    file.write_bytes(write_json({"topicQueueMappingInfoMap": {TOPIC: wrong.to_json()}}))

    async def check() -> None:
        with pytest.raises(Unsupported, match="queue mapping of topic orders: The gen does not increase monotonically; correct it"):
            async with started(tmp_path):
                pass
        file.write_bytes(b'{"topicQueueMappingInfoMap":')
        async with started(tmp_path) as peer:
            assert (await peer.send("plain")).code == 0

    run(check)


def test_by_force_a_mapping_is_taken_whatever_is_there(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            assert (await put(peer, mapping("broker-a", 2, {0: BACK, 1: (item(0, "broker-a", 0, 0),)}))).code == 0
            assert (await put(peer, mapping("broker-a", 1, {0: FIRST}), force=True)).code == 0
            assert parts.queue_mappings.get(TOPIC) == mapping("broker-a", 1, {0: FIRST, 1: (item(0, "broker-a", 0, 0),)})
            assert (
                await put(peer, mapping("broker-a", 3, {0: (item(0, "broker-a", 9, 0),)}), force=True)
            ).code == ResponseCode.SYSTEM_ERROR

    run(check)


def test_a_mapping_there_is_no_memory_for_changes_nothing() -> None:
    cells: dict[int, tuple[int, int]] = {}

    class Sink(Recorder):
        room = 2

        def put_queue_mapping(
            self, topic: str, global_id: int, queue_id: int, logic_offset: int, start_offset: int, earliest: bool
        ) -> None:
            if queue_id < 0:
                cells.pop(global_id, None)
            elif global_id in cells or len(cells) < self.room:
                cells[global_id] = (queue_id, logic_offset)
            else:
                raise NoMemory("no room for another cell")

    sink = Sink()
    table = QueueMappings("broker-a", TopicTable(TopicSettings(), sink, Clock()), sink, Clock())
    first = mapping("broker-a", 1, {0: FIRST, 5: (item(0, "broker-a", 0, 0),)})
    assert table.update(first) and not table.update(first)
    before, version = dict(cells), table.version
    with pytest.raises(NoMemory):
        table.update(mapping("broker-a", 2, {0: BACK, 5: (item(0, "broker-a", 0, 0),), 7: (item(0, "broker-a", 1, 0),)}))
    assert (cells, table.get(TOPIC), table.version) == (before, first, version)


def test_a_masters_table_is_taken_by_what_is_in_it() -> None:
    sink = Recorder()
    table = QueueMappings("broker-a", TopicTable(TopicSettings(), sink, Clock()), MappedNothing(), Clock())
    first = {TOPIC: mapping("broker-a", 1, {0: FIRST})}
    assert table.details_text() == "{}"
    assert table.replace_all(SavedMappings(first, table.version)), "a RocketMQ slave's empty file has its master's version"
    assert not table.replace_all(SavedMappings(first, table.version))
    assert read_json(table.details_text())[TOPIC]["epoch"] == 1
    assert table.replace_all(SavedMappings({}, table.version.next())) and table.details_text() == "{}" and len(table) == 0
    assert SavedMappings.of_master({"topicConfigTable": {}}) is None


class MappedNothing:
    """A sink that keeps nothing."""

    def put_queue_mapping(self, topic: str, global_id: int, queue_id: int, logic_offset: int, start_offset: int, earliest: bool) -> None:
        pass


def test_what_is_passed_on_is_signed_by_the_broker(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path, **ASKING) as at:
            root = at.peer(ROOT)
            await make_alice(root, f"Topic:{TOPIC}", f"Group:{GROUP}")
            alice = at.peer(ALICE)
            assert (await put(alice, mapping("broker-a", 1, {0: FIRST}))).code == ResponseCode.NO_PERMISSION
            assert (await put(root, mapping("broker-a", 1, {0: FIRST}))).code == 0
            assert (await alice.send(TOPIC, b"old")).code == 0
            assert (await put(root, mapping("broker-a", 2, {0: (*FIRST, item(1, "broker-a", 3, 10_000))}))).code == 0
            found = await alice.pull(GROUP, TOPIC, offset=0)
            assert pulled(found) == (0, 1, 0, 10_000, 0) and b"old" in found.body

    run(check)
