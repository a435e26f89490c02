"""Delayed messages through a whole broker: when they come, what they have then, what a restart, a slave and an operator see of them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from rocketpy._core.remoting import Command
from rocketpy._core.store import Message, MessageStore, decode_message
from rocketpy.broker import names
from rocketpy.broker.delay_offsets import DelayOffsets, SavedDelayOffsets
from rocketpy.broker.native_options import store_options
from rocketpy.broker.persistence import pretty_text
from rocketpy.ha.service import LogMark
from rocketpy.remoting.bodies import DataVersion
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import read_json
from tests.unit.broker.pair import pair
from tests.unit.broker.running import Peer, be_before, broker_config, eventually, run, run_in_time, running, started

LEVELS = {"messageDelayLevel": "1s 2s 1h"}


def messages(answer: Command) -> list[Message]:
    assert answer.code == 0, (answer.code, answer.remark)
    found, at = [], 0
    while at < len(answer.body):
        found.append(decode_message(answer.body[at:]))
        at += found[-1].size
    return found


async def delivered(peer: Peer, topic: str, queue_id: int = 0, offset: int = 0) -> list[Message]:
    """What is in the queue, or comes within the broker's patience with a pull that waits."""
    return messages(await peer.pull("g", topic, queue_id, offset, sysFlag=6, suspendTimeoutMillis=15_000))


async def waiting(peer: Peer, level: int) -> int:
    fields = {"topic": names.SCHEDULE_TOPIC, "queueId": level - 1}
    return int((await peer.ask(RequestCode.GET_MAX_OFFSET, fields)).fields["offset"])


def test_a_delayed_message_comes_when_it_is_due_as_it_was_sent(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **LEVELS) as at:
            peer = at.peer()
            await peer.send("t", b"first")
            await peer.heartbeat("c", "g", "t")
            sent_ms = time.time_ns() // 1_000_000
            answer = await peer.send("t", b"later", "KEYS\x01k\x02TAGS\x01a\x02DELAY\x011\x02", queue_id=2)
            assert answer.code == 0 and answer.fields["queueId"] == "2"
            assert await waiting(peer, 1) == 1
            (message,) = await delivered(peer, "t", 2)
            assert message.body == b"later" and message.topic == "t" and message.queue_id == 2 and message.queue_offset == 0
            assert message.store_timestamp_ms - sent_ms >= 1000
            assert message.properties["TAGS"] == "a" and message.properties["KEYS"] == "k" and message.properties["DELAY"] == "1"
            assert (message.properties["REAL_TOPIC"], message.properties["REAL_QID"]) == ("t", "2")
            by_tag = await peer.pull("g", "t", 2, subscription="a")
            assert [found.body for found in messages(by_tag)] == [b"later"], "its entry has the code of its tag"
            await eventually(lambda: at.broker.runtime_table().get("scheduleMessageOffset_1") == "1,1", "the level's position")

    run(test)


def test_levels_past_the_last_are_the_last_and_those_of_one_level_come_in_order(tmp_path: Path) -> None:
    async def test(home: Path, factor: int) -> None:
        async with running(home, messageDelayLevel=f"0s {factor}s") as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            due_ms = time.time_ns() // 1_000_000 + 1000 * factor
            for number in range(40):
                assert (await peer.send("t", b"%d" % number, "DELAY\x0199\x02")).code == 0
            assert (await peer.send("t", b"at once", "DELAY\x011\x02")).code == 0
            found = await delivered(peer, "t")
            be_before(due_ms)
            while len(found) < 41:
                found += await delivered(peer, "t", 0, len(found))
            assert [message.body for message in found] == [b"at once", *(b"%d" % number for number in range(40))]
            assert {message.properties["DELAY"] for message in found[1:]} == {"2"}

    run_in_time(test, tmp_path)


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_a_level_that_is_no_number_is_refused(tmp_path: Path, code: int) -> None:
    header = {"producerGroup": "p", "topic": "t", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0}
    header |= {"bornTimestamp": 1, "flag": 0, "properties": "DELAY\x01soon\x02"}
    short = dict(zip("abcdefghi", header.values(), strict=True))

    async def test() -> None:
        async with running(tmp_path) as at:
            answer = await at.peer().ask(code, header if code == RequestCode.SEND_MESSAGE else short, b"x")
            assert answer.code == ResponseCode.SYSTEM_ERROR and answer.remark == 'java.lang.NumberFormatException: For input string: "soon"'

    run(test)


