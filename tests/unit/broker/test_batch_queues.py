"""Topics with batch queues: what a broker takes, gives out and keeps over a restart."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rocketpy._core.remoting import Command
from rocketpy._core.store import MessageStore
from rocketpy.broker.unlisted_topics import list_unlisted
from rocketpy.remoting.bodies import DataVersion
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.store.directory import QueueFiles, StoreDirectory, batch_topics
from tests.unit.broker.recorder import Recorder
from tests.unit.broker.running import Peer, run, running
from tests.unit.broker.test_delays import messages
from tests.unit.broker.test_pop import pop
from tests.unit.broker.test_service import create_topic
from tests.unit.broker.test_timers import now_ms
from tests.unit.broker.test_topics import make_table


def batch_of(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">IIIII", 22 + len(body), 0, 0, 0, len(body)) + body + b"\0\0" for body in bodies)


def inner_bodies(batch: bytes) -> list[bytes]:
    """A batch taken apart."""
    found, at = [], 0
    while at < len(batch):
        size, length = struct.unpack_from(">I12xI", batch, at)
        found.append(batch[at + 20 : at + 20 + length])
        at += size
    return found


async def send_batch(peer: Peer, body: bytes, properties: str = "UNIQ_KEY\x01id\x02", sys_flag: int = 0) -> Command:
    header = {"a": "producers", "b": "batches", "c": "TBW102", "d": 4, "e": 0, "f": sys_flag, "g": 1, "h": 0, "i": properties, "j": 0,
              "k": False, "m": True}  # fmt: skip
    return await peer.ask(RequestCode.SEND_BATCH_MESSAGE, header, body)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_batch_is_one_record_with_an_offset_for_each_message(tmp_path: Path, flush: str) -> None:
    async def test() -> None:
        async with running(tmp_path, flushDiskType=flush) as at:
            await create_topic(at, "batches", attributes="+queue.type=BatchCQ")
            peer = at.peer()
            sent = await send_batch(peer, batch_of(b"a", b"b", b"c"))
            assert (sent.fields["queueOffset"], sent.fields["batchUniqId"], sent.fields["msgId"].count(",")) == ("0", "id", 0)
            assert (await peer.send("batches", b"alone")).fields["queueOffset"] == "3"
            assert (await send_batch(peer, batch_of(b"d", b"e"), properties="")).fields["queueOffset"] == "4"
        assert list(StoreDirectory(tmp_path / "store").queues()) == [QueueFiles("batches", 0, 0, 6, 1)]
        assert batch_topics(tmp_path / "store") == "batches\n"
        async with running(tmp_path, flushDiskType=flush) as at:
            peer = at.peer()
            for offset, after in ((0, 6), (1, 6), (2, 6), (3, 6), (5, 6)):
                pulled = await peer.pull("g", "batches", offset=offset)
                assert (pulled.code, pulled.fields["nextBeginOffset"]) == (0, str(after))
                assert (b"alone" in pulled.body) == (offset <= 3)
            assert (await peer.pull("g", "batches", offset=1, maxMsgNums=1)).fields["nextBeginOffset"] == "3"
            queue = {"topic": "batches", "queueId": 0}
            assert (await peer.ask(RequestCode.GET_MAX_OFFSET, queue)).fields["offset"] == "6"
            assert (await peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue | {"timestamp": 1 << 42})).fields["offset"] == "4"
            stats = await peer.value(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "batches"})
            assert sorted(each["maxOffset"] for each in stats["offsetTable"].values()) == [0, 0, 0, 6]

    run(test)


def test_a_queue_that_has_had_no_message_begins_at_minus_one(tmp_path: Path) -> None:
    """As RocketMQ's do; queue 99 is none of the topic's, and asked of the store alone."""

    async def begin_of(peer: Peer, topic: str, queue_id: int) -> str:
        answer = await peer.ask(RequestCode.GET_MIN_OFFSET, {"topic": topic, "queueId": queue_id})
        return (answer.fields or {})["offset"]

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await create_topic(at, "batches", attributes="+queue.type=BatchCQ")
            await create_topic(at, "plain")
            assert [await begin_of(peer, topic, queue) for topic in ("batches", "plain") for queue in (0, 99)] == ["-1", "-1", "0", "0"]
            await send_batch(peer, batch_of(b"a", b"b"))
            assert await begin_of(peer, "batches", 0) == "0"
        async with running(tmp_path) as at:
            assert [await begin_of(at.peer(), "batches", queue) for queue in (0, 1)] == ["0", "-1"]

    run(test)


def test_what_only_a_broker_says_is_not_believed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "batches", attributes="+queue.type=BatchCQ")
            peer = at.peer()
            for properties in ("INNER_NUM\x01900\x02INNER_BASE\x017\x02", "INNER_BASE\x01-1"):
                assert (await peer.send("batches", b"x", properties)).code == 0
            assert (await peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "batches", "queueId": 0})).fields["offset"] == "2"
            full = f"A\x01{'x' * 32_000}\x02DELAY\x013\x02"  # it could not say its place when it is due
            assert (await peer.send("batches", b"x", full)).code == ResponseCode.MESSAGE_ILLEGAL
            assert (await peer.send("plain", b"x", full)).code == 0
            for flags in (0x80, 0xC0):
                assert (await peer.send("batches", b"x", f=flags)).code == ResponseCode.MESSAGE_ILLEGAL
            assert (await send_batch(peer, batch_of(b"x"), sys_flag=1)).code == ResponseCode.MESSAGE_ILLEGAL
            assert (await send_batch(peer, batch_of(*[b""] * 32_768))).code == ResponseCode.MESSAGE_ILLEGAL
            assert (await send_batch(peer, batch_of(*[b""] * 32_767))).fields["queueOffset"] == "2"

    run(test)


def test_a_topic_that_only_its_messages_tell_of_keeps_its_kind(tmp_path: Path) -> None:
    """And the next message of a queue that is begun by one goes on behind it."""
    table = make_table(Recorder())
    with MessageStore(tmp_path / "store", batch_topics="batches\n") as store:
        store.append("plain", 0, b"x")
        assert [store.append("batches", 1, b"x", inner_messages=count).queue_offset for count in (0, 5, 2)] == [0, 1, 6]
        table.version = DataVersion()
        list_unlisted(table, store)
    assert table.get("plain").attributes == {}  # type: ignore[union-attr]
    config = table.get("batches")
    assert config is not None and (config.attributes, config.write_queue_nums) == ({"queue.type": "BatchCQ"}, 2)


async def popped_of(peer: Peer, **changes: object) -> tuple[Command, list[tuple[int, bytes]]]:
    """The answer, and offset and body of each message."""
    answer = await pop(peer, "batches", "g", queueId=0, **changes)
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT), answer.remark
    found = messages(answer) if answer.code == ResponseCode.SUCCESS else []
    assert all(each.sys_flag & 0xC0 == 0 for each in found), "no client takes anything apart here"
    return answer, [(each.queue_offset, each.body) for each in found]


async def ack(peer: Peer, popped: Command, start: int, offset: int, *, code: int = RequestCode.ACK_MESSAGE) -> None:
    """Or gives it back at once, by CHANGE_MESSAGE_INVISIBLETIME."""
    head = [popped.fields[name] for name in ("popTime", "invisibleTime", "reviveQid")]
    handle = " ".join([str(start), *head, "0", "broker-a", "0", str(offset)])
    fields = {"consumerGroup": "g", "topic": "batches", "queueId": 0, "offset": offset, "extraInfo": handle, "invisibleTime": 100}
    assert (await peer.ask(code, fields)).code == 0


def test_batches_are_popped_message_by_message(tmp_path: Path) -> None:
    """Where RocketMQ gives a consumer the batch as one message."""

    async def test() -> None:
        async with running(tmp_path, reviveAckWaitMs="100") as at:
            await create_topic(at, "batches", attributes="+queue.type=BatchCQ")
            peer = at.peer()
            many = [b"%d" % number for number in range(3, 43)]
            assert (await send_batch(peer, batch_of(b"0", b"1", b"2"))).code == 0
            assert (await send_batch(peer, batch_of(*many))).code == 0
            assert (await peer.send("batches", b"43", "A\x01b\x02")).code == 0
            peeked = await peer.ask(RequestCode.PEEK_MESSAGE, {"consumerGroup": "g", "topic": "batches", "queueId": 0, "maxMsgNums": 5})
            assert [each.body for each in messages(peeked)] == [b"0", b"1", b"2", b"3", b"4"]
            first, found = await popped_of(peer, maxMsgNums=2, invisibleTime=300_000)
            assert found == [(0, b"0"), (1, b"1")] and first.fields["msgOffsetInfo"] == "0 0 0,1"
            second, found = await popped_of(peer, invisibleTime=300_000)
            assert found == [(number, b"%d" % number) for number in range(2, 34)] and second.fields["restNum"] == "10"
            _, found = await popped_of(peer, invisibleTime=300_000)
            assert found == [(number, b"%d" % number) for number in range(34, 44)]
            assert (await popped_of(peer))[1] == []
            for offset in range(2, 34):
                gives_back = offset in (2, 20)
                await ack(peer, second, 2, offset, code=RequestCode.CHANGE_MESSAGE_INVISIBLETIME if gives_back else RequestCode.ACK_MESSAGE)
            again: list[bytes] = []
            while len(again) < 2:
                answer = await pop(peer, "batches", "g", queueId=0, pollTime=5_000, bornTime=now_ms())
                again += [each.body for each in messages(answer)] if answer.code == 0 else []
                assert all(each.sys_flag & 0xC0 == 0 and b"INNER" not in answer.body for each in messages(answer) if answer.code == 0)
            assert sorted(again) == [b"2", b"20"], "those that were not acked, each alone"

    run(test)


def test_an_order_consumer_pops_a_batch_in_pieces(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "batches", attributes="+queue.type=BatchCQ")
            peer = at.peer()
            assert (await send_batch(peer, batch_of(*(b"%d" % number for number in range(40))))).code == 0
            first, found = await popped_of(peer, order=True)
            assert [offset for offset, _ in found] == list(range(32))
            for offset in range(32):
                await ack(peer, first, 0, offset)
            _, found = await popped_of(peer, order=True)
            assert found == [(number, b"%d" % number) for number in range(32, 40)]

    run(test)


def test_a_popped_message_goes_to_the_dead_letters_without_its_batch(tmp_path: Path) -> None:
    def keyed(body: bytes) -> bytes:
        properties = b"UNIQ_KEY\x01" + body.upper() + b"\x02"
        sizes = struct.pack(">IIIII", 22 + len(body) + len(properties), 0, 0, 0, len(body))
        return sizes + body + struct.pack(">H", len(properties)) + properties

    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "batches", attributes="+queue.type=BatchCQ")
            peer = at.peer()
            await send_batch(peer, b"".join(map(keyed, (b"one", b"two", b"three"))))
            log_offset = messages(await peer.pull("g", "batches"))[0].commit_log_offset
            back = {"offset": log_offset, "group": "g", "originTopic": "batches"}
            for refused in ({"delayLevel": -1}, {"delayLevel": -1, "originMsgId": "FOUR"}, {"delayLevel": 0, "originMsgId": "TWO"}):
                assert (await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back | refused)).code == ResponseCode.SYSTEM_ERROR
            assert (await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back | {"delayLevel": -1, "originMsgId": "TWO"})).code == 0
            dead = messages(await peer.pull("g", "%DLQ%g"))
            assert [each.body for each in dead] == [b"two"]
            properties = dead[0].properties
            assert (properties["UNIQ_KEY"], properties["RETRY_TOPIC"]) == ("TWO", "batches") and "INNER_NUM" not in properties

    run(test)


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_record_that_is_damaged_keeps_back_none_that_lies_beside_it(tmp_path: Path, damaged: int) -> None:
    batches = [(b"a", b"b"), (b"c", b"d"), (b"e", b"f")]

    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "batches", attributes="+queue.type=BatchCQ")
            peer = at.peer()
            for batch in batches:
                await send_batch(peer, batch_of(*batch))
            places = [each.commit_log_offset for each in messages(await peer.pull("g", "batches"))]
            with (tmp_path / "store" / "commitlog" / f"{0:020d}").open("r+b") as log:
                log.seek(places[damaged] + 4)  # its magic
                log.write(b"\0\0\0\0")
            expected, found = [body for number, batch in enumerate(batches) for body in batch if number != damaged], []
            while len(found) < len(expected):
                popped, more = await popped_of(peer, initMode=0, pollTime=10_000)
                assert popped.code == 0
                found += [body for _, body in more]
            assert found == expected

    run(test)
