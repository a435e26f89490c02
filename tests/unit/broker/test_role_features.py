"""Kinds of topics and of consumption beside roles that change. Two brokers behind a controller of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy._core.remoting import Command
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .replicas import GROUP, TOPIC, Both, Replica, both_started
from .running import eventually, run
from .test_delays import messages
from .test_lite import ON, PARENT, Lite, bodies
from .test_lite import make as make_lite
from .test_lite import send as send_lite
from .test_pop import pop

LONG_MS = 600_000
"""Longer than any test: what is not given back by then is not given back."""


async def pop_in_order(replica: Replica, **changes: object) -> Command:
    answer: Command = await pop(replica.peer, TOPIC, GROUP, queueId=0, order=True, invisibleTime=LONG_MS, **changes)
    return answer


async def ack_in_order(replica: Replica, popped: Command, offset: int) -> None:
    head = [popped.fields[name] for name in ("popTime", "invisibleTime", "reviveQid")]
    handle = " ".join(["0", *head, "0", "broker-a", "0", str(offset)])
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "offset": offset, "extraInfo": handle}
    answer = await replica.peer.ask(RequestCode.ACK_MESSAGE, fields)
    assert answer.code == 0, answer.remark


async def copied(both: Both, topic: str, offset: int, group: str = GROUP) -> None:
    """Until both have the group, and its offset."""
    parts = [each.service.parts for each in both.replicas if each.service.parts is not None]
    await eventually(lambda: [each.offsets.query(group, topic, 0) for each in parts if group in each.groups] == [offset] * 2, "its offset")


def test_what_an_order_consumer_acked_at_another_master_blocks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 0.1)
        async with both_started(tmp_path, monkeypatch) as both:
            one, two = both.replicas
            for number in range(3):
                assert (await one.peer.send(TOPIC, f"{number}".encode())).code == 0
            first = await pop_in_order(one)
            assert len(messages(first)) == 3 and (await pop_in_order(one)).code == ResponseCode.POLLING_TIMEOUT
            await both.in_sync()
            await copied(both, TOPIC, 0)
            await both.elect(two)
            await ack_in_order(two, first, 1)
            second = await pop_in_order(two)
            assert len(messages(second)) == 3, "who acks the second of what nobody here knows to be out has not acked the first"
            for offset in range(2):
                await ack_in_order(two, second, offset)
            await copied(both, TOPIC, 2)
            assert (await two.peer.send(TOPIC, b"3")).code == 0
            await both.in_sync()
            await both.elect(one)
            await ack_in_order(one, first, 2)
            third = await pop_in_order(one)
            assert [message.body for message in messages(third)] == [b"3"], "what was acked at either is behind the group"

    run(test)


def test_what_is_acked_of_lite_topics_at_another_master_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 0.1)
        async with both_started(tmp_path, monkeypatch, **ON) as both:
            one, two = both.replicas
            readers = [Lite(each.peer, "c1") for each in both.replicas]
            await make_lite(one.peer)
            for number in range(2):
                assert (await send_lite(one.peer, "a", f"{number}".encode())).code == 0
            assert (await readers[0].control("COMPLETE_ADD", "a")).code == 0
            assert bodies(await readers[0].pop(invisible_ms=LONG_MS)) == [b"0", b"1"]
            await both.in_sync()
            await both.elect(two)
            assert (await readers[1].control("COMPLETE_ADD", "a")).code == 0
            popped = await readers[1].pop(invisible_ms=LONG_MS)
            assert bodies(popped) == [b"0", b"1"], "what is out is in no file"
            for offset in range(2):
                assert (await readers[1].ack("a", offset, popped)).code == 0
            await copied(both, f"%LMQ%${PARENT}$a", 2, "readers")
            assert (await send_lite(two.peer, "a", b"2")).code == 0
            await both.in_sync()
            await both.elect(one)
            assert (await readers[0].control("COMPLETE_ADD", "a")).code == 0
            assert bodies(await readers[0].pop(invisible_ms=LONG_MS)) == [b"2"]

    run(test)
