"""Requests of operators about topics and groups where the disk does not play along or takes its time; test_service.py has the others."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest

from rocketpy._core.errors import StoreIOError
from rocketpy._core.remoting import Command
from rocketpy._core.store import decode_message
from rocketpy.broker.admin_groups import GroupAdmin
from rocketpy.broker.admin_topics import TopicAdmin
from rocketpy.broker.topic_deletion import TopicDeletion
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError
from rocketpy.remoting.json_codec import read_object
from tests.processes import PATIENCE_S
from tests.unit.broker.running import Peer, Running, eventually, run, running

COMMIT = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 1}


def read(home: Path, table: str) -> Any:
    """A saved table, by its names."""
    return read_object((home / "store/config" / f"{table}.json").read_bytes())["topicConfigTable" if table == "topics" else "offsetTable"]


def test_a_topic_whose_queues_cannot_be_deleted_does_not_come_back_with_the_next_start() -> None:
    parts = Mock()
    parts.settings = SimpleNamespace(validate_system_topic=False, clear_retry_topics=False, is_slave=False)
    parts.deletion = TopicDeletion(Mock(side_effect=StoreIOError("the disk says no")))
    parts.saved = SimpleNamespace(topics=AsyncMock(), offsets=AsyncMock(), queue_mappings=AsyncMock())
    delete = TopicAdmin(parts).handlers()[RequestCode.DELETE_TOPIC_IN_BROKER]
    request = cast(Any, SimpleNamespace(fields={"topic": "t"}, remote_address="127.0.0.1:1"))
    with pytest.raises(CommandError, match=r"queues of topic t could not be deleted: .*the disk says no"):
        asyncio.run(cast(Any, delete(request)))
    parts.topics.delete.assert_called_once_with("t")
    parts.saved.topics.save.assert_awaited_once()
    parts.saved.offsets.save.assert_awaited_once()


def test_a_group_whose_offsets_cannot_be_saved_does_not_come_back_with_the_next_start() -> None:
    parts = Mock()
    parts.saved = SimpleNamespace(groups=AsyncMock(), offsets=AsyncMock())
    parts.saved.offsets.save.side_effect = StoreIOError("the disk says no")
    delete = GroupAdmin(parts).handlers()[RequestCode.DELETE_SUBSCRIPTIONGROUP]
    request = cast(Any, SimpleNamespace(fields={"groupName": "g", "cleanOffset": "true"}, remote_address="127.0.0.1:1"))
    with pytest.raises(StoreIOError):
        asyncio.run(cast(Any, delete(request)))
    parts.groups.delete.assert_called_once_with("g")
    parts.saved.groups.save.assert_awaited_once()


def test_the_tables_are_saved_before_the_queues_go(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await peer.send("t")).code == (await peer.heartbeat("c", "g", "t")).code == 0
            assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)).code == 0
            assert at.broker.parts is not None
            saved, deletion = at.broker.parts.saved, at.broker.parts.deletion
            await saved.offsets.save()
            assert ("t" in read(tmp_path, "topics"), "t@g" in read(tmp_path, "consumerOffset")) == (True, True)
            at_deletion = []
            delete = deletion._delete

            def look_and_delete(topic: str) -> None:
                at_deletion.append(("t" in read(tmp_path, "topics"), "t@g" in read(tmp_path, "consumerOffset")))
                delete(topic)

            deletion._delete = look_and_delete
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})).code == 0
            assert at_deletion == [(False, False)]

    run(test)


class HeldDeletion:
    """A broker whose deletions of queues begin and do not end before `let_go`, as on a disk that is slow to sync."""

    def __init__(self, at: Running) -> None:
        assert at.broker.parts is not None
        deletion = at.broker.parts.deletion
        self._begun, self._may_end, self._delete = threading.Event(), threading.Event(), deletion._delete
        self.has_begun, self.let_go = self._begun.is_set, self._may_end.set
        deletion._delete = self._held

    def _held(self, topic: str) -> None:
        self._begun.set()
        assert self._may_end.wait(PATIENCE_S)
        self._delete(topic)


TOPIC = {
    "topic": "t", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip


async def begin(peer: Peer, work: Coroutine[Any, Any, Command]) -> asyncio.Task[Command]:
    """A request whose handler has begun: the broker has answered the one sent behind it."""
    assert (await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).code == 0  # connected
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    assert (await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).code == 0
    return task


def test_while_queues_are_deleted_others_are_answered_and_a_topic_made_anew_keeps_its_messages(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            operator, other, producer = at.peer(), at.peer(), at.peer()
            assert (await producer.send("t", b"old")).code == 0
            held = HeldDeletion(at)
            try:
                deleting = await begin(operator, operator.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"}))
                await eventually(held.has_begun, "the deletion")
                sending = await begin(producer, producer.send("t", b"new"))
                making = await begin(other, other.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC))
                assert not (deleting.done() or sending.done() or making.done())
                assert (await other.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "t"})).code == ResponseCode.TOPIC_NOT_EXIST
            finally:
                held.let_go()
            assert [answer.code for answer in await asyncio.gather(deleting, sending, making)] == [0, 0, 0]
            assert sending.result().fields["queueOffset"] == "0"
            pulled = await producer.pull("g", "t")
            assert pulled.code == 0 and decode_message(pulled.body).body == b"new"

    run(test)


def test_while_unused_topics_are_cleaned_others_are_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            operator, other = at.peer(), at.peer()
            assert at.broker.parts is not None
            at.broker.parts.store.append("nobodys", 0, b"x")
            held = HeldDeletion(at)
            try:
                cleaning = await begin(operator, operator.ask(RequestCode.CLEAN_UNUSED_TOPIC))
                await eventually(held.has_begun, "the deletion")
                assert (await other.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC)).code == 0
                assert not cleaning.done()
            finally:
                held.let_go()
            assert (await cleaning).code == 0
            assert ("nobodys", 0) not in at.broker.parts.store.queues()

    run(test)


def test_queues_of_a_deleted_topic_that_a_rebuild_brings_back_are_unused_topics(tmp_path: Path) -> None:
    """Its messages are in the log. RocketMQ 5.3.3 leaves its queue files, too, to whoever asks for cleanUnusedTopic."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await peer.send("t")).code == (await peer.send("kept")).code == 0
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})).code == 0
        shutil.rmtree(tmp_path / "store/consumequeue")
        async with running(tmp_path) as at:
            peer = at.peer()
            assert at.broker.parts is not None
            store = at.broker.parts.store
            assert {("t", 0), ("kept", 0)} <= set(store.queues())
            assert (await peer.pull("g", "t")).code == ResponseCode.TOPIC_NOT_EXIST
            assert (await peer.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
            assert ("kept", 0) in store.queues() and ("t", 0) not in store.queues()

    run(test)


def test_a_retry_topic_is_not_made_into_its_own_deletion(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            operator, consumer = at.peer(), at.peer()
            assert at.broker.parts is not None
            topics = at.broker.parts.topics
            assert (await consumer.heartbeat("c", "g", "t")).code == 0 and "%RETRY%g" in topics
            held = HeldDeletion(at)
            try:
                deleting = await begin(operator, operator.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%g"}))
                await eventually(held.has_begun, "the deletion")
                assert (await consumer.heartbeat("c", "g", "t")).code == 0 and "%RETRY%g" not in topics
            finally:
                held.let_go()
            assert (await deleting).code == 0
            assert (await consumer.heartbeat("c", "g", "t")).code == 0 and "%RETRY%g" in topics

    run(test)


def test_topics_are_deleted_one_at_a_time_and_one_that_is_given_up_is_waited_for() -> None:
    async def test() -> None:
        begun, may_end = [], threading.Event()

        def delete(topic: str) -> None:
            begun.append(topic)
            assert may_end.wait(PATIENCE_S)

        deletion = TopicDeletion(delete)
        first, second = (asyncio.create_task(deletion.delete_queues(topic)) for topic in ("a", "b"))
        try:
            await eventually(lambda: begun, "the first")
            first.cancel()
            over = asyncio.create_task(deletion.over("a"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert begun == ["a"] and not (first.done() or over.done())
            assert deletion.is_under_way("a") and deletion.is_under_way("b")
            await deletion.over("c")
        finally:
            may_end.set()
        await asyncio.wait([first, second, over])
        assert first.cancelled() and begun == ["a", "b"]
        assert not (deletion.is_under_way("a") or deletion.is_under_way("b"))

    run(test)
