"""Messages sent back by consumers, through a whole broker: the next try, the dead letters, what is refused, in RocketMQ's words."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.remoting import Command
from rocketpy._core.store import Message
from rocketpy.broker import names
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S
from tests.unit.broker.pair import pair
from tests.unit.broker.running import Peer, eventually, run, running, started
from tests.unit.broker.test_delays import delivered, messages, waiting

QUICK = {"messageDelayLevel": "0s 0s 0s 1s 1h"}
"""The first try is at level 3, the second at level 4."""


def offset_of(answer: Command) -> int:
    """The log offset in a message id of IPv4."""
    assert answer.code == 0, (answer.code, answer.remark)
    return int(answer.fields["msgId"][16:], 16)


async def send_back(peer: Peer, offset: int, group: str = "g", level: int = 0, **fields: Any) -> Command:
    header = {"offset": offset, "group": group, "delayLevel": level, "originTopic": "t", "originMsgId": "an id", "unitMode": False}
    return await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {**header, **fields})


async def stored(peer: Peer, topic: str, queue_id: int = 0, offset: int = 0) -> list[Message]:
    return messages(await peer.pull("g", topic, queue_id, offset))


def test_a_message_sent_back_comes_again_by_the_retry_topic(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer = at.peer()
            sent = await peer.send("t", b"work", "KEYS\x01k\x02TAGS\x01a\x02WAIT\x01true\x02UNIQ_KEY\x01u\x02", f=0, h=7)
            answer = await send_back(peer, offset_of(sent))
            assert answer.code == 0 and answer.remark is None
            (retried,) = await delivered(peer, "%RETRY%g")
            (first,) = await stored(peer, "t")
            assert retried.body == b"work" and retried.flag == 7 and retried.reconsume_times == 1
            assert (retried.born_timestamp_ms, retried.born_host) == (first.born_timestamp_ms, first.born_host)
            wanted = {"KEYS": "k", "TAGS": "a", "UNIQ_KEY": "u", "WAIT": "false", "RETRY_TOPIC": "t", "DELAY": "3"}
            wanted |= {"ORIGIN_MESSAGE_ID": sent.fields["msgId"], "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0"}
            assert {name: retried.properties.get(name) for name in wanted} == wanted
            assert (await send_back(peer, retried.commit_log_offset)).code == 0
            (again,) = await delivered(peer, "%RETRY%g", 0, 1)
            assert again.reconsume_times == 2 and again.properties["DELAY"] == "4" and again.properties["RETRY_TOPIC"] == "t"
            assert again.properties["ORIGIN_MESSAGE_ID"] == sent.fields["msgId"]
            assert (await send_back(peer, again.commit_log_offset, level=5)).code == 0
            assert await waiting(peer, 5) == 1, "the level that was asked for"

    run(test)


@pytest.mark.parametrize("fields", [{"level": -1}, {"maxReconsumeTimes": 0}])
def test_after_the_last_try_it_is_a_dead_letter(tmp_path: Path, fields: dict[str, int]) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer = at.peer()
            offset = offset_of(await peer.send("t", b"poison", "TAGS\x01a\x02"))
            for number in range(2):  # the first one makes the topic
                assert (await send_back(peer, offset, **fields)).code == 0  # type: ignore[arg-type]
                dead = await stored(peer, "%DLQ%g")
                assert len(dead) == number + 1
            assert dead[0].body == b"poison" and dead[0].reconsume_times == 1 and dead[0].properties["DELAY"] == "0"
            assert "REAL_TOPIC" not in dead[0].properties and dead[0].properties["RETRY_TOPIC"] == "t"
            config = at.broker.parts.topics.get("%DLQ%g")  # type: ignore[union-attr]
            assert config is not None and (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)
        assert "%DLQ%g" in (tmp_path / "store" / "config" / "topics.json").read_text()

    run(test)


def test_what_a_group_sends_back_is_counted_by_the_messages_topic(tmp_path: Path) -> None:
    """RocketMQ's incSendBackNums (BrokerStatsManagerTest), which its exporter and others watch for failing consumers."""

    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer = at.peer()
            header = {"statsName": "SNDBCK_PUT_NUMS", "statsKey": "t@g"}
            offset = offset_of(await peer.send("t", b"work"))
            assert (await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)).code == ResponseCode.SYSTEM_ERROR
            for level in (0, 4, -1):
                assert (await send_back(peer, offset, level=level)).code == 0
            assert (await send_back(peer, offset, group="h")).code == 0
            assert (await send_back(peer, offset + 1)).code == ResponseCode.SYSTEM_ERROR
            assert (await send_back(peer, offset, originTopic="no topic")).code == 0  # it is not asked what the client thinks
            at.broker.parts.stats.sample_series()  # type: ignore[union-attr]
            assert (await peer.value(RequestCode.VIEW_BROKER_STATS_DATA, header))["statsMinute"]["sum"] == 4
            assert (await peer.value(RequestCode.VIEW_BROKER_STATS_DATA, {**header, "statsKey": "t@h"}))["statsMinute"]["sum"] == 1
            unknown = await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, {**header, "statsKey": "no topic@g"})
            assert unknown.code == ResponseCode.SYSTEM_ERROR
            await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
            at.broker.parts.stats.sample_series()  # type: ignore[union-attr]
            assert (await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)).code == ResponseCode.SYSTEM_ERROR

    run(test)


