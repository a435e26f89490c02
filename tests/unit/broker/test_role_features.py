"""Kinds of topics and of consumption beside roles that change. Two brokers behind a controller of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpy._core.remoting import Command
from rocketpy._core.store import MessageStore
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S

from .replicas import GROUP, TOPIC, Both, Replica, away, both_started
from .running import Peer, eventually, run
from .test_batch_queues import batch_of, send_batch
from .test_compacted_topics import SETTINGS
from .test_delays import messages
from .test_lite import ON, PARENT, Lite, bodies
from .test_lite import make as make_lite
from .test_lite import send as send_lite
from .test_pop import pop
from .test_role_changes import ALONE
from .test_timers import QUICK

LITE_QUEUE = f"%LMQ%${PARENT}$a"
SMALL = {name: value for name, value in SETTINGS.items() if name.startswith("compaction")}
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
            await copied(both, LITE_QUEUE, 2, "readers")
            assert (await send_lite(two.peer, "a", b"2")).code == 0
            await both.in_sync()
            await both.elect(one)
            assert (await readers[0].control("COMPLETE_ADD", "a")).code == 0
            assert bodies(await readers[0].pop(invisible_ms=LONG_MS)) == [b"2"]

    run(test)


async def make_topics(peer: Peer) -> None:
    """One of each kind."""
    for topic, attributes in (("batches", "+queue.type=BatchCQ"), ("table", "+cleanup.policy=COMPACTION"), ("timed", "")):
        header = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0, "order": False, "attributes": attributes,
        }  # fmt: skip
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)).code == 0
    await make_lite(peer)


async def fill(peer: Peer, word: str, rows: int, wait: str = "") -> None:
    """A message or some to each kind; to the table rows of four keys, and no body for the last of them."""
    assert (await send_batch(peer, batch_of(*(f"{word}{number}".encode() for number in range(3))), "UNIQ_KEY\x01id\x02" + wait)).code == 0
    assert (await send_lite(peer, "a", word.encode(), wait)).code == 0
    assert (await peer.send("timed", word.encode(), "TIMER_DELAY_MS\x011000\x02" + wait)).code == 0
    for number in range(rows):
        body = f"{word}{number}" if word != "alone" or number % 4 != 3 else ""
        assert (await peer.send("table", body.encode(), f"KEYS\x01k{number % 4}\x02" + wait)).code == 0


def store_of(replica: Replica) -> MessageStore:
    assert replica.service.parts is not None
    return replica.service.parts.store


async def all_bodies(replica: Replica, topic: str) -> list[bytes]:
    """Of a queue's messages; in pieces, as what is kept and what follows are."""
    found: list[bytes] = []
    at = -1
    while (answer := await replica.peer.pull(GROUP, topic, offset=max(at, 0))).code != ResponseCode.PULL_NOT_FOUND:
        found += [message.body for message in messages(answer)] if answer.code == ResponseCode.SUCCESS else []
        assert "nextBeginOffset" in answer.fields, f"{topic}: {answer.code} {answer.remark}"
        before, at = at, int(answer.fields["nextBeginOffset"])
        if at <= before:  # a slave is to be asked again
            break
    return found


async def until_due(replica: Replica, *wanted: bytes) -> None:
    """Until these have come of the timed messages, once at least: positions are copied now and then. And no others."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while (found := set(await all_bodies(replica, "timed"))) != set(wanted):
        assert found < set(wanted) and asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("all_ack", ["true", "false"], ids=["held back", "in the queues"])
def test_what_a_master_had_alone_leaves_no_trace_in_any_kind_of_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_ack: str
) -> None:
    """Nor takes it with it what was acknowledged: a compaction has dropped older rows for those that go."""

    async def test() -> None:
        monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 0.1)
        async with both_started(tmp_path, monkeypatch, allAckInSyncStateSet=all_ack, **ON, **SMALL, **QUICK) as both:
            one, two = both.replicas
            await make_topics(one.peer)
            await fill(one.peer, "both", 35)
            await both.in_sync()
            await eventually(lambda: store_of(two).max_offset("table", 0) == 35, "the copy")
            async with away(both, two):
                await fill(one.peer, "alone", 45, ALONE)
                if all_ack == "false":
                    await eventually(lambda: store_of(one).compaction_stats()["dropped"] > 35, "a compaction")
                await both.take_over(two)
            await eventually(lambda: both.controller.known.ids == {1, 2}, "both in sync")
            await fill(two.peer, "after", 1)
            await both.in_sync()  # "in the queues": a send is answered without the other one, which is about to be the master
            await both.elect(one)
            for each in both.replicas:
                await eventually(lambda each=each: each.service.parts and store_of(each).max_offset("table", 0) == 36, "the successor's")
                await until_due(each, b"both", b"after")
                await both.in_sync()
                assert await all_bodies(each, "batches") == [
                    batch_of(b"both0", b"both1", b"both2"),
                    batch_of(b"after0", b"after1", b"after2"),
                ]
                assert await all_bodies(each, LITE_QUEUE) == [b"both", b"after"]
                await eventually(lambda each=each: store_of(each).compaction_stats()["behind"] == 0, "the copy of what is kept")
                table = await all_bodies(each, "table")
                assert table[-1] == b"after0" and table[-5:-1] == [f"both{number}".encode() for number in range(31, 35)]

    run(test)
