"""Timed messages through a whole broker: when they come, what takes them back, what a restart, a slave and an operator see of them."""

from __future__ import annotations

import base64
import json
import logging
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.store import Message
from rocketpy.broker import names
from rocketpy.broker.metrics import BrokerMetrics
from rocketpy.broker.metrics_settings import metrics_settings
from rocketpy.broker.recalls import RecallHandle
from rocketpy.broker.timers import CHECKPOINT, CopiedCheckpoint, FollowedTimers
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.pair import pair
from tests.unit.broker.running import Peer, Running, be_before, eventually, run, run_in_time, running, started
from tests.unit.broker.test_delays import delivered

QUICK = {"timerPrecisionMs": "20", "timerFlushIntervalMs": "20", "recallMessageEnable": "true"}
HOUR = "TIMER_DELAY_SEC\x013600\x02"
SOON = "TIMER_DELAY_MS\x0160\x02"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def stats(at: Running) -> dict[str, int]:
    assert at.broker.parts is not None
    return at.broker.parts.native.timer_stats()


async def bodies(peer: Peer, topic: str, count: int, queue_id: int = 0) -> list[bytes]:
    found: list[Message] = []
    while len(found) < count:
        found += await delivered(peer, topic, queue_id, len(found))
    return [message.body for message in found]


async def until_counted(peer: Peer, topic: str, count: int, due_ms: int = 1 << 62) -> None:
    """Until so many are in the wheel, recalled or not; before the first of them is due."""
    while (await peer.value(RequestCode.GET_TIMER_METRICS))["timingCount"].get(topic, {}).get("count") != count:
        be_before(due_ms)


async def recall(peer: Peer, topic: str, handle: str) -> Any:
    return await peer.ask(RequestCode.RECALL_MESSAGE, {"producerGroup": "p", "topic": topic, "recallHandle": handle})


def handle(topic: str = "t", broker: str = "broker-a", deliver_ms: int | None = None, key: str = "K") -> str:
    text = f"v1 {topic} {broker} {now_ms() + 600_000 if deliver_ms is None else deliver_ms} {key}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_a_timed_message_comes_when_it_is_due_as_it_was_sent(tmp_path: Path) -> None:
    async def test(home: Path, factor: int) -> None:
        async with running(home, **QUICK) as at:
            peer = at.peer()
            await peer.send("t", b"first")
            await peer.heartbeat("c", "g", "t")
            due_ms = now_ms() + 100 * factor
            answer = await peer.send(
                "t", b"later", f"UNIQ_KEY\x01K\x02KEYS\x01k\x02TAGS\x01a\x02TIMER_DELIVER_MS\x01{due_ms}\x02", queue_id=2
            )
            be_before(due_ms)
            assert answer.code == 0 and answer.fields["queueId"] == "2"
            version, topic, broker, out_ms, key = base64.urlsafe_b64decode(answer.fields["recallHandle"]).decode().split(" ")
            assert (version, topic, broker, key) == ("v1", "t", "broker-a", "K") and due_ms - 20 <= int(out_ms) - 1 < due_ms
            (message,) = await delivered(peer, "t", 2)
            assert (message.body, message.topic, message.queue_id, message.queue_offset) == (b"later", "t", 2, 0)
            assert message.store_timestamp_ms >= due_ms
            assert message.properties["TAGS"] == "a" and message.properties["KEYS"] == "k"
            assert int(message.properties["TIMER_OUT_MS"]) == int(out_ms) - 1 and message.properties["TIMER_DELIVER_MS"] == str(due_ms)
            assert len((await peer.pull("g", "t", 2, subscription="a")).body) == message.size, "its entry has the code of its tag"

    run_in_time(test, tmp_path)


def test_times_decide_the_order_and_what_is_due_comes_at_once(tmp_path: Path) -> None:
    async def test(home: Path, factor: int) -> None:
        async with running(home, **QUICK) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            due_ms = now_ms() + 300 * factor
            for body, shift in ((b"last", 100), (b"middle", 50), (b"first", 0), (b"over", -10_000)):
                assert (await peer.send("t", body, f"TIMER_DELIVER_MS\x01{due_ms + shift}\x02")).code == 0
            await eventually(lambda: stats(at)["queue_offset"] == stats(at)["queue_max_offset"], "all are entered")
            be_before(due_ms)
            assert await bodies(peer, "t", 4) == [b"over", b"first", b"middle", b"last"]

    run_in_time(test, tmp_path)


