"""Places in the log where a user says that a message is: within bodies, behind the end, and those of messages of every kind."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.store import MessageStore, decode_message
from rocketpy.broker.message_rights import message_at
from rocketpy.broker.parts import Parts
from rocketpy.broker.retries import PATIENCE_S
from rocketpy.broker.store_reads import StoreReads
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.running import Peer, Running, run, running
from tests.unit.broker.test_auth import ALICE, ASKING, REFUSED, ROOT, TOPIC, done, make_alice
from tests.unit.broker.test_batch_queues import batch_of, send_batch
from tests.unit.broker.test_message_rights import prepared, sent

OFFSET_AT, BODY_AT = 28, 88
"""In a record."""
KINDS = {"enableLmq": "true", "enableMultiDispatch": "true", "enableCompaction": "true"}


def store_of(at: Running) -> MessageStore:
    assert at.broker.parts is not None
    return at.broker.parts.store


def offset_of(answer: Any) -> int:
    assert answer.code == 0, answer.remark
    return int(answer.fields["msgId"][16:], 16)


async def forged(at: Running, peer: Peer) -> int:
    """Where the body of a message of the user's own reads like a record of the user's own."""
    before = offset_of(await peer.send("own"))
    record = bytearray(store_of(at).read(before))
    place = before + len(record) + BODY_AT
    struct.pack_into(">Q", record, OFFSET_AT, place)
    assert offset_of(await peer.send("own", bytes(record))) + BODY_AT == place
    assert decode_message(store_of(at).read(place)).topic == "own", "that is where it lies"
    return place


def test_what_reads_like_a_record_in_a_body_is_no_message(tmp_path: Path) -> None:
    """It may say that it is as long as the messages of others behind it."""

    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:own", "Group:readers", actions=("Pub", "Sub", "Get"))
            place = await forged(at, alice)
            for peer in (root, alice):
                answer = await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"topic": "own", "offset": place})
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {place}")
                back = {"group": "readers", "delayLevel": 1, "originTopic": "own", "offset": place}
                answer = await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {place}")
                message_id = f"{0x7F000001:08X}{10911:08X}{place:016X}"
                fields = {"consumerGroup": "readers", "clientId": "nobody", "topic": "own", "msgId": message_id}
                answer = await peer.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"can not find message by the id, {message_id}")
            for nothing in (-1, place + 1, 1 << 40):
                answer = await root.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": nothing})
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {nothing}")

    run(test)


def test_what_is_stored_after_the_look_is_not_sent_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic = Parts.make_topic

    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:own", "Group:readers")
            await sent(root, "secret")
            last, _ = await sent(alice, "own")
            end = last + len(store_of(at).read(last))

            async def meanwhile(parts: Parts, *args: Any) -> str:
                secret, _ = await sent(root, "secret")
                assert secret == end
                return await make_topic(parts, *args)

            monkeypatch.setattr(Parts, "make_topic", meanwhile)
            answer = await alice.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "readers", "delayLevel": 1, "offset": end})
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {end}")

    run(test)


async def make_topics(root: Peer) -> None:
    for topic, attributes in (("batches", "+queue.type=BatchCQ"), ("table", "+cleanup.policy=COMPACTION")):
        fields = {**TOPIC, "topic": topic, "topicSysFlag": 0, "order": False, "attributes": attributes}
        await done(root, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def test_messages_of_every_kind_are_found_at_their_places(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING, **KINDS) as at:
            root = at.peer(ROOT)
            await make_topics(root)
            later = f"TIMER_DELIVER_MS\x01{time.time_ns() // 1_000_000 + 3_600_000}\x02"
            kinds: dict[str, int] = {
                "own": (await sent(root, "own"))[0],
                "SCHEDULE_TOPIC_XXXX": (await sent(root, "own", "DELAY\x018\x02"))[0],
                "rmq_sys_wheel_timer": (await sent(root, "own", later))[0],
                "RMQ_SYS_TRANS_HALF_TOPIC": (await prepared(root, "own"))["commitLogOffset"],
                "table": (await sent(root, "table", "KEYS\x01k\x02"))[0],
                "parent": (await sent(root, "parent", "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"))[0],
                "batches": offset_of(await send_batch(root, batch_of(b"a", b"b"))),
            }
            alone = offset_of(await root.send("batches", b"alone"))
            await done(root, RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "g", "delayLevel": -1, "offset": kinds["own"]})
            dead = alone + len(store_of(at).read(alone))
            for topic, place in [*kinds.items(), ("batches", alone), ("%DLQ%g", dead)]:
                answer = await root.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": place})
                assert answer.code == 0, f"{topic}: {answer.remark}"
                assert decode_message(answer.body).topic == topic
                assert (found := message_at(place, store_of(at))) is not None
                assert (found.topic, found.body) == (topic, b""), "who waits keeps no body"

    run(test)


def test_what_a_topic_had_before_it_was_deleted_is_in_no_queue(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root = at.peer(ROOT)
            before, _ = await sent(root, "own")
            await done(root, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "own"})
            after, _ = await sent(root, "own")
            codes = [(await root.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": place})).code for place in (before, after)]
            assert codes == [ResponseCode.SYSTEM_ERROR, 0]

    run(test)


def test_both_turns_of_a_message_that_is_sent_back_have_one_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []
    run_in_thread = StoreReads.run

    async def noted(reads: StoreReads, read: Callable[[MessageStore], Any], patience_s: float | None = None) -> Any:
        waits.append(patience_s)
        return await run_in_thread(reads, read, patience_s)

    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:own", "Group:readers")
            own, _ = await sent(alice, "own")
            secret, _ = await sent(root, "secret")
            monkeypatch.setattr(StoreReads, "run", noted)
            await done(alice, RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "readers", "delayLevel": 1, "offset": own})
            look, copy = waits
            assert look is not None and copy is not None
            assert copy < look < PATIENCE_S
            answer = await alice.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "readers", "delayLevel": 1, "offset": secret})
            assert answer.code == REFUSED

    run(test)