def test_a_batch_is_not_delayed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await peer.send("t", b"first")
            assert (await peer.send("t", b"x", "DELAY\x011\x02", m=True)).code == ResponseCode.MESSAGE_ILLEGAL

    run(test)


def test_what_comes_while_others_are_looked_at_is_not_delivered_at_once(tmp_path: Path) -> None:
    """A look that began a millisecond before a message came took it for one from before a clock was set back."""

    async def test() -> None:
        async with running(tmp_path, messageDelayLevel="1s" + " 1h" * 60) as at:
            peer = at.peer()
            parts = at.broker.parts
            assert parts is not None
            for topic in range(60):  # whose first messages take longer
                assert (await peer.send(f"t{topic}", b"soon", "DELAY\x011\x02")).code == 0
            await eventually(lambda: parts.delay_offsets.offsets().get(1, 0) > 0, "the first is delivered")
            for level in range(2, 62):
                assert (await peer.send("t0", b"later", f"DELAY\x01{level}\x02")).code == 0
            await eventually(lambda: parts.delay_offsets.offsets().get(1, 0) == 60, "all that is due is delivered")
            assert sum(parts.delay_offsets.offsets().values()) == 60

    run(test)


def test_what_waits_over_a_restart_is_delivered_once(tmp_path: Path) -> None:
    """By the second start's levels: what would wait for longer than its level is due."""

    async def test() -> None:
        async with started(tmp_path, messageDelayLevel="1s 1h 1h") as peer:
            assert (await peer.send("t", b"before", "DELAY\x011\x02")).code == 0
            assert [message.body for message in await delivered(peer, "t")] == [b"before"]
            assert (await peer.send("t", b"over the restart", "DELAY\x012\x02")).code == 0
            assert (await peer.send("t", b"much later", "DELAY\x013\x02")).code == 0
        saved = read_json((tmp_path / "store" / "config" / "delayOffset.json").read_text(), tolerant_max=None)
        assert saved["offsetTable"] == {"1": 1} and set(saved["dataVersion"]) == {"counter", "stateVersion", "timestamp"}
        async with started(tmp_path, **LEVELS) as peer:
            assert [message.body for message in await delivered(peer, "t", 0, 1)] == [b"over the restart"]
            assert (await peer.pull("g", "t", 0, 2)).code == ResponseCode.PULL_NOT_FOUND
            table = (await peer.value(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert (table["scheduleMessageOffset_1"], table["scheduleMessageOffset_2"]) == ("1,1", "1,1")

    run(test)


def test_messages_in_levels_that_are_named_no_longer_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path, messageDelayLevel="0s 0s 1h") as at:
            for level in (1, 2, 3, 3):
                assert (await at.peer().send("t", b"m", f"DELAY\x01{level}\x02")).code == 0
            await eventually(lambda: at.broker.runtime_table().get("scheduleMessageOffset_2") == "1,1", "what is due is delivered")
        assert "messageDelayLevel does not name" not in caplog.text
        async with running(tmp_path, messageDelayLevel="0s"):
            assert "does not name: 2 in level 3; with a list of at least 3 levels" in caplog.text

    run(test)


def test_a_message_of_a_topic_that_is_gone_is_there_when_the_topic_is_back(tmp_path: Path) -> None:
    async def test(home: Path, factor: int) -> None:
        async with running(home, messageDelayLevel=f"{factor}s") as at:
            peer = at.peer()
            due_ms = time.time_ns() // 1_000_000 + 1000 * factor
            for topic in ("gone", "t"):
                assert (await peer.send(topic, b"x", "DELAY\x011\x02")).code == 0
                if topic == "gone":
                    assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "gone"})).code == 0
            be_before(due_ms)
            assert [message.body for message in await delivered(peer, "t")] == [b"x"]
            assert (await peer.pull("g", "gone")).code == ResponseCode.TOPIC_NOT_EXIST
            assert (await peer.send("gone", b"back", queue_id=1)).code == 0
            assert [message.body for message in await delivered(peer, "gone")] == [b"x"]

    run_in_time(test, tmp_path)


