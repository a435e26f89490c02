"""Messages that a user finds by their place in the log, or by a hash, while the topics that the user names are others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.results import Message
from rocketpy._core.store import decode_message
from rocketpy.broker.message_rights import resources
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.running import Peer, run, running
from tests.unit.broker.test_auth import ALICE, ASKING, REFUSED, ROOT, done, make_alice

NAMED: tuple[dict[str, str], ...] = ({}, {"topic": "own"})


async def sent(peer: Peer, topic: str, properties: str = "") -> tuple[int, str]:
    """The message's place in the log, and its id."""
    answer = await peer.send(topic, properties=properties)
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
        ("%RETRY%g_t", {}, ["Group g_t", "Topic t"]),
        ("%RETRY%g+t", {}, ["Group g+t", "Topic t"]),
        ("%RETRY%other_t", {}, ["Group other_t"]),
        ("t", {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}, ["Topic t", "Topic %LMQ%a", "Topic %LMQ%b"]),
    ],
)
def test_what_a_message_is_read_by(topic: str, properties: dict[str, str], found: list[str]) -> None:
    any_values: dict[str, Any] = dict.fromkeys(Message._fields, 0)
    message = Message(**{**any_values, "topic": topic, "properties": properties})
    assert [" ".join(each) for each in resources(message, "g")] == found
