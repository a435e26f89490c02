"""A slave whose master was stopped passes on what is due to another master, and the master that returns knows how far that got."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rocketpy._core.errors import DiskFull
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.broker import acting_master, escape_bridge, escaped_halves
from rocketpy.broker.acting_file import ACTING_FILE, ActingFile, ActingProgress
from rocketpy.broker.acting_master import ActingMaster
from rocketpy.broker.acting_progress import take_acting_progress
from rocketpy.broker.acting_state import ActingState
from rocketpy.broker.names import TIMER_TOPIC, TRANS_HALF_TOPIC
from rocketpy.broker.parts import Parts
from rocketpy.broker.service import BrokerService
from rocketpy.broker.set_aside import SetAside
from rocketpy.broker.slave_synchronize import SlaveSynchronize
from rocketpy.broker.timers import CHECKPOINT
from rocketpy.broker.timers_passed_on import TimersPassedOn
from rocketpy.broker.transaction_checks import GROUP
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.json_codec import read_json

from .running import Peer, Running, broker_config, eventually, run, running

SETTINGS = {
    "enableSlaveActingMaster": "true",
    "enableRemoteEscape": "true",
    "messageDelayLevel": "0s 1h",
    "haListenPort": "0",
    "brokerHeartbeatInterval": "100",
    "syncBrokerMemberGroupPeriod": "20",
    "timerWheelEnable": "true",
    "flushDelayOffsetInterval": "20",
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_master, "HALVES_S", 0.02)
    monkeypatch.setattr(escaped_halves, "AGAIN_MS", 20)
    for name in ("REFUSED_S", "ROUTE_MS", "NO_ROUTE_MS", "FAILING_MS"):
        monkeypatch.setattr(escape_bridge, name, 0)


@dataclass
class Group:
    """broker-a and its slave, and another master."""

    at: Running
    other: Peer
    master: BrokerService
    slave: BrokerService
    home: Path
    settings: dict[str, str]

    def of(self, service: BrokerService) -> Parts:
        assert service.parts is not None
        return service.parts

    def end(self, service: BrokerService, topic: str = "t", queue_id: int = 0) -> int:
        return self.of(service).store.max_offset(topic, queue_id)

    async def make_topic(self) -> None:
        """At the other master."""
        topic = {
            "topic": "t",
            "defaultTopic": "TBW102",
            "readQueueNums": 1,
            "writeQueueNums": 1,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
        }
        assert (await self.other.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**topic, "topicSysFlag": 0, "order": False})).code == 0

    async def send_what_waits(self) -> None:
        """A delayed message, which the master does not deliver, and a prepared one; the slave has them, and its master is stopped."""
        self.of(self.master).native.stop_delivery()
        peer = Peer(self.master.address)
        assert (await peer.send("t", b"delayed", "DELAY\x011\x02KEYS\x01k\x02")).code == 0
        assert (await peer.send("t", b"prepared", "TRAN_MSG\x01true\x02PGROUP\x01producers\x02", f=4)).code == 0
        await peer.client.stop()
        await eventually(lambda: self.end(self.slave, TRANS_HALF_TOPIC) == 1 and "t" in self.of(self.slave).topics)
        await self.master.stop()


@asynccontextmanager
async def group(home: Path, **others: str) -> AsyncIterator[Group]:
    async with running(home / "other", brokerName="another", haListenPort="0", **others) as at:
        settings = {**SETTINGS, "namesrvAddr": f"127.0.0.1:{at.namesrv.port}"}
        master = BrokerService(broker_config(home / "master", **settings))
        await master.start()
        slave = BrokerService(broker_config(home / "slave", brokerRole="SLAVE", brokerId="1", **settings))
        await slave.start()
        try:
            yield Group(at, at.peer(), master, slave, home, settings)
        finally:
            await master.stop()
            await slave.stop()


def test_what_waits_goes_to_another_master_and_does_not_come_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with group(tmp_path) as three:
            assert (await three.other.send("t", b"there is one")).code == 0
            await three.send_what_waits()
            acting = three.of(three.slave).acting
            end = three.of(three.slave).store.stats()["commit_log_max_offset"]
            await eventually(lambda: three.end(three.at.broker, TRANS_HALF_TOPIC) == 1 and three.end(three.at.broker) == 2)
            assert acting.is_acting and acting.log_end == end
            pulled = await three.other.pull("g", "t", 0, 1)
            assert b"delayed" in pulled.body and b"KEYS\x01k" in pulled.body and b"DELAY\x01" not in pulled.body
            assert three.of(three.slave).store.stats()["commit_log_max_offset"] == end, "nothing is appended to a slave's log"
            await eventually(lambda: three.of(three.slave).offsets.query(GROUP, TRANS_HALF_TOPIC, 0) == 1)
            again = BrokerService(broker_config(tmp_path / "master", **three.settings))
            await again.start()
            try:
                assert three.of(again).native.delay_offsets()[0] == (1, 1)
                assert three.of(again).offsets.query(GROUP, TRANS_HALF_TOPIC, 0) == 1
                assert three.end(again) == 0
                await eventually(lambda: not acting.is_acting and three.of(three.slave).ha.connection() is not None)
                assert three.end(three.at.broker) == 2
            finally:
                await again.stop()

    run(test)


def test_what_no_other_master_takes_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with group(tmp_path, autoCreateTopicEnable="false") as three:
            await three.send_what_waits()
            of_slave = three.of(three.slave)
            await eventually(lambda: of_slave.native.delay_aside(1) == (1, [0]) and of_slave.acting.halves == SetAside(1, (0,)))
            assert "cannot be passed on" in caplog.text and "is set aside" in caplog.text
            assert of_slave.native.delay_offsets()[0][0] == 0 and of_slave.offsets.query(GROUP, TRANS_HALF_TOPIC, 0) <= 0
            await three.make_topic()
            await eventually(lambda: three.end(three.at.broker, TRANS_HALF_TOPIC) == 1 and three.end(three.at.broker) == 1)
            await eventually(lambda: of_slave.acting.halves is None and of_slave.native.delay_aside(1) is None)

    run(test)


def test_one_that_others_refuse_holds_nothing_up_and_is_its_masters_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with group(tmp_path, autoCreateTopicEnable="false", maxMessageSize="1000") as three:
            await three.make_topic()
            native = three.of(three.master).native
            native.stop_delivery()
            peer = Peer(three.master.address)
            for body in (bytes(2000), b"behind"):
                assert (await peer.send("t", body, "DELAY\x011\x02")).code == 0
                assert (await peer.send("t", body, "TRAN_MSG\x01true\x02PGROUP\x01producers\x02", f=4)).code == 0
            await peer.client.stop()
            await eventually(lambda: three.end(three.slave, TRANS_HALF_TOPIC) == 2 and "t" in three.of(three.slave).topics)
            await three.master.stop()
            await eventually(lambda: three.end(three.at.broker, TRANS_HALF_TOPIC) == 1 and three.end(three.at.broker) == 1)
            await eventually(lambda: three.of(three.slave).native.delay_aside(1) == (2, [0]))
            await eventually(lambda: three.of(three.slave).acting.halves == SetAside(2, (0,)))
            again = BrokerService(broker_config(tmp_path / "master", **three.settings))
            await again.start()
            try:
                of_master = three.of(again)
                await eventually(lambda: three.end(again) == 1 and of_master.native.delay_offsets()[0] == (2, 2))
                assert of_master.offsets.query(GROUP, TRANS_HALF_TOPIC, 0) == 2 and three.end(again, TRANS_HALF_TOPIC) == 3
                assert three.end(three.at.broker) == 1 and three.end(three.at.broker, TRANS_HALF_TOPIC) == 1
            finally:
                await again.stop()

    run(test)


def test_a_slave_that_is_started_again_passes_nothing_on_once_more(tmp_path: Path) -> None:
    """Behind what is set aside: the file is as a kill leaves it, for what stands in it was written while it ran."""

    async def test() -> None:
        async with group(tmp_path, autoCreateTopicEnable="false", maxMessageSize="1000") as three:
            await three.make_topic()
            three.of(three.master).native.stop_delivery()
            three.of(three.master).native.stop_timers()
            peer = Peer(three.master.address)
            for body in (bytes(2000), b"behind"):
                for properties in ("DELAY\x011\x02", "TIMER_DELAY_MS\x01100\x02", "TRAN_MSG\x01true\x02PGROUP\x01producers\x02"):
                    assert (await peer.send("t", body, properties, f=4 if "TRAN" in properties else 0)).code == 0
            await peer.client.stop()
            await eventually(lambda: three.end(three.slave, TRANS_HALF_TOPIC) == 2 and "t" in three.of(three.slave).topics)
            await three.master.stop()
            file = tmp_path / "slave" / "store" / "config" / ACTING_FILE
            wanted = ('"halves":{"offsets":"0"', '"timers":{"offsets":"0"')
            await eventually(lambda: three.end(three.at.broker) == 2)
            passed_on_ms = int(time.time() * 1000)

            def is_written() -> bool:
                text = file.read_text() if file.exists() else "{}"
                return all(each in "".join(text.split()) for each in wanted) and int(read_json(text)["timers"]["readMs"]) >= passed_on_ms

            await eventually(is_written)
            killed = file.read_text()
            await three.slave.stop()
            file.write_text(killed)
            again = three.slave = BrokerService(broker_config(tmp_path / "slave", brokerRole="SLAVE", brokerId="1", **three.settings))
            await again.start()
            parts = three.of(again)
            await eventually(lambda: parts.acting.is_acting and parts.native.delay_aside(1) == (2, [0]))
            await eventually(lambda: parts.acting.halves == SetAside(2, (0,)) and parts.native.timers_aside()[1] == [0])
            read_ms = int(read_json(killed)["timers"]["readMs"])
            await eventually(lambda: parts.native.timers_aside()[0] > read_ms)
            assert three.end(three.at.broker) == 2 and three.end(three.at.broker, TRANS_HALF_TOPIC) == 1

    run(test)


async def leave_timed_messages(three: Group) -> None:
    """The slave has two, of which no other master takes the first; theirs has gone."""
    await three.make_topic()
    three.of(three.master).native.stop_timers()
    peer = Peer(three.master.address)
    for body in (bytes(2000), b"behind"):
        assert (await peer.send("t", body, "TIMER_DELAY_MS\x01100\x02")).code == 0
    await peer.client.stop()
    await eventually(lambda: three.end(three.slave, TIMER_TOPIC) == 2 and "t" in three.of(three.slave).topics)
    await three.master.stop()


def test_a_slave_that_is_started_again_while_nobody_answers_forgets_nothing(tmp_path: Path) -> None:
    """Neither in the file nor to its master."""

    async def test() -> None:
        async with group(tmp_path, autoCreateTopicEnable="false", maxMessageSize="1000") as three:
            await leave_timed_messages(three)
            await eventually(lambda: three.end(three.at.broker) == 1 and three.of(three.slave).native.timers_aside()[1] == [0])
            file = tmp_path / "slave" / "store" / "config" / ACTING_FILE
            await three.slave.stop()
            before = read_json(file.read_text())["timers"]
            assert before["offsets"] == "0"
            await three.at.broker.stop()
            again = three.slave = BrokerService(broker_config(tmp_path / "slave", brokerRole="SLAVE", brokerId="1", **three.settings))
            await again.start()
            housekeeping = again._housekeeping
            assert housekeeping is not None
            await eventually(lambda: housekeeping._acting is not None and housekeeping._acting._tasks)
            asks = Peer(again.address)
            told = (await asks.ask(RequestCode.GET_TIMER_CHECK_POINT)).fields
            await asks.client.stop()
            assert (told["actingReadMs"], told["actingSetAside"]) == (str(before["readMs"]), "0")
            assert told["actingQueueOffset"] == str(before["queueOffset"])
            await again.stop()
            assert read_json(file.read_text())["timers"] == before

    run(test)


def test_a_stand_in_that_cannot_begin_forgets_nothing_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with group(tmp_path, autoCreateTopicEnable="false", maxMessageSize="1000") as three:
            await leave_timed_messages(three)
            parts, file = three.of(three.slave), tmp_path / "slave" / "store" / "config" / ACTING_FILE
            await eventually(lambda: three.end(three.at.broker) == 1 and parts.native.timers_aside()[1] == [0])
            is_due, begun = [False], list[str]()

            async def fails(_: SlaveSynchronize) -> None:
                begun.append(file.read_text())
                raise DiskFull("no room")

            monkeypatch.setattr(ActingState, "heard", lambda *_, **__: is_due[0])
            await eventually(lambda: not parts.acting.is_acting and parts.native.timers_aside()[1] == [])
            before = read_json(file.read_text())["timers"]
            assert before["offsets"] == "0"
            monkeypatch.setattr(SlaveSynchronize, "settled", fails)
            is_due[0] = True
            await eventually(lambda: len(begun) >= 3)
            assert all(read_json(text)["timers"] == before for text in begun)

    run(test)


def test_what_cannot_be_known_of_itself_is_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            parts = at.broker.parts
            assert parts is not None
            parts.acting.log_end = 0
            of_slave, path = ActingFile(parts), tmp_path / "store" / "config" / ACTING_FILE
            assert of_slave.read() == ActingProgress()
            path.write_text(
                '{"logEnd":0,"timers":{"readMs":9000000000000000000,"queueOffset":5,"offsets":"3"},"halves":{"reached":9,"offsets":"8"}}'
            )
            known = of_slave.read()
            assert known.timers.read_ms < 1 << 42 and known.timers.offsets == (3,), "what is due later is not over"
            assert known.halves == SetAside(0), "the queue has none"
            of_another_log = '{"logEnd":7,"halves":{"reached":9,"offsets":"8"}}'
            timers = '{"logEnd":0,"timers":{"readMs":1,"queueOffset":1,"offsets":"%s"}}'
            for text in (of_another_log, timers % "x", timers % "-1", timers % (1 << 63), "[]"):
                path.write_text(text)
                assert of_slave.read() == ActingProgress(), text
            path.unlink(missing_ok=True)
            path.mkdir()
            assert of_slave.read() == ActingProgress() and "passed on once more" in caplog.text

    run(test)


class Tells:
    """A slave's answers, by code."""

    def __init__(self, **answers: tuple[dict[str, str], bytes]) -> None:
        self.answers = {RequestCode[name]: answer for name, answer in answers.items()}

    async def call(self, address: str, code: int, **_: object) -> Command:
        fields, body = self.answers.get(RequestCode(code), ({}, b"{}"))
        return decode_command(encode_command(0, fields, body))