@pytest.mark.parametrize(
    "properties",
    [
        "TIMER_DELAY_SEC\x01soon\x02",
        "TIMER_DELAY_MS\x019223372036854775808\x02",
        "TIMER_DELAY_SEC\x019223372036854775807\x02",
        "TIMER_DELAY_MS\x019223372036854775807\x02",
        "TIMER_DELIVER_MS\x019223372036854775807\x02",
        "TIMER_DELAY_SEC\x01259201\x02",
        "TIMER_DEL_UNIQKEY\x01K\x02TIMER_DELIVER_MS\x011\x02",
    ],
)
def test_a_time_that_cannot_be_is_refused(tmp_path: Path, properties: str) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            for _ in ("a new topic", "a known one"):
                answer = await at.peer().send("t", b"x", properties)
                assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "timer message illegal" in (answer.remark or "")

    run(test)


def test_a_batch_is_not_timed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            await at.peer().send("t", b"first")
            answer = await at.peer().send("t", b"x", SOON, m=True)
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    run(test)


@pytest.mark.parametrize("properties", ["", SOON, "REAL_TOPIC\x01t\x02REAL_QID\x010\x02TIMER_OUT_MS\x015\x02"])
def test_nobody_sends_to_the_topic_of_timed_messages(tmp_path: Path, properties: str) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            answer = await at.peer().send(names.TIMER_TOPIC, b"x", properties)
            assert answer.code == ResponseCode.NO_PERMISSION and "is forbidden" in (answer.remark or "")
            assert stats(at)["queue_max_offset"] == 0

    run(test)