def test_what_cannot_be_sent_back_is_refused_in_words(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, autoCreateSubscriptionGroup="false", **QUICK) as at:
            peer = at.peer()
            offset = offset_of(await peer.send("t", b"x"))
            answer = await send_back(peer, offset)
            assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            assert (answer.remark or "").startswith("subscription group not exist, g")
            answer = await peer.send("%RETRY%g", b"x")
            assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%g"})
            await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", "retryQueueNums": 2})
            for wrong in (offset + 1, offset - 1, -5, 1 << 40):
                answer = await send_back(peer, wrong)
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {wrong}")
            assert (await send_back(peer, offset)).code == 0
            retry = at.broker.parts.topics.get("%RETRY%g")  # type: ignore[union-attr]
            assert retry is not None and retry.write_queue_nums == 2
            at.broker.config.update({"brokerPermission": "4"})
            answer = await send_back(peer, offset)
            assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "the broker[127.0.0.1] sending message is forbidden")
            at.broker.config.update({"brokerPermission": "6"})
            await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", "retryQueueNums": 0})
            before = at.broker.parts.store.stats()["messages_appended"]  # type: ignore[union-attr]
            assert (await send_back(peer, offset)).code == 0
            assert at.broker.parts.store.stats()["messages_appended"] == before, "such a group has no retries"  # type: ignore[union-attr]

    run(test)


def test_what_a_consumer_sends_to_its_retry_topic_itself_has_as_many_tries(tmp_path: Path) -> None:
    """Java's clients do, where a message was consumed in order, or could not be sent back."""

    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            answer = await peer.send("%RETRY%g", b"again", "RETRY_TOPIC\x01t\x02DELAY\x013\x02", j=3, l=3)
            assert answer.code == 0
            (message,) = await delivered(peer, "%RETRY%g")
            assert message.body == b"again" and message.reconsume_times == 3 and message.properties["RETRY_TOPIC"] == "t"
            assert (await peer.send("%RETRY%g", b"undelayed", "", j=1)).code == 0
            assert [found.body for found in await delivered(peer, "%RETRY%g", 0, 1)] == [b"undelayed"]
            answer = await peer.send("%RETRY%g", b"dead", "RETRY_TOPIC\x01t\x02DELAY\x013\x02", j=4, l=3)
            assert answer.code == 0
            (dead,) = await stored(peer, "%DLQ%g")
            assert dead.body == b"dead" and dead.reconsume_times == 4 and dead.properties["DELAY"] == "-1"
            queues = [{"topic": "t", "brokerName": "broker-a", "queueId": 0}]
            await peer.value(RequestCode.LOCK_BATCH_MQ, {}, {"consumerGroup": "g", "clientId": "c", "mqSet": queues})
            assert (await peer.send("%RETRY%g", b"in order", "DELAY\x013\x02", j=1)).code == 0
            assert [found.body for found in await stored(peer, "%DLQ%g")] == [b"dead", b"in order"]
            answer = await peer.send("%RETRY%g", b"", "", m=True)
            assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group %RETRY%g")

    run(test)


def test_another_try_needs_no_look_while_nobody_reads_in_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer = at.peer()
            parts = at.broker.parts
            assert parts is not None
            body = {"consumerGroup": "g", "clientId": "c", "mqSet": [{"topic": "t", "brokerName": "broker-a", "queueId": 0}]}

            async def looks(sends: int = 1) -> int:
                before = parts.native.stats()["sends_punted"]
                for _ in range(sends):
                    assert (await peer.send("%RETRY%g", b"again", j=1)).code == 0
                return int(parts.native.stats()["sends_punted"]) - before

            assert await looks(5) == 1, "the topic is made, and the group is not locked"
            for _ in range(2):
                await peer.value(RequestCode.LOCK_BATCH_MQ, {}, body)
                assert await looks(2) == 2 and len(await stored(peer, "%RETRY%g")) == 5
                assert (await peer.ask(RequestCode.UNLOCK_BATCH_MQ, {}, {**body, "clientId": "another"})).code == 0
                assert await looks() == 1 and len(await stored(peer, "%RETRY%g")) == 5
                assert (await peer.ask(RequestCode.UNLOCK_BATCH_MQ, {}, body)).code == 0
                assert await looks(3) == 1
                await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%g"})
                assert await looks(5) == 1, "it is made anew"
            assert len(await stored(peer, "%DLQ%g")) == 6

    run(test)


def test_a_slave_stores_nothing_that_is_sent_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, QUICK, QUICK) as at:
            offset = offset_of(await at.master.send("t", b"x"))
            answer = await send_back(at.slave, offset)
            assert answer.code == ResponseCode.SYSTEM_BUSY and "REJECTREQUEST" in (answer.remark or "")

    run(test)


