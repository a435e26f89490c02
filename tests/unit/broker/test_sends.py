"""Sends that the fast path passes on: which are refused, in words, and which go back to it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from rocketpy._core.store import decode_message
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.state_file import StateFile
from tests.processes import PATIENCE_S
from tests.unit.broker.running import eventually, run, running


@pytest.mark.parametrize(
    ("topic", "properties", "code", "words"),
    [
        ("bad topic", "", ResponseCode.INVALID_PARAMETER, "illegal characters"),
        ("SCHEDULE_TOPIC_XXXX", "", ResponseCode.NO_PERMISSION, "is forbidden"),
        ("t", "DELAY\x01soon", ResponseCode.SYSTEM_ERROR, 'NumberFormatException: For input string: "soon"'),
        ("t", f"DELAY\x01{'9' * 5000}", ResponseCode.SYSTEM_ERROR, "NumberFormatException"),
        ("t", "DELAY\x010\x02DELAY\x013.0", ResponseCode.SYSTEM_ERROR, "NumberFormatException"),
        ("rmq_sys_wheel_timer", "", ResponseCode.NO_PERMISSION, "is forbidden"),
        ("%LMQ%q", "", ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "light message queues"),
        ("t", "__LITE_TOPIC\x010", ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "lite topics"),
    ],
)
def test_a_send_that_cannot_be_kept_is_refused_in_words(tmp_path: Path, topic: str, properties: str, code: int, words: str) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            for _ in ("a new topic", "a known one"):
                answer = await at.peer().send(topic, b"x", properties)
                assert answer.code == code and words in (answer.remark or "")
                await at.peer().send("t")

    run(test)


@pytest.mark.parametrize(
    "properties",
    [
        "TRAN_MSG\x01False",
        "TRAN_MSG\x01no",
        "TIMER_OUT_MS\x015\x02TIMER_DELIVER_MS\x015",
        "DELAY\x010",
        "DELAY\x01-2",
        "DELAY\x013\x02DELAY\x010",
        "TRAN_MSG\x01true\x02TRAN_MSG\x01false",
        "TIMER_DELAY_SEC\x01-1",
        "INNER_NUM\x013",
        "__LITE_TOPIC\x01",
    ],
)
def test_a_property_that_says_no_makes_no_message_special(tmp_path: Path, properties: str) -> None:
    """Whether its topic is there already or not: what the fast path passes on is refused or done."""

    async def test() -> None:
        async with running(tmp_path) as at:
            for _ in ("a new topic", "a known one"):
                answer = await at.peer().send("t", b"x", properties)
                assert answer.code == ResponseCode.SUCCESS, answer.remark

    run(test)


@pytest.mark.parametrize(("topic", "flags"), [("%LMQ%q", 0), ("t", 0x1000)])
def test_a_refused_send_makes_no_topic(tmp_path: Path, topic: str, flags: int) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await peer.send(topic, f=flags)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert (await peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})).code == ResponseCode.TOPIC_NOT_EXIST

    run(test)


def test_no_send_is_answered_before_its_new_topic_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even those that come while the first one's topic is written: a crash would leave them in a topic nobody knows."""
    begun, may_end = threading.Event(), threading.Event()
    write = StateFile.write

    def slow_write(file: StateFile, text: str) -> None:
        if '"t"' in text:
            begun.set()
            may_end.wait(PATIENCE_S)
        write(file, text)

    monkeypatch.setattr(StateFile, "write", slow_write)

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            first = asyncio.create_task(peer.send("t"))
            await eventually(begun.is_set, "the write of the new topic")
            second = asyncio.create_task(peer.send("t"))
            await peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "t"})  # is answered behind it
            appended = await peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})
            may_end.set()
            assert [(await answer).code for answer in (first, second)] == [0, 0]
            assert appended.fields["offset"] == "0", "before its topic was on disk"

    run(test)


def test_a_dead_letter_topic_takes_plain_messages(tmp_path: Path) -> None:
    """Who puts dead letters there, or back, may be a producer like any other."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            for offset in ("0", "1"):  # the first makes the topic
                answer = await peer.send("%DLQ%g", b"letter")
                assert (answer.code, answer.fields.get("queueOffset")) == (0, offset), answer.remark
            pulled = await peer.pull("readers", "%DLQ%g", offset=1)
            assert pulled.code == 0 and decode_message(pulled.body).body == b"letter"

    run(test)


def test_a_message_with_unknown_flags_is_refused_in_words(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            assert (await at.peer().send("t")).code == 0
            answer = await at.peer().send("t", f=0x1000)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and "sys flag 0x1000" in (answer.remark or "")
            assert (await at.peer().send("t", f=0x301)).code == 0, "compressed ones are plain"

    run(test)


@pytest.mark.parametrize("properties", ["", "TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01k"], ids=["plain", "half"])
def test_a_message_that_was_born_on_ipv6_can_be_passed_on(tmp_path: Path, properties: str) -> None:
    """RocketMQ's brokers pass on the flags of the stored message; here it comes over IPv4, to a topic that is new and to a known one."""

    async def test() -> None:
        async with running(tmp_path) as at:
            topic = "RMQ_SYS_TRANS_HALF_TOPIC" if properties else "t"
            for offset in (0, 1):
                answer = await at.peer().send("t", b"passed on", properties, f=0x30)
                assert answer.code == 0, answer.remark
                pulled = await at.peer().pull("readers", topic, offset=offset)
                assert pulled.code == 0, pulled.remark
                message = decode_message(pulled.body)
                assert (message.sys_flag & 0x30, message.born_host.rpartition(":")[0], message.body) == (0, "127.0.0.1", b"passed on")

    run(test)