def test_what_has_no_place_to_go_holds_nothing_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What stands in a log may come from elsewhere."""
    places = [
        "a/b",
        "..",
        "x" * 300,
        "a\x00b",
        names.TIMER_TOPIC,
        names.TRANS_HALF_TOPIC,
        names.TRANS_OP_HALF_TOPIC,
        names.SCHEDULE_TOPIC,
        "",
    ]

    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            await peer.heartbeat("c", "g", "t")
            out_ms = now_ms() + 60
            for place in [*places, "t"]:
                parts.store.append(names.TIMER_TOPIC, 0, b"x", f"REAL_TOPIC\x01{place}\x02REAL_QID\x010\x02TIMER_OUT_MS\x01{out_ms}\x02")
            for queue in ("-1", "70000", "x", str(2**31)):
                parts.store.append(names.TIMER_TOPIC, 0, b"x", f"REAL_TOPIC\x01t\x02REAL_QID\x01{queue}\x02TIMER_OUT_MS\x01{out_ms}\x02")
            for out in ("x", str(2**63), str(2**63 - 1), str(-(2**63)), ""):
                parts.store.append(names.TIMER_TOPIC, 0, b"y", f"REAL_TOPIC\x01t\x02REAL_QID\x011\x02TIMER_OUT_MS\x01{out}\x02")
            await peer.send("t", b"behind them", SOON)
            assert await bodies(peer, "t", 2) == [b"x", b"behind them"]
            assert stats(at)["queue_offset"] == stats(at)["queue_max_offset"]

    run(test)


# ---- recalls ----


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_recalled_message_does_not_come(tmp_path: Path, flush: str) -> None:
    async def test(home: Path, factor: int) -> None:
        async with running(home, **QUICK, flushDiskType=flush) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            due_ms = now_ms() + 400 * factor
            due = f"TIMER_DELIVER_MS\x01{due_ms}\x02"
            answers = [await peer.send("t", b"%d" % number, f"UNIQ_KEY\x01K{number}\x02{due}") for number in range(4)]
            other = await peer.send("other", b"of another topic", f"UNIQ_KEY\x01K0\x02{due}")
            assert other.code == 0
            for number in (0, 3):
                taken = await recall(peer, "t", answers[number].fields["recallHandle"])
                be_before(due_ms)
                assert (taken.code, taken.fields["msgId"]) == (0, f"K{number}"), taken.remark
            await eventually(lambda: stats(at)["queue_offset"] == stats(at)["queue_max_offset"], "all are entered")
            be_before(due_ms)
            assert await bodies(peer, "t", 2) == [b"1", b"2"]
            await peer.heartbeat("c", "g", "other")
            assert await bodies(peer, "other", 1) == [b"of another topic"]
            await eventually(lambda: (stats(at)["recalled"], stats(at)["messages_waiting"]) == (2, 0))

    run_in_time(test, tmp_path)


def test_recalls_are_refused_in_words(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **(QUICK | {"recallMessageEnable": "false"})) as at:
            peer = at.peer()
            await peer.send("t")
            assert (await recall(peer, "t", handle())).code == ResponseCode.NO_PERMISSION
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"recallMessageEnable=true")).code == 0
            assert (await recall(peer, "t", handle())).code == 0
            for text, code in (
                ("", ResponseCode.ILLEGAL_OPERATION),
                (handle(key="a\x02TIMER_OUT_MS\x011"), ResponseCode.ILLEGAL_OPERATION),
                (handle(broker="broker-b"), ResponseCode.ILLEGAL_OPERATION),
                (handle(topic="u"), ResponseCode.ILLEGAL_OPERATION),
                (handle(deliver_ms=now_ms() - 1), ResponseCode.ILLEGAL_OPERATION),
                (handle(deliver_ms=2**63 - 1), ResponseCode.ILLEGAL_OPERATION),
                (handle(key="k" * 40_000), ResponseCode.SYSTEM_ERROR),
            ):
                answer = await recall(peer, "t", text)
                assert answer.code == code and answer.fields["MSG_REGION"] == "DefaultRegion", (text[:50], answer.remark)
            assert (await recall(peer, "u", handle("u"))).code == ResponseCode.TOPIC_NOT_EXIST
            await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=4")
            assert (await recall(peer, "t", handle())).code == 0
            await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"allowRecallWhenBrokerNotWriteable=false")
            assert (await recall(peer, "t", handle())).code == ResponseCode.SERVICE_NOT_AVAILABLE

    run(test)


@pytest.mark.parametrize("text", ["*", "+/+/", "v1", "djE", "dj E", "é", "====", base64.urlsafe_b64encode(b"v1 t b 1 ").decode(), None])
def test_what_is_no_handle(text: str | None) -> None:
    assert RecallHandle.decode(text) is None


def test_what_is_a_handle() -> None:
    raw = base64.urlsafe_b64encode("v1 tö b +15 K more".encode()).decode()
    assert RecallHandle.decode(raw) == RecallHandle.decode(raw.rstrip("=")) == RecallHandle("tö", "b", 15, "K")
    none = RecallHandle.decode(base64.urlsafe_b64encode(b"v1 t b x K").decode())
    assert none is not None and none.deliver_ms == -1


# ---- transactions, switches, bounds ----


def test_a_prepared_message_waits_once_it_is_committed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            answer = await peer.send("t", b"x", f"UNIQ_KEY\x01K\x02TRAN_MSG\x01true\x02PGROUP\x01producers\x02{SOON}", f=4)
            assert answer.code == 0 and stats(at)["queue_max_offset"] == 0
            fields = {
                "producerGroup": "producers", "tranStateTableOffset": answer.fields["queueOffset"], "commitOrRollback": 8,
                "commitLogOffset": int(answer.fields["msgId"][16:], 16), "fromTransactionCheck": False, "msgId": "K", "transactionId": "K",
            }  # fmt: skip
            ended = await peer.ask(RequestCode.END_TRANSACTION, fields)
            assert ended.code == 0, ended.remark
            assert stats(at)["queue_max_offset"] == 1
            assert await bodies(peer, "t", 1) == [b"x"]

    run(test)


def test_timers_can_be_stopped_while_the_broker_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK, timerStopEnqueue="true") as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t")
            await peer.send("t", b"x", SOON)
            assert stats(at)["queue_offset"] == 0 and stats(at)["queue_max_offset"] == 1
            await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"timerStopDequeue=true\ntimerStopEnqueue=false")
            await peer.send("t", b"y", "TIMER_DELAY_MS\x01100\x02")
            await eventually(lambda: stats(at)["queue_offset"] == 2, "both are entered")
            await eventually(lambda: stats(at)["dequeue_behind_ms"] > 0, "a slot is due")
            assert (await peer.pull("g", "t")).code == ResponseCode.PULL_NOT_FOUND
            await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"timerStopDequeue=false")
            assert sorted(await bodies(peer, "t", 2)) == [b"x", b"y"]

    run(test)


def test_a_slot_that_is_full_takes_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, timerCongestNumEachSlot="1") as at:
            peer = at.peer()
            due = f"TIMER_DELIVER_MS\x01{now_ms() + 600_000}\x02"
            for _ in range(2):
                assert (await peer.send("t", b"x", due)).code == 0
                await eventually(lambda: stats(at)["queue_offset"] == stats(at)["queue_max_offset"], "it is entered")
            answer = await peer.send("t", b"x", due)
            assert answer.code == ResponseCode.SYSTEM_ERROR and "timer message is under flow control" in (answer.remark or "")
            assert (await peer.send("t", b"x", f"TIMER_DELIVER_MS\x01{now_ms() + 700_000}\x02")).code == 0

    run(test)


def test_without_the_wheel_timed_sends_are_refused_and_what_waits_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with started(tmp_path, **QUICK) as peer:
            await peer.send("t", b"waits", HOUR)
        caplog.clear()
        async with started(tmp_path, **QUICK, timerWheelEnable="false") as peer:
            assert "holds 1 timed messages" in caplog.text
            for topic in ("t", "new"):
                answer = await peer.send(topic, b"x", SOON)
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert answer.remark == "accurate timer message is not enabled, timerWheelEnable is false"
            assert (await recall(peer, "t", handle())).code == ResponseCode.SYSTEM_ERROR
            for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS):
                assert (await peer.ask(code)).code == ResponseCode.SYSTEM_ERROR
            table = (await peer.value(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert (table["timerCongestNum"], table["timerReadBehind"]) == ("0", "0")
        caplog.clear()
        async with started(tmp_path, **QUICK) as peer:
            assert "timed messages" not in [record.message for record in caplog.records if record.levelno >= logging.WARNING]
            table = (await peer.value(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert table["timerCongestNum"] == "1"

    run(test)


# ---- restarts and slaves ----


def test_what_waits_over_a_restart_comes_once(tmp_path: Path) -> None:
    async def test(home: Path, factor: int) -> None:
        async with started(home, **QUICK) as peer:
            await peer.heartbeat("c", "g", "t")
            due_ms = now_ms() + 1000 * factor
            assert (await peer.send("t", b"before", SOON)).code == 0
            assert await bodies(peer, "t", 1) == [b"before"]
            assert (await peer.send("t", b"over the restart", f"TIMER_DELIVER_MS\x01{due_ms}\x02")).code == 0
            taken = await peer.send("t", b"recalled", f"UNIQ_KEY\x01R\x02TIMER_DELIVER_MS\x01{due_ms}\x02")
            recalled = await recall(peer, "t", taken.fields["recallHandle"])
            be_before(due_ms)
            assert recalled.code == 0
            assert (await peer.send("t", b"much later", HOUR)).code == 0
            await until_counted(peer, "t", 3, due_ms)
        be_before(due_ms)
        saved = json.loads((home / "store/config/timermetrics").read_text())
        assert saved["timingCount"]["t"]["count"] == 3 and set(saved["dataVersion"]) == {"counter", "stateVersion", "timestamp"}
        for wheel in ("kept", "gone"):
            if wheel == "gone":
                (home / "store/timerwheel").unlink()
            async with started(home, **QUICK) as peer:
                await peer.heartbeat("c", "g", "t")
                assert await bodies(peer, "t", 2) == [b"before", b"over the restart"]
                assert (await peer.pull("g", "t", 0, 2)).code == ResponseCode.PULL_NOT_FOUND
                await until_counted(peer, "t", 1)  # a message can be read before it is counted as delivered

    run_in_time(test, tmp_path)


def test_a_message_of_a_topic_that_is_gone_is_there_when_the_topic_is_back(tmp_path: Path) -> None:
    async def test(home: Path, factor: int) -> None:
        async with running(home, **QUICK) as at:
            peer = at.peer()
            await peer.heartbeat("c", "g", "t", "gone")
            due_ms = now_ms() + 300 * factor
            assert (await peer.send("gone", b"x", f"TIMER_DELIVER_MS\x01{due_ms}\x02")).code == 0
            await eventually(lambda: stats(at)["queue_offset"] == 1, "it is entered")
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "gone"})).code == 0
            be_before(due_ms)
            assert "gone" not in (await peer.value(RequestCode.GET_TIMER_METRICS))["timingCount"]
            await eventually(lambda: stats(at)["delivered"] == 1, "it is delivered")
            assert (await peer.pull("g", "gone")).code == ResponseCode.TOPIC_NOT_EXIST
            assert (await peer.send("gone", b"back", queue_id=1)).code == 0
            assert await bodies(peer, "gone", 1) == [b"x"]

    run_in_time(test, tmp_path)


def test_a_slave_delivers_nothing_and_goes_on_as_the_master(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, QUICK, QUICK) as at:
            await at.master.heartbeat("c", "g", "t")
            assert (await at.master.send("t", b"soon", SOON)).code == 0
            assert await bodies(at.master, "t", 1) == [b"soon"]
            due_ms = now_ms() + 3000
            assert (await at.master.send("t", b"later", f"TIMER_DELIVER_MS\x01{due_ms}\x02")).code == 0
            await eventually(lambda: stats(at.at)["queue_offset"] == 2, "both are entered")
            delivered_ms = now_ms()
            native = at.slave_service.parts.native  # type: ignore[union-attr]
            await at.in_sync()

            async def follows() -> bool:
                await at.copy_tables()
                told = native.timer_stats()
                return told["queue_offset"] == 2 and told["read_time_ms"] > delivered_ms

            while not await follows():
                await eventually(lambda: True)
            assert native.timer_stats()["delivered"] == 0
            assert (await recall(at.slave, "t", handle())).code == ResponseCode.SLAVE_NOT_AVAILABLE
        is_too_late = now_ms() >= due_ms  # on a machine that slow the master has delivered it, and the slave may not know
        async with started(tmp_path / "slave", **QUICK) as promoted:
            await promoted.heartbeat("c", "g", "t")
            assert await bodies(promoted, "t", 2) == [b"soon", b"later"]
            assert is_too_late or (await promoted.pull("g", "t", 0, 2)).code == ResponseCode.PULL_NOT_FOUND

    run(test)


class Followed:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def follow_timer_checkpoint(self, body: bytes) -> None:
        self.bodies.append(body)


def test_a_slave_follows_a_checkpoint_once_it_has_what_that_calls_delivered() -> None:
    native = Followed()
    timers = FollowedTimers(native)
    first, second = CopiedCheckpoint(b"1", 100), CopiedCheckpoint(b"2", 200)
    timers.take(first, 50, 1)
    assert native.bodies == []
    timers.take(second, 150, 1)
    assert native.bodies == [b"1"]
    timers.take(CopiedCheckpoint(b"3", 300), 250, 1)
    assert native.bodies == [b"1", b"2"]
    timers.take(CopiedCheckpoint(b"4", 400), 350, 2)
    timers.take(CopiedCheckpoint(b"5", 500), 450, 2)
    assert native.bodies == [b"1", b"2", b"4"], "another leader may have taken back what the one before delivered"
    FollowedTimers(native).take(CopiedCheckpoint(b"RocketMQ's"), 0, None)
    assert native.bodies[-1] == b"RocketMQ's"


# ---- what is told ----


def test_what_slaves_and_operators_are_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **QUICK, metricsExporterType="PROM", metricsPromExporterPort="0") as at:
            peer, parts = at.peer(), at.broker.parts
            assert parts is not None
            for delay in (200, 700, 3600):  # none is due, nor below another bound, while this runs
                assert (await peer.send("t", b"x", f"TIMER_DELAY_SEC\x01{delay}\x02")).code == 0
            await eventually(lambda: stats(at)["entered"] == 3, "all are entered")
            metrics = await peer.value(RequestCode.GET_TIMER_METRICS)
            assert metrics["timingCount"]["t"]["count"] == 3 and abs(metrics["timingCount"]["t"]["timeStamp"] - now_ms()) < 60_000

            def checkpoint_is_written() -> bool:
                body = parts.native.timer_checkpoint()
                return body is not None and CHECKPOINT.unpack(body)[2] == 3

            await eventually(checkpoint_is_written, "the checkpoint")
            answer = await peer.ask(RequestCode.GET_TIMER_CHECK_POINT)
            read_ms, log, queue, masters, *_ = struct.unpack(">7q", answer.body)
            assert (log, queue) == (3 * 52, 3) and masters >= queue and abs(read_ms - now_ms()) < 60_000
            assert int(answer.fields["logEnd"]) == parts.store.stats()["commit_log_max_offset"]
            table = at.broker.runtime_table()
            assert (table["timerCongestNum"], table["timerOffsetBehind"], table["timerReadBehind"]) == ("3", "0", "0")
            families = {each.name: each for each in BrokerMetrics(parts, metrics_settings(at.broker.config)).read().metrics}
            shown = {sample.labels["timer_bound_s"]: sample.value for sample in families["rocketmq_timer_message_snapshot"].samples}
            assert (shown["300"], shown["900"], shown["3600"] + shown["14400"], shown["86400"]) == (1, 1, 1, 0)
            (waiting,) = families["rocketmq_timing_messages"].samples
            assert (waiting.labels["topic"], waiting.value) == ("t", 3)
            assert families["rocketmq_timer_enqueue"].samples[0].value == 3
            delays = {
                sample.labels.get("le", sample.name): sample.value for sample in families["rocketmq_delay_message_latency_seconds"].samples
            }
            assert (delays["259200.0"], delays["+Inf"]) == (0, 3), "since they were born, in 1970"

    run(test)
