"""What a slave knows of topics that were made or deleted at its master a moment ago, and what it has of them when it is made the master."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

import rocketpy.broker.housekeeping
from rocketpy._core.remoting import Command
from rocketpy._core.store import MessageStore
from rocketpy.broker import slave_synchronize
from rocketpy.broker.deleted_topics import DeletedTopics
from rocketpy.broker.slave_synchronize import TOPICS, CopiedState, SlaveSynchronize
from rocketpy.broker.topics import SavedTopics, TopicSettings, TopicTable
from rocketpy.broker.unlisted_topics import unlisted_topics
from rocketpy.remoting.bodies import DataVersion, TopicConfig
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .pair import Pair, pair
from .recorder import Clock, Recorder
from .running import Peer, eventually, run, started

TOPIC = {
    "topic": "t", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip

SYSTEM = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture(autouse=True)
def no_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocketpy.broker.housekeeping, "SLAVE_SYNCHRONIZE_S", 3600.0)


@asynccontextmanager
async def promoted(both: Pair) -> AsyncIterator[Peer]:
    """The slave, started again as the master."""
    await both.slave_service.stop()
    async with started(both.slave_home.parent, namesrvAddr=f"127.0.0.1:{both.at.namesrv.port}", haListenPort="0") as peer:
        yield peer


async def deleted(both: Pair, topic: str) -> None:
    assert (await both.master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})).code == 0


def slave_store(both: Pair) -> MessageStore:
    assert both.slave_service.parts is not None
    return both.slave_service.parts.store


# ---- topics that were just made ----


def test_the_first_message_of_a_new_topic_brings_its_configuration_to_the_slave(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            await both.settled()
            parts = both.slave_service.parts
            assert parts is not None
            assert (await both.master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
            assert "t" not in parts.topics
            assert (await both.master.send("t")).code == 0
            await eventually(lambda: "t" in parts.topics, "the copy")
            assert parts.topics.get("t").write_queue_nums == 2

    run(test)


@dataclass
class Master:
    """Of a slave that is connected to its log for the number-th time; answers everything with nothing."""

    number: int | None = 1
    is_stranger: bool = False

    def connection(self) -> int | None:
        return self.number

    async def call(self, *request: Any, **limits: Any) -> Command:
        return Command(0)


def test_new_topics_have_only_topics_copied_while_the_rest_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []

    def row(name: str) -> CopiedState:
        return CopiedState(name, RequestCode.GET_ALL_TOPIC_CONFIG, lambda _: bool(copied.append(name)), AsyncMock())

    async def test() -> None:
        master = Master()
        synchronize = SlaveSynchronize(master, (row(TOPICS), row("rest")), master)

        async def round_copies(*names: str) -> bool:
            copied.clear()
            synchronize.is_due.clear()
            await synchronize.run_due()
            return copied == list(names)

        synchronize.follow("127.0.0.1:1")
        synchronize.is_to_copy()
        assert await round_copies(TOPICS, "rest")
        synchronize.is_to_copy()
        assert await round_copies(TOPICS)
        assert await round_copies(TOPICS, "rest"), "its period came"
        synchronize.is_to_copy()
        synchronize.follow("127.0.0.1:2")
        synchronize.is_to_copy()
        assert await round_copies(TOPICS, "rest"), "another master"
        master.number = 2
        synchronize.is_to_copy()
        assert await round_copies(TOPICS, "rest"), "it was away"
        monkeypatch.setattr(slave_synchronize, "WHOLE_S", 0.0)
        synchronize.is_to_copy()
        assert await round_copies(TOPICS, "rest"), "new topics without end"

    run(test)


def test_messages_of_a_topic_made_just_before_its_master_died_are_read_at_the_promoted_slave(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            for topic in ("old", "deleted"):
                assert (await both.master.send(topic)).code == 0
            await both.in_sync()
            sent_ms = time.time_ns() // 1_000_000  # a table of the same millisecond as a topic's first message does not count as younger
            while time.time_ns() // 1_000_000 == sent_ms:
                pass
            await deleted(both, "deleted")
            await both.copy_tables()
            parts = both.slave_service.parts
            assert parts is not None and "old" in parts.topics
            await both.quiet()  # as if the master died before it could be asked
            assert (await both.master.send("new", queue_id=2)).code == 0
            await both.in_sync()
            assert "new" not in parts.topics
            await both.slave.heartbeat("client", "g", "new")  # its retry topic must not make the table look younger than the topic
            async with promoted(both) as master:
                for topic, queue_id in (("old", 0), ("new", 2)):
                    assert (await master.pull("g", topic, queue_id)).body, topic
                    assert (await master.send(topic)).code == 0
                assert (await master.value(RequestCode.GET_TOPIC_CONFIG, {"topic": "new"}))["readQueueNums"] == 3
                assert (await master.pull("g", "deleted")).code == ResponseCode.TOPIC_NOT_EXIST

    run(test)


QUEUES = {("new", 0): (0, 1, 100), ("new", 3): (0, 5, 120), ("old", 0): (0, 9, 99), ("kept", 0): (4, 9, 200), ("empty", 0): (0, 0, -1)}
QUEUES |= {("both", 0): (0, 1, 100), ("both", 1): (0, 1, 99), ("both", 2): (0, 1, 100), ("known", 0): (0, 1, 100), ("lost", 0): (0, 1, -1)}
QUEUES |= {("%LMQ%light", 0): (0, 1, 100), ("rmq_sys_wheel_timer", 0): (0, 1, 100), ("t" * 300, 0): (0, 1, 100)}


def test_only_topics_whose_every_message_is_younger_than_the_table_are_new() -> None:
    found = unlisted_topics(QUEUES, lambda topic: topic == "known", lambda *queue: QUEUES[queue][:2], lambda *queue: QUEUES[queue][2], 100)
    assert found == {"new": 4}


def test_a_table_that_was_never_copied_knows_of_no_deletion() -> None:
    """As of a member that joined its group a moment ago and leads: others would take topics that it lacks for deleted ones."""
    found = unlisted_topics(QUEUES, lambda topic: topic == "known", lambda *queue: QUEUES[queue][:2], lambda *queue: QUEUES[queue][2], 0)
    assert found == {"new": 4, "old": 1, "kept": 1, "both": 3, "lost": 1}
    assert TopicTable(TopicSettings(), Recorder(), Clock(), is_copy=True).version.timestamp == 0


# ---- topics that were deleted ----


def test_queues_of_a_topic_that_is_deleted_at_the_master_go_at_its_slave(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            for queue_id in (0, 1):
                assert (await both.master.send("t", b"old", queue_id=queue_id)).code == 0
            assert (await both.master.send("other")).code == 0
            await both.in_sync()
            await both.copy_tables()
            await deleted(both, "t")
            await both.copy_tables()
            assert {topic for topic, _ in slave_store(both).queues()} == {"other"}
            assert (await both.master.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
            await both.copy_tables()
            assert slave_store(both).max_offset("t", 0) == slave_store(both).max_offset("t", 1) == 0
            assert (await both.master.send("t", b"new")).code == 0
            await both.in_sync()
            assert b"new" in (await both.slave.pull("g", "t")).body

    run(test)


def test_messages_of_a_topic_made_again_while_its_old_queues_go_stay_at_the_slave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            for queue_id in (0, 1):
                assert (await both.master.send("t", b"old", queue_id=queue_id)).code == 0
            await both.in_sync()
            await both.copy_tables()
            parts = both.slave_service.parts
            assert parts is not None
            await both.quiet()
            await deleted(both, "t")
            real = parts.deletion.delete_old

            async def made_again_first(topic: str, log_offset: int) -> bool:
                assert (await both.master.send("t", b"new")).code == 0
                await both.in_sync()
                return await real(topic, log_offset)

            monkeypatch.setattr(type(parts.deletion), "delete_old", lambda _, *queue: made_again_first(*queue))
            await both.copy_tables()
            store = slave_store(both)
            assert "t" not in parts.topics and store.max_offset("t", 0) == 1 and store.max_offset("t", 1) == 0
            await both.copy_tables()
            assert b"new" in (await both.slave.pull("g", "t")).body

    run(test)


def test_a_master_that_came_back_without_its_topics_takes_no_queue_away(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path) as both:
            assert (await both.master.send("t")).code == 0
            await both.in_sync()
            await both.copy_tables()
            parts = both.slave_service.parts
            assert parts is not None and both.at.broker.parts is not None
            async with both.master_away():
                both.at.broker.parts.topics.delete("t")  # the table alone, as if topics.json had been lost
            for _ in range(2):
                await both.copy_tables()
            assert "t" not in parts.topics and slave_store(both).max_offset("t", 0) == 1

    run(test)


def saved(counter: int, *topics: str) -> SavedTopics:
    return SavedTopics({topic: TopicConfig(topic) for topic in topics}, DataVersion(1, counter))


def test_a_table_of_too_few_changes_deleted_nothing() -> None:
    deleted = DeletedTopics(lambda topic: topic == SYSTEM)
    for connection, copied, expected in (
        (1, saved(5, "a", "b", "c"), set()),
        (1, saved(6, "b", "c"), {"a"}),
        (1, saved(7, "a", "b", "c"), set()),  # made again
        (1, saved(8, "c"), set()),  # two gone by one change
        (1, saved(9), {"c"}),
        (2, saved(9), set()),
        (2, saved(9), set()),
        (None, saved(10), set()),
    ):
        deleted.asked("m", connection, 100)
        deleted.take(copied, connection, lambda: saved(0))
        assert deleted.topics == expected, copied


def test_an_answer_that_came_behind_a_new_connection_deletes_nothing() -> None:
    deleted = DeletedTopics(lambda topic: topic == SYSTEM)
    for asked_by, copied, connection in ((1, saved(5, "a", "b"), 1), (1, saved(6, "b"), 2), (2, saved(7), 2)):
        deleted.asked("m", asked_by, 100)
        deleted.take(copied, connection, lambda: saved(0))
        assert not deleted.topics, copied


def test_the_table_of_another_master_deletes_nothing() -> None:
    """With haMasterAddress the log stays that of one when the name servers name the other."""
    deleted = DeletedTopics(lambda topic: topic == SYSTEM)
    for master, copied in (("one", saved(5, "a")), ("other", saved(900)), ("one", saved(5, "a"))):
        deleted.asked(master, 1, 100)
        deleted.take(copied, 1, lambda: saved(0))
        assert not deleted.topics, master


def test_offsets_go_with_topics_that_were_deleted_while_one_was_away_and_stay_when_the_table_was_lost() -> None:
    deleted = DeletedTopics(lambda topic: topic == SYSTEM)
    for connection, copied, expected in (
        (1, saved(6, "b", "c"), {"a"}),  # since the slave saved its own
        (2, saved(7, "c"), {"a", "b"}),
        (2, saved(8, "b", "c"), {"a"}),  # made again
        (3, saved(0), {"a"}),  # lost
        (3, saved(9, "d"), {"a"}),
    ):
        deleted.asked("m", connection, 100)
        deleted.take(copied, connection, lambda: saved(5, SYSTEM, "a", "b", "c"))
        assert deleted.of_offsets == expected, copied
