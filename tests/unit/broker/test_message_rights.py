"""Messages that a user finds by their place in the log, or by a hash, while the topics that the user names are others."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.results import Message
from rocketpy._core.store import decode_message
from rocketpy.broker.message_rights import may_end, may_read, ways_to
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.running import Peer, run, running
from tests.unit.broker.test_auth import ALICE, ASKING, REFUSED, ROOT, done, make_alice

COMMIT, ROLL_BACK = 8, 12
QUEUE_OFFSET_AT, BODY_AT = 20, 88
"""In a record."""
NAMED: tuple[dict[str, str], ...] = ({}, {"topic": "own"})


async def sent(peer: Peer, topic: str, properties: str = "", body: bytes = b"body") -> tuple[int, str]:
    """The message's place in the log, and its id."""
    answer = await peer.send(topic, body, properties)
    assert answer.code == 0, answer.remark
    message_id = answer.fields["msgId"]
    return int(message_id[16:], 16), message_id


def hash_of(text: str) -> int:
    """Java's, as if without sign."""
    found = 0
    for letter in text:
        found = (found * 31 + ord(letter)) & 0xFFFFFFFF
    return found


def key_that_fits(topic: str, wanted: int) -> str:
    """One that has, with the topic, the wanted hash."""
    rest = (wanted - hash_of(topic + "#" + 7 * "(")) & 0xFFFFFFFF
    letters = [chr(ord("(") + rest // 31**place % 31) for place in reversed(range(7))]
    return "".join(letters)


def test_a_message_is_shown_to_who_may_read_its_topic_whatever_topic_is_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:own", "Group:readers", actions=("Pub", "Sub", "Get"))
            own, _ = await sent(alice, "own")
            later, _ = await sent(alice, "own", "DELAY\x018\x02")
            secret, _ = await sent(root, "secret")
            for named in NAMED:
                answer = await alice.ask(RequestCode.VIEW_MESSAGE_BY_ID, {**named, "offset": secret})
                assert (answer.code, answer.body) == (REFUSED, b"")
                for place in (own, later):
                    answer = await alice.ask(RequestCode.VIEW_MESSAGE_BY_ID, {**named, "offset": place})
                    assert answer.code == 0
            assert (await root.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": secret})).code == 0

    run(test)


def test_who_may_not_read_a_message_sends_none_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:own", "Group:readers")
            own, _ = await sent(alice, "own")
            secret, _ = await sent(root, "secret")
            back = {"group": "readers", "delayLevel": 0, "originTopic": "own"}
            for level in (0, -1):  # to another try; to the dead letters
                for _ in range(2):  # the first makes the topic
                    answer = await alice.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {**back, "delayLevel": level, "offset": secret})
                    assert answer.code == REFUSED
                    await done(alice, RequestCode.CONSUMER_SEND_MSG_BACK, {**back, "delayLevel": level, "offset": own})
            dead = await root.ask(RequestCode.GET_MAX_OFFSET, {"topic": "%DLQ%readers", "queueId": 0})
            assert dead.fields["offset"] == "2"

    run(test)


def test_who_may_not_read_a_message_has_no_client_consume_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:own", "Group:readers")
            _, own = await sent(alice, "own")
            _, secret = await sent(root, "secret")
            fields = {"consumerGroup": "readers", "clientId": "nobody", "topic": "own"}
            assert (await alice.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, {**fields, "msgId": secret})).code == REFUSED
            answer = await alice.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, {**fields, "msgId": own})
            assert answer.remark == "The Consumer <readers> <nobody> not online"

    run(test)


def test_a_key_of_the_same_hash_finds_no_messages_of_other_topics(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await sent(peer, "secret", "KEYS\x01invoice-7\x02")
            key = key_that_fits("own", hash_of("secret#invoice-7"))
            times = {"maxNum": 8, "beginTimestamp": 0, "endTimestamp": 2**62}
            answer = await peer.ask(RequestCode.QUERY_MESSAGE, {"topic": "secret", "key": "invoice-7", **times})
            assert decode_message(answer.body).topic == "secret"
            answer = await peer.ask(RequestCode.QUERY_MESSAGE, {"topic": "own", "key": key, **times})
            assert (answer.code, answer.body) == (ResponseCode.QUERY_NOT_FOUND, b"")
            assert answer.fields["indexLastUpdatePhyoffset"] == "0", "the index has found it"

    run(test)


@pytest.mark.parametrize(
    ("topic", "properties", "found"),
    [
        ("t", {}, ["Topic t"]),
        ("t", {"REAL_TOPIC": "own"}, ["Topic t"]),
        ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "t"}, ["Topic t"]),
        ("rmq_sys_wheel_timer", {}, ["Topic rmq_sys_wheel_timer"]),
        ("%RETRY%g", {"RETRY_TOPIC": "t"}, ["Group g", "Topic t"]),
        ("%RETRY%g_t", {}, ["Group g_t", "Group g, Topic t"]),
        ("%RETRY%g+t_u", {}, ["Group g+t_u", "Group g, Topic t_u"]),
        ("%RETRY%g_t", {"RETRY_TOPIC": "secret"}, ["Group g_t", "Topic secret"]),
        ("%RETRY%g_", {}, ["Group g_"]),
        ("%RETRY%other_t", {}, ["Group other_t"]),
        ("t", {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}, ["Topic t", "Topic %LMQ%a", "Topic %LMQ%b"]),
    ],
)
def test_what_a_message_is_read_by(topic: str, properties: dict[str, str], found: list[str]) -> None:
    any_values: dict[str, Any] = dict.fromkeys(Message._fields, 0)
    message = Message(**{**any_values, "topic": topic, "properties": properties})
    assert [", ".join(" ".join(each) for each in way) for way in ways_to(message, "g")] == found