def test_a_slave_delivers_nothing_and_knows_how_far_its_master_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, LEVELS, LEVELS) as at:
            assert (await at.master.send("t", b"x", "DELAY\x011\x02")).code == 0
            (message,) = await delivered(at.master, "t")
            assert message.body == b"x"
            await eventually(lambda: at.at.broker.runtime_table().get("scheduleMessageOffset_1") == "1,1", "the level's position")
            await at.in_sync()
            await at.copy_tables()
            assert (await at.slave.value(RequestCode.GET_ALL_DELAY_OFFSET))["offsetTable"] == {"1": 1}
            assert (await at.slave.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})).fields["offset"] == "1"

    run(test)


def test_what_was_taken_is_delivered_though_it_is_too_large_by_then(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, messageDelayLevel="1s") as at:
            peer = at.peer()
            assert (await peer.send("t", bytes(5000), "DELAY\x011\x02")).code == 0
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"maxMessageSize=4096")).code == 0
            assert (await peer.send("t", bytes(5000))).code == ResponseCode.MESSAGE_ILLEGAL
            assert [len(message.body) for message in await delivered(peer, "t")] == [5000]

    run(test)


def test_a_position_that_cannot_be_is_left_out_of_those_of_other_levels(caplog: pytest.LogCaptureFixture) -> None:
    saved = SavedDelayOffsets.from_json({"dataVersion": {}, "offsetTable": {"0": 5, "1": 7, "2": -3, "3": 0, "3000000000": 5}})
    assert saved.offsets == {1: 7, 3: 0}
    assert "delay level 2 at offset -3 is left out" in caplog.text and "delay level 3000000000 at offset 5 is left out" in caplog.text


class Positions:
    """Of the levels, without a broker."""

    def __init__(self, *offsets: int) -> None:
        self.offsets = list(offsets)
        self.asides: dict[int, tuple[int, list[int]]] = {}

    def put_delay_offset(self, level: int, offset: int) -> None:
        self.offsets[level - 1] = offset
        self.asides.pop(level, None)

    def delay_offsets(self) -> list[tuple[int, int]]:
        return [(offset, 99) for offset in self.offsets]

    def put_delay_aside(self, level: int, reached: int, offsets: list[int]) -> None:
        self.offsets[level - 1] = offsets[0]
        self.asides[level] = (reached, offsets)

    def delay_aside(self, level: int) -> tuple[int, list[int]] | None:
        return self.asides.get(level)

    def mark(self) -> LogMark:
        return LogMark(0)

    def wait_durable(self, mark: LogMark, timeout_ms: int) -> None:
        raise AssertionError


def test_positions_that_were_not_committed_are_taken_back() -> None:
    positions = Positions(7, 5, 2, -1)
    delays = DelayOffsets(positions, positions, lambda: 0, 1)
    delays.take_back(SavedDelayOffsets({1: 4, 2: 6, 9: 1}, DataVersion(0)))
    assert positions.offsets == [4, 5, 0, -1], "a level that the file does not know had delivered nothing when it was written"


def test_positions_past_the_ends_of_their_queues_go_back_to_them() -> None:
    positions = Positions(7, 5, -1)
    positions.put_delay_aside(1, 40, [3, 12, 30])
    delays = delays_of(positions)
    delays.load(SavedDelayOffsets({2: 5, 9: 4}, DataVersion(0)))
    assert delays.hold_back({1: 20, 2: 5, 9: 2}.__getitem__) == 2
    assert positions.asides == {1: (20, [3, 12])} and delays.offsets() == {1: 3, 2: 5, 9: 2}
    assert delays.hold_back({1: 20, 2: 5, 9: 2}.__getitem__) == 0
    assert delays.hold_back(lambda level: 0) == 3 and delays.offsets() == {1: 0, 2: 0, 9: 0} and not delays.aside()