def test_a_try_that_waits_over_a_restart_comes_then(tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, **QUICK) as peer:
            offset = offset_of(await peer.send("t", b"x"))
            assert (await send_back(peer, offset, level=4)).code == 0
        async with started(tmp_path, **QUICK) as peer:
            (message,) = await delivered(peer, "%RETRY%g")
            assert message.body == b"x" and message.reconsume_times == 1

    run(test)


def test_a_full_disk_is_told_and_nothing_is_half_sent_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer = at.peer()
            offset = offset_of(await peer.send("t", b"x"))
            at.broker.parts.native.set_settings(store_writable=0, store_reason="98 % used")  # type: ignore[union-attr]
            answer = await send_back(peer, offset)
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE")
            at.broker.parts.native.set_settings(store_writable=1, store_reason="")  # type: ignore[union-attr]
            assert (await send_back(peer, offset)).code == 0
            await eventually(lambda: at.broker.parts.store.max_offset("%RETRY%g", 0) == 1, "the retry")  # type: ignore[union-attr]

    run(test)


def test_group_of_a_retry_topic() -> None:
    assert names.group_of_retry_topic("%RETRY%g") == "g" and names.group_of_retry_topic("%RETRY%g+t") == "g"


@pytest.mark.parametrize("tries", [-(1 << 31), -4, -3, (1 << 31) - 1])
def test_any_number_of_tries_that_a_producer_sends_is_survived(tmp_path: Path, tries: int) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer = at.peer()
            sent = await peer.send("t", b"work", j=tries)
            assert (await send_back(peer, offset_of(sent))).code == 0
            topic = "%RETRY%g" if tries < 0 else "%DLQ%g"
            (again,) = await delivered(peer, topic) if tries < 0 else await stored(peer, topic)
            assert again.reconsume_times == (tries + 1 if tries < 0 else -(1 << 31))

    run(test)


def test_the_retry_topic_is_in_its_file_before_what_waits_for_it_is_acknowledged(tmp_path: Path) -> None:
    """Made by a heartbeat, it was written some seconds later: after a crash in between nobody knew where the message belongs."""

    async def test() -> None:
        async with running(tmp_path, messageDelayLevel="1h") as at:
            peer = at.peer()
            sent = await peer.send("t")
            await peer.heartbeat("c", "g", "t")
            assert (await send_back(peer, offset_of(sent))).code == 0
            assert '"%RETRY%g"' in (tmp_path / "store/config/topics.json").read_text()

    run(test)


def test_what_is_in_memory_comes_back_whoever_has_the_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path, messageDelayLevel="1h") as at:
            peer = at.peer()
            offset = offset_of(await peer.send("t"))
            parts = at.broker.parts
            assert parts is not None
            assert (await send_back(peer, offset)).code == 0, "it makes the topic"
            release = threading.Event()
            busy = [asyncio.create_task(parts.copies.run(lambda _: release.wait())) for _ in range(2)]
            monkeypatch.setattr("rocketpy.broker.retries.PATIENCE_S", 0.05)
            answers = [(await send_back(peer, offset)).code for _ in range(20)]
            assert set(answers) <= {0, ResponseCode.SYSTEM_BUSY}, "Python is asked where an append has the log for long"
            assert 0 in answers
            assert await waiting(peer, 1) == 1 + answers.count(0)
            answer = await send_back(peer, offset, level=-1)
            assert answer.code == ResponseCode.SYSTEM_BUSY, "dead letters are Python's"
            release.set()
            await asyncio.gather(*busy)

    run(test)


def test_a_retry_topic_is_made_by_a_send_where_no_other_topic_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, autoCreateTopicEnable="false", **QUICK) as at:
            peer = at.peer()
            assert (await peer.send("%RETRY%g", b"work", "DELAY\x011\x02", j=1)).code == 0
            assert (await peer.send("t")).code == ResponseCode.TOPIC_NOT_EXIST
            (again,) = await delivered(peer, "%RETRY%g")
            assert again.body == b"work"

    run(test)


def test_who_cannot_be_served_in_time_is_told_so_and_nothing_is_copied_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path, messageDelayLevel="1h") as at:
            peer = at.peer()
            sent = await peer.send("t")
            parts = at.broker.parts
            assert parts is not None
            release = threading.Event()
            busy = [asyncio.create_task(parts.copies.run(lambda _: release.wait())) for _ in range(2)]
            monkeypatch.setattr("rocketpy.broker.retries.PATIENCE_S", 0.05)
            answer = await send_back(peer, offset_of(sent))
            assert answer.code == ResponseCode.SYSTEM_BUSY and (answer.remark or "").startswith("[OVERLOAD]")
            release.set()
            await asyncio.gather(*busy)
            assert await waiting(peer, 1) == 0
            monkeypatch.setattr("rocketpy.broker.retries.PATIENCE_S", PATIENCE_S)
            assert (await send_back(peer, offset_of(sent))).code == 0

    run(test)