def test_a_popped_message_that_comes_again_is_read_as_each_group_and_topic_that_its_retry_topic_may_be_of() -> None:
    any_values: dict[str, Any] = dict.fromkeys(Message._fields, 0)
    message = Message(**{**any_values, "topic": "%RETRY%a_b_c", "properties": {}})
    pairs = (("Group", "a"), ("Topic", "b_c")), (("Group", "a_b"), ("Topic", "c"))
    assert list(ways_to(message, "")) == [(("Group", "a_b_c"),), *pairs]
    rights = [{("Topic", "b_c"), ("Group", "a_b")}, {("Topic", "b_c"), ("Group", "a")}]
    granted = [may_read(message, "Get", "", lambda kind, name, _, had=had: (kind, name) in had) for had in rights]  # type: ignore[misc]
    assert granted == [False, True]


async def prepared(peer: Peer, topic: str, body: bytes = b"money") -> dict[str, Any]:
    """The fields that end its transaction, but for the decision."""
    properties = "TRAN_MSG\x01true\x02PGROUP\x01producers\x02UNIQ_KEY\x01AB\x02"
    answer = await peer.send(topic, body, properties, f=4, g=time.time_ns() // 1_000_000)
    assert answer.code == 0, answer.remark
    place = int(answer.fields["msgId"][16:], 16)
    return {
        "producerGroup": "producers",
        "tranStateTableOffset": answer.fields["queueOffset"],
        "commitLogOffset": place,
        "fromTransactionCheck": False,
        "msgId": "AB",
    }


@pytest.mark.parametrize("size", [5, 2 * 1024 * 1024], ids=["on a reactor", "in Python"])
def test_who_may_not_send_to_a_topic_ends_none_of_its_transactions(tmp_path: Path, size: int) -> None:
    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:own")
            secret, own = await prepared(root, "secret", bytes(size)), await prepared(alice, "own", bytes(size))
            for named in NAMED:
                for decision in (COMMIT, ROLL_BACK):
                    answer = await alice.ask(RequestCode.END_TRANSACTION, {**secret, **named, "commitOrRollback": decision})
                    assert answer.code == REFUSED
                    wrong = {**secret, **named, "producerGroup": "others", "commitOrRollback": decision}
                    assert (await alice.ask(RequestCode.END_TRANSACTION, wrong)).code == REFUSED, "whoever guesses learns nothing"
            await done(alice, RequestCode.END_TRANSACTION, {**own, "commitOrRollback": COMMIT})
            ended = await root.ask(RequestCode.GET_MAX_OFFSET, {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "queueId": 0})
            assert ended.fields["offset"] == "1"
            await done(root, RequestCode.END_TRANSACTION, {**secret, "commitOrRollback": COMMIT})

    run(test)


def test_a_body_that_looks_like_a_prepared_message_ends_no_transaction(tmp_path: Path) -> None:
    """It would be the sender's own by what it says, and its end be that of the message in whose place it says it is."""

    async def test() -> None:
        async with running(tmp_path, **ASKING) as at:
            root, alice = at.peer(ROOT), at.peer(ALICE)
            await make_alice(root, "Topic:own")
            secret, own = await prepared(root, "secret"), await prepared(alice, "own")
            assert at.broker.parts is not None
            forged = bytearray(at.broker.parts.store.read(own["commitLogOffset"]))
            place = own["commitLogOffset"] + len(forged) + BODY_AT
            struct.pack_into(">QQ", forged, QUEUE_OFFSET_AT, int(secret["tranStateTableOffset"]), place)
            await sent(alice, "own", body=bytes(forged))
            assert decode_message(at.broker.parts.store.read(place)).topic == "RMQ_SYS_TRANS_HALF_TOPIC", "that is where it lies"
            end = {**own, "tranStateTableOffset": secret["tranStateTableOffset"], "commitLogOffset": place}
            for decision in (COMMIT, ROLL_BACK):
                answer = await alice.ask(RequestCode.END_TRANSACTION, {**end, "commitOrRollback": decision})
                assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
            await done(alice, RequestCode.END_TRANSACTION, {**own, "commitOrRollback": COMMIT})

    run(test)


@pytest.mark.parametrize(
    ("topic", "properties", "asked"),
    [
        ("RMQ_SYS_TRANS_HALF_TOPIC", {"REAL_TOPIC": "t", "INNER_MULTI_DISPATCH": "%LMQ%a"}, ["Topic t Pub"]),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {"REAL_TOPIC": "%RETRY%g"}, ["Group g Sub"]),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {}, ["Topic  Pub"]),
        ("t", {"REAL_TOPIC": "own"}, []),
    ],
)
def test_what_a_transaction_is_ended_by(topic: str, properties: dict[str, str], asked: list[str]) -> None:
    any_values: dict[str, Any] = dict.fromkeys(Message._fields, 0)
    message = Message(**{**any_values, "topic": topic, "properties": properties})
    found: list[str] = []

    def grants(*right: str) -> bool:
        found.append(" ".join(right))
        return False

    assert may_end(message, grants) is (not asked)
    assert found == asked