def test_a_slave_does_not_believe_a_file_that_is_ahead_of_its_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would leave out what it gets of its master next, should it deliver before that has told it how far it is."""

    async def test() -> None:
        async with running(tmp_path, messageDelayLevel="1h") as at:
            assert (await at.peer().send("t", b"m", "DELAY\x011\x02")).code == 0
        file = tmp_path / "store" / "config" / "delayOffset.json"
        file.write_text('{"offsetTable":{"1":1000,"2147483647":0,"3000000000":5}}')
        async with running(tmp_path, messageDelayLevel="1h", brokerRole="SLAVE", brokerId="1") as at:
            assert at.broker.parts is not None and at.broker.parts.delay_offsets.offsets() == {1: 1, 2147483647: 0}
        told = [each for each in caplog.records if "delayOffset.json: 1 delay levels were past their queues' ends" in each.getMessage()]
        assert [each.levelname for each in told] == ["WARNING"], "a slave of RocketMQ's masters has such by itself"

    run(test)


def delays_of(positions: Positions) -> DelayOffsets:
    return DelayOffsets(positions, positions, lambda: 0, 1)


def test_what_is_set_aside_is_in_the_file_and_comes_back_with_it() -> None:
    positions = Positions(3, 5)
    positions.put_delay_aside(1, 40, [7, 12])
    text = pretty_text(delays_of(positions).snapshot().to_json())
    again = Positions(-1, -1)
    delays_of(again).load(SavedDelayOffsets.from_json(read_json(text)))
    assert again.offsets == [7, 5] and again.asides == {1: (40, [7, 12])}
    told = read_json(text)
    told["offsetTable"]["1"] = 9
    assert not SavedDelayOffsets.from_json(told).aside, "another product went on in between, and does not know of them"


@pytest.mark.parametrize("said", [7, {"reached": 40}, {"reached": 4, "offsets": "7"}, {"reached": 9, "offsets": "8,7"}, {"offsets": "x"}])
def test_what_cannot_have_been_set_aside_is_left_out_and_nothing_is_lost(said: object, caplog: pytest.LogCaptureFixture) -> None:
    saved = SavedDelayOffsets.from_json({"dataVersion": {}, "offsetTable": {"1": 7}, "setAside": {"1": said}})
    assert saved.offsets == {1: 7} and not saved.aside
    assert "come again" in caplog.text


def test_a_master_takes_of_its_slave_what_is_over_for_one_of_them() -> None:
    positions = Positions(4, 8, 2)
    positions.put_delay_aside(1, 6, [4, 5])
    delays = delays_of(positions)
    told = {
        "dataVersion": {},
        "offsetTable": {"1": 3, "2": 3, "3": 90},
        "setAside": {"1": {"reached": 9, "offsets": "3,5,8"}, "3": {"reached": 120, "offsets": "90,98,110"}},
    }
    assert delays.advance(SavedDelayOffsets.from_json(told)) == 2
    assert positions.asides == {1: (9, [5, 8]), 3: (99, [90, 98])}, "what is past the end of the queue here is another message"
    assert positions.offsets == [5, 8, 90]
    assert delays.advance(SavedDelayOffsets.from_json(told)) == 0


def test_a_queue_of_delayed_messages_built_again_has_the_brokers_own_levels(tmp_path: Path) -> None:
    """An entry's tag code is the time of delivery: by other levels RocketMQ, started on the store again, delivered them hours early."""
    options = store_options(broker_config(tmp_path, messageDelayLevel="1s 5h"), "127.0.0.1:10911")
    root = tmp_path / "store"
    with MessageStore(str(root), **options) as store:
        store.append("SCHEDULE_TOPIC_XXXX", 1, b"later", "DELAY\x012\x02", tags_code=0)
        stored_ms = store.time_at("SCHEDULE_TOPIC_XXXX", 1, 0)
    shutil.rmtree(root / "consumequeue")
    with MessageStore(str(root), **options) as store:
        ((_, _, due_ms),) = store.entries("SCHEDULE_TOPIC_XXXX", 1, 0, 1)
    assert due_ms == stored_ms + 5 * 3_600_000