@pytest.mark.parametrize(
    "answers",
    [
        {"GET_BROKER_RUNTIME_INFO": ({}, b"[]")},
        {"GET_BROKER_RUNTIME_INFO": ({}, b'{"table":"x"}')},
        {"GET_BROKER_RUNTIME_INFO": ({}, b'{"table":{"commitLogMaxOffset":null}}')},
        {"GET_BROKER_RUNTIME_INFO": ({}, b'{"table":{"commitLogMaxOffset":"%d"}}' % (1 << 64))},
        {"GET_TIMER_CHECK_POINT": ({"actingLogEnd": "0", "actingSetAside": str(1 << 64)}, bytes(56))},
        {"GET_TIMER_CHECK_POINT": ({"actingLogEnd": "0", "actingSetAside": "-1"}, bytes(56))},
        {"GET_TIMER_CHECK_POINT": ({"actingLogEnd": "0", "actingSetAside": "2,1"}, bytes(56))},
        {"GET_TIMER_CHECK_POINT": ({"actingLogEnd": "0", "actingSetAside": "1", "actingQueueOffset": "x"}, bytes(56))},
        {"GET_TIMER_CHECK_POINT": ({"actingLogEnd": "0", "actingSetAside": "1", "actingReadMs": str(1 << 64)}, bytes(56))},
    ],
)
def test_a_slave_that_talks_nonsense_keeps_no_master_from_starting(
    tmp_path: Path, answers: dict[str, tuple[dict[str, str], bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with running(tmp_path, timerWheelEnable="true") as at:
            parts = at.broker.parts
            assert parts is not None
            facts = {"GET_BROKER_RUNTIME_INFO": ({}, b'{"table":{"commitLogMaxOffset":"0"}}')}
            await take_acting_progress(replace(parts, client=Tells(**{**facts, **answers})), ["127.0.0.1:1"])  # type: ignore[arg-type]
        assert "did not tell what it has passed on" in caplog.text

    run(test)


class Timers:
    """What a master is told of them."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, list[int]]] = []

    def set_timers_passed_on(self, until_ms: int, below: int, but: list[int]) -> None:
        self.told.append((until_ms, below, but))


@pytest.mark.parametrize("below", [3, 9])
def test_a_master_takes_for_passed_on_only_what_was_entered_when_its_slot_was_read(tmp_path: Path, below: int) -> None:
    """A slave that was started again enters more behind it, into slots that it has read before."""

    async def test() -> None:
        async with running(tmp_path, timerWheelEnable="true") as at:
            parts, timers = at.broker.parts, Timers()
            assert parts is not None
            fields = {"actingLogEnd": "0", "actingSetAside": "1,2", "actingReadMs": "9000", "actingQueueOffset": str(below)}
            answers = {
                "GET_BROKER_RUNTIME_INFO": ({}, b'{"table":{"commitLogMaxOffset":"0"}}'),
                "GET_TIMER_CHECK_POINT": (fields, CHECKPOINT.pack(1000, 0, 5, 0, 0, 0, 0)),
            }
            await take_acting_progress(replace(parts, client=Tells(**answers), native=timers), ["127.0.0.1:1"])  # type: ignore[arg-type]
            assert timers.told == [(9000, min(below, 5), [1, 2])]

    run(test)


def test_without_remote_escape_a_slave_passes_nothing_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with group(tmp_path) as three:
            assert three.slave._housekeeping is not None and three.slave._housekeeping._acting is not None
            assert three.master._housekeeping is not None and three.master._housekeeping._acting is None
            config = broker_config(
                tmp_path / "second", brokerRole="SLAVE", brokerId="2", **{**three.settings, "enableRemoteEscape": "false"}
            )
            second = BrokerService(config)
            await second.start()
            assert second._housekeeping is not None and second._housekeeping._acting is None
            await second.stop()

    run(test)


def test_timers_that_cannot_start_when_the_master_is_back_start_with_a_later_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with group(tmp_path) as three:
            parts, run_timers, refused = three.of(three.slave), ActingMaster._run_timers, list[bool]()

            async def refuses_twice(self: ActingMaster, passed_on: TimersPassedOn | None) -> None:
                await run_timers(self, passed_on)
                if passed_on is None and len(refused) < 2:
                    refused.append(True)
                    parts.native.stop_timers()
                    raise DiskFull("no room for a slot")

            monkeypatch.setattr(ActingMaster, "_run_timers", refuses_twice)
            await three.master.stop()
            await eventually(lambda: parts.acting.is_acting)
            monkeypatch.setattr(ActingState, "heard", lambda *_, **__: False)
            await eventually(lambda: len(refused) == 2 and parts.native.timer_checkpoint() is not None)
            assert not parts.acting.is_acting

    run(test)
